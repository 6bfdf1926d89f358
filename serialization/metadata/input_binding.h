// SPDX-License-Identifier: Apache-2.0

// Mapping from the caller's arguments to the program's (duplicate inputs, synthetic bases): the typed form
// of serialization::InputBinding.
#ifndef COTAN_SERIALIZATION_METADATA_INPUT_BINDING_H_
#define COTAN_SERIALIZATION_METADATA_INPUT_BINDING_H_

#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Typed form of serialization::InputBinding, whose fields document the members. There are three index
// spaces: inputs of the traced function, unique inputs (without duplicates), and arguments of the program
// (bases first, then the other unique inputs).
struct InputBinding {
  // An input that is an argument of the program.
  struct Argument {
    int index = 0;
    friend bool operator==(const Argument&, const Argument&) = default;
  };
  // An input that the program makes as a view of a synthetic base.
  struct BaseView {
    int base = 0;
    TensorGeometry geometry;  // in the storage of the base
    bool detached = false;
    friend bool operator==(const BaseView&, const BaseView&) = default;
  };
  using InnerInput = std::variant<Argument, BaseView>;
  // A synthetic base as it was traced.
  struct Base {
    TensorGeometry geometry;
    bool requires_grad = false;
    bool is_leaf = true;
    friend bool operator==(const Base&, const Base&) = default;
  };

  std::vector<int> add_dupe_map;         // per input, or empty
  std::vector<InnerInput> inner_inputs;  // per unique input, or empty
  std::vector<Base> bases;
  std::vector<int> aliased_inputs_with_metadata_mutations;  // unique inputs

  bool has_duplicates() const { return !add_dupe_map.empty(); }
  bool has_bases() const { return !inner_inputs.empty(); }
  // Returns whether the caller's arguments are the program's, one by one.
  bool is_identity() const { return !has_duplicates() && !has_bases(); }

  int num_bases() const { return static_cast<int>(bases.size()); }
  // Return the number of unique inputs, and of program arguments, of a function with `num_inputs` inputs.
  int NumUniqueInputs(int num_inputs) const;
  int NumArguments(int num_inputs) const;
  // Returns for each of `num_inputs` inputs whether it is the first of its duplicates. Returns the inverse
  // of add_dupe_map: element u is the first input that is unique input u.
  std::vector<bool> KeepArgMask(int num_inputs) const;
  std::vector<int> KeptInputs(int num_inputs) const;

  // Returns InvalidArgument, with the member's path below `field`, for a list whose length differs from the
  // number of inputs that it describes; unique inputs or arguments that are not numbered in the order of
  // their first occurrence; a base without views; a view of a base that does not exist; an add_dupe_map
  // without duplicates.
  absl::Status Validate(absl::string_view field, int num_inputs) const;

  // Converts, with those checks of Validate() that do not need the number of inputs. InvalidArgument: one
  // of them fails, or a field is malformed.
  static absl::StatusOr<InputBinding> FromProto(const serialization::InputBinding& proto, absl::string_view field);
  serialization::InputBinding ToProto() const;

  // Returns "input 2 is input 0; unique input 0 is f32[4]{1} of base 0 (f32[6]{1})".
  std::string ToString() const;

  friend bool operator==(const InputBinding&, const InputBinding&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_INPUT_BINDING_H_
