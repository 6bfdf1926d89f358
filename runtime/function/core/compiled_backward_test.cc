// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/compiled_backward.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/function/core/deterministic.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LeafInput;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::Square;
using testing::Times;
using testing::TripledSquare;
using testing::TwoParts;
using testing::Values;
using testing::Vector;

TEST(CompiledBackwardTest, GradientsGoToTheLeavesBehindTheArguments) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  const auto results = program.Call({x});
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(9, 16));
  EXPECT_TRUE(At(results, 0).requires_grad());
  EXPECT_FALSE(At(results, 0).is_leaf());
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 10}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(6, 80));
}

TEST(CompiledBackwardTest, CallsMayBeChainedAndOutstanding) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 3});
  const auto once = program.Call({x});
  const auto twice = program.Call({At(once, 0)});
  EXPECT_THAT(Values(At(twice, 0)), ElementsAre(16, 81));
  ASSERT_TRUE(program.Backward(At(twice, 0), {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(32, 108));  // 4 x^3
}

TEST(CompiledBackwardTest, BackwardIsPlannedAtItsFirstRun) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  const auto results = program.Call({x});
  EXPECT_EQ(program.session.num_plans_made(), 1);
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  EXPECT_EQ(program.session.num_plans_made(), 2);
}

TEST(CompiledBackwardTest, SavedArgumentsAreNotCopiedButChecked) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  const auto results = program.Call({x});
  EXPECT_EQ(program.f.stats().saved_without_copy, 1);
  {
    const GradModeGuard no_grad(false);
    ASSERT_TRUE(Variable(x).CopyInPlace(Variable(Vector({1, 1})), program.session.ops()).ok());
  }
  EXPECT_THAT(program.Backward(At(results, 0), {1, 1}).message(), HasSubstr("modified by an inplace operation"));
}

TEST(CompiledBackwardTest, ASecondBackwardNeedsTheGraphRetained) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  const auto results = program.Call({x});
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}, /*retain_graph=*/true).ok());
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(12, 16));
  EXPECT_THAT(program.Backward(At(results, 0), {1, 1}).message(), HasSubstr("second time"));
}

TEST(CompiledBackwardTest, DeterministicModeIsRefusedAfterATraceWithout) {
  LoadedFunction program(Square());
  const auto results = program.Call({Leaf({3, 4})});
  DeterministicMode::set_enabled(true);
  const absl::Status refused = program.Backward(At(results, 0), {1, 1});
  DeterministicMode::set_enabled(false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("the backward of 'f' runs with deterministic algorithms enabled"));
  EXPECT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
}

TEST(CompiledBackwardTest, DoubleBackwardIsRefused) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  const auto results = program.Call({x});
  const auto gradients =
      autograd::Grad({At(results, 0)}, {x}, {Vector({1, 1})}, program.session.ops(), {.create_graph = true});
  EXPECT_THAT(gradients.status().message(), HasSubstr("double backward"));
}

TEST(CompiledBackwardTest, UnusedOutputsGiveNoGradient) {
  LoadedFunction program(TwoParts());
  const Variable x = Leaf({1, 2});
  const Variable y = Leaf({3, 4});
  const auto results = program.Call({x, y});
  ASSERT_TRUE(program.Backward(At(results, 1), {1, 1}).ok());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_THAT(Values(y.grad()), ElementsAre(3, 3));
}

TEST(CompiledBackwardTest, IdleTangentsMakeAGradientDefined) {
  ProgramBuilder builder = TwoParts();
  serialization::StructuralTangents& idle = *builder.artifact().mutable_methods(1)->add_structural_tangents();
  idle.set_gradient(0);
  idle.add_tangents(1);
  LoadedFunction program(std::move(builder));
  const Variable x = Leaf({1, 2});
  const Variable y = Leaf({3, 4});
  auto results = program.Call({x, y});
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  EXPECT_FALSE(y.grad().defined());
  results = program.Call({x, y});
  ASSERT_TRUE(program.Backward(At(results, 1), {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(2, 2));  // plus zeros
  const Variable z = Leaf({1, 2});
  results = program.Call({z, y});
  ASSERT_TRUE(program.Backward(At(results, 1), {1, 1}).ok());
  EXPECT_THAT(Values(z.grad()), ElementsAre(0, 0));
}

TEST(CompiledBackwardTest, DonatedValuesAreOverwrittenUnlessTheGraphIsRetained) {
  LoadedFunction program(TripledSquare());
  const Variable x = Leaf({1, 2});
  auto results = program.Call({x});
  for (const bool retain : {true, true, false}) {
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}, retain).ok());
  }
  EXPECT_THAT(Values(x.grad()), ElementsAre(54, 108));  // 3 * 18 x
  EXPECT_EQ(program.f.stats().backwards_in_donated_memory, 1);
  results = program.Call({x});
  EXPECT_EQ(program.f.stats().saved_reused, 1);
}

// f(x, b) = 2 x, whose backward adds the tangent to b.
TEST(CompiledBackwardTest, WrittenArgumentDoesNotOverlapTheTangent) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.proto().add_outputs(Times(f, f.Input("x", DType::kFloat32, {"2"}), 2.0));
  f.proto().add_outputs(f.Input("b", DType::kFloat32, {"2"}));
  MethodBuilder b = builder.AddMethod("b");
  const uint32_t saved = b.Input("saved", DType::kFloat32, {"2"});
  const uint32_t tangent = b.Input("tangent", DType::kFloat32, {"2"});
  b.proto().add_outputs(Times(b, tangent, 2.0));
  b.proto().add_input_updates()->set_value(Plus(b, saved, tangent));
  Pair(f, b, 1, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput(), Plain()};
  facts.output_info = {Fresh(true)};
  facts.backward_mutated_inputs = {1};
  facts.saved = SavedForBackward();
  facts.saved->num_tensors = 1;
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x = Leaf({1, 2});
  const Variable counter(Vector({3, 4}));
  const auto results = program.Call({x, counter});
  const absl::Status refused =
      autograd::Backward({At(results, 0)}, {counter.tensor()}, program.session.ops(), {.retain_graph = true});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("method 'b' writes saved value 0, which shares memory with argument 0"));
  EXPECT_THAT(Values(counter), ElementsAre(3, 4));
  EXPECT_EQ(counter.version(), 0);
  EXPECT_FALSE(x.grad().defined());
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  EXPECT_THAT(Values(counter), ElementsAre(4, 5));
  EXPECT_THAT(Values(x.grad()), ElementsAre(2, 2));
}

}  // namespace
}  // namespace cotan
