// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/repeat_ops.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::aot {
namespace {

using cotan::testing::ExprBuilder;
using cotan::testing::MethodBuilder;
using cotan::testing::ProgramBuilder;
using serialization::Method;
using ::testing::ElementsAre;

int Twice(ExprBuilder& b) { return b.Add(0, 0); }
int Sum(ExprBuilder& b) { return b.Add(0, 1); }

TEST(RepeatOpsTest, LaterReadersAndTheirViewsReadTheCopy) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"6"});
  const uint32_t y = m.Pointwise({"6"}, {x}, Twice);                  // op 0
  const uint32_t seen = m.View(y, {"2", "3"});                        // op 1
  const uint32_t early = m.Pointwise({"2", "3"}, {seen}, Twice);      // op 2
  const uint32_t late = m.Pointwise({"2", "3"}, {early, seen}, Sum);  // op 3
  m.Output("late", late);
  Method& method = m.proto();
  const MethodFacts facts(method);
  absl::flat_hash_map<uint32_t, uint32_t> copies;
  const auto added = RematerializeOps({.targets = {y}, .before = 3, .ops = {0}, .parts = {}, .substitutes = {}}, facts,
                                      method, copies);
  ASSERT_EQ(method.ops_size(), 6);
  ASSERT_EQ(added.size(), 2u);  // the op and the view
  EXPECT_EQ(added[0].position, 3);
  EXPECT_EQ(added[0].original, 0);
  EXPECT_EQ(added[1].position, 4);
  EXPECT_EQ(added[1].original, 1);
  const uint32_t copy = copies.at(y);
  EXPECT_THAT(method.ops(3).inputs(), ElementsAre(x));
  EXPECT_THAT(method.ops(3).outputs(), ElementsAre(copy));
  EXPECT_THAT(method.ops(4).inputs(), ElementsAre(copy));
  EXPECT_THAT(method.ops(2).inputs(), ElementsAre(seen));
  EXPECT_THAT(method.ops(5).inputs(), ElementsAre(early, method.ops(4).outputs(0)));
  EXPECT_EQ(method.values(static_cast<int>(copy)).type().sizes(0), "6");
}

TEST(RepeatOpsTest, RepeatedOpsReadWhatStandsForTheirOperands) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"6"});
  const uint32_t same = m.Input("same", DType::kFloat32, {"6"});
  const uint32_t y = m.Pointwise({"6"}, {x}, Twice);
  const uint32_t z = m.Pointwise({"6"}, {x, y}, Sum);
  m.Output("z", z);
  Method& method = m.proto();
  const MethodFacts facts(method);
  absl::flat_hash_map<uint32_t, uint32_t> copies;
  RematerializeOps({.targets = {y}, .before = 1, .ops = {0}, .parts = {}, .substitutes = {{x, same}}}, facts, method,
                   copies);
  EXPECT_THAT(method.ops(1).inputs(), ElementsAre(same));
  EXPECT_THAT(method.ops(2).inputs(), ElementsAre(x, copies.at(y)));  // later readers keep their operands
}

TEST(RepeatOpsTest, EffectsAndChecksAreNotRepeated) {
  serialization::Op op;
  op.mutable_effect();
  EXPECT_FALSE(IsRepeatable(op));
  op.mutable_checked_index();
  EXPECT_FALSE(IsRepeatable(op));
  op.mutable_matmul();
  EXPECT_TRUE(IsRepeatable(op));
}

}  // namespace
}  // namespace cotan::aot
