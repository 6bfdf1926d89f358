// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/quantized_weights.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/round.h>
#include <ATen/ops/where.h>

#include <utility>
#include <vector>

namespace cotan::aot {
namespace {

thread_local absl::Span<const QuantizedWeight> current_weights;

const QuantizedWeight* QuantizedWeightOf(const at::Tensor& tensor) {
  for (const QuantizedWeight& quantized : current_weights) {
    if (quantized.weight.is_same(tensor)) return &quantized;
  }
  return nullptr;
}

at::Tensor DequantizeWeight(const QuantizedWeight& quantized) {
  return Dequantize(quantized.data, quantized.scale, quantized.bits, quantized.weight.scalar_type())
      .reshape(quantized.weight.sizes());
}

// Returns `sizes` without its last size, followed by `last`.
std::vector<int64_t> WithLast(at::IntArrayRef sizes, const std::vector<int64_t>& last) {
  std::vector<int64_t> result(sizes.begin(), sizes.end() - 1);
  result.insert(result.end(), last.begin(), last.end());
  return result;
}

// Returns the integers of 4-bit data as [..., groups, halves, elements], as floats.
at::Tensor Unpack(const at::Tensor& data, int64_t groups) {
  const at::Tensor bytes = data.reshape(WithLast(data.sizes(), {groups, 1, data.size(-1) / groups}));
  const at::Tensor shift = at::arange(0, 8, 4, at::kByte).unsqueeze(1);
  return at::bitwise_and(at::bitwise_right_shift(bytes, shift), at::Scalar(15)).to(at::kFloat) - 8;
}

}  // namespace

QuantizedData Quantize(const at::Tensor& weight, int bits, int64_t groups) {
  const at::Tensor rows = weight.to(at::kFloat).reshape({weight.size(0), groups, -1});
  const double largest = bits == 8 ? 127 : 7;
  at::Tensor scale = at::amax(at::abs(rows), {2}, /*keepdim=*/true) / largest;
  scale = at::where(scale == 0, at::ones_like(scale), scale);
  const at::Tensor integers = at::clamp(at::round(rows / scale), -largest, largest).reshape({weight.size(0), -1});
  scale = scale.squeeze(2).contiguous();
  if (bits == 8) return {integers.to(at::kChar), scale};
  const at::Tensor halves = (integers + 8).to(at::kByte).reshape({weight.size(0), groups, 2, -1});
  return {(halves.select(2, 0) + halves.select(2, 1) * 16).reshape({weight.size(0), -1}), scale};
}

at::Tensor Dequantize(const at::Tensor& data, const at::Tensor& scale, int bits, at::ScalarType dtype) {
  if (bits == 8 && scale.size(-1) == 1) return (data.to(at::kFloat) * scale).to(dtype);
  const int64_t groups = scale.size(-1);
  const int64_t columns = data.size(-1) * (bits == 8 ? 1 : 2);
  const at::Tensor values = bits == 8
                                ? data.reshape(WithLast(data.sizes(), {groups, columns / groups, 1})).to(at::kFloat)
                                : Unpack(data, groups);
  const at::Tensor factors = scale.unsqueeze(-1).unsqueeze(-1);
  return (values * factors).to(dtype).reshape(WithLast(data.sizes(), {columns}));
}

QuantizedWeightScope::QuantizedWeightScope(absl::Span<const QuantizedWeight> weights)
    : outer_(std::exchange(current_weights, weights)) {}

QuantizedWeightScope::~QuantizedWeightScope() { current_weights = outer_; }

bool CallQuantizedEmbedding(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (current_weights.empty() || op.operator_name().name != "aten::embedding") return false;
  const size_t count = op.schema().arguments().size();
  const QuantizedWeight* const quantized = QuantizedWeightOf(torch::jit::peek(*stack, 0, count).toTensor());
  if (quantized == nullptr) return false;
  const at::Tensor indices = torch::jit::peek(*stack, 1, count).toTensor();
  torch::jit::drop(*stack, count);
  torch::jit::push(*stack, Dequantize(at::embedding(quantized->data, indices), at::embedding(quantized->scale, indices),
                                      quantized->bits, quantized->weight.scalar_type()));
  return true;
}

bool IsQuantizedWeight(const at::Tensor& tensor) { return QuantizedWeightOf(tensor) != nullptr; }

void DequantizeArguments(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (current_weights.empty()) return;
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::IValue& value = torch::jit::peek(*stack, i, arguments.size());
    const auto replace = [&](const at::Tensor& tensor) {
      const QuantizedWeight* const quantized = QuantizedWeightOf(tensor);
      if (quantized == nullptr) return tensor;
      TORCH_CHECK(arguments[i].alias_info() == nullptr || !arguments[i].alias_info()->isWrite(), "'", quantized->name,
                  "' is quantized and cannot be written");
      return DequantizeWeight(*quantized);
    };
    if (value.isTensor()) {
      value = replace(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<at::Tensor> tensors = value.toTensorVector();
      for (at::Tensor& tensor : tensors) tensor = replace(tensor);
      value = c10::IValue(std::move(tensors));
    }
  }
}

}  // namespace cotan::aot
