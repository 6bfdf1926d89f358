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

TEST(CallableTest, NumbersAreTakenByTheTypesOfTheParameters) {
  const TensorFunction product = AdaptFunction([](const at::Tensor& x, c10::SymFloat a, c10::SymInt n, c10::SymBool b,
                                                  at::Scalar any) { return x * a * n * b * any; });
  EXPECT_THAT(Values(product({kOne, Number(0.5), Number(3), Number(true), Number(4)})), ::testing::ElementsAre(6));
  EXPECT_THROW(product({kOne, Number(2), Number(3), Number(true), Number(4)}), std::invalid_argument);
  EXPECT_THROW(product({kOne, Number(0.5), Number(3), kOne, Number(4)}), std::invalid_argument);
}

at::Tensor SumOfEight(at::Tensor a, at::Tensor b, at::Tensor c, at::Tensor d, at::Tensor e, at::Tensor f, at::Tensor g,
                      at::Tensor h) {
  return a + b + c + d + e + f + g + h;
}

TEST(CallableTest, TakesMoreThanSixArguments) {
  EXPECT_THAT(Values(AdaptFunction(SumOfEight)(Tensors(8, kOne))), ::testing::ElementsAre(8));
  const TensorFunction seven =
      AdaptFunction([](const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                       const at::Tensor&, const at::Tensor& last) { return last; });
  EXPECT_THAT(Values(seven({kOne, kOne, kOne, kOne, kOne, kOne, kOne * 7})), ::testing::ElementsAre(7));
  const TensorFunction any = AdaptFunction([](const auto&... all) { return Tensors{all...}; });
  EXPECT_EQ(any(Tensors(internal::kMaxTensorsOfTemplate, kOne)).size(), internal::kMaxTensorsOfTemplate);
}

TEST(CallableTest, AFunctionObjectMayHaveDefaultArguments) {
  struct Scale {
    at::Tensor operator()(const at::Tensor& x, const at::Tensor& factor = kOne * 2) const { return x * factor; }
  };
  const TensorFunction scale = AdaptFunction(Scale());
  EXPECT_THAT(Values(scale({kOne})), ::testing::ElementsAre(2));
  EXPECT_THAT(Values(scale({kOne, kOne * 3})), ::testing::ElementsAre(3));
}

std::string ErrorOf(const TensorFunction& function, size_t num_inputs) {
  try {
    function(Tensors(num_inputs, kOne));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

TEST(CallableTest, AnotherNumberOfArgumentsIsAnError) {
  EXPECT_EQ(ErrorOf(AdaptFunction(SumOfEight), 7), "it does not take 7 tensors");
  EXPECT_EQ(ErrorOf(AdaptFunction(SumOfEight), 9), "it does not take 9 tensors");
  EXPECT_EQ(ErrorOf(AdaptFunction([](const auto& x) { return x; }), 0), "none");  // a vector is one argument
  const TensorFunction any = AdaptFunction([](const at::Tensor& first, const auto&...) { return first; });
  EXPECT_EQ(ErrorOf(any, internal::kMaxTensorsOfTemplate + 1), "it does not take 17 tensors");
}

TEST(CallableTest, OtherCallablesAreRecognizedWhenCompiled) {
  const auto on_int = [](int) { return kOne; };
  static_assert(!internal::TakesSomeTensors<decltype(on_int)>() && !internal::kTakesVector<decltype(on_int)>);
  const auto on_vector = [](const Tensors&) { return kOne; };
  static_assert(!internal::TakesSomeTensors<decltype(on_vector)>() && internal::kTakesVector<decltype(on_vector)>);
  static_assert(internal::TakesSomeTensors<decltype(&SumOfEight)>());
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
  const ModuleInstance instance = AdaptFactory(AdaptFactory([] { return Scale(); }))();
  EXPECT_THAT(Values(instance.forward({kOne})), ::testing::ElementsAre(2));
  EXPECT_THROW(instance.forward({}), std::invalid_argument);
}

}  // namespace
}  // namespace cotan::aot
