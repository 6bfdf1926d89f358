// SPDX-License-Identifier: Apache-2.0

// Saved values of a forward: the typed form of serialization::SavedForBackward.
#ifndef COTAN_SERIALIZATION_METADATA_SAVED_FOR_BACKWARD_H_
#define COTAN_SERIALIZATION_METADATA_SAVED_FOR_BACKWARD_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Positions [begin, end) among the forward returns.
struct SavedSlice {
  int begin = 0;
  int end = 0;
  int size() const { return end - begin; }
  friend bool operator==(const SavedSlice&, const SavedSlice&) = default;
};

// Typed form of serialization::SavedForBackward, whose fields document the members.
struct SavedForBackward {
  struct DynamicDims {
    int tensor = 0;
    std::vector<int> dims;
    friend bool operator==(const DynamicDims&, const DynamicDims&) = default;
  };

  int num_tensors = 0;
  int num_tensors_without_version_check = 0;
  std::vector<bool> is_input;  // per saved tensor, or empty
  std::vector<int> donated;    // saved tensors, ascending
  std::vector<DynamicDims> dynamic_tensors;

  // Return the positions of saved values among the forward returns; the first one is at `first`.
  SavedSlice Tensors(int first) const;
  SavedSlice TensorsWithVersionCheck(int first) const;
  SavedSlice TensorsWithoutVersionCheck(int first) const;

  // Returns InvalidArgument, with the member's path below `field`, for a count outside [0, kMaxCount]; more
  // tensors without version check than tensors; indexes that are out of range or do not ascend; a donated
  // input; an entry of dynamic_tensors without dimensions.
  absl::Status Validate(absl::string_view field) const;

  // Converts and validates. InvalidArgument: Validate() fails.
  static absl::StatusOr<SavedForBackward> FromProto(const serialization::SavedForBackward& proto,
                                                    absl::string_view field);
  serialization::SavedForBackward ToProto() const;

  friend bool operator==(const SavedForBackward&, const SavedForBackward&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_SAVED_FOR_BACKWARD_H_
