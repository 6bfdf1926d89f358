// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/capture_cache.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::HasSubstr;
using testing::LoadedFunction;
using testing::Square;
using testing::Vector;

class CaptureCacheTest : public ::testing::Test {
 protected:
  CaptureCacheTest() { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }
  ~CaptureCacheTest() override { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }

  // Runs the backward of row `row` of a matrix of n columns, from column `column` on.
  void RunRow(int64_t n, int64_t row, const CompiledAutogradOptions& options = {}) {
    const Variable x = *Variable::Leaf(*Tensor::Zeros(DType::kFloat32, {4, n}));
    const Variable part = *x.View({view::Select{.dim = 0, .index = row}});
    CompiledAutograd scope(options);
    const absl::Status status = autograd::Backward({part}, {*ops_.Ones(DType::kFloat32, {n})}, ops_);
    ASSERT_TRUE(status.ok()) << status;
    const std::vector<float> gradient = *x.grad().tensor().ToVector<float>();
    for (int64_t i = 0; i < 4 * n; ++i) EXPECT_EQ(gradient[static_cast<size_t>(i)], i / n == row ? 1 : 0) << i;
  }

  TensorOps ops_ = TensorOps(testing::TestKernels());
};

TEST_F(CaptureCacheTest, ReasonsSayWhatIsNew) {
  RunRow(5, 2);
  RunRow(6, 2);
  ASSERT_EQ(CompiledAutograd::Reasons().size(), 2);
  EXPECT_EQ(CompiledAutograd::Reasons()[0], "new node SelectBackward (node call 0)");
  EXPECT_THAT(CompiledAutograd::Reasons()[1], HasSubstr(" changed sizes (total of "));
  EXPECT_THAT(CompiledAutograd::Reasons()[1], HasSubstr("): sizes["));
}

TEST_F(CaptureCacheTest, AThirdSizeIsAPlanAndNoCapture) {
  for (const int64_t n : {5, 6, 7, 8, 5}) RunRow(n, 2);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 2);
  EXPECT_EQ(CompiledAutograd::Stats().plans, 4);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
}

TEST_F(CaptureCacheTest, WithoutDynamicSizesEachSizeIsCaptured) {
  for (const int64_t n : {5, 6, 7, 5}) RunRow(n, 2, {.dynamic = false});
  EXPECT_EQ(CompiledAutograd::Stats().captures, 3);
}

TEST_F(CaptureCacheTest, ASizeOfOneIsACaseOfItsOwn) {
  for (const int64_t n : {5, 1, 6, 1}) RunRow(n, 2);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 3);
}

TEST_F(CaptureCacheTest, PlansAreDroppedAboveTheLimit) {
  for (const int64_t n : {5, 6, 7, 6}) RunRow(n, 2, {.max_plans = 1});
  EXPECT_EQ(CompiledAutograd::Stats().plans, 4);
}

TEST_F(CaptureCacheTest, TwoSessionsOfOneProgramShareACapture) {
  const std::shared_ptr<const Program> program = Square().Load();
  for (int i = 0; i < 2; ++i) {
    Session session = *Session::Create(program, {.kernels = &testing::TestKernels(), .threads = 1});
    Function f = *Function::Create(session, "f");
    const Variable x = testing::Leaf({3, 4});
    const auto results = f.Call({x});
    ASSERT_TRUE(results.ok());
    CompiledAutograd scope;
    ASSERT_TRUE(autograd::Backward({At(*results, 0)}, {Vector({1, 1})}, session.ops()).ok());
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 1);
}

TEST_F(CaptureCacheTest, OtherThreadsOfKernelsAreAnotherCapture) {
  RunRow(5, 2);
  TensorOps two(testing::TestKernels(), HostDevice(), 2);
  const Variable x = *Variable::Leaf(*Tensor::Zeros(DType::kFloat32, {4, 5}));
  const Variable part = *x.View({view::Select{.dim = 0, .index = 2}});
  CompiledAutograd scope;
  ASSERT_TRUE(autograd::Backward({part}, {*two.Ones(DType::kFloat32, {5})}, two).ok());
  EXPECT_EQ(CompiledAutograd::Stats().captures, 2);
}

}  // namespace
}  // namespace cotan
