// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/dedupe.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/engine.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Mutated;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::Times;
using testing::TwoParts;
using testing::Values;
using testing::Vector;

TEST(DedupeTest, TheSameTensorTwiceIsHarmlessWhereNothingIsWritten) {
  LoadedFunction program(TwoParts());
  const Variable x = Leaf({1, 2});
  const auto results = program.Call({x, x});
  ASSERT_TRUE(
      autograd::Backward({At(results, 0), At(results, 1)}, {Vector({1, 1}), Vector({1, 1})}, program.session.ops())
          .ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(5, 5));
}

// f(x, y), traced with one tensor as x and y: y.mul_(2); return x + y
TEST(DedupeTest, DuplicatesMustStayDuplicates) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t written = Times(f, f.Input("x", DType::kFloat32, {"2"}), 2.0);
  f.proto().add_outputs(written);
  f.proto().add_outputs(Plus(f, written, written));
  for (int i = 0; i < 2; ++i) f.proto().mutable_input_binding()->add_add_dupe_map(0);
  ViewAndMutationMetaFields facts;
  facts.input_info = {Mutated(Plain()), Mutated(Plain())};
  facts.output_info = {Fresh(false)};
  SetMetadata(f, facts);
  facts.input_info.pop_back();
  SetProgramMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x(Vector({1, 2}));
  const auto results = program.Call({x, x});
  EXPECT_THAT(Values(x), ElementsAre(2, 4));
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(4, 8));
  EXPECT_THAT(program.f.Call({x, Variable(Vector({1, 2}))}).status().message(),
              HasSubstr("argument 'input.1' was the same tensor as 'input.0' when the program was traced"));
  EXPECT_EQ(program.f.ToString(),
            "call of 'f'\n"
            "  check       2 arguments, 0 parameters and buffers\n"
            "  dedupe      input.1 is input.0\n"
            "  forward     2 ops, 2 results, 0 saved\n"
            "  wrap        2 tensors\n"
            "  write back  content of input.0\n"
            "  results     output 0 new\n");
}

// f(x, y, z)
TEST(DedupeTest, DescribesWhichInputsAreOneTensor) {
  FunctionMetadata function;
  function.inputs = {{.name = "x"}, {.name = "y"}, {.name = "z"}};
  EXPECT_EQ(DedupeStage(function, {}, {}).ToString(), "");
  EXPECT_EQ(DedupeStage(function, {{1, 0}}, {{2, 0}}).ToString(), "y is x, z is not x");
}

}  // namespace
}  // namespace cotan
