// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/functional_tensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

TEST(FunctionalTensorTest, GeometryHasStridesInElements) {
  const TensorGeometry geometry = GeometryOf(at::zeros({4, 6}, at::kInt).slice(0, 1, 3).t());
  EXPECT_EQ(geometry, (TensorGeometry{DType::kInt32, {6, 2}, {1, 6}, 6}));
}

TEST(FunctionalTensorTest, WrappedNumbersAreNotTensors) {
  const at::Tensor number = at::ones({}, at::kLong);
  EXPECT_FALSE(IsWrappedNumber(number));
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_TRUE(IsWrappedNumber(number));
  EXPECT_EQ(WrappedNumberOf(number), ScalarOutput(int64_t{1}));
}

TEST(FunctionalTensorTest, ACapturedTensorIsItsOwnValue) {
  const at::Tensor captured = at::ones({2});
  EXPECT_EQ(FunctionalWrapperOf(captured), nullptr);
  EXPECT_TRUE(SyncedProxyOf(captured).is_same(captured));
  EXPECT_TRUE(RealTensorOf(captured).is_same(captured));
}

}  // namespace
}  // namespace cotan::aot
