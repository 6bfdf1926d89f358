// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/compiled_autograd.h"

#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::Square;
using testing::TwoParts;
using testing::Values;

// Each test begins with nothing captured.
class CompiledAutogradTest : public ::testing::Test {
 protected:
  CompiledAutogradTest() { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }
  ~CompiledAutogradTest() override { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }
};

TEST_F(CompiledAutogradTest, ACompiledBackwardIsSplicedAndFoundAgain) {
  LoadedFunction program(Square());
  CompiledAutograd scope;
  for (int round = 0; round < 3; ++round) {
    const Variable x = Leaf({3, 4});
    const auto results = program.Call({x});
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 10}).ok());
    EXPECT_THAT(Values(x.grad()), ElementsAre(6, 80));
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 2);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
  EXPECT_THAT(CompiledAutograd::Text(), HasSubstr("expr("));
  EXPECT_THAT(CompiledAutograd::Reasons()[0], HasSubstr("new node"));
}

TEST_F(CompiledAutogradTest, LaterGradientsAreAddedInPlace) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  const void* memory = nullptr;
  for (int round = 0; round < 4; ++round) {
    CompiledAutograd scope;
    const auto results = program.Call({x});
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 10}).ok());
    if (round == 0) memory = x.grad().tensor().address();
    EXPECT_EQ(x.grad().tensor().address(), memory);
  }
  EXPECT_THAT(Values(x.grad()), ElementsAre(24, 320));
  EXPECT_EQ(x.grad().version(), 3);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 2);  // without and with a gradient
}

TEST_F(CompiledAutogradTest, OneBackwardIsSplicedForEachCall) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 3});
  CompiledAutograd scope;
  const auto once = program.Call({x});
  const auto twice = program.Call({At(once, 0)});
  ASSERT_TRUE(program.Backward(At(twice, 0), {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(32, 108));  // 4 x^3
  EXPECT_EQ(CompiledAutograd::Stats().segments, 1);
}

TEST_F(CompiledAutogradTest, AnUndefinedGradientStaysUndefined) {
  LoadedFunction program(TwoParts());
  const Variable x = Leaf({1, 2});
  const Variable y = Leaf({3, 4});
  CompiledAutograd scope;
  const auto results = program.Call({x, y});
  ASSERT_TRUE(program.Backward(At(results, 1), {1, 1}).ok());
  EXPECT_FALSE(x.grad().defined());
  EXPECT_THAT(Values(y.grad()), ElementsAre(3, 3));
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
}

TEST_F(CompiledAutogradTest, BackwardsOutsideOfTheScopeAreWalked) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  for (int step = 0; step < 3; ++step) {
    const auto results = program.Call({x});
    if (step == 1) {
      CompiledAutograd scope;
      ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
    } else {
      ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
    }
  }
  EXPECT_THAT(Values(x.grad()), ElementsAre(18, 24));
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().backwards, 1);
}

// Runs backwards of a session on this thread and returns the gradients. ThreadSanitizer runs these tests as well
// (testing/sanitize).
std::vector<float> GradientsOf(const std::shared_ptr<const Program>& program, float first) {
  std::vector<float> gradients;
  Session session = *Session::Create(program, {.kernels = &testing::TestKernels(), .threads = 1});
  Function function = *Function::Create(session, "f");
  CompiledAutograd scope;
  for (int round = 0; round < 8; ++round) {
    const Variable x = Leaf({first, static_cast<float>(round)});
    std::vector<FunctionResult> results = *function.Call({x});
    if (round % 2 == 1) results = *function.Call({At(results, 0)});
    EXPECT_TRUE(autograd::Backward({At(results, 0)}, {testing::Vector({1, 10})}, session.ops()).ok());
    const std::vector<float> values = Values(x.grad());
    gradients.insert(gradients.end(), values.begin(), values.end());
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 2);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 6);
  EXPECT_TRUE(scope.Close().ok());
  EXPECT_TRUE(CompiledAutograd::Reset().ok());
  return gradients;
}

TEST_F(CompiledAutogradTest, ThreadsCaptureTheBackwardsOfOneProgramEachOnItsOwn) {
  constexpr size_t kThreads = 4;
  const std::shared_ptr<const Program> program = Square().Load();
  std::vector<std::vector<float>> alone(kThreads), together(kThreads);
  for (size_t t = 0; t < kThreads; ++t) alone[t] = GradientsOf(program, static_cast<float>(t));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { together[t] = GradientsOf(program, static_cast<float>(t)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(together, alone);
  EXPECT_NE(alone[1], alone[2]);
}

TEST_F(CompiledAutogradTest, ScopesCloseFromTheInside) {
  CompiledAutograd outer;
  {
    CompiledAutograd inner;
    EXPECT_THAT(outer.Close().message(), HasSubstr("nested contexts must return before their parent"));
    EXPECT_TRUE(inner.Close().ok());
    EXPECT_TRUE(CompiledAutograd::IsEnabled());
  }
  EXPECT_TRUE(outer.Close().ok());
  EXPECT_TRUE(outer.Close().ok());
  EXPECT_FALSE(CompiledAutograd::IsEnabled());
}

TEST_F(CompiledAutogradTest, ADisabledScopeWalks) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  CompiledAutograd scope;
  {
    const CompiledAutograd disabled(CompiledAutograd::kDisabled);
    EXPECT_FALSE(CompiledAutograd::IsEnabled());
    const auto results = program.Call({x});
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  }
  EXPECT_TRUE(CompiledAutograd::IsEnabled());
  EXPECT_EQ(CompiledAutograd::Stats().backwards, 0);
}

TEST_F(CompiledAutogradTest, ResetForgetsEverythingAndSwitchesScopesOff) {
  LoadedFunction program(Square());
  CompiledAutograd scope;
  const auto run = [&] {
    const Variable x = Leaf({3, 4});
    const auto results = program.Call({x});
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  };
  run();
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  EXPECT_FALSE(CompiledAutograd::IsEnabled());
  EXPECT_EQ(CompiledAutograd::Stats().captures, 0);
  EXPECT_TRUE(CompiledAutograd::Reasons().empty());
  CompiledAutograd again;
  run();
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

TEST_F(CompiledAutogradTest, AScopeIsClosedByItsOwnThread) {
  CompiledAutograd scope;
  absl::Status refused;
  bool enabled = true;
  std::thread([&] {
    refused = scope.Close();
    enabled = CompiledAutograd::IsEnabled();
  }).join();
  EXPECT_THAT(refused.message(), HasSubstr("belongs to another thread"));
  EXPECT_FALSE(enabled);
  EXPECT_TRUE(CompiledAutograd::IsEnabled());
}

TEST_F(CompiledAutogradTest, ARetainedGraphIsCapturedAndWalkedInTurn) {
  LoadedFunction program(Square());
  Variable x = Leaf({2, 2});
  const auto results = program.Call({x});
  for (int round = 0; round < 5; ++round) {
    x.ClearGrad();
    {
      CompiledAutograd scope;
      ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}, /*retain_graph=*/true).ok());
    }
    EXPECT_THAT(Values(x.grad()), ElementsAre(4, 4));
    x.ClearGrad();
    ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}, /*retain_graph=*/true).ok());
    EXPECT_THAT(Values(x.grad()), ElementsAre(4, 4));
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 4);
}

TEST_F(CompiledAutogradTest, AFreedGraphIsRefused) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 2});
  const auto results = program.Call({x});
  CompiledAutograd scope;
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  EXPECT_THAT(program.Backward(At(results, 0), {1, 1}).message(), HasSubstr("second time"));
}

TEST_F(CompiledAutogradTest, BackwardsWithCreateGraphAreNotCaptured) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 2});
  const auto results = program.Call({x});
  CompiledAutograd scope;
  const absl::Status refused =
      autograd::Backward({At(results, 0)}, {testing::Vector({1, 1})}, program.session.ops(), {.create_graph = true});
  EXPECT_THAT(refused.message(), HasSubstr("double backward"));
  EXPECT_EQ(scope.Stats().captures, 0);
}

TEST_F(CompiledAutogradTest, GradReturnsGradientsAndAccumulatesNothing) {
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 3});
  CompiledAutograd scope;
  for (int round = 0; round < 3; ++round) {
    const auto once = program.Call({x});
    const auto twice = program.Call({At(once, 0)});
    const auto gradients =
        autograd::Grad({At(twice, 0)}, {x, At(once, 0)}, {testing::Vector({1, 1})}, program.session.ops());
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    EXPECT_THAT(*(*gradients)[0].ToVector<float>(), ElementsAre(32, 108));
    EXPECT_THAT(*(*gradients)[1].ToVector<float>(), ElementsAre(8, 18));
    EXPECT_FALSE(x.grad().defined());
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 2);
}

}  // namespace
}  // namespace cotan
