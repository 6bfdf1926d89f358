// SPDX-License-Identifier: Apache-2.0

// Gradients inside a compiled function or loss: torch::autograd::grad with create_graph is part of the graph. Beside
// LibTorch eager and central differences.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "aot/optimizer/optimizer.h"
#include "runtime/autograd/engine.h"
#include "testing/higher_order/compiled.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

at::Tensor GradOf(const at::Tensor& value, const at::Tensor& x) {
  return torch::autograd::grad({value}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}

// A potential: a two-layer network on rows.
at::Tensor Potential(const at::Tensor& x, const at::Tensor& first, const at::Tensor& second) {
  return at::tanh(x.mm(first)).mm(second).sum();
}

// (|dE/dx| - 1)^2, the penalty of WGAN-GP.
Tensors Penalty(const Tensors& in) {
  const at::Tensor gradient = GradOf(Potential(in[0], in[1], in[2]), in[0]);
  return {(gradient.pow(2).sum(1).sqrt() - 1).pow(2).mean()};
}

// The error of energy and forces.
Tensors ForceLoss(const Tensors& in) {
  const at::Tensor energy = Potential(in[0], in[1], in[2]);
  const at::Tensor forces = -GradOf(energy, in[0]);
  return {(forces - in[3]).pow(2).mean() + 0.1 * energy.pow(2)};
}

// H v by differentiating <dE/dx, v>, and its scalar product with v.
Tensors HessianVectorProduct(const Tensors& in) {
  const at::Tensor gradient = GradOf(Potential(in[0], in[1], in[2]), in[0]);
  const at::Tensor product = GradOf((gradient * in[3]).sum(), in[0]);
  return {(product * in[3]).sum()};
}

// The loss after two inner steps on the first layer (MAML).
Tensors InnerSteps(const Tensors& in) {
  at::Tensor first = in[1];
  for (int i = 0; i < 2; ++i) {
    const at::Tensor loss = (at::tanh(in[0].mm(first)).mm(in[2]) - 0.5).pow(2).mean();
    first = first - 0.3 * GradOf(loss, first);
  }
  return {(at::tanh(in[3].mm(first)).mm(in[2]) - 0.2).pow(2).mean()};
}

// A third derivative inside the function.
Tensors ThirdDerivative(const Tensors& in) {
  const at::Tensor d1 = GradOf((in[0].pow(5) * in[1]).sum(), in[0]);
  const at::Tensor d2 = GradOf(d1.sum(), in[0]);
  return {GradOf(d2.sum(), in[0]).sum()};
}

struct Case {
  std::string name;
  Tensors (*function)(const Tensors&);
  Tensors inputs;
};

std::vector<Case> Cases() {
  const Tensors network = {Leaf(1, {3, 2}), Leaf(2, {2, 4}), Leaf(3, {4, 1})};
  const auto with = [&](const at::Tensor& more) { return Tensors{network[0], network[1], network[2], more}; };
  return {
      {"penalty", Penalty, network},
      {"forces", ForceLoss, with(Constant(4, {3, 2}))},
      {"hessian_vector_product", HessianVectorProduct, with(Constant(5, {3, 2}))},
      {"inner_steps", InnerSteps, with(Constant(6, {5, 2}))},
      {"third_derivative", ThirdDerivative, {Leaf(7, {4}), Leaf(8, {4})}},
  };
}

class InnerGradientsTest : public ::testing::TestWithParam<Case> {};

TEST_P(InnerGradientsTest, ResultsAndGradientsAreThoseOfEagerAndOfDifferences) {
  const Case& c = GetParam();
  auto compiled = Compiled::Function(c.function, c.inputs, /*order=*/1);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variables arguments = ToVariables(c.inputs);
  const Variable result = (*compiled)(arguments)[0];
  ASSERT_TRUE(autograd::Backward({result}, {}, compiled->ops()).ok());
  const Tensors inputs = Copies(c.inputs);
  const at::Tensor eager = c.function(inputs)[0];
  eager.backward();
  ExpectNear(ToTorch(result.tensor()).reshape({}), eager.detach().reshape({}));
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!inputs[k].requires_grad()) continue;
    SCOPED_TRACE(::testing::Message() << "input " << k);
    const at::Tensor gradient = ToTorch(arguments[k].grad().tensor());
    ExpectNear(gradient, inputs[k].grad());
    const auto result_at = [&](const at::Tensor& moved) {
      Tensors others = inputs;
      others[k] = moved;
      return c.function(others)[0].item<double>();
    };
    ExpectNear(gradient, CentralDifferences(result_at, inputs[k]), kFiniteDifference);
  }
}

// The gradient of a function that computes gradients can itself be differentiated.
TEST_P(InnerGradientsTest, BothOrdersOfTheWholeAreThoseOfEager) {
  ExpectEagerOrders(GetParam().function, GetParam().inputs, 1e-10);
}

INSTANTIATE_TEST_SUITE_P(All, InnerGradientsTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// --- in the loss of a train step ------------------------------------------------------

// Returns energy and positions, so that the loss can compute forces.
struct PotentialModule : torch::nn::Module {
  PotentialModule() {
    first = register_parameter("first", Constant(2, {2, 4}));
    second = register_parameter("second", Constant(3, {4, 1}));
  }
  std::vector<at::Tensor> forward(const at::Tensor& positions) {
    const at::Tensor x = positions.detach().requires_grad_(true);
    const at::Tensor energy = Potential(x, first, second);
    return {energy, -GradOf(energy, x)};
  }

  at::Tensor first, second;
};

at::Tensor LossOfForces(const Tensors& outputs, const Tensors& targets) {
  return (outputs[1] - targets[0]).pow(2).mean() + 0.1 * outputs[0].pow(2);
}

TEST(TrainStepTest, ForcesAreFitted) {
  const at::Tensor positions = Constant(1, {3, 2}), forces = Constant(4, {3, 2});
  aot::CompileOptions options;
  options.loss.function = LossOfForces;
  options.loss.targets = {forces};
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1}};
  options.methods.eval = false;
  const auto model = aot::CompileModule([] { return std::make_shared<PotentialModule>(); }, {positions}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto compiled = Compiled::Load(*model);
  ASSERT_TRUE(compiled.ok()) << compiled.status();

  PotentialModule eager;
  torch::optim::SGD optimizer(eager.parameters(), torch::optim::SGDOptions(0.1));
  Session& session = compiled->session();
  for (int i = 0; i < 5; ++i) {
    const auto results = session.Run("train_step", {ToCotan(positions), ToCotan(forces)});
    ASSERT_TRUE(results.ok()) << results.status();
    optimizer.zero_grad();
    const at::Tensor loss = LossOfForces(eager.forward(positions), {forces});
    loss.backward();
    optimizer.step();
    ExpectNear(ToTorch(results->back()).reshape({}), loss.detach().reshape({}));
  }
  ExpectNear(ToTorch(*session.State("first")), eager.first.detach());
  ExpectNear(ToTorch(*session.State("second")), eager.second.detach());
}

}  // namespace
}  // namespace cotan::testing
