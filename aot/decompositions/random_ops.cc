// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/random_ops.h"

#include <ATen/ExpandUtils.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Generator.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/le.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/real.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <torch/library.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <optional>
#include <tuple>
#include <vector>

#include "aot/capture/recorder.h"
#include "aot/decompositions/random_draws.h"

namespace cotan::aot {
namespace {

using OptionalGenerator = std::optional<at::Generator>;
using OptionalDtype = std::optional<at::ScalarType>;
using OptionalLayout = std::optional<at::Layout>;
using OptionalDevice = std::optional<at::Device>;
using OptionalFormat = std::optional<at::MemoryFormat>;

// Returns `draws` with the strides that LibTorch gives to results of *_like(self).
at::Tensor Like(const at::Tensor& self, OptionalFormat format, const at::Tensor& draws) {
  const bool preserves = format.value_or(at::MemoryFormat::Preserve) == at::MemoryFormat::Preserve;
  if (preserves && self.strides() == draws.strides()) return draws;
  return at::empty_like(self, draws.options(), format).copy_(draws);
}

// Throws unless elements of the dtype can hold draws from a continuous distribution.
void CheckContinuous(const at::Tensor& self, const char* op) {
  TORCH_CHECK(self.is_floating_point() || self.is_complex() || self.numel() == 0, op, ": 'self' has dtype ",
              self.scalar_type(), ", but the draws need a floating point dtype");
}

// Throws if elements are drawn from a range of integers that is empty.
void CheckRange(at::IntArrayRef sizes, const c10::SymInt& low, const c10::SymInt& high) {
  TORCH_CHECK(low < high || c10::multiply_integers(sizes) == 0, "randint: 'low' is ", low,
              ", which is not less than 'high', ", high);
}

// Throws unless the standard deviation is at least 0.
void CheckDeviation(double std, const char* op) {
  TORCH_CHECK(std >= 0, op, ": 'std' is ", std, ", which is not at least 0");
}

void CheckGenerator(const OptionalGenerator& generator, const char* op) {
  if (!generator.has_value() || !generator->defined()) return;
  CurrentRecorder()->ReportUnsupported(op, "it draws from a generator of its own; a session has one generator");
}

at::ScalarType DtypeOr(OptionalDtype dtype, at::ScalarType fallback) { return dtype.value_or(fallback); }
at::ScalarType DefaultDtype() { return c10::get_default_dtype_as_scalartype(); }

// Returns the sizes of a mask that drops whole channels: [N, C, 1, ...].
std::vector<int64_t> ChannelSizes(const at::Tensor& input) {
  std::vector<int64_t> sizes(static_cast<size_t>(input.dim()), 1);
  for (size_t d = 0; d < sizes.size() && d < 2; ++d) sizes[d] = input.sizes()[d];
  return sizes;
}

at::Tensor DropoutOf(const at::Tensor& input, at::IntArrayRef mask_sizes, double p) {
  if (p == 1) return input * at::zeros_like(input);
  const at::Tensor kept = at::ge(Draw(mask_sizes), p).to(input.scalar_type());
  return input * (kept / (1 - p));
}

// Keeps mean and variance of SELU networks: dropped elements become the lower limit of SELU, then all are
// scaled and shifted.
at::Tensor AlphaDropoutOf(const at::Tensor& input, at::IntArrayRef mask_sizes, double p) {
  if (p == 1) return input * at::zeros_like(input);
  constexpr double kLimit = -1.7580993408473766;  // -scale * alpha of SELU
  const double scale = 1 / std::sqrt((kLimit * kLimit * p + 1) * (1 - p));
  const at::Tensor kept = at::ge(Draw(mask_sizes), p).to(input.scalar_type());
  return input * kept * scale + ((1 - kept) * (kLimit * scale) - kLimit * scale * p);
}

bool IsIdentity(const at::Tensor& input, double p, bool train) {
  TORCH_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  return !train || p == 0 || input.numel() == 0;
}

using DropFn = at::Tensor (*)(const at::Tensor&, at::IntArrayRef, double);

// Throws if the mask, which scales what it keeps, cannot have the dtype of the input, or if whole channels are dropped
// and there are none. Nothing is scaled if all elements are dropped.
void CheckDropped(const at::Tensor& input, double p, bool channels) {
  if (p == 1) return;
  CheckContinuous(input, "dropout");
  TORCH_CHECK(!channels || input.dim() >= 2, "feature_dropout: 'input' has ", input.dim(),
              " dimensions, but at least 2 are needed, of which the second is that of the channels");
}

template <DropFn kDrop, bool kChannels>
at::Tensor DropoutRewrite(const at::Tensor& input, double p, bool train) {
  if (IsIdentity(input, p, train)) return input;
  CheckDropped(input, p, kChannels);
  return kChannels ? kDrop(input, ChannelSizes(input), p) : kDrop(input, input.sizes(), p);
}

template <DropFn kDrop, bool kChannels>
at::Tensor& DropoutInPlaceRewrite(at::Tensor& self, double p, bool train) {
  if (!IsIdentity(self, p, train)) self.copy_(DropoutRewrite<kDrop, kChannels>(self, p, train));
  return self;
}

std::tuple<at::Tensor, at::Tensor> NativeDropout(const at::Tensor& input, double p, std::optional<bool> train) {
  if (input.numel() == 0) return {input, at::empty_like(input)};
  if (!train.value_or(true)) return {input.clone(), at::ones_like(input, at::TensorOptions(at::kBool))};
  const at::Tensor kept = Like(input, std::nullopt, at::ge(Draw(input.sizes()), p));
  const double scale = p == 1 ? 0 : 1 / (1 - p);
  return {input * kept.to(input.scalar_type()) * scale, kept};
}

// Makes draws depend on their parameter with a gradient of zero, as LibTorch's derivatives do.
at::Tensor DrawnBy(const at::Tensor& parameter, const at::Tensor& draws) {
  if (!parameter.requires_grad() || !c10::GradMode::is_enabled()) return draws;
  TORCH_CHECK(!draws.is_complex(), "aten.bernoulli has no gradient for complex results");
  return at::where(at::ones_like(draws, at::TensorOptions(at::kBool)), draws, parameter.to(draws.scalar_type()));
}

// lt is not defined for complex tensors. LibTorch accepts empty ones.
at::Tensor DrawnBelow(at::IntArrayRef sizes, const at::Tensor& p) {
  return at::lt(Draw(sizes), p.is_complex() && p.numel() == 0 ? at::real(p) : p);
}

at::Tensor BernoulliOf(const at::Tensor& self, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.bernoulli");
  return DrawnBy(self, DrawnBelow(self.sizes(), self).to(self.scalar_type()));
}
at::Tensor BernoulliP(const at::Tensor& self, double p, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.bernoulli");
  TORCH_CHECK(p >= 0 && p <= 1, "bernoulli: 'p' is ", p, ", which is not between 0 and 1");
  return Bernoulli(self.sizes(), self.scalar_type(), p);
}
at::Tensor BernoulliTensor(const at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.bernoulli");
  return DrawnBy(self, DrawnBy(p, DrawnBelow(self.sizes(), p).to(self.scalar_type())));
}
at::Tensor& BernoulliInPlace(at::Tensor& self, double p, OptionalGenerator generator) {
  return self.copy_(BernoulliP(self, p, generator));
}
at::Tensor& BernoulliTensorInPlace(at::Tensor& self, const at::Tensor& p, OptionalGenerator generator) {
  return self.copy_(BernoulliTensor(self, p, generator));
}

at::Tensor RandGenerator(c10::SymIntArrayRef size, OptionalGenerator generator, OptionalDtype dtype, OptionalLayout,
                         OptionalDevice, std::optional<bool>) {
  CheckGenerator(generator, "aten.rand");
  return Uniform(C10_AS_INTARRAYREF_SLOW(size), DtypeOr(dtype, DefaultDtype()));
}
at::Tensor Rand(c10::SymIntArrayRef size, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                std::optional<bool> pin_memory) {
  return RandGenerator(size, std::nullopt, dtype, layout, device, pin_memory);
}
at::Tensor RandLike(const at::Tensor& self, OptionalDtype dtype, OptionalLayout, OptionalDevice, std::optional<bool>,
                    OptionalFormat format) {
  return Like(self, format, Uniform(self.sizes(), DtypeOr(dtype, self.scalar_type())));
}
at::Tensor RandnGenerator(c10::SymIntArrayRef size, OptionalGenerator generator, OptionalDtype dtype, OptionalLayout,
                          OptionalDevice, std::optional<bool>) {
  CheckGenerator(generator, "aten.randn");
  return Normal(C10_AS_INTARRAYREF_SLOW(size), DtypeOr(dtype, DefaultDtype()));
}
at::Tensor Randn(c10::SymIntArrayRef size, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                 std::optional<bool> pin_memory) {
  return RandnGenerator(size, std::nullopt, dtype, layout, device, pin_memory);
}
at::Tensor RandnLike(const at::Tensor& self, OptionalDtype dtype, OptionalLayout, OptionalDevice, std::optional<bool>,
                     OptionalFormat format) {
  return Like(self, format, Normal(self.sizes(), DtypeOr(dtype, self.scalar_type())));
}

at::Tensor RandintLow(c10::SymInt low, c10::SymInt high, c10::SymIntArrayRef size, OptionalDtype dtype, OptionalLayout,
                      OptionalDevice, std::optional<bool>) {
  CheckRange(C10_AS_INTARRAYREF_SLOW(size), low, high);
  return Integers(C10_AS_INTARRAYREF_SLOW(size), DtypeOr(dtype, at::kLong), low.expect_int(), high.expect_int());
}
at::Tensor Randint(c10::SymInt high, c10::SymIntArrayRef size, OptionalDtype dtype, OptionalLayout layout,
                   OptionalDevice device, std::optional<bool> pin_memory) {
  return RandintLow(0, high, size, dtype, layout, device, pin_memory);
}
at::Tensor RandintLikeLow(const at::Tensor& self, c10::SymInt low, c10::SymInt high, OptionalDtype dtype,
                          OptionalLayout, OptionalDevice, std::optional<bool>, OptionalFormat format) {
  CheckRange(self.sizes(), low, high);
  return Like(self, format,
              Integers(self.sizes(), DtypeOr(dtype, self.scalar_type()), low.expect_int(), high.expect_int()));
}
at::Tensor RandintLike(const at::Tensor& self, c10::SymInt high, OptionalDtype dtype, OptionalLayout layout,
                       OptionalDevice device, std::optional<bool> pin_memory, OptionalFormat format) {
  return RandintLikeLow(self, 0, high, dtype, layout, device, pin_memory, format);
}

// In training, the slope of elements of at most 0 is drawn. LibTorch's result is contiguous, whatever the
// layout of its argument.
at::Tensor RRelu(const at::Tensor& self, const at::Scalar& lower, const at::Scalar& upper, bool training,
                 OptionalGenerator generator) {
  CheckGenerator(generator, "aten.rrelu");
  const double low = lower.toDouble(), high = upper.toDouble();
  if (!training) return at::leaky_relu(self, (low + high) / 2).contiguous();
  return at::where(at::le(self, 0), self * Uniform(self.sizes(), self.scalar_type(), low, high), self).contiguous();
}

// The permutation that sorts n draws.
at::Tensor RandpermGenerator(c10::SymInt n, OptionalGenerator generator, OptionalDtype dtype, OptionalLayout,
                             OptionalDevice, std::optional<bool>) {
  CheckGenerator(generator, "aten.randperm");
  return at::argsort(Draw({n.expect_int()})).to(DtypeOr(dtype, at::kLong));
}
at::Tensor Randperm(c10::SymInt n, OptionalDtype dtype, OptionalLayout layout, OptionalDevice device,
                    std::optional<bool> pin_memory) {
  return RandpermGenerator(n, std::nullopt, dtype, layout, device, pin_memory);
}

at::Tensor& UniformInPlace(at::Tensor& self, double from, double to, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.uniform_");
  CheckContinuous(self, "uniform_");
  TORCH_CHECK(from <= to, "uniform_: 'from' is ", from, ", which is greater than 'to', ", to);
  return self.copy_(Uniform(self.sizes(), self.scalar_type(), from, to));
}
at::Tensor& NormalInPlace(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.normal_");
  CheckContinuous(self, "normal_");
  CheckDeviation(std, "normal_");
  return self.copy_(Normal(self.sizes(), self.scalar_type()) * std + mean);
}
at::Tensor NormalFloatFloat(double mean, double std, c10::SymIntArrayRef size, OptionalGenerator generator,
                            OptionalDtype dtype, OptionalLayout, OptionalDevice, std::optional<bool>) {
  CheckGenerator(generator, "aten.normal");
  CheckDeviation(std, "normal");
  return Normal(C10_AS_INTARRAYREF_SLOW(size), DtypeOr(dtype, DefaultDtype())) * std + mean;
}
at::Tensor NormalTensorFloat(const at::Tensor& mean, double std, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.normal");
  CheckContinuous(mean, "normal");
  CheckDeviation(std, "normal");
  return DrawnBy(mean, Normal(mean.sizes(), mean.scalar_type()) * std + mean.detach());
}
at::Tensor NormalFloatTensor(double mean, const at::Tensor& std, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.normal");
  return DrawnBy(std, Normal(std.sizes(), std.scalar_type()) * std.detach() + mean);
}
at::Tensor NormalTensorTensor(const at::Tensor& mean, const at::Tensor& std, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.normal");
  const at::Tensor draws = Normal(at::infer_size(mean.sizes(), std.sizes()), mean.scalar_type());
  return DrawnBy(mean, DrawnBy(std, draws * std.detach() + mean.detach()));
}
at::Tensor& ExponentialInPlace(at::Tensor& self, double rate, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.exponential_");
  CheckContinuous(self, "exponential_");
  TORCH_CHECK(rate > 0, "exponential_: 'lambd' is ", rate, ", which is not greater than 0");
  return self.copy_(at::log1p(-Draw(self.sizes())) * (-1 / rate));
}
at::Tensor& LogNormalInPlace(at::Tensor& self, double mean, double std, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.log_normal_");
  TORCH_CHECK(std > 0, "log_normal_ expects std > 0.0, but found std=", std);
  return self.copy_(at::exp(Normal(self.sizes(), self.scalar_type()) * std + mean));
}
at::Tensor& CauchyInPlace(at::Tensor& self, double median, double sigma, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.cauchy_");
  TORCH_CHECK(sigma > 0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  TORCH_CHECK(self.is_floating_point(), "cauchy_ expects a floating point dtype, but found ", self.scalar_type());
  return self.copy_(at::tan((Draw(self.sizes()) - 0.5) * std::numbers::pi) * sigma + median);
}
// The number of trials until the first success. A draw of 0 also takes one.
at::Tensor& GeometricInPlace(at::Tensor& self, double p, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.geometric_");
  TORCH_CHECK(p > 0 && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  return self.copy_(at::clamp_min(at::ceil(at::log1p(-Draw(self.sizes())) * (1 / std::log1p(-p))), 1));
}

// Returns draws of the rows of `weights`, f32 [m, n], with replacement: the first index whose cumulative weight exceeds
// a draw. 24 bits of a draw times the total stay below the total in any rounding.
at::Tensor SampleWithReplacement(const at::Tensor& weights, int64_t count) {
  const at::Tensor limits = at::cumsum(weights, -1);
  const at::Tensor draws = Draw({weights.size(0), count}) * limits.slice(-1, weights.size(-1) - 1);
  return at::searchsorted(limits, draws, /*out_int32=*/false, /*right=*/true);
}

// Returns the same without replacement: the indices of the largest quotients of weights and exponential draws, as
// LibTorch does it. No draw is 0, so that weights of 0 come last.
at::Tensor SampleWithoutReplacement(const at::Tensor& weights, int64_t count) {
  constexpr double kSmallest = 1e-30;
  const at::Tensor draws = at::clamp_min(-at::log1p(-Draw(weights.sizes())), kSmallest);
  return std::get<1>(at::topk(weights / draws, count, -1));
}

// Returns the weights of each row, [m, n], divided by the largest one: f32, whatever their range.
at::Tensor ScaledWeights(const at::Tensor& rows, const at::Tensor& largest) {
  const at::ScalarType wide = rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return (rows.to(wide) / largest.to(wide)).to(at::kFloat);
}

// Returns `drawn`, [m, count], as a checked index, which ends the call with an error for rows that eager refuses.
// Unlike an assertion, a check of an index is not an effect.
at::Tensor CheckedDraws(const at::Tensor& rows, const at::Tensor& largest, const at::Tensor& drawn) {
  constexpr int64_t kBadWeight = -1;  // negative, infinite or NaN
  constexpr int64_t kNoWeight = -2;   // all are 0
  const at::Tensor least = at::amin(rows, at::IntArrayRef{-1}, /*keepdim=*/true);
  const double infinity = std::numeric_limits<double>::infinity();
  const at::Tensor is_finite = at::logical_and(at::ge(least, 0), at::lt(largest, infinity));
  const at::Tensor of_any_weight = at::where(at::gt(largest, 0), drawn, at::Scalar(kNoWeight));
  const at::Tensor index = at::where(is_finite, of_any_weight, at::Scalar(kBadWeight));
  const at::Tensor numbers = at::arange(rows.size(-1), at::TensorOptions(at::kLong));
  return at::index_select(numbers, 0, index.reshape({-1})).view_as(drawn);
}

at::Tensor Multinomial(const at::Tensor& self, c10::SymInt num_samples, bool replacement, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.multinomial");
  const int64_t count = num_samples.expect_int();
  TORCH_CHECK(self.dim() == 1 || self.dim() == 2, "multinomial expects 1 or 2 dimensions, but got ", self.dim());
  TORCH_CHECK(self.is_floating_point(), "multinomial expects floating point weights, but got ", self.scalar_type());
  TORCH_CHECK(count > 0 && (replacement || count <= self.size(-1)), "multinomial cannot draw ", count, " of ",
              self.size(-1), replacement ? "" : " without replacement");
  const bool is_row = self.dim() == 1;
  const at::Tensor rows = is_row ? self.detach().unsqueeze(0) : self.detach();
  const at::Tensor largest = at::amax(rows, at::IntArrayRef{-1}, /*keepdim=*/true);
  const at::Tensor weights = ScaledWeights(rows, largest);
  const at::Tensor drawn = CheckedDraws(
      rows, largest, replacement ? SampleWithReplacement(weights, count) : SampleWithoutReplacement(weights, count));
  return is_row ? drawn.squeeze(0) : drawn;
}

at::Tensor& RReluInPlace(at::Tensor& self, const at::Scalar& lower, const at::Scalar& upper, bool training,
                         OptionalGenerator generator) {
  return self.copy_(RRelu(self.clone(), lower, upper, training, generator));
}

// Returns the limit of what random_() draws without a range: the largest integer up to which the dtype has all.
int64_t LargestInteger(at::ScalarType dtype) {
  if (dtype == at::kBool) return 1;
  if (at::isFloatingType(dtype)) {
    return int64_t{1} << (dtype == at::kDouble ? 53 : dtype == at::kHalf ? 11 : dtype == at::kBFloat16 ? 8 : 24);
  }
  const size_t bits = 8 * c10::elementSize(dtype) - (dtype == at::kByte ? 0 : 1);
  return bits < 63 ? (int64_t{1} << bits) - 1 : std::numeric_limits<int64_t>::max() - 1;
}

at::Tensor& RandomFromInPlace(at::Tensor& self, int64_t from, std::optional<int64_t> to, OptionalGenerator generator) {
  CheckGenerator(generator, "aten.random_");
  const int64_t end = to.has_value() ? *to : LargestInteger(self.scalar_type()) + 1;
  TORCH_CHECK(from < end, "random_ expects a range that begins below its end, but got [", from, ", ", end, ")");
  return self.copy_(Integers(self.sizes(), self.scalar_type(), from, end, "aten.random_"));
}
at::Tensor& RandomToInPlace(at::Tensor& self, int64_t to, OptionalGenerator generator) {
  return RandomFromInPlace(self, 0, to, generator);
}
at::Tensor& RandomInPlace(at::Tensor& self, OptionalGenerator generator) {
  return RandomFromInPlace(self, 0, std::nullopt, generator);
}

// The form of an op that writes to a copy of its argument.
template <auto kInPlace>
struct OutOfPlace;
template <typename... Args, at::Tensor& (*kInPlace)(at::Tensor&, Args...)>
struct OutOfPlace<kInPlace> {
  static at::Tensor Call(const at::Tensor& self, Args... args) {
    at::Tensor result = self.clone();
    kInPlace(result, args...);
    return result;
  }
};

}  // namespace

at::Tensor Dropout(const at::Tensor& input, double p) {
  return DropoutRewrite<DropoutOf, false>(input, p, /*train=*/true);
}

void AddRandomRewrites(torch::Library& library) {
  library.impl("dropout", DropoutRewrite<DropoutOf, false>);
  library.impl("dropout_", DropoutInPlaceRewrite<DropoutOf, false>);
  library.impl("feature_dropout", DropoutRewrite<DropoutOf, true>);
  library.impl("feature_dropout_", DropoutInPlaceRewrite<DropoutOf, true>);
  library.impl("alpha_dropout", DropoutRewrite<AlphaDropoutOf, false>);
  library.impl("alpha_dropout_", DropoutInPlaceRewrite<AlphaDropoutOf, false>);
  library.impl("feature_alpha_dropout", DropoutRewrite<AlphaDropoutOf, true>);
  library.impl("feature_alpha_dropout_", DropoutInPlaceRewrite<AlphaDropoutOf, true>);
  library.impl("native_dropout", NativeDropout);
  library.impl("bernoulli", BernoulliOf);
  library.impl("bernoulli.p", BernoulliP);
  library.impl("bernoulli.Tensor", BernoulliTensor);
  library.impl("bernoulli_.float", BernoulliInPlace);
  library.impl("bernoulli_.Tensor", BernoulliTensorInPlace);
  library.impl("rand", Rand);
  library.impl("rand.generator", RandGenerator);
  library.impl("rand_like", RandLike);
  library.impl("randn", Randn);
  library.impl("randn.generator", RandnGenerator);
  library.impl("randn_like", RandnLike);
  library.impl("randint", Randint);
  library.impl("randint.low", RandintLow);
  library.impl("randint_like", RandintLike);
  library.impl("randint_like.low_dtype", RandintLikeLow);
  library.impl("randperm", Randperm);
  library.impl("randperm.generator", RandpermGenerator);
  library.impl("rrelu", RRelu);
  library.impl("uniform_", UniformInPlace);
  library.impl("normal_", NormalInPlace);
  library.impl("normal.float_float", NormalFloatFloat);
  library.impl("normal.Tensor_float", NormalTensorFloat);
  library.impl("normal.float_Tensor", NormalFloatTensor);
  library.impl("normal.Tensor_Tensor", NormalTensorTensor);
  library.impl("exponential_", ExponentialInPlace);
  library.impl("log_normal_", LogNormalInPlace);
  library.impl("cauchy_", CauchyInPlace);
  library.impl("geometric_", GeometricInPlace);
  library.impl("multinomial", Multinomial);
  library.impl("rrelu_", RReluInPlace);
  library.impl("random_", RandomInPlace);
  library.impl("random_.from", RandomFromInPlace);
  library.impl("random_.to", RandomToInPlace);
  library.impl("random", OutOfPlace<RandomInPlace>::Call);
  library.impl("random.from", OutOfPlace<RandomFromInPlace>::Call);
  library.impl("random.to", OutOfPlace<RandomToInPlace>::Call);
  library.impl("uniform", OutOfPlace<UniformInPlace>::Call);
  library.impl("normal_functional", OutOfPlace<NormalInPlace>::Call);
  library.impl("exponential", OutOfPlace<ExponentialInPlace>::Call);
  library.impl("log_normal", OutOfPlace<LogNormalInPlace>::Call);
  library.impl("cauchy", OutOfPlace<CauchyInPlace>::Call);
  library.impl("geometric", OutOfPlace<GeometricInPlace>::Call);
}

}  // namespace cotan::aot
