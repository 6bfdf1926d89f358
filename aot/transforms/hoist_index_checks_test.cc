// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/hoist_index_checks.h"

#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(MoveChecksFirstTest, ChecksAndWhatTheyNeedComeFirstInTheirOrder) {
  EXPECT_EQ(After(HoistIndexChecks, R"(graph @g {
  %0: f32[10,3] = parameter 0 "table"
  %1: i64[4,6] = user_input 0 "x"
  %2: i64[4,5] = prim.slice(%1, 1, 0, 5, 1)
  %3: f32[4,5,3] = prim.gather(%0, %2, 0)
  %4: i64[4,5] = prim.slice(%1, 1, 1, 6, 1)
  %5: i64[20] = prim.view(%4, [20])
  %6: i64[20] = prim.checked_index(%5, 3, false, -100)
  %7: f32[20,3] = prim.gather(%0, %6, 0)
  %8: i64[4,5] = prim.checked_index(%2, 10, true, none)
  user_output 0 "rows" = %3
  user_output 1 "picked" = %7
  user_output 2 "index" = %8
})"),
            R"(graph @g {
  %0: f32[10,3] = parameter 0 "table"
  %1: i64[4,6] = user_input 0 "x"
  %2: i64[4,5] = prim.slice(%1, 1, 0, 5, 1)
  %3: i64[4,5] = prim.slice(%1, 1, 1, 6, 1)
  %4: i64[20] = prim.view(%3, [20])
  %5: i64[20] = prim.checked_index(%4, 3, false, -100)
  %6: i64[4,5] = prim.checked_index(%2, 10, true, none)
  %7: f32[4,5,3] = prim.gather(%0, %2, 0)
  %8: f32[20,3] = prim.gather(%0, %5, 0)
  user_output 0 "rows" = %7
  user_output 1 "picked" = %8
  user_output 2 "index" = %6
}
)");
}

TEST(MoveChecksFirstTest, AGraphWithoutChecksStays) {
  const std::string text = R"(graph @g {
  %0: f32[3] = user_input 0 "x"
  %1: f32[3] = prim.copy(%0)
  user_output 0 "y" = %1
}
)";
  EXPECT_EQ(After(HoistIndexChecks, text), text);
}

}  // namespace
}  // namespace cotan::aot
