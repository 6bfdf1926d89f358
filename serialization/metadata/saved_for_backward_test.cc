// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/saved_for_backward.h"

#include "gtest/gtest.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

SavedForBackward Example() {
  SavedForBackward saved;
  saved.num_tensors = 5;
  saved.num_tensors_without_version_check = 2;
  saved.is_input = {true, false, false, true, false};
  saved.donated = {1, 4};
  saved.dynamic_tensors = {{0, {1}}, {3, {0, 1}}};
  return saved;
}

std::string RefusalOf(const SavedForBackward& saved) { return std::string(saved.Validate("saved").message()); }

TEST(SavedForBackward, PartsFollowEachOtherAfterTheOtherReturns) {
  const SavedForBackward saved = Example();
  EXPECT_EQ(saved.TensorsWithVersionCheck(4), (SavedSlice{4, 7}));
  EXPECT_EQ(saved.TensorsWithoutVersionCheck(4), (SavedSlice{7, 9}));
  EXPECT_EQ(saved.Tensors(4), (SavedSlice{4, 9}));
}

TEST(SavedForBackward, RoundTrips) {
  absl::StatusOr<SavedForBackward> again = SavedForBackward::FromProto(Example().ToProto(), "saved");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, Example());
}

TEST(SavedForBackward, RefusesDonatedInputs) {
  SavedForBackward saved = Example();
  saved.donated = {1, 3};
  EXPECT_EQ(RefusalOf(saved), "saved.donated[1]: saved tensor 3 is an input, which the caller can see");
}

TEST(SavedForBackward, RefusesIndexesOfNoSavedTensor) {
  SavedForBackward saved = Example();
  saved.donated = {5};
  EXPECT_EQ(RefusalOf(saved), "saved.donated[0]: 5 is out of range: there are 5 saved tensors");
  saved = Example();
  saved.dynamic_tensors[1].tensor = 7;
  EXPECT_EQ(RefusalOf(saved), "saved.dynamic_tensors[1].tensor: 7 is out of range: there are 5 saved tensors");
}

TEST(SavedForBackward, RefusesDynamicTensorsOutOfOrderOrWithoutDimensions) {
  SavedForBackward saved = Example();
  saved.dynamic_tensors[1].tensor = 0;
  EXPECT_EQ(RefusalOf(saved), "saved.dynamic_tensors[1].tensor: 0 follows 0, but the indexes must ascend");
  saved = Example();
  saved.dynamic_tensors[0].dims.clear();
  EXPECT_EQ(RefusalOf(saved), "saved.dynamic_tensors[0].dims: is empty");
}

TEST(SavedForBackward, RefusesCountsThatContradictEachOther) {
  SavedForBackward saved = Example();
  saved.num_tensors_without_version_check = 6;
  EXPECT_EQ(RefusalOf(saved), "saved.num_tensors_without_version_check: 6 of 5 saved tensors");
  saved = Example();
  saved.is_input.pop_back();
  EXPECT_EQ(RefusalOf(saved), "saved.is_input: 4 entries for 5 saved tensors");
  saved = Example();
  saved.num_tensors = kMaxCount + 1;
  EXPECT_EQ(RefusalOf(saved), "saved.num_tensors: 16777217 is outside [0, 16777216]");
}

}  // namespace
}  // namespace cotan
