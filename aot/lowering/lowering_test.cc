// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/ops/lowering.h"

#include "aot/ir/text.h"
#include "aot/lowering/op_table.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(PromoteTypesTest, FollowsATen) {
  EXPECT_EQ(PromoteTypes(DType::kBool, DType::kInt8), DType::kInt8);
  EXPECT_EQ(PromoteTypes(DType::kInt64, DType::kFloat16), DType::kFloat16);
  EXPECT_EQ(PromoteTypes(DType::kFloat16, DType::kBFloat16), DType::kFloat32);
  EXPECT_EQ(PromoteTypes(DType::kUInt8, DType::kInt8), DType::kInt16);
  EXPECT_EQ(PromoteTypes(DType::kFloat32, DType::kFloat64), DType::kFloat64);
}

class LoweringTest : public testing::Test {
 protected:
  // A node over inputs %0: f32[2,3], %1: i64[].
  void SetNode(absl::string_view line) {
    from_ = *ParseGraph(
        absl::StrCat("graph @g {\n%0: f32[2,3] = user_input 0 \"x\"\n%1: i64[] = user_input 1 \"i\"\n", line, "\n}"));
    for (const GraphInput& input : from_.inputs()) {
      lowering_.Map(input.value, to_.AddInput(from_.value(input.value).type, input.kind, input.index, input.name));
    }
  }
  absl::Status Lower() { return LowerNode(from_.nodes().front(), lowering_); }

  Graph from_, to_;
  Builder builder_{&to_};
  Lowering lowering_{&from_, &builder_};
};

TEST_F(LoweringTest, AZeroDimensionalIntegerYieldsToAFloat) {
  SetNode("%2: bool[2,3] = aten.lt.Tensor(%0, %1)");
  ASSERT_TRUE(Lower().ok());
  EXPECT_EQ(to_.value(lowering_.Mapped(2)).type.dtype, DType::kBool);
}

TEST_F(LoweringTest, AnArgumentOfTheWrongKindIsNamed) {
  SetNode("%2: f32[2,3] = aten.sum.dim_IntList(%0, \"all\", false, none)");
  const absl::Status status = Lower();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_NE(status.message().find("argument 1"), std::string::npos) << status;
}

TEST_F(LoweringTest, AnOpWithoutARowIsUnimplemented) {
  SetNode("%2: f32[2,3] = aten.unheard_of.default(%0)");
  EXPECT_EQ(Lower().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(LoweringTest, TheSourceTellsOpAndModule) {
  SetNode("%2: f32[2,3] = aten.exp.default(%0) from \"layers.0\"");
  ASSERT_TRUE(Lower().ok());
  EXPECT_EQ(to_.nodes().front().source, "aten.exp.default layers.0");
}

}  // namespace
}  // namespace cotan::aot
