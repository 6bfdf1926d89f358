// SPDX-License-Identifier: Apache-2.0

// An exported program as torch.export writes it ("models/NAME.json"), parsed into C++ types, which
// have the names of torch/_export/serde/schema.py. No LibTorch.
#ifndef COTAN_AOT_FRONTEND_PT2_EXPORTED_PROGRAM_H_
#define COTAN_AOT_FRONTEND_PT2_EXPORTED_PROGRAM_H_

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/sym_int.h"
#include "serialization/metadata/tree_spec.h"

namespace cotan::aot::pt2 {

// Major version of the schema that this reader supports: files of torch 2.6 and later. Newer minor
// versions only add optional fields.
inline constexpr int64_t kSchemaMajor = 8;

// A dynamic dimension. Its index in ExportedProgram::symbols is the index of the symbol in SymInt
// expressions.
struct Symbol {
  std::string name;  // "s48"
  int64_t min = 0;
  std::optional<int64_t> max = {};   // unset: no upper bound
  std::optional<int64_t> hint = {};  // its value when the model was exported
};

// Type and geometry of a tensor; strides and offset in elements.
struct TensorMeta {
  DType dtype = DType::kUndefined;
  SymIntVector sizes;
  SymIntVector strides;
  SymInt storage_offset;
  bool requires_grad = false;
  std::string device;  // "cpu", "cuda"
};

// A reference to a tensor or number by its name in the graph.
struct Name {
  std::string name;
  friend bool operator==(const Name&, const Name&) = default;
};

struct NoValue {};
struct MemoryFormat {
  int64_t code = 0;  // as in the schema: 1 contiguous, 2 channels last, 3 channels last 3d, 4 preserve
};
struct Layout {
  int64_t code = 0;  // as in the schema: 7 strided
};
struct Device {
  std::string type;
};
struct Graph;
struct Subgraph {
  std::string name;
  std::shared_ptr<const Graph> graph;
};
// An argument of a kind that is not supported ("as_custom_obj").
struct Unsupported {
  std::string kind;
};

using Number = std::variant<bool, int64_t, double, Name>;
using Tensors = std::vector<std::optional<Name>>;  // unset: None

// An argument or result of a node. An operator is the text of its target.
using Argument =
    std::variant<NoValue, Name, Tensors, bool, int64_t, double, std::complex<double>, std::string, std::vector<Number>,
                 std::vector<std::string>, DType, MemoryFormat, Layout, Device, Subgraph, Unsupported>;

struct NamedArgument {
  std::string name;  // as in the op's schema; "" for higher-order ops
  Argument value;
};

struct Node {
  std::string target;  // "torch.ops.aten.add.Tensor", "_operator.mul"
  std::vector<NamedArgument> inputs;
  std::vector<Argument> outputs;
  std::string module_path;        // "layer1.0", "" at the top
  std::string module_stack = {};  // its modules, outermost first: "KEY,PATH,TYPE;KEY,PATH,TYPE"; "" if it is not known
  // The symbol of a size that depends on data ("u0") and that this node is the first to have; unset: there is none.
  std::optional<Symbol> data_size = {};
};

struct Graph {
  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  std::vector<Node> nodes;
  absl::flat_hash_map<std::string, TensorMeta> tensor_values;
  absl::flat_hash_map<std::string, SymInt> sym_int_values;
  absl::flat_hash_set<std::string> sym_floats;  // numbers that are floats
};

// The role of a graph input.
struct InputSpec {
  // kToken: an effect token, which has no value.
  enum class Kind : uint8_t { kUserInput, kParameter, kBuffer, kTensorConstant, kConstant, kToken };
  Kind kind = Kind::kUserInput;
  Argument arg;            // the graph's input; kConstant: its value
  std::string name;        // kUserInput: in the graph ("x"); else qualified ("net.1.weight")
  bool persistent = true;  // kBuffer
};

// The role of a graph output.
struct OutputSpec {
  enum class Kind : uint8_t {
    kUserOutput,
    kLoss,
    kBufferMutation,
    kParameterMutation,
    kUserInputMutation,
    kGradient,
    kToken,
  };
  Kind kind = Kind::kUserOutput;
  Argument arg;
  std::string target;  // of a mutation: buffer, parameter, or graph name of a user input
};

struct ExportedProgram {
  Graph graph;
  std::vector<InputSpec> inputs;    // one for each input of the graph
  std::vector<OutputSpec> outputs;  // one for each output of the graph
  std::vector<Symbol> symbols;
  // Nesting of the arguments and results of the caller.
  TreeSpec in_spec;
  TreeSpec out_spec;
  std::vector<std::string> argument_names;  // of forward(), positional then keyword; may be empty
  std::string torch_version;
};

// A tensor of "weights_config.json" or "constants_config.json".
struct PayloadMeta {
  std::string name;       // qualified name
  std::string path_name;  // file in the same folder
  bool use_pickle = false;
  std::optional<TensorMeta> tensor_meta;
};

// Parses the JSON text of an exported program. `file` is the name of the text in messages. Safe for
// any input.
// InvalidArgument: the text is not JSON or does not match the schema; the message has the place.
// Unimplemented: another major version of the schema, an unsupported dtype, an input or output of a
// kind that cannot be compiled (script objects), nesting deeper than 16.
absl::StatusOr<ExportedProgram> ParseExportedProgram(absl::string_view json, absl::string_view file);
// Parses the JSON text of a weights or constants table. Errors are those of ParseExportedProgram().
absl::StatusOr<std::vector<PayloadMeta>> ParsePayloadConfig(absl::string_view json, absl::string_view file);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_EXPORTED_PROGRAM_H_
