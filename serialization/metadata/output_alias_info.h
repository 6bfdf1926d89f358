// SPDX-License-Identifier: Apache-2.0

// Aliasing of an output of a traced function with its inputs and other outputs: the typed form of
// serialization::OutputAliasInfo.
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

// Kind of alias; documented at serialization::OutputTypeProto, with equal numbers.
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

// Returns "non_alias", "alias_of_input", ...: OutputType's names in AOTAutograd's schemas.py, in lower
// case.
absl::string_view OutputTypeName(OutputType type);

// Returns whether the program's result is returned as it is, not made from a base: kNonAlias,
// kUnsafeViewAlias, kCustomFunctionView.
bool IsFreshMemory(OutputType type);

// Returns whether the base is an input (kAliasOfInput, kIsInput).
bool IsAliasOfInput(OutputType type);

// Returns whether the base is an intermediate, including one that is a user output.
bool IsAliasOfIntermediate(OutputType type);

// Output values other than tensors; they are known when the function is traced.
struct NoneValue {
  friend bool operator==(NoneValue, NoneValue) { return true; }
};
using ScalarOutput = std::variant<NoneValue, bool, int64_t, double, std::string, SymInt>;

// Storage that a NON_ALIAS output shares; documented at serialization::SharedStorage.
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

// Autograd's view metadata of a NON_ALIAS output; documented at serialization::NonAliasViewInfo, with equal
// numbers.
struct NonAliasViewInfo {
  enum class Creation : uint8_t { kRecorded = 1, kNoGrad = 2, kMultiOutput = 3 };
  Creation creation = Creation::kRecorded;
  bool is_hidden = false;                         // true if the base is not returned
  int base = 0;                                   // index of an output, or number of a hidden base
  std::optional<TensorGeometry> hidden_geometry;  // set if and only if it is hidden
  friend bool operator==(const NonAliasViewInfo&, const NonAliasViewInfo&) = default;
};

// Typed form of serialization::OutputAliasInfo, whose fields document the members.
struct OutputAliasInfo {
  OutputType output_type = OutputType::kNonAlias;
  // Unset: the output is a tensor. A SymInt is RAW_SYM_INT even if it is constant.
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
  bool retains_grad = false;

  bool is_tensor() const { return !scalar.has_value(); }

  // Returns whether a tangent of the output enters the backward.
  bool has_tangent() const { return is_tensor() && IsFreshMemory(output_type) && requires_grad_for_backward; }

  // Returns InvalidArgument, with the member's path below `field`, for
  //   - an alias without base_index, or a base_index without alias;
  //   - an output that is not a tensor but aliases, requires grad or has a geometry;
  //   - requires_grad_for_backward without requires_grad;
  //   - view_steps of kIsInput or of an output that is not an alias;
  //   - dynamic_dims that do not ascend or exceed the geometry's rank;
  //   - shared_storage of an alias, or without `geometry`; is_same_tensor with an intermediate base; is_detached
  //     with an owner that is not an input;
  //   - non_alias_view of an alias, or without `geometry` or the geometry of a hidden base;
  //   - is_new_leaf of an alias or without requires_grad; retains_grad without requires_grad.
  // ViewAndMutationMetaFields::Validate() checks the indexes.
  absl::Status Validate(absl::string_view field) const;

  // Converts and validates. InvalidArgument: Validate() fails, or a field is malformed. Unimplemented: a
  // value of a newer version.
  static absl::StatusOr<OutputAliasInfo> FromProto(const serialization::OutputAliasInfo& proto,
                                                   absl::string_view field);
  serialization::OutputAliasInfo ToProto() const;

  // Returns "alias_of_input 2 through permute(1, 0), requires grad".
  std::string ToString() const;

  friend bool operator==(const OutputAliasInfo&, const OutputAliasInfo&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_OUTPUT_ALIAS_INFO_H_
