// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/saved_values.h"

#include "aot/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

TEST(DescribeSavedTest, DonatedAreValuesThatNobodyElseSees) {
  const absl::StatusOr<Graph> forward = ParseGraph(R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = parameter 0 "w"
  %2: f32[4] = prim.copy(%0)
  %3: f32[4] = prim.copy(%0)
  %4: f32[2,2] = prim.view(%3, [2, 2])
  %5: f32[4] = prim.copy(%1)
  user_output 0 "y" = %4
  saved_output 0 "saved.0" = %0
  saved_output 1 "saved.1" = %2
  saved_output 2 "saved.2" = %3
  saved_output 3 "saved.3" = %1
  saved_output 4 "saved.4" = %5 without_version_check
})");
  ASSERT_TRUE(forward.ok()) << forward.status();
  const serialization::SavedForBackward saved = DescribeSaved(*forward);
  EXPECT_EQ(saved.num_tensors(), 5u);
  EXPECT_THAT(saved.is_input(), ElementsAre(true, false, false, false, false));
  EXPECT_THAT(saved.donated(), ElementsAre(1u, 4u));
  EXPECT_EQ(saved.num_tensors_without_version_check(), 1u);
}

}  // namespace
}  // namespace cotan::aot
