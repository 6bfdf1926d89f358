// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/autograd_views.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/node.h>

#include <vector>

#include "aot/aotautograd/joint.h"
#include "aot/capture/non_leaf.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"

namespace cotan::aot {
namespace {

// A trace with one input that requires grad, which may be written.
class AutogradViewsTest : public testing::Test {
 protected:
  void SetUp() override { RegisterTracing(); }

  // Returns the gradient of f(x), given ones, with respect to x = 0, 1, ... of sizes [2, 3].
  template <typename F>
  std::vector<float> GradientOf(const F& f) {
    const at::Tensor example = at::arange(6, at::kFloat).view({2, 3});
    const at::Tensor expected = f(example.clone());
    const at::Tensor ones = at::ones(expected.sizes());
    Recorder recorder;
    RecordingScope recording(recorder);
    const TraceScope scope(/*grad_enabled=*/true);
    const at::Tensor primal = recorder.AddInput(example, InputKind::kUserInput, 0, "x").requires_grad_(true);
    const at::Tensor result = f(NonLeaf(primal));
    const at::Tensor tangent = recorder.AddInput(ones, InputKind::kTangent, 0, "t");
    const at::Tensor gradient = recorder.RealOf(Gradients({result}, {tangent}, {primal})[0]).contiguous();
    return {gradient.const_data_ptr<float>(), gradient.const_data_ptr<float>() + gradient.numel()};
  }
};

TEST_F(AutogradViewsTest, ViewIsFoundWhereItIsAfterItsBaseWasTransposed) {
  const auto column = [](at::Tensor x) {
    const at::Tensor v = x.select(1, 2);
    x.t_();
    return v * 5;
  };
  EXPECT_EQ(GradientOf(column), (std::vector<float>{0, 0, 5, 0, 0, 5}));
}

TEST_F(AutogradViewsTest, ViewWithOtherDimensionsIsWrittenWhereItIs) {
  const auto write = [](at::Tensor x) {
    at::Tensor v = x.select(0, 1);
    v.unsqueeze_(0);
    v.mul_(3);
    return x * 1;
  };
  EXPECT_EQ(GradientOf(write), (std::vector<float>{1, 1, 1, 3, 3, 3}));
}

TEST_F(AutogradViewsTest, ViewOfASqueezedBaseIsFoundAgain) {
  const auto view = [](at::Tensor x) {
    at::Tensor y = x.unsqueeze(1) * 1;
    const at::Tensor v = y.select(2, 0);
    y.squeeze_(1);
    return v * 2;
  };
  EXPECT_EQ(GradientOf(view), (std::vector<float>{2, 0, 0, 2, 0, 0}));
}

TEST_F(AutogradViewsTest, OldViewHasAGradientOfWhatItsBaseStillShows) {
  const auto view = [](const at::Tensor& x) {
    at::Tensor y = x * 1;
    const at::Tensor v = y.view({-1});
    y.as_strided_({2}, {2}, 1);
    return v * 2;
  };
  EXPECT_EQ(GradientOf(view), (std::vector<float>{0, 2, 0, 2, 0, 0}));
}

TEST_F(AutogradViewsTest, TensorWrittenWithItselfDoesNotStayAlive) {
  const at::Tensor example = at::ones({2});
  Recorder recorder;
  RecordingScope recording(recorder);
  const TraceScope scope(/*grad_enabled=*/true);
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> written(
      c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>{});
  {
    const at::Tensor x = recorder.AddInput(example, InputKind::kUserInput, 0, "x").requires_grad_(true);
    at::Tensor y = x.clone();
    y.mul_(y);
    written = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>(y.getIntrusivePtr());
  }
  EXPECT_FALSE(written.expired());
  recorder.autograd_views().ReleaseHistories();
  EXPECT_TRUE(written.expired());
}

TEST_F(AutogradViewsTest, TensorWrittenAgainAfterItselfDoesNotStayAlive) {
  const at::Tensor example = at::ones({2});
  Recorder recorder;
  RecordingScope recording(recorder);
  const TraceScope scope(/*grad_enabled=*/true);
  const at::Tensor x = recorder.AddInput(example, InputKind::kUserInput, 0, "x").requires_grad_(true);
  const size_t live = recorder.epoch()->live.size();
  {
    at::Tensor y = x.clone();
    y.mul_(y);
    y.add_(1);
  }
  recorder.autograd_views().ReleaseHistories();
  EXPECT_EQ(recorder.epoch()->live.size(), live);
}

TEST_F(AutogradViewsTest, ViewOfTheCallerHasAGradientOfItsOldSizes) {
  const at::Tensor example = at::arange(6, at::kFloat).view({2, 3});
  const at::Tensor ones = at::ones({3, 2});
  Recorder recorder;
  RecordingScope recording(recorder);
  const TraceScope scope(/*grad_enabled=*/true);
  const at::Tensor primal = recorder.AddInput(example, InputKind::kUserInput, 0, "x").requires_grad_(true);
  at::Tensor x = NonLeaf(primal);
  AutogradViews& views = recorder.autograd_views();
  EXPECT_FALSE(views.IsViewOfCaller(x));
  views.AddViewOfCaller(x);
  EXPECT_TRUE(views.IsViewOfCaller(x));
  const auto before = x.grad_fn();
  {
    const at::NoGradGuard no_grad;
    x.t_();
  }
  EXPECT_NE(x.grad_fn().get(), before.get());
  EXPECT_EQ(views.OriginalGradFn(x.grad_fn().get()), before.get());
  const at::Tensor tangent = recorder.AddInput(ones, InputKind::kTangent, 0, "t");
  EXPECT_EQ(Gradients({x * 2}, {tangent}, {primal})[0].sizes(), example.sizes());
}

}  // namespace
}  // namespace cotan::aot
