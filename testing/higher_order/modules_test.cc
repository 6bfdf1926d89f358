// SPDX-License-Identifier: Apache-2.0

// Double backward of functions with parameters, buffers and random numbers, with dynamic sizes and from the compile
// cache; and what an order above 1 refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aot/capture/effects.h"
#include "base/status_macros.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "testing/higher_order/compiled.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

aot::CompileOptions SecondOrder() {
  aot::CompileOptions options;
  options.order = 2;
  options.methods.eval = false;
  return options;
}

// The energy of rows of a matrix, by two layers; f64.
struct Energy : torch::nn::Module {
  Energy() {
    first = register_parameter("first", Constant(1, {3, 4}));
    second = register_parameter("second", Constant(2, {4}));
    scale = register_buffer("scale", Constant(3, {4}));
  }
  at::Tensor forward(const at::Tensor& x) { return (at::tanh(x.mm(first)) * scale).mv(second).sum(); }

  at::Tensor first, second, scale;
};

// Normalizes with the statistics of the batch and keeps the running ones.
struct Normalized : torch::nn::Module {
  Normalized() {
    weight = register_parameter("weight", Constant(1, {3}));
    mean = register_buffer("mean", torch::zeros({3}, torch::kDouble));
  }
  at::Tensor forward(const at::Tensor& x) {
    mean.mul_(0.9).add_(x.detach().mean(0), 0.1);
    return ((x - x.mean(0)) / (x.var(0) + 0.1).sqrt() * weight).pow(3);
  }

  at::Tensor weight, mean;
};

// Uses a buffer that it counts up.
struct Counting : torch::nn::Module {
  Counting() { count = register_buffer("count", torch::ones({1}, torch::kDouble)); }
  at::Tensor forward(const at::Tensor& x) {
    count.add_(1);
    return x.pow(2) * count;
  }

  at::Tensor count;
};

template <typename M>
absl::StatusOr<Compiled> CompileModuleOf(const at::Tensor& x, const aot::CompileOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model,
                         aot::CompileModule([] { return std::make_shared<M>(); }, {x}, options));
  return Compiled::Load(model);
}

// The sum of the squared gradients of an energy with respect to its input and to its parameter "second".
double Penalty(Energy& energy, const at::Tensor& x) {
  const Tensors gradients = torch::autograd::grad({energy.forward(x)}, {x, energy.second});
  return (gradients[0].square().sum() + gradients[1].square().sum()).item<double>();
}

// The gradients of a gradient penalty with respect to parameters and input: those of eager, and central differences.
TEST(ModulesTest, PenaltiesOfGradientsTrainParameters) {
  const at::Tensor x = Leaf(5, {2, 3});
  auto compiled = CompileModuleOf<Energy>(x, SecondOrder());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variable input = ToVariable(x);
  const Variable first = *compiled->session().Parameter("first"), second = *compiled->session().Parameter("second");
  const auto gradients = autograd::GradWithGraph({(*compiled)({input})[0]}, {input, second}, {}, compiled->ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();

  Energy eager;
  const Tensors eager_gradients =
      torch::autograd::grad({eager.forward(x)}, {x, eager.second}, {}, true, /*create_graph=*/true);
  Tensors weights;
  std::vector<Tensor> mirrored;
  for (size_t i = 0; i < 2; ++i) {
    ExpectNear(ToTorch((*gradients)[i].tensor()), eager_gradients[i].detach());
    weights.push_back(2 * eager_gradients[i].detach());
    mirrored.push_back(ToCotan(weights.back()));
  }
  ASSERT_TRUE(autograd::Backward(*gradients, mirrored, compiled->ops()).ok());
  torch::autograd::backward(eager_gradients, weights);
  ExpectNear(ToTorch(first.grad().tensor()), eager.first.grad());
  ExpectNear(ToTorch(second.grad().tensor()), eager.second.grad());
  ExpectNear(ToTorch(input.grad().tensor()), x.grad());

  for (const auto& [name, parameter] : {std::pair("first", first), std::pair("second", second)}) {
    SCOPED_TRACE(name);
    const auto penalty_at = [&x, name = std::string(name)](const at::Tensor& moved) {
      Energy energy;
      energy.named_parameters()[name].set_data(moved.detach());
      return Penalty(energy, x);
    };
    const at::Tensor differences = CentralDifferences(penalty_at, Energy().named_parameters()[name]);
    ExpectNear(ToTorch(parameter.grad().tensor()), differences, kFiniteDifference);
  }
  const auto penalty_at = [&eager](const at::Tensor& moved) { return Penalty(eager, moved); };
  ExpectNear(ToTorch(input.grad().tensor()), CentralDifferences(penalty_at, x), kFiniteDifference);
}

TEST(ModulesTest, AParameterThatWasUpdatedIsRefused) {
  const at::Tensor x = Leaf(5, {2, 3});
  auto compiled = CompileModuleOf<Energy>(x, SecondOrder());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variable input = ToVariable(x);
  const Variable y = (*compiled)({input})[0];
  Variable first = *compiled->session().Parameter("first");
  first.BumpVersion();
  const absl::Status refused = autograd::GradWithGraph({y}, {input}, {}, compiled->ops()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("'first'"));
}

TEST(ModulesTest, BuffersAreWrittenByTheCallAlone) {
  const at::Tensor x = Leaf(5, {4, 3});
  auto compiled = CompileModuleOf<Normalized>(x, SecondOrder());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variable input = ToVariable(x);
  const Variable weight = *compiled->session().Parameter("weight");
  const Variable y = (*compiled)({input})[0];
  const std::vector<double> mean = *compiled->session().State("mean")->ToVector<double>();
  const auto gradients =
      autograd::GradWithGraph({y}, {input, weight}, {Variable(ToCotan(Constant(7, {4, 3})))}, compiled->ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_EQ(*compiled->session().State("mean")->ToVector<double>(), mean);

  Normalized eager;
  const Tensors eager_gradients =
      torch::autograd::grad({eager.forward(x)}, {x, eager.weight}, {Constant(7, {4, 3})}, true, true);
  const Tensors weights = {Constant(8, {4, 3}), Constant(9, {3})};
  const auto second =
      autograd::Grad(*gradients, {input, weight}, {ToCotan(weights[0]), ToCotan(weights[1])}, compiled->ops());
  ASSERT_TRUE(second.ok()) << second.status();
  const Tensors eager_second = torch::autograd::grad(eager_gradients, {x, eager.weight}, weights);
  for (size_t i = 0; i < 2; ++i) {
    ExpectNear(ToTorch((*gradients)[i].tensor()), eager_gradients[i].detach());
    ExpectNear(ToTorch((*second)[i]), eager_second[i], 1e-10);
  }
}

// y = (m x)^2 with a random mask m: dy/dx = 2 y / x, and again 2 y / x^2, if both use the mask of the call.
TEST(ModulesTest, GradientsUseTheRandomNumbersOfTheirCall) {
  const auto function = [](const Tensors& in) -> Tensors { return {at::dropout(in[0], 0.5, true).pow(2)}; };
  const at::Tensor x = Leaf(5, {64});
  auto compiled = Compiled::Function(function, {x}, 2);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variable input = ToVariable(x);
  Variables results;
  for (int i = 0; i < 3; ++i) results.push_back((*compiled)({input})[0]);
  const auto rng = compiled->session().Rng();
  const Tensor ones = ToCotan(torch::ones({64}, torch::kDouble));
  for (const Variable& y : results) {
    const auto first = autograd::GradWithGraph({y}, {input}, {Variable(ones)}, compiled->ops());
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = autograd::Grad(*first, {input}, {ones}, compiled->ops());
    ASSERT_TRUE(second.ok()) << second.status();
    const at::Tensor value = ToTorch(y.tensor());
    ExpectNear(ToTorch((*first)[0].tensor()), 2 * value / x.detach());
    ExpectNear(ToTorch((*second)[0]), 2 * value / x.detach().pow(2));
  }
  EXPECT_TRUE(*rng == *compiled->session().Rng());
  EXPECT_FALSE(torch::equal(ToTorch(results[0].tensor()), ToTorch(results[1].tensor())));
}

// x^3, whose backward is written with ops on tensors.
struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list g) {
    return {g[0] * 3 * context->get_saved_variables()[0].pow(2)};
  }
};

TEST(ModulesTest, CustomFunctionsAreDifferentiatedThroughTheirBackward) {
  ExpectEagerOrders([](const Tensors& in) -> Tensors { return {Cube::apply(in[0].sin())}; }, {Leaf(1, {4})});
}

TEST(ModulesTest, OneTensorMayBeGivenTwice) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].pow(2) * in[1]}; };
  const at::Tensor x = Leaf(1, {3});
  auto compiled = Compiled::Function(function, {x, x}, 2);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variable input = ToVariable(x);
  const Tensor ones = ToCotan(torch::ones({3}, torch::kDouble));
  const auto first =
      autograd::GradWithGraph({(*compiled)({input, input})[0]}, {input}, {Variable(ones)}, compiled->ops());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = autograd::Grad(*first, {input}, {ones}, compiled->ops());
  ASSERT_TRUE(second.ok()) << second.status();
  ExpectNear(ToTorch((*first)[0].tensor()), 3 * x.detach().pow(2));
  ExpectNear(ToTorch((*second)[0]), 6 * x.detach());
}

TEST(ModulesTest, SizesMayBeDynamic) {
  const auto function = [](const Tensors& in) -> Tensors { return {at::tanh(in[0].mm(in[1])).sum(1)}; };
  aot::CompileOptions options = SecondOrder();
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "rows", .min = 1, .max = 32}};
  const auto model = aot::CompileFunction(function, {Leaf(1, {5, 3}), Leaf(2, {3, 2})}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto compiled = Compiled::Load(*model);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const int64_t rows : {1, 4, 9}) {
    const Tensors inputs = {Leaf(3, {rows, 3}), Leaf(4, {3, 2})};
    const Tensors tangents = {Constant(5, {rows})};
    const auto actual = CompiledOrders(*compiled, inputs, tangents);
    ASSERT_TRUE(actual.ok()) << actual.status();
    const TwoOrders expected = EagerOrders(function, inputs, tangents);
    for (size_t i = 0; i < expected.second.size(); ++i) ExpectNear(actual->second[i], expected.second[i]);
  }
}

TEST(ModulesTest, TheCacheDistinguishesOrdersAndAHitRuns) {
  aot::CompileOptions options = SecondOrder();
  options.cache_dir = ::testing::TempDir() + "/higher_order_cache";
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].pow(3)}; };
  const auto compile = [&](int order) {
    options.order = order;
    return *aot::CompileFunction(function, {Leaf(1, {2})}, options);
  };
  const aot::CompiledModel second = compile(2);
  EXPECT_EQ(second.methods().size(), 4u);
  EXPECT_EQ(compile(1).methods().size(), 2u);
  const aot::CompiledModel again = compile(2);
  EXPECT_EQ(again.cache().kind, aot::CacheOutcome::Kind::kHit);
  EXPECT_EQ(again.bytes(), second.bytes());
  auto compiled = Compiled::Load(again);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Tensors x = {Leaf(3, {2})}, tangents = {Constant(4, {2})};
  const auto actual = CompiledOrders(*compiled, x, tangents);
  ASSERT_TRUE(actual.ok()) << actual.status();
  const TwoOrders expected = EagerOrders(function, x, tangents);
  ExpectNear(actual->first[0], expected.first[0]);
  ExpectNear(actual->second[0], expected.second[0]);
}

// Only one row has a weight, so that the draw is certain.
TEST(ModulesTest, DrawsByWeightHaveBothOrders) {
  const auto function = [](const Tensors& in) -> Tensors {
    return {in[0].pow(3).index_select(0, at::multinomial(in[1], 4, /*replacement=*/true))};
  };
  ExpectEagerOrders(function, {Leaf(1, {3, 2}), torch::tensor({0.0, 2.0, 0.0}, torch::kDouble)});
}

// --- what is refused ---------------------------------------------------------------

std::string RefusalOf(const aot::TensorFunction& function, const Tensors& examples) {
  const auto compiled = Compiled::Function(function, examples, 2);
  EXPECT_EQ(compiled.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Compiled::Function(function, examples, 1).ok());
  return std::string(compiled.status().message());
}

TEST(RefusedOrdersTest, WritesToArguments) {
  const auto write = [](const Tensors& in) -> Tensors {
    in[1].add_(1);
    return {in[0].pow(2) * in[1]};
  };
  EXPECT_THAT(RefusalOf(write, {Leaf(1, {2}), Constant(2, {2})}), HasSubstr("changes its argument 'input.1'"));
  EXPECT_THAT(RefusalOf(write, {Leaf(1, {2}), Leaf(2, {2}) * 1}), HasSubstr("changes its argument 'input.1'"));
}

TEST(RefusedOrdersTest, Effects) {
  EXPECT_THAT(RefusalOf(
                  [](const Tensors& in) -> Tensors {
                    const at::Tensor y = in[0].pow(2);
                    aot::Assert((y > 0).all(), "positive", "y is not positive");
                    return {y};
                  },
                  {Leaf(1, {2})}),
              HasSubstr("effects"));
}

TEST(RefusedOrdersTest, GradientsThatDependOnAWrittenBuffer) {
  const auto refused = CompileModuleOf<Counting>(Leaf(1, {1}), SecondOrder());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(refused.status().message(), HasSubstr("writes to 'count'"));
}

}  // namespace
}  // namespace cotan::testing
