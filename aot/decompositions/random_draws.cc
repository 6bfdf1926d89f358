// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/random_draws.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <numbers>

#include "aot/capture/recorder.h"
#include "base/philox.h"

namespace cotan::aot {
namespace {

// Draws have 24 random bits, and pairs of draws have 48.
constexpr uint64_t kMaxRangeOfOneDraw = uint64_t{1} << 24;
constexpr uint64_t kMaxIntegerRange = uint64_t{1} << 48;
// f32, in which draws are scaled, has all integers up to this one.
constexpr int64_t kMaxExactInteger = int64_t{1} << 24;

at::Tensor RandomUniformCpu(const at::Tensor& state, c10::SymIntArrayRef size, int64_t slice) {
  at::Tensor result = at::empty(C10_AS_INTARRAYREF_SLOW(size), at::TensorOptions(at::kFloat));
  const int64_t* words = state.const_data_ptr<int64_t>();
  const uint64_t seed = static_cast<uint64_t>(words[0]);
  const uint64_t first = static_cast<uint64_t>(words[1]) + static_cast<uint64_t>(slice);
  float* out = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < result.numel(); ++i) {
    const uint64_t index = static_cast<uint64_t>(i);
    out[i] = UniformFloat(Philox(seed, first + index / 4).lane[index % 4]);
  }
  return result;
}

// Returns integers in [low, high) by two draws per element.
at::Tensor WideIntegers(at::IntArrayRef sizes, at::ScalarType dtype, int64_t low, uint64_t range) {
  const at::Tensor fine = Draw(sizes).to(at::kDouble) * (1 / static_cast<double>(kMaxRangeOfOneDraw));
  const at::Tensor draws = Draw(sizes).to(at::kDouble) + fine;
  return (at::floor(draws * static_cast<double>(range)).to(at::kLong) + low).to(dtype);
}

}  // namespace

at::Tensor Draw(at::IntArrayRef sizes) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("cotan::random_uniform", "").typed<decltype(RandomUniformCpu)>();
  Recorder& recorder = *CurrentRecorder();
  const int64_t count = c10::multiply_integers(sizes);
  if (count == 0) return at::zeros(sizes, at::kFloat);
  const int64_t slice = recorder.TakeRandomSlice(count);
  return op.call(recorder.rng_state, c10::fromIntArrayRefSlow(sizes), slice);
}

at::Tensor Uniform(at::IntArrayRef sizes, at::ScalarType dtype, double from, double to) {
  at::Tensor result = Draw(sizes);
  if (dtype == at::kDouble) result = result.to(dtype);
  if (to - from != 1) result = result * (to - from);
  if (from != 0) result = result + from;
  return result.to(dtype);
}

at::Tensor Normal(at::IntArrayRef sizes, at::ScalarType dtype) {
  const at::Tensor radius = at::sqrt(at::log1p(-Draw(sizes)) * -2.0);
  const at::Tensor angle = Draw(sizes) * (2 * std::numbers::pi);
  return (radius * at::cos(angle)).to(dtype);
}

at::Tensor Integers(at::IntArrayRef sizes, at::ScalarType dtype, int64_t low, int64_t high, const char* op) {
  const uint64_t range = high > low ? static_cast<uint64_t>(high) - static_cast<uint64_t>(low) : 0;
  if (range > kMaxIntegerRange) CurrentRecorder()->ReportUnsupported(op, "its range is wider than 2^48");
  if (range > kMaxRangeOfOneDraw) return WideIntegers(sizes, dtype, low, range);
  const at::Tensor offsets = at::floor(Draw(sizes) * static_cast<double>(range));
  const bool is_exact = low >= -kMaxExactInteger && high <= kMaxExactInteger;
  return ((is_exact ? offsets : offsets.to(at::kLong)) + low).to(dtype);
}

at::Tensor Bernoulli(at::IntArrayRef sizes, at::ScalarType dtype, double p) { return at::lt(Draw(sizes), p).to(dtype); }

void DefineRandomUniform(torch::Library& library) {
  library.def("random_uniform(Tensor state, SymInt[] size, int slice) -> Tensor");
  library.impl("random_uniform", torch::dispatch(c10::DispatchKey::CPU, RandomUniformCpu));
  library.impl("random_uniform", torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
}

}  // namespace cotan::aot
