// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/repeat_dequantization.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::aot {
namespace {

using cotan::testing::ExprBuilder;
using cotan::testing::MethodBuilder;
using cotan::testing::ProgramBuilder;
using serialization::Method;
using serialization::State;
using ::testing::ElementsAre;

int Twice(ExprBuilder& b) { return b.Add(0, 0); }
int Sum(ExprBuilder& b) { return b.Add(0, 1); }
int ToFloat(ExprBuilder& b) { return b.Cast(0, DType::kFloat32); }

// A method that converts a state of `dtype` to f32 and reads the result in its first op and in its last one.
MethodBuilder ReadTwice(ProgramBuilder& program, DType dtype, bool changes) {
  MethodBuilder m = program.AddMethod("run");
  const uint32_t state = program.AddState("w", State::PARAMETER, dtype, {"6"}, 0);
  const uint32_t x = m.Input("x", DType::kFloat32, {"6"});
  const uint32_t w = m.Read(state, dtype, {"6"});
  const uint32_t f = m.Pointwise({"6"}, {w}, ToFloat);         // op 0
  const uint32_t early = m.Pointwise({"6"}, {f, x}, Sum);      // op 1
  const uint32_t middle = m.Pointwise({"6"}, {early}, Twice);  // op 2
  m.Output("late", m.Pointwise({"6"}, {middle, f}, Sum));      // op 3
  if (changes) m.Update(state, m.Pointwise({"6"}, {w}, Twice));
  return m;
}

TEST(RepeatDequantizationTest, EachDistantReaderHasItsOwnCopy) {
  ProgramBuilder program;
  MethodBuilder m = ReadTwice(program, DType::kInt8, /*changes=*/false);
  Method& method = m.proto();
  const uint32_t first = method.ops(0).outputs(0);
  RepeatDequantization(method);
  ASSERT_EQ(method.ops_size(), 5);
  EXPECT_THAT(method.ops(3).inputs(), ElementsAre(method.ops(0).inputs(0)));
  EXPECT_NE(method.ops(3).outputs(0), first);
  EXPECT_EQ(method.ops(1).inputs(0), first);
  EXPECT_EQ(method.ops(4).inputs(1), method.ops(3).outputs(0));
}

TEST(RepeatDequantizationTest, StatesThatChangeAndWideStatesAreLeftAlone) {
  for (const auto& [dtype, changes] : {std::pair(DType::kInt8, true), std::pair(DType::kInt32, false)}) {
    ProgramBuilder program;
    MethodBuilder m = ReadTwice(program, dtype, changes);
    const std::string before = m.proto().SerializeAsString();
    RepeatDequantization(m.proto());
    EXPECT_EQ(m.proto().SerializeAsString(), before);
  }
}

}  // namespace
}  // namespace cotan::aot
