// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/callable.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

namespace cotan::aot {
namespace {

using Tensors = std::vector<at::Tensor>;

const at::Tensor kOne = at::ones({});

std::vector<double> Values(const Tensors& tensors) {
  std::vector<double> values;
  for (const at::Tensor& tensor : tensors) values.push_back(tensor.item<double>());
  return values;
}

TEST(CallableTest, TakesAsManyArgumentsAsThereAreInputs) {
  const TensorFunction sum = AdaptFunction([](const at::Tensor& a, const at::Tensor& b) { return a + b; });
  EXPECT_THAT(Values(sum({kOne, kOne * 2})), ::testing::ElementsAre(3));
  EXPECT_THROW(sum({kOne}), std::invalid_argument);
}

TEST(CallableTest, TakesAVector) {
  const TensorFunction last = AdaptFunction([](const Tensors& all) { return all.back(); });
  EXPECT_THAT(Values(last(Tensors(8, kOne * 4))), ::testing::ElementsAre(4));
  EXPECT_THAT(Values(last({kOne})), ::testing::ElementsAre(1));
}

TEST(CallableTest, FlattensNestedResults) {
  const TensorFunction nested = AdaptFunction([](const at::Tensor& x) {
    return std::make_tuple(x, std::make_pair(x * 2, Tensors{x * 3, x * 4}));
  });
  EXPECT_THAT(Values(nested({kOne})), ::testing::ElementsAre(1, 2, 3, 4));
}

struct ScaleImpl : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x, const at::Tensor& factor = kOne * 2) { return x * factor; }
};
TORCH_MODULE(Scale);

TEST(CallableTest, FactoryReturnsAPointerOrAHolder) {
  const ModuleInstance pointer = AdaptFactory([] { return std::make_shared<ScaleImpl>(); })();
  ASSERT_NE(pointer.module, nullptr);
  EXPECT_THAT(Values(pointer.forward({kOne, kOne * 5})), ::testing::ElementsAre(5));
  const ModuleInstance holder = AdaptFactory([] { return Scale(); })();
  EXPECT_THAT(Values(holder.forward({kOne})), ::testing::ElementsAre(2));
}

}  // namespace
}  // namespace cotan::aot
