// SPDX-License-Identifier: Apache-2.0

// Losses of gradients that come from a differentiable backward (CompileOptions::order = 2): forces, products with a
// Hessian, inner steps. Beside LibTorch eager with create_graph and central differences, in f64.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "testing/higher_order/compiled.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

constexpr double kLikeEager = kModelGradient * std::numeric_limits<double>::epsilon();

// Compiles a function; the test fails if it cannot be compiled.
Compiled CompileOf(const aot::TensorFunction& function, const Tensors& examples, int order) {
  absl::StatusOr<Compiled> compiled = Compiled::Function(function, examples, order);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

// Returns the gradient of a scalar, with history.
Variable GradOf(const Variable& value, const Variable& x, TensorOps& ops) {
  const auto gradients = autograd::GradWithGraph({value}, {x}, {}, ops);
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  return gradients.ok() ? (*gradients)[0] : Variable();
}
at::Tensor EagerGradOf(const at::Tensor& value, const at::Tensor& x) {
  return torch::autograd::grad({value}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true)[0];
}

// --- forces --------------------------------------------------------------------------

// The energy of atoms at the rows of x: a sum of Gaussians of the distances of all pairs.
struct PairEnergy : torch::nn::Module {
  PairEnergy() {
    width = register_parameter("width", Constant(1, {4}));
    weight = register_parameter("weight", Constant(2, {4}));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor squares = (x.unsqueeze(0) - x.unsqueeze(1)).pow(2).sum(2);
    return (torch::exp(-squares.unsqueeze(2) * width) * weight).sum();
  }

  at::Tensor width, weight;
};

// Of the gradient of an energy and of the forces that it should give.
Tensors ForceLoss(const Tensors& in) { return {(-in[0] - in[1]).pow(2).mean()}; }

at::Tensor EagerForceLoss(PairEnergy& energy, const at::Tensor& x, const at::Tensor& forces) {
  return ForceLoss({EagerGradOf(energy.forward(x), x), forces})[0];
}

// Expects the gradient of the loss of forces with respect to a parameter to be that of eager and of differences.
void ExpectForceGradient(const std::string& parameter, const Variable& actual, const at::Tensor& eager,
                         const at::Tensor& x, const at::Tensor& forces) {
  SCOPED_TRACE(parameter);
  ASSERT_TRUE(actual.grad().defined());
  const at::Tensor gradient = ToTorch(actual.grad().tensor());
  ExpectNear(gradient, eager.grad(), kLikeEager);
  const auto loss_at = [&](const at::Tensor& moved) {
    PairEnergy energy;
    energy.named_parameters()[parameter].set_data(moved.detach());
    return EagerForceLoss(energy, x, forces).item<double>();
  };
  ExpectNear(gradient, CentralDifferences(loss_at, eager), kFiniteDifference);
}

TEST(RecordedGradientsTest, ALossOfForcesTrainsTheParametersOfTheEnergy) {
  const at::Tensor x = Leaf(5, {4, 3}), forces = Constant(6, {4, 3});
  aot::CompileOptions options;
  options.order = 2;
  options.methods.eval = false;
  const auto model = aot::CompileModule([] { return std::make_shared<PairEnergy>(); }, {x}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto energy = Compiled::Load(*model);
  ASSERT_TRUE(energy.ok()) << energy.status();
  Compiled loss = CompileOf(ForceLoss, {Leaf(7, {4, 3}), forces}, /*order=*/1);
  const Variable positions = ToVariable(x);
  const Variable gradient = GradOf((*energy)({positions})[0], positions, energy->ops());
  const Variable value = loss({gradient, ToVariable(forces)})[0];
  const absl::Status status = autograd::Backward({value}, {}, energy->ops());
  ASSERT_TRUE(status.ok()) << status;

  PairEnergy eager;
  const at::Tensor eager_loss = EagerForceLoss(eager, x, forces);
  eager_loss.backward();
  ExpectNear(ToTorch(value.tensor()), eager_loss.detach(), kLikeEager);
  for (const char* parameter : {"width", "weight"}) {
    ExpectForceGradient(parameter, *energy->session().Parameter(parameter), eager.named_parameters()[parameter], x,
                        forces);
  }
  const at::Tensor at_positions = ToTorch(positions.grad().tensor());
  ExpectNear(at_positions, x.grad(), kLikeEager);
  const auto loss_at = [&](const at::Tensor& moved) { return EagerForceLoss(eager, moved, forces).item<double>(); };
  ExpectNear(at_positions, CentralDifferences(loss_at, x), kFiniteDifference);
}

// --- products with a Hessian ---------------------------------------------------------

// Rosenbrock's function of a vector.
Tensors Rosenbrock(const Tensors& in) {
  const at::Tensor left = in[0].slice(0, 0, -1), right = in[0].slice(0, 1);
  return {(100 * (right - left.pow(2)).pow(2) + (1 - left).pow(2)).sum()};
}

TEST(RecordedGradientsTest, ProductsWithAHessianAreDifferencesOfTheCompiledGradient) {
  const at::Tensor x = Leaf(1, {6});
  Compiled f = CompileOf(Rosenbrock, {x}, /*order=*/2);
  const Variable input = ToVariable(x);
  const Variable gradient = GradOf(f({input})[0], input, f.ops());
  const at::Tensor eager = EagerGradOf(Rosenbrock({x})[0], x);
  ExpectNear(ToTorch(gradient.tensor()), eager.detach(), kLikeEager);
  const auto gradient_at = [&](const at::Tensor& moved) {
    const Variable point = *Variable::Leaf(ToCotan(moved));
    const auto gradients = autograd::Grad({f({point})[0]}, {point}, {}, f.ops());
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? ToTorch((*gradients)[0]) : at::Tensor();
  };
  for (const int seed : {2, 3}) {
    const at::Tensor v = Constant(seed, {6}) - 0.7;
    const auto product = autograd::Grad({gradient}, {input}, {ToCotan(v)}, f.ops(), {.retain_graph = true});
    ASSERT_TRUE(product.ok()) << product.status();
    const at::Tensor actual = ToTorch((*product)[0]);
    ExpectNear(actual, torch::autograd::grad({eager}, {x}, {v}, /*retain_graph=*/true)[0], kLikeEager);
    const at::Tensor step = kDifferenceStep * v;
    const at::Tensor differences =
        (gradient_at(x.detach() + step) - gradient_at(x.detach() - step)) / (2 * kDifferenceStep);
    ExpectNear(actual, differences, kFiniteDifference);
  }
}

// --- inner steps -----------------------------------------------------------------------

// The error of a layer on rows x, weights w and targets t.
Tensors TaskLoss(const Tensors& in) { return {(at::tanh(in[0].mm(in[1])).sum(1) - in[2]).pow(2).mean()}; }
// A step of gradient descent.
Tensors Descent(const Tensors& in) { return {in[0] - 0.3 * in[1]}; }

struct Task {
  at::Tensor x, t;
};

// The loss of `query` after two steps on `support` (MAML).
at::Tensor EagerMetaLoss(const at::Tensor& start, const Task& support, const Task& query) {
  at::Tensor w = start;
  for (int i = 0; i < 2; ++i) w = Descent({w, EagerGradOf(TaskLoss({support.x, w, support.t})[0], w)})[0];
  return TaskLoss({query.x, w, query.t})[0];
}

TEST(RecordedGradientsTest, AMetaGradientGoesThroughInnerSteps) {
  const Task support = {Constant(1, {5, 3}), Constant(2, {5})}, query = {Constant(3, {5, 3}), Constant(4, {5})};
  const at::Tensor start = Leaf(5, {3, 2});
  Compiled loss = CompileOf(TaskLoss, {support.x, start, support.t}, /*order=*/2);
  Compiled descent = CompileOf(Descent, {start, Leaf(6, {3, 2})}, /*order=*/1);
  const Variable first = ToVariable(start);
  Variable w = first;
  for (int i = 0; i < 2; ++i) {
    const Variable value = loss({ToVariable(support.x), w, ToVariable(support.t)})[0];
    w = descent({w, GradOf(value, w, loss.ops())})[0];
  }
  const Variable outer = loss({ToVariable(query.x), w, ToVariable(query.t)})[0];
  const auto gradients = autograd::Grad({outer}, {first}, {}, loss.ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const at::Tensor actual = ToTorch((*gradients)[0]);

  const at::Tensor eager = EagerMetaLoss(start, support, query);
  ExpectNear(ToTorch(outer.tensor()), eager.detach(), kLikeEager);
  ExpectNear(actual, torch::autograd::grad({eager}, {start})[0], kLikeEager);
  const auto loss_at = [&](const at::Tensor& moved) { return EagerMetaLoss(moved, support, query).item<double>(); };
  ExpectNear(actual, CentralDifferences(loss_at, start), kFiniteDifference);
}

}  // namespace
}  // namespace cotan::testing
