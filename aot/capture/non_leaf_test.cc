// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/non_leaf.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "aot/aotautograd/joint.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"

namespace cotan::aot {
namespace {

TEST(NonLeafTest, MayBeWrittenToAndHasTheGradientOfItsPrimal) {
  RegisterTracing();
  const at::Tensor example = at::rand({4, 2}).t(), ones = at::ones({2, 4});
  Recorder recorder;
  RecordingScope recording(recorder);
  c10::impl::IncludeDispatchKeyGuard keys(kTracingKeys);
  const at::Tensor primal = recorder.AddInput(example, InputKind::kUserInput, 0, "x").requires_grad_(true);
  at::Tensor x = NonLeaf(primal);
  EXPECT_FALSE(x.is_leaf());
  EXPECT_TRUE(x.requires_grad());
  EXPECT_EQ(x.strides(), primal.strides());
  EXPECT_EQ(recorder.ValueOf(x), recorder.ValueOf(primal));

  x.mul_(3);
  EXPECT_NE(recorder.ValueOf(x), recorder.ValueOf(primal));
  const at::Tensor tangent = recorder.AddInput(ones, InputKind::kTangent, 0, "t");
  const std::vector<at::Tensor> gradients = Gradients({x}, {tangent}, {primal});
  ASSERT_TRUE(gradients[0].defined());
  const at::Tensor gradient = recorder.RealOf(gradients[0]);
  EXPECT_EQ(gradient.sizes(), ones.sizes());
  EXPECT_EQ(gradient.const_data_ptr<float>()[0], 3);
}

TEST(NoGradViewTest, RequiresGradAndPassesNone) {
  RegisterTracing();
  const at::Tensor example = at::ones({2, 4}), ones = at::ones({2, 4});
  Recorder recorder;
  RecordingScope recording(recorder);
  c10::impl::IncludeDispatchKeyGuard keys(kTracingKeys);
  const at::Tensor primal = recorder.AddInput(example, InputKind::kUserInput, 0, "x").requires_grad_(true);
  const at::Tensor x = NoGradView(primal);
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(IsDifferentiable(x));
  EXPECT_EQ(recorder.ValueOf(x), recorder.ValueOf(primal));

  const at::Tensor y = x * 2;
  EXPECT_TRUE(y.requires_grad());
  const at::Tensor tangent = recorder.AddInput(ones, InputKind::kTangent, 0, "t");
  EXPECT_FALSE(Gradients({y}, {tangent}, {primal})[0].defined());
}

}  // namespace
}  // namespace cotan::aot
