// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/function.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using serialization::State;
using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LeafInput;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::Square;
using testing::TestKernels;
using testing::Times;
using testing::Values;
using testing::Vector;

// Parameters of a session are leaves shared by all of its functions.
TEST(FunctionTest, ParametersGetGradientsAndAreTrainedByHand) {
  ProgramBuilder builder;
  builder.AddState("w", State::PARAMETER, {"2"}, {1, 2});
  builder.artifact().mutable_states(0)->set_requires_grad(true);
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t x = f.Input("x", DType::kFloat32, {"2"});
  f.proto().add_outputs(Times(f, x, f.Read(0, DType::kFloat32, {"2"})));
  f.proto().add_outputs(x);
  MethodBuilder b = builder.AddMethod("b");
  const uint32_t saved = b.Input("saved", DType::kFloat32, {"2"});
  const uint32_t tangent = b.Input("tangent", DType::kFloat32, {"2"});
  b.proto().add_outputs(Times(b, saved, tangent));
  b.proto().add_outputs(Times(b, b.Read(0, DType::kFloat32, {"2"}), tangent));
  Pair(f, b, 1, {0, 1});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput(), LeafInput()};
  facts.output_info = {Fresh(true)};
  facts.saved = SavedForBackward();
  facts.saved->num_tensors = 1;
  SetMetadata(f, facts);
  serialization::GraphSignature& signature = *f.proto().mutable_signature();
  signature.add_parameters("w");
  signature.add_user_inputs("x");
  signature.add_user_outputs("y");
  LoadedFunction program(std::move(builder));

  const Variable input = Leaf({10, 20});
  Variable w = *program.session.Parameter("w");
  EXPECT_TRUE(w.is_same(*program.session.Parameter("w")));
  const auto once = program.Call({input});
  const auto twice = program.Call({At(once, 0)});
  EXPECT_THAT(Values(At(twice, 0)), ElementsAre(10, 80));  // x w^2
  ASSERT_TRUE(program.Backward(At(twice, 0), {1, 1}).ok());
  EXPECT_THAT(Values(w.grad()), ElementsAre(20, 80));    // 2 x w
  EXPECT_THAT(Values(input.grad()), ElementsAre(1, 4));  // w^2

  const auto stale = program.Call({input});
  {
    const GradModeGuard no_grad(false);
    ASSERT_TRUE(w.CopyInPlace(Variable(Vector({3, 3})), program.session.ops()).ok());
  }
  EXPECT_THAT(*program.session.State("w")->ToVector<float>(), ElementsAre(3, 3));
  EXPECT_THAT(program.Backward(At(stale, 0), {1, 1}).message(),
              HasSubstr("needs 'w', which has been modified by an inplace operation"));
  EXPECT_THAT(Values(At(program.Call({input}), 0)), ElementsAre(30, 60));
  EXPECT_FALSE(program.session.Parameter("x").ok());
}

TEST(FunctionTest, CopiesAreTheSameFunction) {
  LoadedFunction program(Square());
  Function copy = program.f;
  EXPECT_EQ(copy.num_arguments(), 1);
  EXPECT_EQ(copy.num_results(), 1);
  std::vector<FunctionResult> results(5);
  ASSERT_TRUE(copy.Call({Leaf({2, 3})}, results).ok());
  EXPECT_EQ(results.size(), 1u);
  EXPECT_EQ(program.f.stats().calls, 1);
}

TEST(FunctionTest, ResultsOutliveSessionAndFunction) {
  const Variable x = Leaf({3, 4});
  Variable y;
  {
    LoadedFunction program(Square());
    y = At(program.Call({x}), 0);
  }
  TensorOps ops(TestKernels());
  ASSERT_TRUE(autograd::Backward({y}, {Vector({1, 1})}, ops).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(6, 8));
}

}  // namespace
}  // namespace cotan
