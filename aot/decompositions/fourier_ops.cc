// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/fourier_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/unfold_backward.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <cmath>
#include <numbers>
#include <optional>
#include <vector>

#include "aot/capture/dispatch_keys.h"
#include "aot/capture/effects.h"
#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

constexpr int64_t kMaxSize = 4096;

struct Complex {
  at::Tensor real;
  at::Tensor imaginary;  // undefined if it is 0
};

// Returns cos(2 pi j k / n), or sin, times weight(j), as a constant [rows, columns] of the graph.
template <typename Weight>
at::Tensor Table(int64_t rows, int64_t columns, int64_t n, bool sine, at::ScalarType dtype, Weight weight) {
  c10::impl::ExcludeDispatchKeyGuard guard(kTracingKeys);
  at::Tensor table = at::empty({rows, columns}, at::TensorOptions(at::kDouble));
  double* out = table.mutable_data_ptr<double>();
  for (int64_t j = 0; j < rows; ++j) {
    for (int64_t k = 0; k < columns; ++k) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      out[j * columns + k] = weight(j) * (sine ? std::sin(angle) : std::cos(angle));
    }
  }
  return table.to(dtype);
}

void CheckSize(const char* op, int64_t size) {
  if (size <= kMaxSize) return;
  CurrentRecorder()->ReportUnsupported(
      op, c10::str("a transform of ", size, " elements; at most ", kMaxSize, " are computed as matrix products"));
}

at::Tensor Along(const at::Tensor& x, int64_t dim, const at::Tensor& table) {
  return at::matmul(x.transpose(dim, -1), table).transpose(dim, -1);
}

// Transforms along `dim` and keeps the first `count` elements.
Complex Transform(const char* op, const Complex& x, int64_t dim, int64_t count, bool forward) {
  const int64_t n = x.real.size(dim);
  CheckSize(op, n);
  const auto one = [](int64_t) { return 1.0; };
  const at::ScalarType dtype = x.real.scalar_type();
  const at::Tensor cosine = Table(n, count, n, false, dtype, one);
  const at::Tensor sine = Table(n, count, n, true, dtype, one);
  const at::Tensor signed_sine = forward ? -sine : sine;
  if (!x.imaginary.defined()) return {Along(x.real, dim, cosine), Along(x.real, dim, signed_sine)};
  return {Along(x.real, dim, cosine) - Along(x.imaginary, dim, signed_sine),
          Along(x.real, dim, signed_sine) + Along(x.imaginary, dim, cosine)};
}

// Normalization 0: none, 1: by the square root of the number of elements, 2: by the number.
double ScaleOf(int64_t normalization, double elements) {
  if (normalization == 0) return 1;
  return normalization == 1 ? 1 / std::sqrt(elements) : 1 / elements;
}

Complex PartsOf(const at::Tensor& x) {
  const at::Tensor parts = at::view_as_real(x.resolve_conj());
  return {parts.select(-1, 0), parts.select(-1, 1)};
}

at::Tensor Joined(const Complex& x, double scale) {
  const auto part = [scale](const at::Tensor& of) { return scale == 1 ? of.contiguous() : (of * scale).contiguous(); };
  return at::complex(part(x.real), part(x.imaginary));
}

at::Tensor RealToComplex(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, bool onesided) {
  Complex x = {self, at::Tensor()};
  double elements = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    const int64_t n = self.size(dims[i]);
    const bool halved = onesided && i + 1 == dims.size();
    x = Transform("aten._fft_r2c.default", x, dims[i], halved ? n / 2 + 1 : n, /*forward=*/true);
    elements *= static_cast<double>(n);
  }
  return Joined(x, ScaleOf(normalization, elements));
}

at::Tensor ComplexToComplex(const at::Tensor& self, c10::SymIntArrayRef dims, int64_t normalization, bool forward) {
  Complex x = PartsOf(self);
  double elements = 1;
  for (const int64_t dim : C10_AS_INTARRAYREF_SLOW(dims)) {
    const int64_t n = self.size(dim);
    x = Transform("aten._fft_c2c.default", x, dim, n, forward);
    elements *= static_cast<double>(n);
  }
  return Joined(x, ScaleOf(normalization, elements));
}

// Inverts a transform of real numbers: the last of `dims` has the first half of `last_size` elements; the
// others are their conjugates.
at::Tensor ComplexToReal(const at::Tensor& self, at::IntArrayRef dims, int64_t normalization, c10::SymInt last_size) {
  constexpr const char* kOp = "aten._fft_c2r.default";
  Complex x = PartsOf(self);
  double elements = 1;
  for (size_t i = 0; i + 1 < dims.size(); ++i) {
    const int64_t n = self.size(dims[i]);
    x = Transform(kOp, x, dims[i], n, /*forward=*/false);
    elements *= static_cast<double>(n);
  }
  const int64_t dim = dims.back();
  const int64_t n = last_size.expect_int();
  CheckSize(kOp, n);
  const int64_t given = n / 2 + 1;
  TORCH_CHECK(self.size(dim) >= given, "irfft of ", n, " elements needs ", given, " elements of the spectrum, got ",
              self.size(dim));
  const auto twice = [n](int64_t k) { return k == 0 || 2 * k == n ? 1.0 : 2.0; };
  const at::ScalarType dtype = x.real.scalar_type();
  const at::Tensor result = Along(x.real.narrow(dim, 0, given), dim, Table(given, n, n, false, dtype, twice)) -
                            Along(x.imaginary.narrow(dim, 0, given), dim, Table(given, n, n, true, dtype, twice));
  return result * ScaleOf(normalization, elements * static_cast<double>(n));
}

// Returns the window in the middle of n elements. Without a window all of its elements are 1.
at::Tensor PaddedWindow(const std::optional<at::Tensor>& window, int64_t width, int64_t n, at::ScalarType dtype) {
  const bool is_given = window.has_value() && window->defined();
  const at::Tensor values = is_given ? *window : at::ones({width}, at::TensorOptions(dtype));
  TORCH_CHECK(values.dim() == 1 && values.size(0) == width, "istft: the window has sizes ", values.sizes(),
              ", expected a vector of ", width);
  const int64_t before = (n - width) / 2;
  return width == n ? values : at::constant_pad_nd(values, {before, n - width - before});
}

// Adds the windowed frames up and divides by the sum of the squared windows, which LibTorch reads.
at::Tensor InverseShortTime(const at::Tensor& self, int64_t n, std::optional<int64_t> hop_length,
                            std::optional<int64_t> win_length, const std::optional<at::Tensor>& window, bool center,
                            bool normalized, std::optional<bool> onesided, std::optional<int64_t> length,
                            bool return_complex) {
  const int64_t hop = hop_length.value_or(n / 4), width = win_length.value_or(n);
  TORCH_CHECK(self.is_complex() && (self.dim() == 2 || self.dim() == 3) && self.numel() > 0, "istft: the input has ",
              "sizes ", self.sizes(), " and dtype ", self.scalar_type(), "; it takes two or three complex dimensions");
  TORCH_CHECK(0 < hop && hop <= width && width <= n, "istft: expected 0 < hop_length <= win_length <= n_fft, got ", hop,
              ", ", width, ", ", n);
  const bool is_half = onesided.value_or(self.size(-2) != n);
  TORCH_CHECK(self.size(-2) == (is_half ? n / 2 + 1 : n) && !(is_half && return_complex), "istft: the input has ",
              self.size(-2), " frequencies for n_fft = ", n);
  const at::Tensor padded = PaddedWindow(window, width, n, c10::toRealValueType(self.scalar_type()));
  TORCH_CHECK(return_complex || !padded.is_complex(), "istft: a complex window needs return_complex");
  const at::Tensor spectrum = (self.dim() == 2 ? self.unsqueeze(0) : self).transpose(1, 2);
  const int64_t frames = spectrum.size(1), count = n + hop * (frames - 1);
  const int64_t normalization = normalized ? 1 : 2;  // by the root of n, by n
  const at::Tensor parts = return_complex ? at::_fft_c2c(spectrum, {2}, normalization, /*forward=*/false)
                                          : at::_fft_c2r(spectrum.slice(2, 0, n / 2 + 1), {2}, normalization, n);
  const at::Tensor sum = at::unfold_backward(parts * padded, {spectrum.size(0), count}, 1, n, hop);
  const at::Tensor squares = (padded * padded).expand({1, frames, n});
  const at::Tensor weight = at::unfold_backward(squares, {1, count}, 1, n, hop);
  const int64_t start = center ? n / 2 : 0;
  const int64_t end = length.has_value() ? start + *length : count - start;
  const at::Tensor envelope = weight.slice(1, start, end);
  Assert(at::ge(at::abs(envelope), 1e-11), "istft", "the windows do not cover all elements of the result");
  at::Tensor result = sum.slice(1, start, end) / envelope;
  if (self.dim() == 2) result = result.squeeze(0);
  return end > count ? at::constant_pad_nd(result, {0, end - count}) : result;
}

}  // namespace

void AddFourierRewrites(torch::Library& library) {
  library.impl("_fft_r2c", RealToComplex);
  library.impl("_fft_c2c", ComplexToComplex);
  library.impl("_fft_c2r", ComplexToReal);
  library.impl("istft", InverseShortTime);
}

}  // namespace cotan::aot
