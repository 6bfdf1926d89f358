// What the forward keeps for the backward: the typed form of
// serialization::SavedForBackward.
#ifndef COTAN_SERIALIZATION_METADATA_SAVED_FOR_BACKWARD_H_
#define COTAN_SERIALIZATION_METADATA_SAVED_FOR_BACKWARD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Positions [begin, end) in a list.
struct IndexRange {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  friend bool operator==(const IndexRange&, const IndexRange&) = default;
};

// A value type; the members are explained at the proto's fields.
struct SavedForBackward {
  struct DynamicDims {
    int tensor = 0;
    std::vector<int> dims;
    friend bool operator==(const DynamicDims&, const DynamicDims&) = default;
  };

  int num_tensors = 0;
  int num_tensors_without_version_check = 0;
  int num_opaque_objects = 0;
  int num_symints = 0;
  std::vector<bool> is_input;  // per saved tensor, or empty
  std::vector<int> donated;    // saved tensors, ascending
  std::vector<DynamicDims> dynamic_tensors;

  // Where the parts lie among the forward returns, the first of which is at
  // `num_forward`.
  IndexRange Tensors(int num_forward) const;
  IndexRange TensorsWithVersionCheck(int num_forward) const;
  IndexRange TensorsWithoutVersionCheck(int num_forward) const;
  IndexRange OpaqueObjects(int num_forward) const;
  IndexRange SymInts(int num_forward) const;
  // All of them together.
  int size() const { return num_tensors + num_opaque_objects + num_symints; }

  // InvalidArgument, naming the field below `field`: a count outside
  // [0, kMaxCount]; more tensors without version check than tensors; indexes
  // that are none of saved tensors, or do not ascend; a donated input; dynamic
  // tensors without dimensions.
  absl::Status Validate(absl::string_view field) const;

  // As Validate().
  static absl::StatusOr<SavedForBackward> FromProto(const serialization::SavedForBackward& proto,
                                                    absl::string_view field);
  serialization::SavedForBackward ToProto() const;

  friend bool operator==(const SavedForBackward&, const SavedForBackward&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_SAVED_FOR_BACKWARD_H_
