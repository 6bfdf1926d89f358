// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/joint.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(JointTest, GradientsAreUndefinedForUnusedInputs) {
  const at::Tensor x = at::rand({3}).requires_grad_(true), unused = at::rand({2}).requires_grad_(true);
  const at::Tensor tangent = at::rand({3});
  const std::vector<at::Tensor> gradients = Gradients({x.exp()}, {tangent}, {x, unused});
  EXPECT_TRUE(at::allclose(gradients[0], tangent * x.detach().exp()));
  EXPECT_FALSE(gradients[1].defined());
}

TEST(JointTest, ABackwardPassStartsFromWhatHasHistory) {
  const at::Tensor x = at::rand({3}).requires_grad_(true);
  EXPECT_TRUE(IsDifferentiable(x * 2));
  EXPECT_TRUE(IsDifferentiable(x));
  EXPECT_FALSE(IsDifferentiable(x.detach()));
  EXPECT_FALSE(IsDifferentiable(x.argmax()));
  const at::Tensor y = x * 2;
  const c10::NoGradGuard no_grad;
  const at::Tensor view = y.view({3, 1});
  EXPECT_EQ(IsDifferentiable(view), view.grad_fn() != nullptr);
}

TEST(JointTest, TellsWhatIsComputedFromWhat) {
  const at::Tensor x = at::rand({4}).requires_grad_(true);
  const at::Tensor h = x * 2, square = h * h, sum = (square + h).sum();
  const std::vector<at::Tensor> halves = square.chunk(2);
  EXPECT_THAT(ComputedFrom({h, square, at::Tensor(), sum, x * 2, halves[0].sin(), halves[1], x.detach()}),
              ElementsAre(IsEmpty(), ElementsAre(0), IsEmpty(), ElementsAre(0, 1), IsEmpty(), ElementsAre(0, 1),
                          ElementsAre(0, 1), IsEmpty()));
  EXPECT_THAT(ComputedFrom({sum}), ElementsAre(IsEmpty()));
}

TEST(JointTest, ExampleTangentsRepeatAndDiffer) {
  const at::Tensor output = at::rand({4, 5});
  const at::Tensor tangent = ExampleTangent(output, false, 1, 0);
  EXPECT_EQ(tangent.sizes(), output.sizes());
  EXPECT_TRUE(tangent.equal(ExampleTangent(output, false, 1, 0)));
  EXPECT_FALSE(tangent.equal(ExampleTangent(output, false, 1, 1)));
  EXPECT_LE(tangent.abs().max().item<float>(), 1);
  EXPECT_TRUE(ExampleTangent(at::rand({}), true, 1, 0).equal(at::ones({})));
}

TEST(JointTest, LossIsAScalar) {
  const at::Tensor x = at::rand({3}).requires_grad_(true);
  EXPECT_TRUE(CheckLoss({x, x.sum()}, 1).ok());
  EXPECT_FALSE(CheckLoss({x, x.sum()}, 0).ok());
  EXPECT_FALSE(CheckLoss({x}, -1).ok());
}

}  // namespace
}  // namespace cotan::aot
