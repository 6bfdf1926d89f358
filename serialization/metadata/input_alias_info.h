// SPDX-License-Identifier: Apache-2.0

// Mutations of one input of a traced function: the typed form of serialization::InputAliasInfo.
#ifndef COTAN_SERIALIZATION_METADATA_INPUT_ALIAS_INFO_H_
#define COTAN_SERIALIZATION_METADATA_INPUT_ALIAS_INFO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_step.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// The place where the mutations of an input are carried out (MutationType in schemas.py of AOTAutograd).
enum class MutationType : uint8_t {
  kNotMutated = 1,
  // The program writes the input itself; only for writes that autograd does not record.
  kMutatedInGraph = 2,
  // The program returns the new content or geometry, and the runtime applies it to the caller's tensor.
  kMutatedOutGraph = 3,
};

// Change of an input's grad_fn; documented at serialization::InputAliasInfo::History, with equal numbers.
enum class GradFnChange : uint8_t { kUnspecified = 0, kKept = 1, kNew = 2, kNewLeaf = 3 };

// Storage of an input at exit; documented at serialization::InputAliasInfo::NewStorage.
struct NewStorage {
  enum class Owner : uint8_t { kProgram, kInput, kUpdatedInput };
  Owner owner = Owner::kProgram;
  int input = -1;                               // unless kProgram
  std::optional<TensorGeometry> geometry = {};  // unless kUpdatedInput

  friend bool operator==(const NewStorage&, const NewStorage&) = default;
};

// Typed form of serialization::InputAliasInfo, whose fields document the members.
struct InputAliasInfo {
  bool is_leaf = false;
  bool mutates_data = false;
  bool mutates_metadata = false;
  bool mutations_hidden_from_autograd = true;
  bool mutations_under_no_grad_or_inference_mode = false;
  bool mutates_storage_metadata = false;
  bool mutation_inductor_storage_resize = false;
  bool mutation_is_shallow_copy_data = false;
  bool requires_grad = false;
  bool keep_input_mutations = false;
  std::optional<TensorGeometry> geometry_after;  // unset: not recorded, or no mutates_metadata
  std::optional<bool> requires_grad_at_entry;    // unset: as requires_grad
  GradFnChange history = GradFnChange::kUnspecified;
  std::optional<NewStorage> new_storage;            // unset: not recorded, or no mutates_storage_metadata
  std::optional<SymIntVector> gradient_sizes;       // unset: those of geometry_after
  std::vector<ViewStep> view_steps_after;           // from the geometry at entry to geometry_after
  std::optional<TensorGeometry> geometry_at_entry;  // unset: not recorded, or view_steps_after
  bool retains_grad = false;

  // Returns whether the function changes anything about the input.
  bool is_mutated() const { return mutates_data || mutates_metadata || mutation_inductor_storage_resize; }

  // Returns InvalidArgument, with the member's path below `field`, for contradictions:
  //   - mutates_storage_metadata without mutates_metadata, or mutation_is_shallow_copy_data without
  //     mutates_storage_metadata;
  //   - mutations_under_no_grad_or_inference_mode without a mutation;
  //   - a storage that is replaced or resized if the program may not write the input itself (MutationTypeOf());
  //   - geometry_after without mutates_metadata, new_storage without mutates_storage_metadata, or a geometry of
  //     new_storage that is missing or superfluous for its owner;
  //   - view_steps_after or geometry_at_entry without geometry_after, with another storage, or both;
  //   - history or retains_grad without requires_grad; gradient_sizes without geometry_after and requires_grad.
  absl::Status Validate(absl::string_view field) const;

  // Converts and validates. InvalidArgument: Validate() fails, or a field is malformed. Unimplemented: a
  // value of a newer version.
  static absl::StatusOr<InputAliasInfo> FromProto(const serialization::InputAliasInfo& proto, absl::string_view field);
  serialization::InputAliasInfo ToProto() const;

  // Returns "leaf, requires grad, mutates data, under no_grad, written by the program".
  std::string ToString() const;

  friend bool operator==(const InputAliasInfo&, const InputAliasInfo&) = default;
};

// Returns where the mutations of a valid `info` are carried out. The program writes the input itself if
// keep_input_mutations is set, data or storage is mutated, and autograd is not involved: either the input
// does not require grad and keeps its metadata; or all mutations were hidden from autograd or made under
// no_grad, the geometry changes only together with the storage, and no mutation gave the input a new
// grad_fn (a custom function can do so under no_grad, by marking the input dirty).
MutationType MutationTypeOf(const InputAliasInfo& info);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_INPUT_ALIAS_INFO_H_
