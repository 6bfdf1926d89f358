// SPDX-License-Identifier: Apache-2.0

// Measures the expression engine against a copy of the same memory:
//
//   bazel run -c opt //kernels/cpu/expr:expr_bench -- --benchmark_filter=Gelu
//
// Each benchmark's argument is the number of elements of the domain. Counters: ns per element, and bytes of
// operands read or written per nanosecond (GB/s).
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cpu {
namespace {

using namespace serialization;  // NOLINT
using cotan::testing::ExprBuilder;
using cotan::testing::FillRandom;
using cotan::testing::HostTensor;

constexpr DType kF32 = DType::kFloat32;

// An op with its operands; `in` and `out` are sizes of f32 tensors.
class Case {
 public:
  Case(const ExprBuilder& builder, std::vector<std::vector<int64_t>> in, std::vector<std::vector<int64_t>> out)
      : op_(builder.Build()) {
    for (const auto& sizes : in) Add(inputs_, kF32, sizes);
    for (const auto& sizes : out) Add(outputs_, kF32, sizes);
  }

  void AddRngState() {
    Add(inputs_, DType::kInt64, {2});
    inputs_.back()->SetValues({3, 4});
  }

  void Run(benchmark::State& state, int64_t elements) {
    const auto kernel = MakeExpr({op_, Specs(inputs_), Specs(outputs_), {}, 1});
    if (!kernel.ok()) return state.SkipWithError(kernel.status().ToString().c_str());
    std::vector<void*> in = Data(inputs_), out = Data(outputs_);
    std::vector<char> scratch((*kernel)->scratch_bytes() + 64);
    const KernelArgs args = {in.data(), out.data(),
                             scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64)};
    for (auto _ : state) {
      if (!(*kernel)->Run(args).ok()) return state.SkipWithError("run failed");
      benchmark::ClobberMemory();
    }
    double bytes = 0;
    for (const auto* tensors : {&inputs_, &outputs_}) {
      for (const auto& tensor : *tensors) bytes += static_cast<double>(tensor->bytes().size());
    }
    state.counters["ns/el"] =
        benchmark::Counter(static_cast<double>(elements) * 1e-9,
                           benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
    state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  }

 private:
  using Tensors = std::vector<std::unique_ptr<HostTensor>>;

  void Add(Tensors& tensors, DType dtype, absl::Span<const int64_t> sizes) {
    tensors.push_back(std::make_unique<HostTensor>(dtype, sizes));
    if (dtype == kF32) FillRandom(*tensors.back(), random_, 0.1, 1);
  }
  std::vector<TensorSpec> Specs(const Tensors& tensors) {
    std::vector<TensorSpec>& specs = specs_.emplace_back();
    for (const auto& tensor : tensors) specs.push_back(tensor->spec());
    return specs;
  }
  static std::vector<void*> Data(const Tensors& tensors) {
    std::vector<void*> data;
    for (const auto& tensor : tensors) data.push_back(tensor->data());
    return data;
  }

  const Op op_;
  Tensors inputs_, outputs_;
  std::vector<std::vector<TensorSpec>> specs_;
  std::mt19937_64 random_{1};
};

void Memcpy(benchmark::State& state) {
  const int64_t n = state.range(0);
  std::vector<float> from(static_cast<size_t>(n), 1.0f), to(static_cast<size_t>(n));
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), static_cast<size_t>(n) * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.counters["ns/el"] = benchmark::Counter(
      static_cast<double>(n) * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(n) * 8e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void Add(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  Case(b, {{n}, {n}}, {{n}}).Run(state, n);
}

void AddBias(benchmark::State& state) {
  const int64_t rows = state.range(0) / 96;
  ExprBuilder b({rows, 96});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  Case(b, {{rows, 96}, {96}}, {{rows, 96}}).Run(state, rows * 96);
}

void Gelu(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  const int x = b.Input(0, kF32);
  const int erf = b.Apply(FN_ERF, {b.Mul(x, b.Constant(kF32, 0.70710678))});
  b.Output(b.Mul(b.Mul(x, b.Constant(kF32, 0.5)), b.Add(erf, b.Constant(kF32, 1))));
  Case(b, {{n}}, {{n}}).Run(state, n);
}

void Exp(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  b.Output(b.Apply(FN_EXP, {b.Input(0, kF32)}));
  Case(b, {{n}}, {{n}}).Run(state, n);
}

void Tanh(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  b.Output(b.Apply(FN_TANH, {b.Input(0, kF32)}));
  Case(b, {{n}}, {{n}}).Run(state, n);
}

// Arguments: elements, row length.
void Softmax(benchmark::State& state) {
  const int64_t width = state.range(1);
  const int64_t rows = state.range(0) / width;
  const int reduce[] = {1};
  ExprBuilder b({rows, width}, reduce);
  const int x = b.Input(0, kF32);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Div(e, b.Sum(e)));
  Case(b, {{rows, width}}, {{rows, width}}).Run(state, rows * width);
}

void LayerNorm(benchmark::State& state) {
  const int64_t width = state.range(1);
  const int64_t rows = state.range(0) / width;
  const int reduce[] = {1};
  ExprBuilder b({rows, width}, reduce);
  const int x = b.Input(0, kF32);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(width));
  const int mean = b.Mul(b.Sum(x), scale);
  const int centered = b.Sub(x, mean);
  const int variance = b.Mul(b.Sum(b.Mul(centered, centered)), scale);
  const int rstd = b.Apply(FN_RSQRT, {b.Add(variance, b.Constant(kF32, 1e-5))});
  b.Output(b.Add(b.Mul(b.Mul(centered, rstd), b.Input(1, kF32)), b.Input(2, kF32)));
  b.Output(mean);
  b.Output(rstd);
  Case(b, {{rows, width}, {width}, {width}}, {{rows, width}, {rows, 1}, {rows, 1}}).Run(state, rows * width);
}

void LayerNormBackward(benchmark::State& state) {
  const int64_t width = state.range(1);
  const int64_t rows = state.range(0) / width;
  const int reduce[] = {1};
  ExprBuilder b({rows, width}, reduce);
  const int g = b.Mul(b.Input(0, kF32), b.Input(4, kF32));
  const int rstd = b.Input(3, kF32);
  const int normal = b.Mul(b.Sub(b.Input(1, kF32), b.Input(2, kF32)), rstd);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(width));
  const int a = b.Mul(b.Sum(g), scale);
  const int c = b.Mul(b.Sum(b.Mul(g, normal)), scale);
  b.Output(b.Mul(rstd, b.Sub(b.Sub(g, a), b.Mul(normal, c))));
  Case(b, {{rows, width}, {rows, width}, {rows, 1}, {rows, 1}, {width}}, {{rows, width}}).Run(state, rows * width);
}

// Channels innermost, as in NHWC. Arguments: elements, channels.
void BatchNormStatistics(benchmark::State& state) {
  const int64_t channels = state.range(1);
  const int64_t rows = state.range(0) / channels;
  const int reduce[] = {0};
  ExprBuilder b({rows, channels}, reduce);
  const int x = b.Input(0, kF32);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(rows));
  const int mean = b.Mul(b.Sum(x), scale);
  const int centered = b.Sub(x, mean);
  b.Output(mean);
  b.Output(b.Mul(b.Sum(b.Mul(centered, centered)), scale));
  Case(b, {{rows, channels}}, {{1, channels}, {1, channels}}).Run(state, rows * channels);
}

void BatchNormRelu(benchmark::State& state) {
  const int64_t channels = state.range(1);
  const int64_t rows = state.range(0) / channels;
  ExprBuilder b({rows, channels});
  const int rstd = b.Apply(FN_RSQRT, {b.Add(b.Input(2, kF32), b.Constant(kF32, 1e-5))});
  const int normal = b.Mul(b.Sub(b.Input(0, kF32), b.Input(1, kF32)), b.Mul(rstd, b.Input(3, kF32)));
  b.Output(b.Apply(FN_RELU, {b.Add(normal, b.Input(4, kF32))}));
  Case(b, {{rows, channels}, {channels}, {channels}, {channels}, {channels}}, {{rows, channels}})
      .Run(state, rows * channels);
}

void SgdMomentum(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  const int p = b.Input(0, kF32);
  const int grad = b.Add(b.Input(1, kF32), b.Mul(p, b.Input(3, kF32)));
  const int momentum = b.Add(b.Mul(b.Input(2, kF32), b.Input(4, kF32)), grad);
  b.Output(b.Sub(p, b.Mul(momentum, b.Input(5, kF32))));
  b.Output(momentum);
  Case(b, {{n}, {n}, {n}, {}, {}, {}}, {{n}, {n}}).Run(state, n);
}

void Adam(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  const int p = b.Input(0, kF32), g = b.Input(1, kF32), m = b.Input(2, kF32), v = b.Input(3, kF32);
  const int lr = b.Input(4, kF32), beta1 = b.Input(5, kF32), beta2 = b.Input(6, kF32), t = b.Input(7, kF32);
  const int one = b.Constant(kF32, 1);
  const int m1 = b.Add(b.Mul(m, beta1), b.Mul(g, b.Sub(one, beta1)));
  const int v1 = b.Add(b.Mul(v, beta2), b.Mul(b.Mul(g, g), b.Sub(one, beta2)));
  const int step = b.Div(lr, b.Sub(one, b.Apply(FN_POW, {beta1, t})));
  const int correction = b.Apply(FN_SQRT, {b.Sub(one, b.Apply(FN_POW, {beta2, t}))});
  const int denominator = b.Add(b.Div(b.Apply(FN_SQRT, {v1}), correction), b.Constant(kF32, 1e-8));
  b.Output(b.Sub(p, b.Mul(step, b.Div(m1, denominator))));
  b.Output(m1);
  b.Output(v1);
  Case(b, {{n}, {n}, {n}, {n}, {}, {}, {}, {}}, {{n}, {n}, {n}}).Run(state, n);
}

void Dropout(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  const int keep = b.Apply(FN_LT, {b.Random(1), b.Constant(kF32, 0.9)});
  b.Output(b.Apply(FN_SELECT, {keep, b.Mul(b.Input(0, kF32), b.Constant(kF32, 1 / 0.9)), b.Constant(kF32, 0)}));
  Case c(b, {{n}}, {{n}});
  c.AddRngState();
  c.Run(state, n);
}

constexpr int64_t kTiny = 64, kInCache = 4096, kOutOfCache = 16 << 20;

BENCHMARK(Memcpy)->Arg(kTiny)->Arg(kInCache)->Arg(kOutOfCache);
BENCHMARK(Add)->Arg(kTiny)->Arg(kInCache)->Arg(kOutOfCache);
BENCHMARK(AddBias)->Arg(kInCache)->Arg(kOutOfCache);
BENCHMARK(Exp)->Arg(kInCache);
BENCHMARK(Tanh)->Arg(kInCache);
BENCHMARK(Gelu)->Arg(kInCache)->Arg(kOutOfCache);
BENCHMARK(Softmax)
    ->Args({kInCache, 32})
    ->Args({1 << 18, 64})
    ->Args({1 << 18, 512})
    ->Args({1 << 18, 4096})
    ->Args({1 << 20, 50'000});
BENCHMARK(LayerNorm)->Args({1 << 18, 128})->Args({1 << 18, 768});
BENCHMARK(LayerNormBackward)->Args({1 << 18, 128})->Args({1 << 18, 768});
BENCHMARK(BatchNormStatistics)->Args({1 << 18, 16})->Args({1 << 22, 64});
BENCHMARK(BatchNormRelu)->Args({1 << 18, 16})->Args({1 << 22, 64});
BENCHMARK(SgdMomentum)->Arg(kTiny)->Arg(kInCache)->Arg(4 << 20);
BENCHMARK(Adam)->Arg(kTiny)->Arg(kInCache)->Arg(4 << 20);
BENCHMARK(Dropout)->Arg(kInCache)->Arg(4 << 20);

}  // namespace
}  // namespace cotan::cpu
