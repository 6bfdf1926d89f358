// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_safe_softmax.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "aot/decompositions/random_ops.h"

namespace cotan::aot {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Tensors = torch::autograd::variable_list;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// Keys from which on the fused op was measured to be faster (docs/performance.md) on an H100.
constexpr int64_t kMinKeysOnCuda = 64, kMinKeysOnCudaOfHalves = 128;
// Keys from which on it takes at most 2 % more time on a CPU, in less memory, with a causal mask, whose masked half the
// fused kernels skip; and queries and keys without a mask.
constexpr int64_t kMinCausalKeysOnCpu = 32, kMinCausalKeysOnCpuOfHalves = 192;
constexpr int64_t kMinRowsOnCpu = 512;
// The kernels on CUDA keep rows of this size in shared memory; those of cuDNN take multiples of kHalfRowUnit.
constexpr int64_t kMaxRowOnCuda = 128;
constexpr int64_t kHalfRowUnit = 8;

thread_local AttentionRule current_rule;

// Returns whether IsFused() may be true for operands of some dtype.
bool MayFuse(const AttentionRule& rule, const AttentionOperands& operands) {
  if (rule.form != AttentionForm::kAuto) return rule.form == AttentionForm::kFused;
  if (rule.for_cuda) return rule.sizes_vary || operands.k.size(-2) >= kMinKeysOnCuda;
  if (rule.sizes_vary) return false;
  if (operands.is_causal) return operands.k.size(-2) >= kMinCausalKeysOnCpu;
  return std::min(operands.q.size(-2), operands.k.size(-2)) >= kMinRowsOnCpu && !operands.mask.has_value();
}

bool IsFusedOnCuda(const AttentionRule& rule, const AttentionOperands& operands) {
  const int64_t keys = operands.k.size(2), row = operands.q.size(3);
  if (row > kMaxRowOnCuda) return false;
  switch (operands.q.scalar_type()) {
    case at::kFloat:
      return true;
    case at::kHalf:
    case at::kBFloat16:
      return (rule.sizes_vary || keys >= kMinKeysOnCudaOfHalves) && row % kHalfRowUnit == 0 &&
             !operands.mask.has_value();
    default:
      return false;
  }
}

// Repeats key and value heads so that each query head has its own.
at::Tensor RepeatHeads(const at::Tensor& tensor, int64_t heads) {
  TORCH_CHECK(tensor.size(-3) > 0 && heads % tensor.size(-3) == 0, "scaled_dot_product_attention: the query has ",
              heads, " heads, which is not a multiple of the ", tensor.size(-3), " heads of the key or the value");
  const int64_t repeats = heads / tensor.size(-3);
  if (repeats == 1) return tensor;
  std::vector<int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.end() - 2, repeats);
  at::Tensor expanded = tensor.unsqueeze(-3).expand(sizes);
  return expanded.flatten(-4, -3);
}

// Returns the causal mask: row i attends to columns 0..i.
at::Tensor CausalKeep(int64_t rows, int64_t columns) {
  const at::TensorOptions options(at::kLong);
  return at::ge(at::arange(rows, options).unsqueeze(1), at::arange(columns, options).unsqueeze(0));
}

// Gives the result the query's order of dimensions in memory, as LibTorch's fused attention does: models
// view the permuted result.
at::Tensor InOrderOf(const at::Tensor& query, const at::Tensor& result) {
  std::vector<int64_t> order(static_cast<size_t>(query.dim()));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return query.stride(a) > query.stride(b); });
  if (std::is_sorted(order.begin(), order.end())) return result;
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return result.permute(order).contiguous().permute(inverse);
}

// Returns the softmax of rows; a row that attends to no column gives zeros. Its dtype is that of at::softmax(), which
// autocast computes in f32.
at::Tensor SafeSoftmax(const at::Tensor& scores) {
  const bool is_widened = at::autocast::is_autocast_enabled(at::kCPU) && scores.itemsize() < sizeof(float);
  return at::_safe_softmax(scores, -1, is_widened ? at::kFloat : scores.scalar_type());
}

at::Tensor Composed(const AttentionOperands& in, double dropout_p) {
  at::Tensor scores = at::matmul(in.q, in.k.transpose(-2, -1)) * in.scale;
  if (in.is_causal) {
    scores = at::where(CausalKeep(in.q.size(-2), in.k.size(-2)), scores, kMinusInfinity);
  }
  at::Tensor probabilities;
  if (in.mask.has_value()) {
    scores = in.mask->scalar_type() == at::kBool ? at::where(*in.mask, scores, kMinusInfinity) : scores + *in.mask;
    probabilities = SafeSoftmax(scores);
  } else {
    probabilities = at::softmax(scores, -1);
  }
  if (dropout_p > 0) probabilities = Dropout(probabilities, dropout_p);
  const at::Tensor result = at::matmul(probabilities, in.v);
  return result.dim() == 4 && dropout_p == 0 ? InOrderOf(in.q, result) : result;
}

// The fused op as an autograd function of (q, k, v); the mask has no gradient.
struct FusedAttention : torch::autograd::Function<FusedAttention> {
  using Context = torch::autograd::AutogradContext;

  static at::Tensor forward(Context* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const OptionalTensor& mask, bool is_causal, double scale) {
    auto [result, logsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, /*dropout_p=*/0, is_causal, mask, scale);
    context->saved_data["is_causal"] = is_causal;
    context->saved_data["scale"] = scale;
    Tensors saved = {q, k, v, result, logsumexp};
    if (mask.has_value()) saved.push_back(*mask);
    context->save_for_backward(std::move(saved));
    return result;
  }

  static Tensors backward(Context* context, const Tensors& gradients) {
    const Tensors saved = context->get_saved_variables();
    AttentionOperands in{saved[0],
                         saved[1],
                         saved[2],
                         std::nullopt,
                         context->saved_data["is_causal"].toBool(),
                         context->saved_data["scale"].toDouble()};
    if (saved.size() > 5) in.mask = saved[5];
    Tensors results = at::GradMode::is_enabled() ? DifferentiableGradients(in, gradients[0])
                                                 : FusedGradients(in, saved, gradients[0]);
    results.resize(6);  // undefined for the mask and the attributes
    return results;
  }

 private:
  static Tensors FusedGradients(const AttentionOperands& in, const Tensors& saved, const at::Tensor& gradient) {
    // LibTorch's kernel reads rows of adjacent elements.
    const at::Tensor dense = gradient.stride(-1) == 1 ? gradient : gradient.contiguous();
    auto [q, k, v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        dense, in.q, in.k, in.v, saved[3], saved[4], /*dropout_p=*/0, in.is_causal, in.mask, in.scale);
    return {q, k, v};
  }

  static Tensors DifferentiableGradients(const AttentionOperands& in, const at::Tensor& gradient) {
    const at::Tensor* const operands[] = {&in.q, &in.k, &in.v};
    Tensors wanted;
    for (const at::Tensor* operand : operands) {
      if (operand->requires_grad()) wanted.push_back(*operand);
    }
    const Tensors found = torch::autograd::grad({Composed(in, /*dropout_p=*/0)}, wanted, {gradient},
                                                /*retain_graph=*/true, /*create_graph=*/true);
    Tensors results(3);
    for (size_t i = 0, next = 0; i < 3; ++i) {
      if (operands[i]->requires_grad()) results[i] = found[next++];
    }
    return results;
  }
};

at::Tensor Fused(AttentionOperands in) {
  if (in.mask.has_value() && in.mask->scalar_type() == at::kBool) {
    const at::Tensor zero = at::zeros({}, in.q.options());
    in.mask = at::where(*in.mask, zero, kMinusInfinity);
  }
  return FusedAttention::apply(in.q, in.k, in.v, in.mask, in.is_causal, in.scale);
}

// Converts operands as autocast does with those of LibTorch's op: f32 and 16-bit floats to its dtype.
AttentionOperands UnderAutocast(AttentionOperands in) {
  if (!at::autocast::is_autocast_enabled(at::kCPU)) return in;
  const at::ScalarType dtype = at::autocast::get_autocast_dtype(at::kCPU);
  for (at::Tensor* tensor : {&in.q, &in.k, &in.v}) *tensor = at::autocast::cached_cast(dtype, *tensor, at::kCPU);
  if (in.mask.has_value()) in.mask = at::autocast::cached_cast(dtype, *in.mask, at::kCPU);
  return in;
}

// Throws unless the mask is of bool or f32 or has the query's dtype, to which autocast may convert both.
void CheckMask(const AttentionOperands& in) {
  if (!in.mask.has_value()) return;
  const at::ScalarType dtype = in.mask->scalar_type();
  const bool is_cast = at::autocast::is_autocast_enabled(at::kCPU) && at::isFloatingType(dtype);
  TORCH_CHECK(dtype == at::kBool || dtype == at::kFloat || dtype == in.q.scalar_type() || is_cast,
              "scaled_dot_product_attention: 'attn_mask' has dtype ", dtype, ", but must have bool, float or ",
              in.q.scalar_type(), ", the dtype of the query");
}

bool IsFusableMask(const AttentionOperands& in) {
  if (!in.mask.has_value()) return true;
  const at::Tensor& mask = *in.mask;
  if (mask.dim() != 2 && mask.dim() != 4) return false;
  if (mask.requires_grad() || (mask.scalar_type() != at::kBool && mask.scalar_type() != in.q.scalar_type())) {
    return false;
  }
  const int64_t sizes[] = {in.q.size(0), in.q.size(1), in.q.size(2), in.k.size(2)};
  for (int64_t d = 1; d <= mask.dim(); ++d) {
    if (mask.size(-d) != 1 && mask.size(-d) != sizes[4 - d]) return false;
  }
  return true;
}

}  // namespace

AttentionScope::AttentionScope(const AttentionRule& rule) : previous_(std::exchange(current_rule, rule)) {}

AttentionScope::~AttentionScope() { current_rule = previous_; }

bool IsFusable(const AttentionOperands& operands) {
  const at::Tensor &q = operands.q, &k = operands.k, &v = operands.v;
  for (const at::Tensor* tensor : {&q, &k, &v}) {
    if (tensor->dim() != 4 || tensor->numel() == 0 || tensor->scalar_type() != q.scalar_type()) return false;
    if (tensor->size(0) != q.size(0) || tensor->size(1) != q.size(1) || tensor->size(3) != q.size(3)) return false;
    if (tensor->stride(3) != 1) return false;
  }
  return k.size(2) == v.size(2) && at::isFloatingType(q.scalar_type()) && IsFusableMask(operands);
}

bool IsFused(const AttentionRule& rule, const AttentionOperands& operands) {
  if (!MayFuse(rule, operands)) return false;
  if (rule.form == AttentionForm::kFused) return true;
  if (rule.for_cuda) return IsFusedOnCuda(rule, operands);
  if (operands.q.itemsize() >= sizeof(float)) return true;
  return operands.is_causal && operands.k.size(2) >= kMinCausalKeysOnCpuOfHalves;
}

at::Tensor Attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const std::optional<at::Tensor>& mask, double dropout_p, bool is_causal,
                     std::optional<double> scale, bool enable_gqa) {
  AttentionOperands in;
  if (mask.has_value() && mask->defined()) in.mask = mask;
  TORCH_CHECK(!(is_causal && in.mask.has_value()),
              "scaled_dot_product_attention: give either a mask or is_causal, not both");
  in.q = query;
  CheckMask(in);
  in.k = enable_gqa ? RepeatHeads(key, query.size(-3)) : key;
  in.v = enable_gqa ? RepeatHeads(value, query.size(-3)) : value;
  in.is_causal = is_causal;
  in.scale = scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  if (MayFuse(current_rule, in) && dropout_p == 0) {
    AttentionOperands cast = UnderAutocast(in);
    if (IsFusable(cast) && IsFused(current_rule, cast)) return Fused(std::move(cast));
  }
  return Composed(in, dropout_p);
}

}  // namespace cotan::aot
