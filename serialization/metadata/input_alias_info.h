// What a traced function does to one of its inputs: the typed form of
// serialization::InputAliasInfo.
#ifndef COTAN_SERIALIZATION_METADATA_INPUT_ALIAS_INFO_H_
#define COTAN_SERIALIZATION_METADATA_INPUT_ALIAS_INFO_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Who carries out the mutations of an input.
enum class MutationType : uint8_t {
  kNotMutated = 1,
  // The program writes the input itself; autograd must not see the write.
  kMutatedInGraph = 2,
  // The program returns the new content or geometry and the runtime gives it to
  // the caller's tensor.
  kMutatedOutGraph = 3,
};

// Explained at serialization::InputAliasInfo::History; equal numbers.
enum class GradFnChange : uint8_t { kUnspecified = 0, kKept = 1, kNew = 2, kNewLeaf = 3 };

// Explained at serialization::InputAliasInfo::NewStorage.
struct NewStorage {
  enum class Owner : uint8_t { kProgram, kInput, kUpdatedInput };
  Owner owner = Owner::kProgram;
  int input = -1;                               // unless kProgram
  std::optional<TensorGeometry> geometry = {};  // unless kUpdatedInput

  friend bool operator==(const NewStorage&, const NewStorage&) = default;
};

// A value type; the members are explained at the proto's fields.
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
  std::optional<NewStorage> new_storage;       // unset: not recorded, or no mutates_storage_metadata
  std::optional<SymIntVector> gradient_sizes;  // unset: those of geometry_after

  // Whether the function changes anything about the input.
  bool is_mutated() const { return mutates_data || mutates_metadata || mutation_inductor_storage_resize; }

  // InvalidArgument, naming the field below `field`, for combinations that no
  // function has: another storage but the same metadata; `.data` assigned but
  // the same storage; a mutation under no_grad but none at all; a storage
  // replaced or resized next to mutations that the program cannot do itself; a
  // geometry afterwards though it is the same; a history though it does not
  // require grad; a new storage though it is the same, or one of which the
  // geometry is missing or superfluous; sizes of a gradient without a geometry
  // afterwards.
  absl::Status Validate(absl::string_view field) const;

  // As Validate().
  static absl::StatusOr<InputAliasInfo> FromProto(const serialization::InputAliasInfo& proto, absl::string_view field);
  serialization::InputAliasInfo ToProto() const;

  // "leaf, requires grad, mutates data, under no_grad, written by the program".
  std::string ToString() const;

  friend bool operator==(const InputAliasInfo&, const InputAliasInfo&) = default;
};

// The program may do a mutation itself if it was asked to keep mutations
// (keep_input_mutations), the mutation is one of data or of storage but not of
// geometry besides, and autograd has no part in it: the input does not require
// grad, or every mutation was hidden from autograd or made under no_grad and no
// history came of it all the same (a custom function marks what it wrote).
// `info` is valid.
MutationType MutationTypeOf(const InputAliasInfo& info);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_INPUT_ALIAS_INFO_H_
