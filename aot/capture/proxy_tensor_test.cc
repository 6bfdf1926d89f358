// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/proxy_tensor.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

TEST(ProxyTensorTest, LooksLikeItsRealTensor) {
  const auto epoch = std::make_shared<TraceEpoch>();
  const at::Tensor real = at::ones({2, 3}, at::kInt).t();
  const at::Tensor proxy = MakeProxy(real, 7, epoch);
  EXPECT_EQ(proxy.sizes(), real.sizes());
  EXPECT_EQ(proxy.strides(), real.strides());
  EXPECT_EQ(proxy.scalar_type(), at::kInt);
  ASSERT_NE(AsProxy(proxy), nullptr);
  EXPECT_EQ(AsProxy(proxy)->value(), 7);
  EXPECT_TRUE(AsProxy(proxy)->real().is_same(real));
  EXPECT_EQ(AsProxy(real), nullptr);
  EXPECT_EQ(AsProxy(at::Tensor()), nullptr);
}

TEST(ProxyTensorTest, EpochKnowsItsLiveProxies) {
  const auto epoch = std::make_shared<TraceEpoch>();
  at::Tensor proxy = MakeProxy(at::ones({2}), 0, epoch);
  at::Tensor copy = MakeProxy(at::ones({2}), 1, epoch);
  EXPECT_EQ(epoch->live.size(), 2u);
  proxy.reset();
  EXPECT_EQ(epoch->live.size(), 1u);
  copy.reset();
  EXPECT_TRUE(epoch->live.empty());
}

TEST(ProxyTensorTest, FindsTheProxyUnderFunctionalization) {
  const auto epoch = std::make_shared<TraceEpoch>();
  const at::Tensor functional = WrapFunctional(MakeProxy(at::ones({2}), 3, epoch));
  ASSERT_NE(ProxyOf(functional), nullptr);
  EXPECT_EQ(ProxyOf(functional)->value(), 3);
  EXPECT_EQ(ProxyOf(at::ones({2})), nullptr);
  EXPECT_EQ(ProxyOf(at::Tensor()), nullptr);
}

TEST(ProxyTensorTest, ReseatedTensorIsUnmutated) {
  const auto epoch = std::make_shared<TraceEpoch>();
  const at::Tensor functional = WrapFunctional(MakeProxy(at::ones({2}), 3, epoch));
  at::FunctionalTensorWrapper* wrapper = at::functionalization::impl::unsafeGetFunctionalWrapper(functional);
  wrapper->replace_(MakeProxy(at::zeros({2}), 5, epoch));
  wrapper->commit_update();
  ASSERT_TRUE(wrapper->has_data_mutation());
  Reseat(functional, MakeProxy(at::zeros({2}), 4, epoch));
  EXPECT_FALSE(wrapper->has_data_mutation());
  EXPECT_EQ(ProxyOf(functional)->value(), 4);
}

}  // namespace
}  // namespace cotan::aot
