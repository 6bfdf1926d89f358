// Rows of ops that reach kernels of their own: matrix products, convolutions,
// pooling, attention.
#include <cmath>
#include <numeric>

#include "aot/lower/lowering.h"
#include "aot/lower/op_table_rows.h"

namespace cotan::aot {
namespace {

// Matrix products -------------------------------------------------------------

absl::Status LowerMatmul(Lowering& l) { return l.Return(l.b.Matmul(l.operand(0), l.operand(1))); }

// beta * self + alpha * (a @ b)
absl::Status LowerAddMatmul(Lowering& l) {
  const Tensor a = l.operand(1);
  const Tensor b = l.operand(2);
  const double beta = l.number(3);
  const double alpha = l.number(4);
  if (alpha == 1 && beta == 1) return l.Return(l.b.Matmul(a, b, l.operand(0)));
  const Tensor product = l.b.Matmul(a, b) * l.literal(4);
  return l.Return(beta == 0 ? product : product + l.operand(0) * l.literal(3));
}

absl::Status LowerDot(Lowering& l) {
  const Tensor a = l.operand(0);
  const Tensor product = a * l.operand(1);
  return l.Return(l.b.View(l.b.ReduceSum(product, {0}), {}));
}

Tensor MatrixVector(Lowering& l, const Tensor& matrix, const Tensor& vector) {
  return l.b.Squeeze(l.b.Matmul(matrix, l.b.Unsqueeze(vector, 1)), {1});
}

absl::Status LowerMv(Lowering& l) { return l.Return(MatrixVector(l, l.operand(0), l.operand(1))); }

absl::Status LowerAddMv(Lowering& l) {
  const Tensor product = MatrixVector(l, l.operand(1), l.operand(2)) * l.literal(4);
  return l.Return(l.number(3) == 0 ? product : product + l.operand(0) * l.literal(3));
}

// input @ weight^T + bias
absl::Status LowerLinear(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor weight = l.operand(1);
  const Tensor bias = l.optional_tensor(2);
  if (weight.rank() != 2) return l.Unsupported("a weight that is no matrix");
  SymInt rows = 1;
  for (size_t i = 0; i + 1 < x.sizes().size(); ++i) rows = rows * x.sizes()[i];
  const Tensor matrix = l.b.View(x, {rows, x.sizes().back()});
  return l.Return(l.b.View(l.b.Matmul(matrix, l.b.Transpose(weight, 0, 1), bias), l.result().sizes));
}

// Convolutions ------------------------------------------------------------------

ConvolutionConfig ConfigOf(Lowering& l, int first, size_t spatial) {
  ConvolutionConfig config{l.integers(first), l.integers(first + 1), l.integers(first + 2),
                           l.flag(first + 3), l.integers(first + 4), l.integer(first + 5)};
  for (std::vector<int64_t>* list : {&config.stride, &config.padding, &config.dilation, &config.output_padding}) {
    if (list->size() == 1) list->resize(spatial, list->front());
  }
  return config;
}

// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
absl::Status LowerConvolution(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor weight = l.operand(1);
  const ConvolutionConfig config = ConfigOf(l, 3, weight.sizes().size() - 2);
  const bool unbatched = x.rank() + 1 == weight.rank();
  SymIntVector sizes = l.result().sizes;
  if (unbatched) sizes.insert(sizes.begin(), SymInt(1));
  const Tensor batched = unbatched ? l.b.Unsqueeze(x, 0) : x;
  const Tensor y = l.b.Convolution(batched, weight, l.optional_tensor(2), config, sizes);
  return l.Return(l.b.View(y, l.result().sizes));
}

// (grad, input, weight, bias_sizes, stride, padding, dilation, transposed,
//  output_padding, groups, mask) -> dinput, dweight, dbias
absl::Status LowerConvolutionBackward(Lowering& l) {
  const Tensor grad = l.tensor(0);
  const Tensor x = l.tensor(1);
  const Tensor weight = l.tensor(2);
  if (x.rank() != weight.rank()) return l.Unsupported("an input without a batch dimension");
  const ConvolutionConfig config = ConfigOf(l, 4, weight.sizes().size() - 2);
  std::vector<Tensor> results(3);
  if (l.has_result(0)) results[0] = l.b.ConvolutionBackwardInput(grad, weight, config, x.sizes());
  if (l.has_result(1)) results[1] = l.b.ConvolutionBackwardWeight(grad, x, config, weight.sizes());
  if (l.has_result(2)) {
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < grad.rank(); ++d) {
      if (d != 1) dims.push_back(d);
    }
    results[2] = l.b.View(l.b.ReduceSum(grad, dims), {grad.sizes()[1]});
  }
  return l.ReturnAll(results);
}

// Pooling -------------------------------------------------------------------------

std::vector<int64_t> Spread(std::vector<int64_t> values, size_t spatial, const std::vector<int64_t>& absent) {
  if (values.empty()) return absent;
  if (values.size() == 1) values.resize(spatial, values.front());
  return values;
}

SymIntVector WithBatch(SymIntVector sizes, bool unbatched) {
  if (unbatched) sizes.insert(sizes.begin(), SymInt(1));
  return sizes;
}

Tensor Batched(Lowering& l, const Tensor& x, bool unbatched) { return unbatched ? l.b.Unsqueeze(x, 0) : x; }

// Arguments kernel, stride, padding, dilation, ceil_mode from position `first`.
PoolConfig MaxPoolConfig(Lowering& l, int first, size_t spatial) {
  PoolConfig config;
  config.kernel = Spread(l.integers(first), spatial, {});
  config.stride = Spread(l.integers(first + 1), spatial, config.kernel);
  config.padding = Spread(l.integers(first + 2), spatial, std::vector<int64_t>(spatial, 0));
  config.dilation = Spread(l.integers(first + 3), spatial, std::vector<int64_t>(spatial, 1));
  config.ceil_mode = l.flag(first + 4);
  return config;
}

// Arguments kernel, stride, padding, ceil_mode, count_include_pad,
// divisor_override from position `first`.
PoolConfig AvgPoolConfig(Lowering& l, int first, size_t spatial) {
  PoolConfig config;
  config.kernel = Spread(l.integers(first), spatial, {});
  config.stride = Spread(l.integers(first + 1), spatial, config.kernel);
  config.padding = Spread(l.integers(first + 2), spatial, std::vector<int64_t>(spatial, 0));
  config.dilation.assign(spatial, 1);
  config.ceil_mode = l.flag(first + 3);
  config.count_include_pad = l.flag(first + 4);
  config.divisor_override = l.optional_integer(first + 5).value_or(0);
  return config;
}

template <size_t kSpatial>
absl::Status LowerMaxPool(Lowering& l) {
  const Tensor x = l.operand(0);
  const bool unbatched = x.rank() == kSpatial + 1;
  const auto [values, indices] =
      l.b.MaxPool(Batched(l, x, unbatched), MaxPoolConfig(l, 1, kSpatial), WithBatch(l.result().sizes, unbatched));
  return l.ReturnAll({l.b.View(values, l.result().sizes), l.b.View(indices, l.result().sizes)});
}

// (grad, self, kernel, stride, padding, dilation, ceil_mode, indices)
template <size_t kSpatial>
absl::Status LowerMaxPoolBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const bool unbatched = grad.rank() == kSpatial + 1;
  const Tensor result = l.b.MaxPoolBackward(Batched(l, grad, unbatched), Batched(l, l.tensor(7), unbatched),
                                            MaxPoolConfig(l, 2, kSpatial), WithBatch(l.result().sizes, unbatched));
  return l.Return(l.b.View(result, l.result().sizes));
}

template <size_t kSpatial>
absl::Status LowerAvgPool(Lowering& l) {
  const Tensor x = l.operand(0);
  const bool unbatched = x.rank() == kSpatial + 1;
  const Tensor y =
      l.b.AvgPool(Batched(l, x, unbatched), AvgPoolConfig(l, 1, kSpatial), WithBatch(l.result().sizes, unbatched));
  return l.Return(l.b.View(y, l.result().sizes));
}

// (grad, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor)
template <size_t kSpatial>
absl::Status LowerAvgPoolBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const bool unbatched = grad.rank() == kSpatial + 1;
  const Tensor result = l.b.AvgPoolBackward(Batched(l, grad, unbatched), AvgPoolConfig(l, 2, kSpatial),
                                            WithBatch(l.result().sizes, unbatched));
  return l.Return(l.b.View(result, l.result().sizes));
}

// Windows of adaptive pooling, if they are all equal and do not overlap.
absl::StatusOr<PoolConfig> AdaptiveConfig(Lowering& l, const SymIntVector& in, const SymIntVector& out,
                                          size_t spatial) {
  PoolConfig config;
  for (size_t k = 0; k < spatial; ++k) {
    const SymInt& from = in[in.size() - spatial + k];
    const SymInt& to = out[out.size() - spatial + k];
    if (!from.is_constant() || !to.is_constant() || to.constant() == 0 || from.constant() % to.constant() != 0) {
      return l.Unsupported("adaptive pooling whose output size does not divide the input size");
    }
    config.kernel.push_back(from.constant() / to.constant());
  }
  config.stride = config.kernel;
  config.padding.assign(spatial, 0);
  config.dilation.assign(spatial, 1);
  return config;
}

std::vector<int64_t> SpatialDims(size_t spatial) {
  std::vector<int64_t> dims(spatial);
  std::iota(dims.begin(), dims.end(), -static_cast<int64_t>(spatial));
  return dims;
}

bool IsGlobal(const SymIntVector& out, size_t spatial) {
  for (size_t k = 0; k < spatial; ++k) {
    if (!(out[out.size() - 1 - k] == SymInt(1))) return false;
  }
  return true;
}

template <size_t kSpatial>
absl::Status LowerAdaptiveAvgPool(Lowering& l) {
  const Tensor x = l.operand(0);
  if (IsGlobal(l.result().sizes, kSpatial)) return l.Return(l.b.ReduceMean(x, SpatialDims(kSpatial)));
  absl::StatusOr<PoolConfig> config = AdaptiveConfig(l, x.sizes(), l.result().sizes, kSpatial);
  if (!config.ok()) return config.status();
  const bool unbatched = x.rank() == kSpatial + 1;
  const Tensor y = l.b.AvgPool(Batched(l, x, unbatched), *config, WithBatch(l.result().sizes, unbatched));
  return l.Return(l.b.View(y, l.result().sizes));
}

// (grad, self)
template <size_t kSpatial>
absl::Status LowerAdaptiveAvgPoolBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  const SymIntVector in = l.result().sizes;
  if (IsGlobal(grad.sizes(), kSpatial)) {
    SymInt area = 1;
    for (size_t k = 0; k < kSpatial; ++k) area = area * in[in.size() - 1 - k];
    return l.Return(l.b.Expand(grad / l.b.Literal(area), in));
  }
  absl::StatusOr<PoolConfig> config = AdaptiveConfig(l, in, grad.sizes(), kSpatial);
  if (!config.ok()) return config.status();
  const bool unbatched = grad.rank() == kSpatial + 1;
  const Tensor result = l.b.AvgPoolBackward(Batched(l, grad, unbatched), *config, WithBatch(in, unbatched));
  return l.Return(l.b.View(result, in));
}

template <size_t kSpatial>
absl::Status LowerAdaptiveMaxPool(Lowering& l) {
  const Tensor x = l.operand(0);
  absl::StatusOr<PoolConfig> config = AdaptiveConfig(l, x.sizes(), l.result().sizes, kSpatial);
  if (!config.ok()) return config.status();
  const bool unbatched = x.rank() == kSpatial + 1;
  const auto [values, indices] = l.b.MaxPool(Batched(l, x, unbatched), *config, WithBatch(l.result().sizes, unbatched));
  return l.ReturnAll({l.b.View(values, l.result().sizes), l.b.View(indices, l.result().sizes)});
}

// (grad, self, indices)
template <size_t kSpatial>
absl::Status LowerAdaptiveMaxPoolBackward(Lowering& l) {
  const Tensor grad = l.operand(0);
  absl::StatusOr<PoolConfig> config = AdaptiveConfig(l, l.result().sizes, grad.sizes(), kSpatial);
  if (!config.ok()) return config.status();
  const bool unbatched = grad.rank() == kSpatial + 1;
  const Tensor result = l.b.MaxPoolBackward(Batched(l, grad, unbatched), Batched(l, l.tensor(2), unbatched), *config,
                                            WithBatch(l.result().sizes, unbatched));
  return l.Return(l.b.View(result, l.result().sizes));
}

// Attention -------------------------------------------------------------------------

double AttentionScale(Lowering& l, int i, const Tensor& query) {
  if (i < l.num_arguments() && !l.is_none(i)) return l.number(i);
  const SymInt& width = query.sizes().back();
  return width.is_constant() ? 1 / std::sqrt(static_cast<double>(width.constant())) : 1;
}

// (query, key, value, dropout_p, is_causal, attn_mask, scale) -> out, logsumexp
absl::Status LowerAttention(Lowering& l) {
  if (l.number(3) != 0) return l.Unsupported("dropout inside attention");
  const Tensor q = l.tensor(0);
  SymIntVector rows(q.sizes().begin(), q.sizes().end() - 1);
  const Argument bias = l.is_none(5) ? Argument(None{}) : Argument(Use{l.tensor(5).id()});
  const TensorType out{q.dtype(), l.result().sizes, {}};
  const TensorType logsumexp{q.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32, rows, {}};
  return l.ReturnAll(
      l.b.Emit("prim.attention",
               {Use{q.id()}, Use{l.tensor(1).id()}, Use{l.tensor(2).id()}, bias, l.flag(4), AttentionScale(l, 6, q)},
               {out, logsumexp}));
}

// (grad, query, key, value, out, logsumexp, dropout_p, is_causal, attn_mask, scale)
absl::Status LowerAttentionBackward(Lowering& l) {
  if (l.number(6) != 0) return l.Unsupported("dropout inside attention");
  const Argument bias = l.is_none(8) ? Argument(None{}) : Argument(Use{l.tensor(8).id()});
  std::vector<Argument> arguments;
  for (int i = 0; i < 6; ++i) arguments.push_back(Use{l.tensor(i).id()});
  arguments.insert(arguments.end(), {bias, l.flag(7), AttentionScale(l, 9, l.tensor(1))});
  return l.ReturnAll(l.b.Emit("prim.attention_backward", std::move(arguments),
                              {l.tensor(1).type(), l.tensor(2).type(), l.tensor(3).type()}));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._adaptive_avg_pool2d.default", LowerAdaptiveAvgPool<2>),
    Row("aten._adaptive_avg_pool2d_backward.default", LowerAdaptiveAvgPoolBackward<2>),
    Row("aten._adaptive_avg_pool3d.default", LowerAdaptiveAvgPool<3>),
    Row("aten._adaptive_avg_pool3d_backward.default", LowerAdaptiveAvgPoolBackward<3>),
    Row("aten._scaled_dot_product_flash_attention_for_cpu.default", LowerAttention),
    Row("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", LowerAttentionBackward),
    Row("aten.adaptive_max_pool2d.default", LowerAdaptiveMaxPool<2>),
    Row("aten.adaptive_max_pool2d_backward.default", LowerAdaptiveMaxPoolBackward<2>),
    Row("aten.adaptive_max_pool3d.default", LowerAdaptiveMaxPool<3>),
    Row("aten.adaptive_max_pool3d_backward.default", LowerAdaptiveMaxPoolBackward<3>),
    Row("aten.addmm.default", LowerAddMatmul),
    Row("aten.addmv.default", LowerAddMv),
    Row("aten.avg_pool2d.default", LowerAvgPool<2>),
    Row("aten.avg_pool2d_backward.default", LowerAvgPoolBackward<2>),
    Row("aten.avg_pool3d.default", LowerAvgPool<3>),
    Row("aten.avg_pool3d_backward.default", LowerAvgPoolBackward<3>),
    Row("aten.baddbmm.default", LowerAddMatmul),
    Row("aten.bmm.default", LowerMatmul),
    Row("aten.convolution.default", LowerConvolution),
    Row("aten.convolution_backward.default", LowerConvolutionBackward),
    Row("aten.dot.default", LowerDot),
    Row("aten.linear.default", LowerLinear),
    Row("aten.max_pool2d_with_indices.default", LowerMaxPool<2>),
    Row("aten.max_pool2d_with_indices_backward.default", LowerMaxPoolBackward<2>),
    Row("aten.max_pool3d_with_indices.default", LowerMaxPool<3>),
    Row("aten.max_pool3d_with_indices_backward.default", LowerMaxPoolBackward<3>),
    Row("aten.mm.default", LowerMatmul),
    Row("aten.mv.default", LowerMv),
};

}  // namespace

absl::Span<const OpRow> KernelRows() { return kRows; }

}  // namespace cotan::aot
