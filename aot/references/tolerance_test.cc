// SPDX-License-Identifier: Apache-2.0

#include "aot/references/tolerance.h"

#include <gtest/gtest.h>

#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

TEST(ToleranceTest, TheCoarsestHalfOfAGraphCounts) {
  EXPECT_EQ(HalfDType(*ParseGraph("graph @f {\n  %0: f32[2] = user_input 0 \"x\"\n}\n")), DType::kUndefined);
  EXPECT_EQ(HalfDType(*ParseGraph(R"(graph @f {
  %0: f32[2] = user_input 0 "x"
  %1: f16[2] = user_input 1 "y"
}
)")),
            DType::kFloat16);
  EXPECT_EQ(HalfDType(*ParseGraph(R"(graph @f {
  %0: f16[2] = user_input 0 "x"
  %1: bf16[2] = user_input 1 "y"
}
)")),
            DType::kBFloat16);
}

TEST(ToleranceTest, ResultsOfHalvesHaveTheToleranceOfTheHalf) {
  const double single = Epsilon(DType::kFloat32);
  EXPECT_EQ(RelativeTolerance(DType::kFloat32, DType::kUndefined), 4096 * single);
  EXPECT_EQ(CancelledTolerance(DType::kFloat32, DType::kUndefined), 256 * single);
  EXPECT_EQ(RelativeTolerance(DType::kFloat32, DType::kBFloat16), 1.0 / 8);
  EXPECT_EQ(RelativeTolerance(DType::kBFloat16, DType::kBFloat16), 1.0 / 8);
  EXPECT_EQ(CancelledTolerance(DType::kFloat32, DType::kFloat16), 1.0 / 128);
  EXPECT_EQ(RelativeTolerance(DType::kInt64, DType::kBFloat16), 0);
}

}  // namespace
}  // namespace cotan::aot
