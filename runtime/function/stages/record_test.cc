// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/record.h"

#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using testing::Leaf;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Plain;
using testing::ProgramBuilder;
using testing::Square;
using testing::Times;
using testing::TwoParts;
using testing::Values;
using testing::Vector;

TEST(RecordTest, WithoutGradModeThereIsNoHistory) {
  LoadedFunction program(Square());
  const GradModeGuard no_grad(false);
  const auto results = program.Call({Leaf({3, 4})});
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(9, 16));
  EXPECT_FALSE(At(results, 0).requires_grad());
  EXPECT_EQ(program.f.stats().saved_without_copy, 0);
}

// w = ones requires grad; return x * w, w
TEST(RecordTest, GradientsEndInAFunctionThatMadeTheLeaf) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t x = f.Input("x", DType::kFloat32, {"2"});
  f.Output("product", Times(f, x, 1.0));
  f.Output("w", Times(f, x, 0.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(true), Fresh(true)};
  facts.output_info[1].is_new_leaf = true;
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const auto results = program.Call({Variable(Vector({1, 2}))});
  EXPECT_TRUE(At(results, 0).requires_grad());
  EXPECT_FALSE(At(results, 0).is_leaf());
  EXPECT_TRUE(At(results, 1).requires_grad());
  EXPECT_TRUE(At(results, 1).is_leaf());
  EXPECT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
}

TEST(RecordTest, DescribesTheArgumentsThatHaveAGradient) {
  const std::shared_ptr<const Program> program = TwoParts().Load();
  FunctionMetadata function = *FunctionMetadata::Create(*program, 0);
  function.inputs[1].name = "y";
  EXPECT_EQ(RecordStage::Create(function)->ToString(), "backward 'b', 2 tangents, gradients of x, y");
  function.backward = {};
  EXPECT_EQ(RecordStage::Create(function), nullptr);
  function.has_detached_grad_sink = true;
  EXPECT_EQ(RecordStage::Create(function)->ToString(), "no gradients: no input requires grad");
}

}  // namespace
}  // namespace cotan
