// How the caller's arguments become those of the program: the typed form of
// serialization::InputBinding.
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

// A value type; the members are explained at the proto's fields. Three index
// spaces: inputs of the traced function, unique inputs (duplicates left out),
// arguments of the program (bases first, then the other unique inputs).
struct InputBinding {
  // The input is this argument of the program.
  struct Argument {
    int index = 0;
    friend bool operator==(const Argument&, const Argument&) = default;
  };
  // The input is made inside the program, as a view of a synthetic base.
  struct BaseView {
    int base = 0;
    TensorGeometry geometry;  // in the storage of the base
    bool detached = false;
    friend bool operator==(const BaseView&, const BaseView&) = default;
  };
  using InnerInput = std::variant<Argument, BaseView>;
  // What the traced base was.
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
  // Whether the caller's arguments are the program's, one by one.
  bool is_identity() const { return !has_duplicates() && !has_bases(); }

  int num_bases() const { return static_cast<int>(bases.size()); }
  // Of a function with `num_inputs` inputs.
  int NumUniqueInputs(int num_inputs) const;
  int NumArguments(int num_inputs) const;
  // Length = `num_inputs`: whether the input is the first of its duplicates.
  // The inverse of add_dupe_map: unique input u is the u-th kept input.
  std::vector<bool> KeepArgMask(int num_inputs) const;
  std::vector<int> KeptInputs(int num_inputs) const;

  // InvalidArgument, naming the field below `field`: a list of another length
  // than the inputs it is about; unique inputs or arguments that are not
  // numbered in order of first occurrence; a base without views; a
  // view of no base; a binding that has a map but no duplicates.
  absl::Status Validate(absl::string_view field, int num_inputs) const;

  // As far as it can be told without the number of inputs, as Validate().
  static absl::StatusOr<InputBinding> FromProto(const serialization::InputBinding& proto, absl::string_view field);
  serialization::InputBinding ToProto() const;

  // "input 2 is input 0; unique input 0 is f32[4]{1} of base 0 (f32[6]{1})".
  std::string ToString() const;

  friend bool operator==(const InputBinding&, const InputBinding&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_INPUT_BINDING_H_
