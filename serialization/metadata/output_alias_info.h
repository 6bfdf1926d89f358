// How an output of a traced function relates to its inputs and to other
// outputs: the typed form of serialization::OutputAliasInfo.
#ifndef COTAN_SERIALIZATION_METADATA_OUTPUT_ALIAS_INFO_H_
#define COTAN_SERIALIZATION_METADATA_OUTPUT_ALIAS_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sym_int.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_step.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Explained at serialization::OutputTypeProto; equal numbers.
enum class OutputType : uint8_t {
  kNonAlias = 1,
  kAliasOfInput = 2,
  kIsInput = 3,
  kAliasOfIntermediateSaveAsOutput = 4,
  kAliasOfIntermediate = 5,
  kAliasOfIntermediateBaseIsUserOutput = 6,
  kUnsafeViewAlias = 7,
  kCustomFunctionView = 8,
};

// "non_alias", "alias_of_input", ...: the words of the reference.
absl::string_view OutputTypeName(OutputType type);

// Whether the output has memory that no base shares, as far as callers can
// tell: the program returns it as it is.
bool IsFreshMemory(OutputType type);

// Whether the base is an input (kAliasOfInput, kIsInput).
bool IsAliasOfInput(OutputType type);

// Whether the base is an intermediate, one that is a user output included.
bool IsAliasOfIntermediate(OutputType type);

// The other values that a function may return; they are known while tracing.
struct NoneValue {
  friend bool operator==(NoneValue, NoneValue) { return true; }
};
using ScalarOutput = std::variant<NoneValue, bool, int64_t, double, std::string, SymInt>;

// Where an output in fresh memory lies besides; explained at the proto.
struct SharedStorage {
  enum class Owner : uint8_t { kInput, kOutput, kIntermediateBase };
  Owner owner = Owner::kInput;
  int index = 0;  // by owner
  bool is_same_tensor = false;
  bool is_detached = false;
  bool is_conjugate = false;
  bool is_negated = false;
  friend bool operator==(const SharedStorage&, const SharedStorage&) = default;
};

// That autograd knows an output in fresh memory as a view; explained at the
// proto, equal numbers.
struct NonAliasViewInfo {
  enum class Creation : uint8_t { kRecorded = 1, kNoGrad = 2, kMultiOutput = 3 };
  Creation creation = Creation::kRecorded;
  bool is_hidden = false;                         // whether nobody gets the base
  int base = 0;                                   // index of an output, or number of a hidden base
  std::optional<TensorGeometry> hidden_geometry;  // set if and only if it is hidden
  friend bool operator==(const NonAliasViewInfo&, const NonAliasViewInfo&) = default;
};

// A value type; the members are explained at the proto's fields.
struct OutputAliasInfo {
  OutputType output_type = OutputType::kNonAlias;
  // Unset: the output is a tensor. SymInt stands for RAW_SYM_INT, also if it
  // happens to be constant.
  std::optional<ScalarOutput> scalar;
  // Index of an input, intermediate base or output, by output_type.
  std::optional<int> base_index;
  std::vector<int> dynamic_dims;  // dimensions, ascending
  bool requires_grad = false;
  bool requires_grad_for_backward = false;
  std::vector<ViewStep> view_steps;  // from the base to the output
  std::optional<TensorGeometry> geometry;
  std::optional<SharedStorage> shared_storage;
  std::optional<NonAliasViewInfo> non_alias_view;
  bool is_new_leaf = false;
  bool not_a_view = false;

  bool is_tensor() const { return !scalar.has_value(); }

  // Whether a gradient of it enters the backward.
  bool has_tangent() const { return is_tensor() && IsFreshMemory(output_type) && requires_grad_for_backward; }

  // InvalidArgument, naming the field below `field`: an alias without base, or
  // a base without alias; an output that is no tensor but aliases, requires
  // grad or has a geometry; a gradient for the backward without requires_grad;
  // views of an output that is no alias; IS_INPUT with views; dynamic
  // dimensions that do not ascend or exceed the geometry's rank; a shared
  // storage of an alias, or without the place in it, or that is the very tensor
  // of an intermediate base, or detached from what is no input; a fresh view
  // that is an alias, or without its place or that of a hidden base; a new leaf
  // that does not require grad or is an alias.
  // Indexes are checked against the number of bases by ViewAndMutationMeta.
  absl::Status Validate(absl::string_view field) const;

  // As Validate(), and for what has no typed form. Unimplemented: a type of a
  // newer version.
  static absl::StatusOr<OutputAliasInfo> FromProto(const serialization::OutputAliasInfo& proto,
                                                   absl::string_view field);
  serialization::OutputAliasInfo ToProto() const;

  // "alias_of_input 2 through permute(1, 0), requires grad".
  std::string ToString() const;

  friend bool operator==(const OutputAliasInfo&, const OutputAliasInfo&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_OUTPUT_ALIAS_INFO_H_
