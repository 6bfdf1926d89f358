// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/recorded_ops.h"

#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

Variable LeafWith(const std::vector<float>& values, const std::vector<int64_t>& sizes) {
  return *Variable::Leaf(Values(values, sizes));
}

TEST(RecordedOpsTest, ASumPassesItsGradientToBoth) {
  const Variable a = LeafWith({1, 2}, {2}), b = LeafWith({3, 4}, {2});
  const Variable sum = *RecordedAdd(Ops(), a, b);
  EXPECT_THAT(ToVector(sum), ElementsAre(4, 6));
  const auto gradients = *Grad({sum}, {a, b}, {Vector({5, 7})}, Ops(), {.retain_graph = true});
  EXPECT_THAT(ToVector(gradients[0]), ElementsAre(5, 7));
  EXPECT_THAT(ToVector(gradients[1]), ElementsAre(5, 7));
  const Variable tangent = LeafWith({5, 7}, {2});
  const Variable recorded = (*GradWithGraph({sum}, {a}, {tangent}, Ops()))[0];
  EXPECT_THAT(ToVector((*Grad({recorded}, {tangent}, {Vector({1, 2})}, Ops()))[0]), ElementsAre(1, 2));
}

TEST(RecordedOpsTest, ASumOverBroadcastDimensionsBroadcastsItsGradient) {
  const Variable x = LeafWith({1, 2, 3, 4, 5, 6}, {2, 3});
  const Variable sum = *RecordedSumTo(Ops(), x, {3});
  EXPECT_THAT(ToVector(sum), ElementsAre(5, 7, 9));
  const Variable tangent = LeafWith({1, 2, 3}, {3});
  const Variable gradient = (*GradWithGraph({sum}, {x}, {tangent}, Ops()))[0];
  EXPECT_THAT(ToVector(gradient), ElementsAre(1, 2, 3, 1, 2, 3));
  EXPECT_THAT(ToVector((*Grad({gradient}, {tangent}, {Count({2, 3})}, Ops()))[0]), ElementsAre(3, 5, 7));
  EXPECT_TRUE(RecordedSumTo(Ops(), x, {2, 3})->is_same(x));
}

TEST(RecordedOpsTest, GradientsOfCastsHaveTheDTypeOfTheSource) {
  const Variable x = LeafWith({1, 2}, {2});
  const Variable cast = *RecordedCast(Ops(), x, DType::kFloat64);
  EXPECT_EQ(cast.dtype(), DType::kFloat64);
  const auto gradients = *Grad({cast}, {x}, {*Tensor::From<double>({3, 4}, {2})}, Ops());
  EXPECT_THAT(ToVector(gradients[0]), ElementsAre(3, 4));
  EXPECT_TRUE(RecordedCast(Ops(), x, DType::kFloat32)->is_same(x));
}

TEST(RecordedOpsTest, CopiesHaveOtherMemoryAndTheSameGradient) {
  const Variable x = LeafWith({1, 2, 3, 4}, {2, 2});
  const Variable copy = *RecordedCloneAs(Ops(), x, {.sizes = {2, 2}, .strides = {1, 2}, .offset = 0});
  EXPECT_NE(copy.tensor().storage(), x.tensor().storage());
  EXPECT_EQ(copy.layout().strides[0], 1);
  EXPECT_THAT(ToVector(copy), ElementsAre(1, 2, 3, 4));
  const auto gradients = *Grad({copy}, {x}, {Count({2, 2})}, Ops());
  EXPECT_THAT(ToVector(gradients[0]), ElementsAre(0, 1, 2, 3));
}

TEST(RecordedOpsTest, NothingIsRecordedWithoutNeed) {
  const Variable x = LeafWith({1}, {1});
  EXPECT_FALSE(RecordedClone(Ops(), Variable(Vector({1})))->requires_grad());
  const GradModeGuard no_grad(false);
  EXPECT_FALSE(RecordedClone(Ops(), x)->requires_grad());
}

}  // namespace
}  // namespace cotan::autograd
