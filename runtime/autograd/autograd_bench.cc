// SPDX-License-Identifier: Apache-2.0

// Overhead of autograd: views, nodes and in-place writes on tensors so small that the arithmetic is negligible.
//
//   bazel run //runtime/autograd:autograd_bench
#include <cstdint>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"

namespace cotan::autograd {
namespace {

Tensor SmallTensor() { return *Tensor::Zeros(DType::kFloat32, {2, 3}); }

TensorOps& Ops() {
  static TensorOps& ops = *new TensorOps(CpuKernels());
  return ops;
}

void BM_Variable(benchmark::State& state) {
  const Tensor tensor = SmallTensor();
  for (auto _ : state) benchmark::DoNotOptimize(Variable(tensor));
}
BENCHMARK(BM_Variable);

void BM_ViewUnrecorded(benchmark::State& state) {
  const Variable x(SmallTensor());
  const std::vector<ViewStep> steps = {view::Select{.dim = 0, .index = 1}};
  for (auto _ : state) benchmark::DoNotOptimize(x.View(steps));
}
BENCHMARK(BM_ViewUnrecorded);

void BM_View(benchmark::State& state) {
  const Variable x = *Variable::Leaf(SmallTensor());
  const Edge keep = *x.GradientEdge();
  const std::vector<ViewStep> steps = {view::Select{.dim = 0, .index = 1}};
  for (auto _ : state) benchmark::DoNotOptimize(x.View(steps));
}
BENCHMARK(BM_View);

void BM_AsStrided(benchmark::State& state) {
  const Variable x = *Variable::Leaf(SmallTensor());
  const Edge keep = *x.GradientEdge();
  const StridedLayout layout = {.sizes = {3}, .strides = {1}, .offset = 3};
  for (auto _ : state) benchmark::DoNotOptimize(x.AsStrided(layout));
}
BENCHMARK(BM_AsStrided);

void BM_CopyInPlace(benchmark::State& state) {
  Variable x(SmallTensor());
  const Variable source(SmallTensor());
  for (auto _ : state) benchmark::DoNotOptimize(x.CopyInPlace(source, Ops()));
}
BENCHMARK(BM_CopyInPlace);

// A view and its backward into the leaf's grad.
void BM_ViewAndBackward(benchmark::State& state) {
  Variable x = *Variable::Leaf(SmallTensor());
  const std::vector<ViewStep> steps = {view::Select{.dim = 0, .index = 1}};
  const Tensor gradient = *Tensor::Zeros(DType::kFloat32, {3});
  for (auto _ : state) {
    const Variable row = *x.View(steps);
    benchmark::DoNotOptimize(Backward({row}, {gradient}, Ops()));
  }
}
BENCHMARK(BM_ViewAndBackward);

// An operation with an empty backward.
void BM_FunctionAndBackward(benchmark::State& state) {
  Variable x = *Variable::Leaf(SmallTensor());
  const Tensor gradient = SmallTensor();
  for (auto _ : state) {
    const auto backward = [](BackwardContext&, absl::Span<Tensor> incoming) -> absl::StatusOr<Gradients> {
      return Gradients{std::move(incoming[0])};
    };
    const Variable y = (*ApplyFunction("f", {x}, {x.tensor()}, backward))[0];
    benchmark::DoNotOptimize(Backward({y}, {gradient}, Ops()));
  }
}
BENCHMARK(BM_FunctionAndBackward);

// Cost per node of a long chain.
void BM_ChainOfViews(benchmark::State& state) {
  const Variable x = *Variable::Leaf(SmallTensor());
  const Tensor gradient = SmallTensor();
  constexpr int kLength = 1000;
  for (auto _ : state) {
    Variable y = x;
    for (int i = 0; i < kLength; ++i) y = *y.View({});
    benchmark::DoNotOptimize(Backward({y}, {gradient}, Ops()));
  }
  state.SetItemsProcessed(state.iterations() * kLength);
}
BENCHMARK(BM_ChainOfViews);

}  // namespace
}  // namespace cotan::autograd

BENCHMARK_MAIN();
