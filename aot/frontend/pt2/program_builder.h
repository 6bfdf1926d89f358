// SPDX-License-Identifier: Apache-2.0

// Builds archives of exported programs for tests, node by node, as torch.export writes them.
//
//   ProgramBuilder b;
//   const std::string x = b.Input("x", DType::kFloat32, {b.Symbol("s0", 4, 2, 64), "3"});
//   const std::string w = b.Parameter("fc.weight", {3, 3});
//   b.Enter("fc", "torch.nn.Linear");
//   const std::string y = b.Op("aten.linear.default", {{"input", Value(x)}, {"weight", Value(w)}});
//   b.Leave();
//   b.Output(y);
//   WriteArchive("m.pt2", b.Files());
#ifndef COTAN_AOT_FRONTEND_PT2_PROGRAM_BUILDER_H_
#define COTAN_AOT_FRONTEND_PT2_PROGRAM_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "aot/frontend/pt2/archive_builder.h"
#include "base/dtype.h"

namespace cotan::aot::pt2 {

// Return the JSON of an argument of a node. `names` and sizes are names of values, or integers ("12").
std::string Value(const std::string& name);
std::string Values(const std::vector<std::string>& names);
std::string Sizes(const std::vector<std::string>& sizes);
std::string Size(const std::string& size);
std::string Int(int64_t value);
std::string Float(double value);
std::string Bool(bool value);
std::string None();

// Sizes of a tensor: integers, or symbols.
using SizeTexts = std::vector<std::string>;
// Arguments of a node, by name: JSON.
using OpArguments = std::vector<std::pair<std::string, std::string>>;

// A program with f32 states. Names of values are unique; those of results are numbered ("linear_2").
class ProgramBuilder {
 public:
  // With `has_module_stacks` = false, nodes have no metadata.
  explicit ProgramBuilder(bool has_module_stacks = true) : has_module_stacks_(has_module_stacks) {}

  // Declares a dynamic dimension and returns it as a size.
  std::string Symbol(const std::string& name, int64_t hint, int64_t min, int64_t max);

  // Add an input of the graph and return the name of its value. Elements of parameters are random numbers in
  // [-0.25, 0.25), those of buffers are `fill`.
  std::string Parameter(const std::string& name, const std::vector<int64_t>& sizes);
  std::string Buffer(const std::string& name, const std::vector<int64_t>& sizes, float fill = 0);
  std::string Input(const std::string& name, DType dtype, const SizeTexts& sizes);
  // Adds another name of a parameter, which is tied with it.
  std::string Tie(const std::string& name, const std::string& parameter);

  // Begin and end the call of a module, within the one in progress; `path` is the whole path.
  void Enter(const std::string& path, const std::string& type);
  void Leave() { modules_.pop_back(); }

  // Adds a node ("aten.add.Tensor") and returns the name of its result, a tensor.
  std::string Op(const std::string& target, const OpArguments& arguments);
  // Adds a node that returns a list of tensors.
  std::vector<std::string> ListOp(const std::string& target, const OpArguments& arguments, int count);
  // Adds a node that returns an integer: "aten.sym_size.int", "_operator.mul". `value` is its expression of the
  // symbols, as "4*s0"; empty: a number of the export.
  std::string NumberOp(const std::string& target, const OpArguments& arguments, const std::string& value, int64_t hint);
  // Adds a node without results.
  void Check(const std::string& target, const OpArguments& arguments);

  // Declares the type of a value.
  void Describe(const std::string& name, DType dtype, const SizeTexts& sizes);
  // Adds a result, f32 without sizes unless it has been described.
  void Output(const std::string& name);

  ArchiveFiles Files() const;

 private:
  struct Stored {
    std::string name, role;
    std::vector<int64_t> sizes;
    std::string file, bytes;
  };

  // An input of the graph; parameters come first, then buffers, then the user's.
  struct GraphInput {
    int rank;
    std::string value, spec;
  };

  std::string NewName(const std::string& target);
  std::string SizeOf(const std::string& text) const;
  std::string TensorMeta(DType dtype, const SizeTexts& sizes, bool requires_grad) const;
  std::string AddState(const Stored& stored, const std::string& prefix);
  void AddNode(const std::string& target, const OpArguments& arguments, const std::string& outputs);
  std::string Config(const std::string& role) const;
  std::string Program() const;

  const bool has_module_stacks_;
  std::vector<std::string> modules_;  // "KEY,PATH,TYPE"
  std::map<std::string, int> counts_;
  std::map<std::string, int64_t> hints_;  // of symbols
  std::vector<std::string> ranges_;
  std::vector<Stored> states_;
  std::vector<GraphInput> inputs_;
  std::vector<std::string> nodes_, outputs_, output_specs_;
  std::map<std::string, std::string> tensor_values_, number_values_;
  size_t num_inputs_ = 0;
};

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_PROGRAM_BUILDER_H_
