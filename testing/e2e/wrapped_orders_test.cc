// SPDX-License-Identifier: Apache-2.0

// Second derivatives of functions of wrapper types, beside LibTorch eager, and what `cotan verify` checks of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/wrapped_function.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "runtime/tools/verify.h"
#include "testing/e2e/wrapped_function_cases.h"
#include "wrappers/jagged.h"
#include "wrappers/low_rank.h"
#include "wrappers/quantized.h"

namespace cotan {
namespace {

using aot::WrappedTensor;
using ::testing::HasSubstr;
using testing::ToCotan;

using QuantizedTensor = Quantized<at::Tensor>;
using JaggedTensor = Jagged<at::Tensor>;
using LowRankOfQuantized = LowRank<at::Tensor, QuantizedTensor>;

at::Tensor Leaf(at::IntArrayRef sizes) { return torch::rand(sizes).add(0.2).requires_grad_(true); }

QuantizedTensor MakeQuantized(at::IntArrayRef sizes, int64_t axis) {
  const at::Tensor scale = axis < 0 ? torch::rand({}) : torch::rand({sizes[static_cast<size_t>(axis)]});
  return {.data = torch::randint(-3, 3, sizes, at::kChar), .scale = scale.requires_grad_(true), .axis = axis};
}

Variable ToVariable(const at::Tensor& tensor) {
  return tensor.requires_grad() ? *Variable::Leaf(ToCotan(tensor)) : Variable(ToCotan(tensor));
}

// The tensors of one side: results that require grad, and parts of the arguments that do.
template <typename T>
struct Ends {
  std::vector<T> roots, sources;

  void AddRoots(const std::vector<T>& tensors) { Add(tensors, roots); }
  void AddSources(const std::vector<T>& tensors) { Add(tensors, sources); }
  static void Add(const std::vector<T>& from, std::vector<T>& to) {
    for (const T& tensor : from) {
      if (tensor.requires_grad()) to.push_back(tensor);
    }
  }
};

void ExpectNear(const Tensor& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (expected.defined()) testing::ExpectNear(actual, expected, what);
}

// Expects equal first gradients of the ends, and equal gradients of the sum of their squares.
void ExpectEqualOrders(const Ends<at::Tensor>& eager, const Ends<Variable>& compiled, TensorOps& ops) {
  ASSERT_EQ(compiled.roots.size(), eager.roots.size());
  ASSERT_EQ(compiled.sources.size(), eager.sources.size());
  std::vector<at::Tensor> tangents;
  std::vector<Variable> our_tangents;
  for (const at::Tensor& root : eager.roots) {
    tangents.push_back(at::arange(root.numel(), at::kFloat).mul(0.1).add(0.5).view(root.sizes()));
    our_tangents.emplace_back(ToCotan(tangents.back()));
  }
  const auto first = torch::autograd::grad(eager.roots, eager.sources, tangents, true, true);
  const auto our_first = autograd::GradWithGraph(compiled.roots, compiled.sources, our_tangents, ops);
  ASSERT_TRUE(our_first.ok()) << our_first.status();
  std::vector<at::Tensor> differentiable, weights;
  std::vector<Variable> our_differentiable;
  std::vector<Tensor> our_weights;
  for (size_t i = 0; i < first.size(); ++i) {
    ExpectNear((*our_first)[i].tensor(), first[i], absl::StrCat("gradient ", i));
    ASSERT_EQ((*our_first)[i].requires_grad(), first[i].requires_grad()) << i;
    if (!first[i].requires_grad()) continue;
    differentiable.push_back(first[i]);
    weights.push_back(2 * first[i].detach());
    our_differentiable.push_back((*our_first)[i]);
    our_weights.push_back(ToCotan(weights.back()));
  }
  ASSERT_FALSE(differentiable.empty());
  const auto second = torch::autograd::grad(differentiable, eager.sources, weights, false, false, true);
  const auto our_second =
      autograd::Grad(our_differentiable, compiled.sources, our_weights, ops, {.allow_unused = true});
  ASSERT_TRUE(our_second.ok()) << our_second.status();
  for (size_t i = 0; i < second.size(); ++i) {
    ExpectNear((*our_second)[i], second[i], absl::StrCat("second gradient ", i));
  }
}

// Compares both orders of `callable` on `examples`, and verifies the artifact.
template <typename Callable, typename... Arguments>
void CompareOrders(Callable callable, const std::tuple<Arguments...>& examples) {
  aot::CompileOptions options;
  options.order = 2;
  const auto model = aot::CompileWrapped(callable, examples, options);
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<WrappedTensor> eager_arguments, eager_results;
  std::apply([&](const auto&... example) { (eager_arguments.push_back(Wrap(example)), ...); }, examples);
  aot::internal::WrapResult(std::apply(callable, examples), eager_results);
  Ends<at::Tensor> eager;
  for (const WrappedTensor& argument : eager_arguments) eager.AddSources(argument.Tensors());
  for (const WrappedTensor& result : eager_results) eager.AddRoots(result.Tensors());

  const auto program = *Program::LoadBytes(std::string(model->bytes()));
  Session session = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  Function forward = *Function::Create(session, "forward");
  std::vector<WrappedVariable> arguments;
  for (const WrappedTensor& argument : eager_arguments) arguments.push_back(argument.Map(ToVariable));
  const auto results = forward.CallWrapped(arguments);
  ASSERT_TRUE(results.ok()) << results.status();
  Ends<Variable> compiled;
  for (const WrappedVariable& argument : arguments) compiled.AddSources(argument.Tensors());
  for (const WrappedResult& result : *results) compiled.AddRoots(std::get<WrappedVariable>(result).Tensors());
  ExpectEqualOrders(eager, compiled, session.ops());

  std::ostringstream lines;
  const auto verified = tools::Verify(program, {.kernels = &CpuKernels(), .threads = 1}, lines);
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_EQ(verified->failed, 0) << lines.str();
  EXPECT_EQ(verified->not_checked, 0) << lines.str();
  EXPECT_THAT(lines.str(), HasSubstr("ok   backward.backward result "));
}

TEST(WrappedOrdersTest, AQuantizedWeight) {
  torch::manual_seed(1);
  for (const int64_t axis : {-1, 0, 1}) {
    CompareOrders([](const at::Tensor& x,
                     const QuantizedTensor& weight) { return at::matmul(x, weight.Dequantize()).sin().square(); },
                  std::make_tuple(Leaf({4, 3}), MakeQuantized({3, 5}, axis)));
  }
}

TEST(WrappedOrdersTest, WrappersNestAndAreResults) {
  torch::manual_seed(2);
  const auto apply = [](const at::Tensor& x, const LowRankOfQuantized& weight) {
    LowRankOfQuantized changed = weight;
    changed.a.scale = weight.a.scale.square();
    changed.b.scale = weight.b.scale * weight.a.scale.sum();
    return std::make_tuple(x.matmul(weight.a.Dequantize()).matmul(weight.b.Dequantize()), changed);
  };
  CompareOrders(apply, std::make_tuple(Leaf({4, 6}), LowRankOfQuantized{.a = MakeQuantized({6, 2}, 1),
                                                                        .b = MakeQuantized({2, 5}, -1)}));
}

TEST(WrappedOrdersTest, JaggedRows) {
  torch::manual_seed(3);
  const auto scaled = [](const JaggedTensor& rows, const at::Tensor& factor) {
    return JaggedTensor{.values = (rows.values * factor).exp(), .offsets = rows.offsets};
  };
  CompareOrders(scaled,
                std::make_tuple(JaggedTensor{.values = Leaf({7, 2}), .offsets = torch::tensor({0, 3, 3, 7}, at::kLong)},
                                Leaf({2})));
}

TEST(WrappedOrdersTest, WrittenPartsAreRefused) {
  aot::CompileOptions options;
  options.order = 2;
  const QuantizedTensor weight = MakeQuantized({3, 5}, 0);
  const auto model = aot::CompileWrapped(
      [](const at::Tensor& x, const QuantizedTensor& written) {
        at::Tensor data = written.data;
        data.add_(1);
        return at::matmul(x, written.Dequantize());
      },
      std::make_tuple(Leaf({4, 3}), weight), options);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented) << model.status();
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("input.1.data"));
}

}  // namespace
}  // namespace cotan
