// SPDX-License-Identifier: Apache-2.0

// Rows of ops that have their own kernels: matrix products, convolutions, pooling, attention.
#include <cmath>

#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"
#include "aot/lowering/ops/unbatched.h"

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
  // prim.matmul takes no number as its bias: tracing folds a constant tensor to one.
  const bool has_bias = !l.operand(0).is_literal();
  if (alpha == 1 && beta == 1 && has_bias) return l.Return(l.b.Matmul(a, b, l.operand(0)));
  const Tensor product = l.b.Matmul(a, b) * l.literal(4);
  return l.Return(beta == 0 ? product : product + l.operand(0) * l.literal(3));
}

// (self, batch1, batch2, beta, alpha): sums the products of all batches.
absl::Status LowerAddBmm(Lowering& l) {
  const Tensor products = l.b.Matmul(l.operand(1), l.operand(2));
  const Tensor sum = l.b.Squeeze(l.b.ReduceSum(products, {0}), {{0}}) * l.literal(4);
  return l.Return(l.number(3) == 0 ? sum : sum + l.operand(0) * l.literal(3));
}

// (self, vec1, vec2, beta, alpha)
absl::Status LowerAddOuter(Lowering& l) {
  const Tensor outer = l.b.Unsqueeze(l.operand(1), 1) * l.b.Unsqueeze(l.operand(2), 0) * l.literal(4);
  return l.Return(l.number(3) == 0 ? outer : outer + l.operand(0) * l.literal(3));
}

// (self, other, dim) of size 3 along `dim`
absl::Status LowerCross(Lowering& l) {
  const Tensor x = l.operand(0);
  const Tensor y = l.operand(1);
  const auto dim = static_cast<int64_t>(l.b.WrapDim(l.integer(2), static_cast<int>(l.result().sizes.size())));
  const int64_t from_end = dim - static_cast<int64_t>(l.result().sizes.size());
  const auto at = [&](const Tensor& t, int64_t i) { return l.b.Slice(t, from_end + t.rank(), i, i + 1, 1); };
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    parts.push_back(at(x, j) * at(y, k) - at(x, k) * at(y, j));
  }
  return l.Return(l.b.Concat(parts, dim));
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
  if (weight.rank() != 2) return l.Unsupported("a weight that is not a matrix");
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
      l.b.Emit(PrimOp::kAttention,
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
  return l.ReturnAll(l.b.Emit(PrimOp::kAttentionBackward, std::move(arguments),
                              {l.tensor(1).type(), l.tensor(2).type(), l.tensor(3).type()}));
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kKernel, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._scaled_dot_product_flash_attention_for_cpu.default", LowerAttention),
    Row("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", LowerAttentionBackward),
    Row("aten.addbmm.default", LowerAddBmm),
    Row("aten.addmm.default", LowerAddMatmul),
    Row("aten.addmv.default", LowerAddMv),
    Row("aten.addr.default", LowerAddOuter),
    Row("aten.avg_pool2d.default", LowerAvgPool<2>),
    Row("aten.avg_pool2d_backward.default", LowerAvgPoolBackward<2>),
    Row("aten.avg_pool3d.default", LowerAvgPool<3>),
    Row("aten.avg_pool3d_backward.default", LowerAvgPoolBackward<3>),
    Row("aten.baddbmm.default", LowerAddMatmul),
    Row("aten.bmm.default", LowerMatmul),
    Row("aten.convolution.default", LowerConvolution),
    Row("aten.convolution_backward.default", LowerConvolutionBackward),
    Row("aten.dot.default", LowerDot),
    Row("aten.linalg_cross.default", LowerCross),
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
