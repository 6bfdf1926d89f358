// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/method_facts.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::aot {
namespace {

using cotan::testing::ExprBuilder;
using cotan::testing::MethodBuilder;
using cotan::testing::ProgramBuilder;
using cotan::testing::Sizes;
using ::testing::ElementsAre;

int Twice(ExprBuilder& b) { return b.Add(0, 0); }

TEST(MethodFactsTest, UsesThroughViewsAreUsesOfTheValueBehindThem) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"6"});
  const uint32_t y = m.Pointwise({"6"}, {x}, Twice);          // op 0
  const uint32_t seen = m.View(y, {"2", "3"});                // op 1
  const uint32_t z = m.Pointwise({"2", "3"}, {seen}, Twice);  // op 2
  const uint32_t last = m.Pointwise({"6"}, {y}, Twice);       // op 3
  m.Output("z", z);
  m.Output("last", last);
  const MethodFacts facts(m.proto());
  EXPECT_EQ(facts.RootOf(seen), y);
  EXPECT_THAT(facts.uses[y], ElementsAre(2, 3));
  EXPECT_EQ(facts.NextUse(y, 0), 2);
  EXPECT_EQ(facts.NextUse(y, 2), 3);
  EXPECT_EQ(facts.NextUse(y, 3), -1);
  EXPECT_EQ(facts.LastUse(x), 0);
  EXPECT_EQ(facts.LastUse(z), 2);  // its producer
  EXPECT_TRUE(facts.is_kept[z]);
  EXPECT_FALSE(facts.is_kept[y]);
}

TEST(MethodFactsTest, TellsWhatMakesTheNewContentOfAState) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("w", serialization::State::PARAMETER, DType::kFloat32, {"4"}, 0);
  const uint32_t fixed = program.AddState("v", serialization::State::PARAMETER, DType::kFloat32, {"4"}, 0);
  MethodBuilder m = program.AddMethod("run");
  const uint32_t w = m.Read(state, DType::kFloat32, {"4"});
  const uint32_t v = m.Read(fixed, DType::kFloat32, {"4"});
  m.Pointwise({"4"}, {v}, Twice);
  m.Update(state, m.Pointwise({"4"}, {w}, Twice));
  const MethodFacts facts(m.proto());
  EXPECT_EQ(facts.updated_by[w], 1);
  EXPECT_EQ(facts.updated_by[v], MethodFacts::kNever);
}

}  // namespace
}  // namespace cotan::aot
