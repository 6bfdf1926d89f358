// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/pool_index_dtype.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(PoolIndexDTypeTest, IndicesThatOnlyABackwardReadsAreNarrow) {
  const std::string text = R"(graph @g {
  %0: f32[2,8,8] = user_input 0 "x"
  %1: f32[2,4,4], %2: i64[2,4,4] = prim.max_pool(%0, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %3: f32[2,8,8] = prim.max_pool_backward(%1, %2, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  user_output 0 "gradient" = %3
}
)";
  const std::string narrow = absl::StrReplaceAll(text, {{"i64", "i32"}});
  EXPECT_EQ(After(NarrowPoolIndexDTypes, text), narrow);
  EXPECT_EQ(After(NarrowPoolIndexDTypes, narrow), narrow);
}

TEST(PoolIndexDTypeTest, OtherNodesReadACast) {
  EXPECT_EQ(After(NarrowPoolIndexDTypes, R"(graph @g {
  %0: f32[2,8,8] = user_input 0 "x"
  %1: f32[2,4,4], %2: i64[2,4,4] = prim.max_pool(%0, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %3: f32[2,8,8] = prim.max_pool_backward(%1, %2, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %4: i64[2,4,4] = prim.copy(%2)
  user_output 0 "gradient" = %3
  user_output 1 "copied" = %4
})"),
            R"(graph @g {
  %0: f32[2,8,8] = user_input 0 "x"
  %1: f32[2,4,4], %2: i32[2,4,4] = prim.max_pool(%0, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %3: i64[2,4,4] = cotan.expr(%2) {
    domain [2,4,4]
    0: i32 = input 0
    1: i64 = cast 0
    store 1
  }
  %4: f32[2,8,8] = prim.max_pool_backward(%1, %2, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %5: i64[2,4,4] = prim.copy(%3)
  user_output 0 "gradient" = %4
  user_output 1 "copied" = %5
}
)");
}

TEST(PoolIndexDTypeTest, ResultsStay) {
  const std::string text = R"(graph @g {
  %0: f32[2,8,8] = user_input 0 "x"
  %1: f32[2,4,4], %2: i64[2,4,4] = prim.max_pool(%0, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %3: f32[2,8,8] = prim.max_pool_backward(%1, %2, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  user_output 0 "gradient" = %3
  user_output 1 "indices" = %2
}
)";
  EXPECT_EQ(After(NarrowPoolIndexDTypes, text), text);
}

TEST(PoolIndexDTypeTest, IndicesOfLargeOrDynamicPlanesStay) {
  const std::string text = R"(graph @g {
  %0: f32[2,HEIGHT,8] = user_input 0 "x"
  %1: f32[2,4,4], %2: i64[2,4,4] = prim.max_pool(%0, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %3: f32[2,HEIGHT,8] = prim.max_pool_backward(%1, %2, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  user_output 0 "gradient" = %3
}
)";
  for (const char* const height : {"268435456", "s0"}) {
    const std::string graph = absl::StrReplaceAll(text, {{"HEIGHT", height}});
    EXPECT_EQ(After(NarrowPoolIndexDTypes, graph), graph);
  }
}

}  // namespace
}  // namespace cotan::aot
