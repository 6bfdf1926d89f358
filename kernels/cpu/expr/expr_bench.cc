// SPDX-License-Identifier: Apache-2.0

// Measures the expression engine on one thread, each case beside a copy of as many bytes (BenchCase::Run()):
//
//   bazel run -c opt //kernels/cpu/expr:expr_bench -- --benchmark_filter=Gelu
//
// Each benchmark's first argument is the number of elements of the domain.
#include <cmath>
#include <cstring>
#include <vector>

#include "benchmark/benchmark.h"
#include "kernels/cpu/expr/bench_case.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cpu {
namespace {

using namespace serialization;  // NOLINT
using cotan::testing::ExprBuilder;

constexpr DType kF32 = DType::kFloat32;

// --- Pointwise ---------------------------------------------------------------

void Memcpy(benchmark::State& state) {
  const int64_t n = state.range(0);
  std::vector<float> from(static_cast<size_t>(n), 1.0f), to(static_cast<size_t>(n));
  for ([[maybe_unused]] auto _ : state) {
    std::memcpy(to.data(), from.data(), static_cast<size_t>(n) * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.counters["ns/el"] = benchmark::Counter(
      static_cast<double>(n) * 1e-9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(n) * 8e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void Binary(benchmark::State& state, ScalarFn fn) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  b.Output(b.Apply(fn, {b.Input(0, kF32), b.Input(1, kF32)}));
  BenchCase(b, {{n}, {n}}, {{n}}).Run(state, n);
}

void Unary(benchmark::State& state, ScalarFn fn) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  b.Output(b.Apply(fn, {b.Input(0, kF32)}));
  BenchCase(b, {{n}}, {{n}}).Run(state, n);
}

void AddBias(benchmark::State& state) {
  const int64_t rows = state.range(0) / 96;
  ExprBuilder b({rows, 96});
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  BenchCase(b, {{rows, 96}, {96}}, {{rows, 96}}).Run(state, rows * 96);
}

// The function; with a second output its derivative, too.
void Gelu(benchmark::State& state, bool derivative) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  const int x = b.Input(0, kF32);
  const int half = b.Constant(kF32, 0.5);
  const int erf = b.Apply(FN_ERF, {b.Mul(x, b.Constant(kF32, 0.70710678))});
  const int cdf = b.Mul(half, b.Add(erf, b.Constant(kF32, 1)));
  b.Output(b.Mul(x, cdf));
  if (derivative) {
    const int density = b.Apply(FN_EXP, {b.Mul(b.Mul(x, x), b.Constant(kF32, -0.5))});
    b.Output(b.Add(cdf, b.Mul(x, b.Mul(density, b.Constant(kF32, 0.3989423)))));
    return BenchCase(b, {{n}}, {{n}, {n}}).Run(state, n);
  }
  BenchCase(b, {{n}}, {{n}}).Run(state, n);
}

void Dropout(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  const int keep = b.Apply(FN_LT, {b.Random(1), b.Constant(kF32, 0.9)});
  b.Output(b.Apply(FN_SELECT, {keep, b.Mul(b.Input(0, kF32), b.Constant(kF32, 1 / 0.9)), b.Constant(kF32, 0)}));
  BenchCase c(b, {{n}}, {{n}});
  c.AddRngState();
  c.Run(state, n);
}

// --- Optimizers, which update their states in place --------------------------

void SgdMomentum(benchmark::State& state) {
  const int64_t n = state.range(0);
  ExprBuilder b({n});
  const int p = b.Input(0, kF32);
  const int grad = b.Add(b.Input(1, kF32), b.Mul(p, b.Input(3, kF32)));
  const int momentum = b.Add(b.Mul(b.Input(2, kF32), b.Input(4, kF32)), grad);
  b.Output(b.Sub(p, b.Mul(momentum, b.Input(5, kF32))));
  b.Output(momentum);
  BenchCase c(b, {{n}, {n}, {n}, {}, {}, {}}, {{n}, {n}});
  c.ShareMemory(0, 0);
  c.ShareMemory(1, 2);
  c.Run(state, n);
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
  BenchCase c(b, {{n}, {n}, {n}, {n}, {}, {}, {}, {}}, {{n}, {n}, {n}});
  c.ShareMemory(0, 0);
  c.ShareMemory(1, 2);
  c.ShareMemory(2, 3);
  c.Run(state, n);
}

// --- Rows. Arguments: elements, row length -----------------------------------

struct Rows {
  explicit Rows(const benchmark::State& state) : width(state.range(1)), rows(state.range(0) / width) {}
  std::vector<int64_t> full() const { return {rows, width}; }
  std::vector<int64_t> reduced() const { return {rows, 1}; }
  int64_t width;
  int64_t rows;
};
constexpr int kLast[] = {1};

void FullSum(benchmark::State& state) {
  const int64_t n = state.range(0);
  const int reduce[] = {0};
  ExprBuilder b({n}, reduce);
  b.Output(b.Sum(b.Input(0, kF32)));
  BenchCase(b, {{n}}, {{1}}).Run(state, n);
}

void Softmax(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int x = b.Input(0, kF32);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Div(e, b.Sum(e)));
  BenchCase(b, {r.full()}, {r.full()}).Run(state, r.rows * r.width);
}

void SoftmaxBackward(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int g = b.Input(0, kF32), y = b.Input(1, kF32);
  const int product = b.Mul(g, y);
  b.Output(b.Sub(product, b.Mul(y, b.Sum(product))));
  BenchCase(b, {r.full(), r.full()}, {r.full()}).Run(state, r.rows * r.width);
}

// Rows of 24 of 4 heads, with a mask for all heads, as BERT's attention has them; a row without a true value is zeros.
struct MaskedRows {
  explicit MaskedRows(const benchmark::State& state) : batch(state.range(0) / (4 * 24 * 24)) {}
  std::vector<int64_t> full() const { return {batch, 4, 24, 24}; }
  std::vector<int64_t> mask() const { return {batch, 1, 24, 24}; }
  int64_t elements() const { return batch * 4 * 24 * 24; }
  int64_t batch;
};
constexpr int kLastOfFour[] = {3};

void MaskedSoftmax(benchmark::State& state) {
  const MaskedRows r(state);
  ExprBuilder b(r.full(), kLastOfFour);
  const int low = b.Constant(kF32, -INFINITY), zero = b.Constant(kF32, 0);
  const int scaled = b.Mul(b.Input(0, kF32), b.Constant(kF32, 0.25));
  const int masked = b.Apply(FN_SELECT, {b.Input(1, DType::kBool), scaled, low});
  const int max = b.Max(masked);
  const int is_empty = b.Apply(FN_EQ, {max, low});
  const int e = b.Apply(FN_EXP, {b.Sub(masked, b.Apply(FN_SELECT, {is_empty, zero, max}))});
  b.Output(b.Div(e, b.Apply(FN_SELECT, {is_empty, b.Constant(kF32, 1), b.Sum(e)})));
  BenchCase c(b, {r.full()}, {r.full()});
  c.AddFlags(r.mask());
  c.Run(state, r.elements());
}

void MaskedSoftmaxBackward(benchmark::State& state) {
  const MaskedRows r(state);
  ExprBuilder b(r.full(), kLastOfFour);
  const int zero = b.Constant(kF32, 0);
  const int y = b.Input(1, kF32);
  const int product = b.Mul(b.Input(0, kF32), y);
  const int difference = b.Sub(product, b.Mul(y, b.Sum(product)));
  b.Output(b.Mul(b.Apply(FN_SELECT, {b.Input(2, DType::kBool), difference, zero}), b.Constant(kF32, 0.25)));
  BenchCase c(b, {r.full(), r.full()}, {r.full()});
  c.AddFlags(r.mask());
  c.Run(state, r.elements());
}

// From the probabilities, with the gradient of the loss at the target's index.
void LogSoftmaxBackward(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int target = b.Cast(b.Input(1, DType::kInt64), DType::kInt32);
  const int hit = b.Apply(FN_EQ, {b.Iota(DType::kInt32, 1), target});
  const int g = b.Apply(FN_SELECT, {hit, b.Constant(kF32, -1.0 / static_cast<double>(r.rows)), b.Constant(kF32, 0)});
  b.Output(b.Sub(g, b.Mul(b.Input(0, kF32), b.Sum(g))));
  BenchCase c(b, {r.full()}, {r.full()});
  c.AddIndices(r.reduced(), r.width);
  c.Run(state, r.rows * r.width);
}

// The loss of each row, and the logarithm of the sum of exponentials for the backward.
void CrossEntropy(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int x = b.Input(0, kF32);
  const int max = b.Max(x);
  const int sum = b.Sum(b.Apply(FN_EXP, {b.Sub(x, max)}));
  const int log = b.Add(b.Apply(FN_LOG, {sum}), max);
  const int hit = b.Apply(FN_EQ, {b.Iota(DType::kInt64, 1), b.Input(1, DType::kInt64)});
  b.Output(b.Sub(log, b.Sum(b.Apply(FN_SELECT, {hit, x, b.Constant(kF32, 0)}))));
  b.Output(log);
  BenchCase c(b, {r.full()}, {r.reduced(), r.reduced()});
  c.AddIndices(r.reduced(), r.width);
  c.Run(state, r.rows * r.width);
}

void CrossEntropyBackward(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int probability = b.Apply(FN_EXP, {b.Sub(b.Input(0, kF32), b.Input(1, kF32))});
  const int hit = b.Apply(FN_EQ, {b.Iota(DType::kInt64, 1), b.Input(2, DType::kInt64)});
  const int target = b.Apply(FN_SELECT, {hit, b.Constant(kF32, 1), b.Constant(kF32, 0)});
  b.Output(b.Mul(b.Sub(probability, target), b.Constant(kF32, 1.0 / static_cast<double>(r.rows))));
  BenchCase c(b, {r.full(), r.reduced()}, {r.full()});
  c.AddIndices(r.reduced(), r.width);
  c.Run(state, r.rows * r.width);
}

// The loss and its gradient in one expression, as fusion makes it of cross entropy in a training step.
void CrossEntropyStep(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int x = b.Input(0, kF32);
  const int zero = b.Constant(kF32, 0), weight = b.Constant(kF32, 1.0 / static_cast<double>(r.rows));
  const int index = b.Cast(b.Input(1, DType::kInt64), DType::kInt32);
  const int hit = b.Apply(FN_EQ, {b.Iota(DType::kInt32, 1), index});
  const int gradient = b.Apply(FN_SELECT, {hit, weight, zero});
  const int total = b.Sum(gradient);
  const int shifted = b.Sub(x, b.Max(x));
  const int logarithm = b.Sub(shifted, b.Apply(FN_LOG, {b.Sum(b.Apply(FN_EXP, {shifted}))}));
  b.Output(b.Apply(FN_NEG, {b.Sum(b.Apply(FN_SELECT, {hit, logarithm, zero}))}));
  b.Output(b.Sub(gradient, b.Mul(b.Apply(FN_EXP, {logarithm}), total)));
  BenchCase c(b, {r.full()}, {r.reduced(), r.full()});
  c.AddIndices(r.reduced(), r.width);
  c.Run(state, r.rows * r.width);
}

void LayerNorm(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int x = b.Input(0, kF32);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(r.width));
  const int mean = b.Mul(b.Sum(x), scale);
  const int centered = b.Sub(x, mean);
  const int variance = b.Mul(b.Sum(b.Mul(centered, centered)), scale);
  const int rstd = b.Apply(FN_RSQRT, {b.Add(variance, b.Constant(kF32, 1e-5))});
  b.Output(b.Add(b.Mul(b.Mul(centered, rstd), b.Input(1, kF32)), b.Input(2, kF32)));
  b.Output(mean);
  b.Output(rstd);
  BenchCase(b, {r.full(), {r.width}, {r.width}}, {r.full(), r.reduced(), r.reduced()}).Run(state, r.rows * r.width);
}

// The gradient of the input.
void LayerNormBackward(benchmark::State& state) {
  const Rows r(state);
  ExprBuilder b(r.full(), kLast);
  const int g = b.Mul(b.Input(0, kF32), b.Input(4, kF32));
  const int rstd = b.Input(3, kF32);
  const int normal = b.Mul(b.Sub(b.Input(1, kF32), b.Input(2, kF32)), rstd);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(r.width));
  const int a = b.Mul(b.Sum(g), scale);
  const int c = b.Mul(b.Sum(b.Mul(g, normal)), scale);
  b.Output(b.Mul(rstd, b.Sub(b.Sub(g, a), b.Mul(normal, c))));
  BenchCase(b, {r.full(), r.full(), r.reduced(), r.reduced(), {r.width}}, {r.full()}).Run(state, r.rows * r.width);
}

// The gradients of weight and bias.
void LayerNormWeights(benchmark::State& state) {
  const Rows r(state);
  const int reduce[] = {0};
  ExprBuilder b(r.full(), reduce);
  const int g = b.Input(0, kF32);
  const int normal = b.Mul(b.Sub(b.Input(1, kF32), b.Input(2, kF32)), b.Input(3, kF32));
  b.Output(b.Sum(b.Mul(g, normal)));
  b.Output(b.Sum(g));
  BenchCase(b, {r.full(), r.full(), r.reduced(), r.reduced()}, {{1, r.width}, {1, r.width}})
      .Run(state, r.rows * r.width);
}

// --- Batch normalization. Arguments: elements, channels, elements of an image's channel; 0 of these: channels
// innermost, as in NHWC ---

struct Channels {
  explicit Channels(const benchmark::State& state) : channels(state.range(1)), area(state.range(2)) {
    const int64_t images = state.range(0) / channels / (area == 0 ? 1 : area);
    full = area == 0 ? std::vector<int64_t>{images, channels} : std::vector<int64_t>{images, channels, area};
    reduced = area == 0 ? std::vector<int64_t>{1, channels} : std::vector<int64_t>{1, channels, 1};
    reduce = area == 0 ? std::vector<int>{0} : std::vector<int>{0, 2};
    count = images * channels * (area == 0 ? 1 : area);
    scale = static_cast<double>(channels) / static_cast<double>(count);
  }
  int64_t channels;
  int64_t area;
  int64_t count = 0;
  double scale = 0;  // 1 / elements per channel
  std::vector<int64_t> full;
  std::vector<int64_t> reduced;
  std::vector<int> reduce;
};

void BatchNormStatistics(benchmark::State& state) {
  const Channels c(state);
  ExprBuilder b(c.full, c.reduce);
  const int x = b.Input(0, kF32);
  const int scale = b.Constant(kF32, c.scale);
  const int mean = b.Mul(b.Sum(x), scale);
  const int centered = b.Sub(x, mean);
  b.Output(mean);
  b.Output(b.Mul(b.Sum(b.Mul(centered, centered)), scale));
  BenchCase(b, {c.full}, {c.reduced, c.reduced}).Run(state, c.count);
}

enum class Activation { kNone, kRelu, kSilu };

// Inputs x, mean, rstd, weight, bias.
void BatchNorm(benchmark::State& state, Activation activation) {
  const Channels c(state);
  ExprBuilder b(c.full);
  const int normal = b.Mul(b.Sub(b.Input(0, kF32), b.Input(1, kF32)), b.Mul(b.Input(2, kF32), b.Input(3, kF32)));
  const int y = b.Add(normal, b.Input(4, kF32));
  if (activation == Activation::kNone) b.Output(y);
  if (activation == Activation::kRelu) b.Output(b.Apply(FN_RELU, {y}));
  if (activation == Activation::kSilu) b.Output(b.Mul(y, b.Apply(FN_LOGISTIC, {y})));
  BenchCase(b, {c.full, c.reduced, c.reduced, c.reduced, c.reduced}, {c.full}).Run(state, c.count);
}

// Inputs gradient, x, mean, rstd, weight, bias. Outputs the gradients of x, weight and bias.
void BatchNormBackward(benchmark::State& state, Activation activation) {
  const Channels c(state);
  ExprBuilder b(c.full, c.reduce);
  const int rstd = b.Input(3, kF32), weight = b.Input(4, kF32);
  const int normal = b.Mul(b.Sub(b.Input(1, kF32), b.Input(2, kF32)), rstd);
  int g = b.Input(0, kF32);
  if (activation != Activation::kNone) {
    const int y = b.Add(b.Mul(normal, weight), b.Input(5, kF32));
    const int zero = b.Constant(kF32, 0), one = b.Constant(kF32, 1);
    if (activation == Activation::kRelu) {
      g = b.Apply(FN_SELECT, {b.Apply(FN_LE, {y, zero}), zero, g});
    } else {
      const int s = b.Apply(FN_LOGISTIC, {y});
      g = b.Mul(g, b.Mul(s, b.Add(one, b.Mul(y, b.Sub(one, s)))));
    }
  }
  const int sum = b.Sum(g), product = b.Sum(b.Mul(g, normal));
  const int scale = b.Constant(kF32, c.scale);
  const int rest = b.Sub(b.Sub(g, b.Mul(sum, scale)), b.Mul(normal, b.Mul(product, scale)));
  b.Output(b.Mul(rest, b.Mul(rstd, weight)));
  b.Output(product);
  b.Output(sum);
  BenchCase(b, {c.full, c.full, c.reduced, c.reduced, c.reduced, c.reduced}, {c.full, c.reduced, c.reduced})
      .Run(state, c.count);
}

// --- Images that are channels-last, beside row-major ones. Arguments: elements, channels, elements of an image's
// channel ---

struct Images {
  explicit Images(const benchmark::State& state)
      : count(state.range(0)), sizes({count / (state.range(1) * state.range(2)), state.range(2), state.range(1)}) {}
  int64_t count;
  std::vector<int64_t> sizes;
};

void AddTransposed(benchmark::State& state) {
  const Images images(state);
  ExprBuilder b(images.sizes);
  b.Output(b.Add(b.Input(0, kF32), b.Input(1, kF32)));
  BenchCase c(b, {images.sizes}, {images.sizes});
  c.AddTransposed(images.sizes);
  c.Run(state, images.count);
}

void SquaredErrorOfTransposed(benchmark::State& state) {
  const Images images(state);
  ExprBuilder b(images.sizes, {0, 1, 2});
  const int difference = b.Sub(b.Input(0, kF32), b.Input(1, kF32));
  b.Output(b.Sum(b.Mul(difference, difference)));
  b.Output(difference);
  BenchCase c(b, {images.sizes}, {{1, 1, 1}, images.sizes});
  c.AddTransposed(images.sizes);
  c.Run(state, images.count);
}

// --- Sizes -------------------------------------------------------------------

constexpr int64_t kTiny = 64, kInCache = 4096, kOutOfCache = 16 << 20;

void RowSizes(benchmark::internal::Benchmark* b) {
  for (const int64_t width : {8, 24, 32, 50, 64, 128, 768, 4096}) b->Args({1 << 18, width});
  b->Args({1 << 20, 50'000});
}
void ChannelSizes(benchmark::internal::Benchmark* b) {
  b->Args({1 << 18, 16, 0})->Args({1 << 20, 64, 0})->Args({1 << 20, 512, 0})->Args({1 << 22, 64, 0});
  b->Args({1 << 18, 16, 784})->Args({1 << 20, 64, 256})->Args({1 << 20, 512, 49})->Args({1 << 22, 64, 3136});
}
void ImageSizes(benchmark::internal::Benchmark* b) {
  b->Args({3 << 16, 3, 4096})->Args({1 << 18, 64, 784})->Args({1 << 20, 128, 1024})->Args({1 << 22, 512, 1024});
}
void FlatSizes(benchmark::internal::Benchmark* b) { b->Arg(kTiny)->Arg(kInCache)->Arg(1 << 18)->Arg(4 << 20); }

BENCHMARK(Memcpy)->Apply(FlatSizes)->Arg(kOutOfCache);
BENCHMARK_CAPTURE(Binary, Add, FN_ADD)->Apply(FlatSizes)->Arg(kOutOfCache);
BENCHMARK_CAPTURE(Binary, Mul, FN_MUL)->Apply(FlatSizes)->Arg(kOutOfCache);
BENCHMARK(AddBias)->Apply(FlatSizes);
BENCHMARK_CAPTURE(Unary, Exp, FN_EXP)->Arg(kInCache);
BENCHMARK_CAPTURE(Unary, Log, FN_LOG)->Arg(kInCache);
BENCHMARK_CAPTURE(Unary, Tanh, FN_TANH)->Arg(kInCache);
BENCHMARK_CAPTURE(Unary, Erf, FN_ERF)->Arg(kInCache);
BENCHMARK_CAPTURE(Unary, Logistic, FN_LOGISTIC)->Arg(kInCache);
BENCHMARK_CAPTURE(Unary, Sqrt, FN_SQRT)->Arg(kInCache);
BENCHMARK_CAPTURE(Unary, Reciprocal, FN_RECIPROCAL)->Arg(kInCache);
BENCHMARK_CAPTURE(Gelu, Forward, false)->Apply(FlatSizes);
BENCHMARK_CAPTURE(Gelu, AndDerivative, true)->Apply(FlatSizes);
BENCHMARK(Dropout)->Apply(FlatSizes);
BENCHMARK(SgdMomentum)->Apply(FlatSizes);
BENCHMARK(Adam)->Apply(FlatSizes);
BENCHMARK(FullSum)->Apply(FlatSizes);
BENCHMARK(Softmax)->Apply(RowSizes);
BENCHMARK(SoftmaxBackward)->Apply(RowSizes);
BENCHMARK(MaskedSoftmax)->Arg(18432)->Arg(1 << 18);
BENCHMARK(MaskedSoftmaxBackward)->Arg(18432)->Arg(1 << 18);
BENCHMARK(LogSoftmaxBackward)->Args({1 << 15, 512})->Args({1 << 18, 512});
BENCHMARK(CrossEntropy)->Apply(RowSizes);
BENCHMARK(CrossEntropyBackward)->Apply(RowSizes);
BENCHMARK(CrossEntropyStep)->Apply(RowSizes);
BENCHMARK(LayerNorm)->Apply(RowSizes);
BENCHMARK(LayerNormBackward)->Apply(RowSizes);
BENCHMARK(LayerNormWeights)->Apply(RowSizes);
BENCHMARK(BatchNormStatistics)->Apply(ChannelSizes);
BENCHMARK_CAPTURE(BatchNorm, Plain, Activation::kNone)->Apply(ChannelSizes);
BENCHMARK_CAPTURE(BatchNorm, Relu, Activation::kRelu)->Apply(ChannelSizes);
BENCHMARK_CAPTURE(BatchNorm, Silu, Activation::kSilu)->Apply(ChannelSizes);
BENCHMARK_CAPTURE(BatchNormBackward, Plain, Activation::kNone)->Apply(ChannelSizes);
BENCHMARK_CAPTURE(BatchNormBackward, Relu, Activation::kRelu)->Apply(ChannelSizes);
BENCHMARK_CAPTURE(BatchNormBackward, Silu, Activation::kSilu)->Apply(ChannelSizes);
BENCHMARK(AddTransposed)->Apply(ImageSizes);
BENCHMARK(SquaredErrorOfTransposed)->Apply(ImageSizes);

}  // namespace
}  // namespace cotan::cpu
