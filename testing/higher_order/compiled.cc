// SPDX-License-Identifier: Apache-2.0

#include "testing/higher_order/compiled.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"

namespace cotan::testing {
namespace {

std::vector<int64_t> SizesOf(const at::Tensor& tensor) { return tensor.sizes().vec(); }

template <typename T>
Tensor CopyAs(const at::Tensor& tensor, at::ScalarType type) {
  const at::Tensor dense = tensor.detach().to(type).contiguous();
  const T* data = dense.const_data_ptr<T>();
  return *Tensor::From<T>(std::vector<T>(data, data + dense.numel()), SizesOf(dense));
}

// Returns the weights of the gradients in the second order.
at::Tensor WeightOf(size_t gradient, const at::Tensor& like) {
  return Constant(static_cast<int>(900 + gradient), like.sizes());
}

bool RequiresGrad(const at::Tensor& tensor) { return tensor.requires_grad(); }

}  // namespace

Tensor ToCotan(const at::Tensor& tensor) {
  if (tensor.is_floating_point()) return CopyAs<double>(tensor, at::kDouble);
  return CopyAs<int64_t>(tensor, at::kLong);
}

at::Tensor ToTorch(const Tensor& tensor) {
  const std::vector<int64_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
  if (IsFloatingPoint(tensor.dtype())) return torch::tensor(*tensor.ToVector<double>(), torch::kDouble).reshape(sizes);
  return torch::tensor(*tensor.ToVector<int64_t>(), torch::kLong).reshape(sizes);
}

Variable ToVariable(const at::Tensor& tensor) {
  Variable variable(ToCotan(tensor));
  if (tensor.requires_grad()) {
    EXPECT_TRUE(variable.RequiresGrad(true).ok());
  }
  return variable;
}

Variables ToVariables(const Tensors& tensors) {
  Variables variables;
  for (const at::Tensor& tensor : tensors) variables.push_back(ToVariable(tensor));
  return variables;
}

Tensors Copies(const Tensors& tensors) {
  Tensors copies;
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.detach().clone().set_requires_grad(tensor.requires_grad()));
  }
  return copies;
}

at::Tensor Constant(int seed, at::IntArrayRef sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  const at::Tensor numbers = (torch::arange(count) * 37 + (seed * 61 + 13)).remainder(101);
  return (0.2 + numbers.to(torch::kDouble) / 101).reshape(sizes);
}

at::Tensor Leaf(int seed, at::IntArrayRef sizes) { return Constant(seed, sizes).set_requires_grad(true); }

absl::StatusOr<Compiled> Compiled::Load(const aot::CompiledModel& model) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::LoadBytes(model.bytes()));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
  Compiled compiled;
  compiled.session_ = std::make_unique<Session>(std::move(session));
  COTAN_ASSIGN_OR_RETURN(cotan::Function function, cotan::Function::Create(*compiled.session_, "forward"));
  compiled.function_ = std::make_unique<cotan::Function>(std::move(function));
  return compiled;
}

absl::StatusOr<Compiled> Compiled::Function(const aot::TensorFunction& function, const Tensors& examples, int order) {
  aot::CompileOptions options;
  options.order = order;
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(function, examples, options));
  return Load(model);
}

Variables Compiled::operator()(const Variables& arguments) {
  const absl::StatusOr<std::vector<FunctionResult>> results = function_->Call(arguments);
  EXPECT_TRUE(results.ok()) << results.status();
  Variables variables;
  if (!results.ok()) return variables;
  for (const FunctionResult& result : *results) variables.push_back(std::get<Variable>(result));
  return variables;
}

TwoOrders EagerOrders(const aot::TensorFunction& function, const Tensors& given, const Tensors& given_tangents) {
  const Tensors inputs = Copies(given);
  Tensors sources, roots, tangents;
  std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(sources), RequiresGrad);
  const Tensors outputs = function(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    tangents.push_back(given_tangents[i].detach().clone().set_requires_grad(true));
  }
  TwoOrders orders;
  orders.first = torch::autograd::grad(roots, sources, tangents, true, true, true);
  Tensors second_roots, weights;
  for (size_t j = 0; j < orders.first.size(); ++j) {
    if (!orders.first[j].defined() || !orders.first[j].requires_grad()) continue;
    second_roots.push_back(orders.first[j]);
    weights.push_back(WeightOf(j, orders.first[j]));
  }
  sources.insert(sources.end(), tangents.begin(), tangents.end());
  orders.second.resize(sources.size());
  if (!second_roots.empty()) orders.second = torch::autograd::grad(second_roots, sources, weights, true, false, true);
  return orders;
}

absl::StatusOr<TwoOrders> CompiledOrders(Compiled& compiled, const Tensors& given, const Tensors& given_tangents) {
  const Variables inputs = ToVariables(given);
  Variables sources, roots, tangents;
  for (const Variable& input : inputs) {
    if (input.requires_grad()) sources.push_back(input);
  }
  const Variables outputs = compiled(inputs);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].requires_grad()) continue;
    roots.push_back(outputs[i]);
    tangents.push_back(*Variable::Leaf(ToCotan(given_tangents[i])));
  }
  COTAN_ASSIGN_OR_RETURN(const Variables first,
                         autograd::GradWithGraph(roots, sources, tangents, compiled.ops(), true));
  Variables second_roots;
  std::vector<Tensor> weights;
  TwoOrders orders;
  for (size_t j = 0; j < first.size(); ++j) {
    orders.first.push_back(first[j].defined() ? ToTorch(first[j].tensor()) : at::Tensor());
    if (!first[j].defined() || !first[j].requires_grad()) continue;
    second_roots.push_back(first[j]);
    weights.push_back(ToCotan(WeightOf(j, orders.first.back())));
  }
  sources.insert(sources.end(), tangents.begin(), tangents.end());
  orders.second.resize(sources.size());
  if (second_roots.empty()) return orders;
  COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> second,
                         autograd::Grad(second_roots, sources, weights, compiled.ops(), {.allow_unused = true}));
  for (size_t j = 0; j < second.size(); ++j) {
    if (second[j].defined()) orders.second[j] = ToTorch(second[j]);
  }
  return orders;
}

void ExpectNear(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
  if (!actual.defined() || !expected.defined()) {
    const at::Tensor& other = actual.defined() ? actual : expected;
    if (other.defined()) {
      EXPECT_EQ(other.abs().max().item<double>(), 0) << "an undefined gradient, and " << other;
    }
    return;
  }
  ASSERT_EQ(actual.sizes(), expected.sizes());
  if (expected.numel() == 0) return;
  const double largest = std::max(1.0, expected.abs().max().item<double>());
  const double error = (actual - expected).abs().max().item<double>();
  EXPECT_LE(error, tolerance * largest) << actual << "\ninstead of\n" << expected;
}

void ExpectEagerOrders(const aot::TensorFunction& function, const Tensors& inputs, double tolerance) {
  Tensors tangents;
  const Tensors outputs = function(Copies(inputs));
  for (size_t i = 0; i < outputs.size(); ++i)
    tangents.push_back(Constant(static_cast<int>(500 + i), outputs[i].sizes()));
  auto compiled = Compiled::Function(function, inputs, /*order=*/2);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const absl::StatusOr<TwoOrders> actual = CompiledOrders(*compiled, inputs, tangents);
  ASSERT_TRUE(actual.ok()) << actual.status();
  const TwoOrders expected = EagerOrders(function, inputs, tangents);
  ASSERT_EQ(actual->first.size(), expected.first.size());
  for (size_t i = 0; i < expected.first.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "first order, gradient " << i);
    ExpectNear(actual->first[i], expected.first[i], tolerance);
  }
  ASSERT_EQ(actual->second.size(), expected.second.size());
  for (size_t i = 0; i < expected.second.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "second order, gradient " << i);
    ExpectNear(actual->second[i], expected.second[i], tolerance);
  }
}

at::Tensor CentralDifferences(const std::function<double(const at::Tensor&)>& function, const at::Tensor& x) {
  std::vector<double> differences;
  for (int64_t i = 0; i < x.numel(); ++i) {
    double ends[2];
    for (const int side : {0, 1}) {
      at::Tensor moved = x.detach().clone();
      moved.view({-1})[i] += side == 0 ? -kDifferenceStep : kDifferenceStep;
      ends[side] = function(moved.set_requires_grad(x.requires_grad()));
    }
    differences.push_back((ends[1] - ends[0]) / (2 * kDifferenceStep));
  }
  return torch::tensor(differences, torch::kDouble).reshape(x.sizes());
}

}  // namespace cotan::testing
