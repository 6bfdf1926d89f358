// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/inputs.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/decompositions/trace_scope.h"

namespace cotan::aot {
namespace {

TEST(InputsTest, InputIsALeafAsItsExampleIs) {
  const at::Tensor plain = at::ones({2});
  const at::Tensor leaf = at::ones({2}).requires_grad_(true);
  const at::Tensor computed = leaf * 2;
  TraceScope scope(/*grad_enabled=*/true);
  Recorder recorder;
  RecordingScope recording(recorder);
  const at::Tensor a = AddInputLike(plain, recorder, 0, "a");
  const at::Tensor b = AddInputLike(leaf, recorder, 1, "b");
  const at::Tensor c = AddInputLike(computed, recorder, 2, "c");
  EXPECT_TRUE(a.is_leaf() && !a.requires_grad());
  EXPECT_TRUE(b.is_leaf() && b.requires_grad());
  EXPECT_TRUE(!c.is_leaf() && c.requires_grad());
  EXPECT_EQ(recorder.graph().inputs().size(), 3u);
}

TEST(InputsTest, AnInputThatIsNoLeafHasAGradientAndCanBeMutated) {
  const at::Tensor computed = at::ones({2}).requires_grad_(true) * 2;
  TraceScope scope(/*grad_enabled=*/true);
  Recorder recorder;
  RecordingScope recording(recorder);
  const at::Tensor input = AddInputLike(computed, recorder, 0, "input");
  const auto gradients = torch::autograd::grad({input * 3}, {input}, {at::ones({2})});
  EXPECT_NE(ProxyOf(gradients[0]), nullptr);
  EXPECT_NO_THROW(input.mul_(5));
}

TEST(InputsTest, RngStateIsSeedAndZero) {
  TraceScope scope(/*grad_enabled=*/true);
  Recorder recorder;
  RecordingScope recording(recorder);
  InstallRngState(7, recorder);
  const at::Tensor& real = ProxyOf(recorder.rng_state)->real();
  RealScope real_scope;
  EXPECT_TRUE(at::equal(real, at::tensor({7, 0}, at::kLong)));
  EXPECT_EQ(recorder.graph().inputs()[0].kind, InputKind::kRngState);
}

}  // namespace
}  // namespace cotan::aot
