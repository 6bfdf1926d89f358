// SPDX-License-Identifier: Apache-2.0

// Measures sorts of lines, ns per element: of random f32, of i64 below 2708, the nodes of a graph, and the largest 16
// of f32.
//
//   bazel run //kernels/cpu/sort:sort_bench
#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/sort/sort.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using testing::HostTensor;

// Sorts lines of state.range(0) elements, 16 Ki elements in all or one line.
void Run(benchmark::State& state, DType dtype, double limit, int64_t count) {
  const int64_t length = state.range(0);
  const int64_t lines = std::max<int64_t>(1, 16384 / length);
  std::mt19937_64 random(1);
  HostTensor x = testing::RandomTensor(dtype, testing::DenseLayout({lines, length}), random, 0, limit);
  const DimVector results = {lines, std::min(count, length)};
  HostTensor values(dtype, results), indices(DType::kInt64, results);
  serialization::Op op;
  op.mutable_sort()->set_dim(1);
  op.mutable_sort()->set_descending(count < length);
  const std::vector<TensorSpec> inputs = {x.spec()}, outputs = {values.spec(), indices.spec()};
  const auto kernel = MakeSort({.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}});
  if (!kernel.ok()) return state.SkipWithError(kernel.status().ToString().c_str());
  std::vector<char> scratch((*kernel)->scratch_bytes() + 64);
  void* const in = x.data();
  void* const out[] = {values.data(), indices.data()};
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize((*kernel)->Run({.inputs = &in, .outputs = out, .scratch = scratch.data()}));
  }
  using Counter = benchmark::Counter;
  state.counters["ns/element"] =
      Counter(static_cast<double>(lines * length) * 1e-9, Counter::kIsIterationInvariantRate | Counter::kInvert);
}

constexpr int64_t kAll = INT64_MAX;

void Float32(benchmark::State& state) { Run(state, DType::kFloat32, 1, kAll); }
void Nodes(benchmark::State& state) { Run(state, DType::kInt64, 2708, kAll); }
void Largest16(benchmark::State& state) { Run(state, DType::kFloat32, 1, 16); }

void Lengths(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t length : {32, 64, 96, 128, 192, 256, 512, 1024, 10556, 262144}) benchmark->Arg(length);
}

BENCHMARK(Float32)->Apply(Lengths);
BENCHMARK(Nodes)->Apply(Lengths);
BENCHMARK(Largest16)->Apply(Lengths);

}  // namespace
}  // namespace cotan::cpu
