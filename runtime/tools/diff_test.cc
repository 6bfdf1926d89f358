// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/diff.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::tools {
namespace {

using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::MethodBuilder;
using ::testing::Not;
using testing::ProgramBuilder;
using ::testing::StartsWith;

// Returns a program with result a * b, or a * a with `squares`.
std::shared_ptr<const Program> Product(bool squares, const std::vector<float>& weight = {1, 2}) {
  ProgramBuilder program;
  program.AddState("weight", serialization::State::PARAMETER, {"2"}, weight);
  MethodBuilder method = program.AddMethod("product");
  const uint32_t a = method.Input("a", DType::kFloat32, {"2", "2"});
  const uint32_t b = method.Input("b", DType::kFloat32, {"2", "2"});
  const uint32_t c = method.Permute(a, {1, 0});
  method.Output("y", method.Matmul(c, squares ? a : b, {"2", "2"}));
  return program.Load();
}

TEST(DiffTest, EqualProgramsHaveNoDifference) {
  EXPECT_EQ(DiffText(*LinearRegression().Load(), *LinearRegression().Load()), "");
}

TEST(DiffTest, AnotherOperandIsADifference) {
  EXPECT_EQ(DiffText(*Product(false), *Product(true)),
            "method product\n  ops\n    ~ op 1 / 1 reads %2, %1 / %2, %0: (%0: f32[2,2], %1: f32[2,2]) %2: f32[2,2] = "
            "matmul(%0, %1)\n");
}

TEST(DiffTest, BytesOfStatesAreCompared) {
  const std::string text = DiffText(*Product(false), *Product(false, {1, 3}));
  EXPECT_THAT(text, StartsWith("states\n  - parameter weight f32[2], bytes with CRC-32C "));
  EXPECT_THAT(text, Not(HasSubstr("method")));
}

TEST(DiffTest, SizesChangeSignatureOpsAndDimensions) {
  const std::string text = DiffText(*LinearRegression().Load(), *LinearRegression(/*static_batch=*/8).Load());
  EXPECT_THAT(text, StartsWith("dynamic dimensions\n  - batch in [1, 64]\n"));
  EXPECT_THAT(text, HasSubstr("method eval\n  signature\n    - input input: f32[s0,3]\n"));
  EXPECT_THAT(text, HasSubstr("    + input input: f32[8,3]\n"));
}

TEST(DiffTest, MethodsAndUpdatesOfOneSideAreNamed) {
  ProgramBuilder changed = LinearRegression();
  changed.artifact().mutable_methods(0)->mutable_state_updates()->RemoveLast();
  changed.artifact().mutable_methods(1)->set_name("evaluate");
  const std::string text = DiffText(*LinearRegression().Load(), *changed.Load());
  EXPECT_THAT(text, HasSubstr("    - updates rng\n"));
  EXPECT_THAT(text, HasSubstr("- method eval, "));
  EXPECT_THAT(text, HasSubstr("+ method evaluate, "));
}

}  // namespace
}  // namespace cotan::tools
