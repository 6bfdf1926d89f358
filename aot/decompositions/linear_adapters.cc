// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/linear_adapters.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>

#include <string>
#include <utility>

namespace cotan::aot {
namespace {

thread_local absl::Span<LinearAdapter> current_adapters;

LinearAdapter* AdapterOf(const c10::IValue& weight) {
  for (LinearAdapter& adapter : current_adapters) {
    if (weight.isTensor() && adapter.weight.is_same(weight.toTensor())) return &adapter;
  }
  return nullptr;
}

LinearAdapter* AdapterOfTransposed(const c10::IValue& weight) {
  if (!weight.isTensor()) return nullptr;
  for (LinearAdapter& adapter : current_adapters) {
    for (const at::Tensor& transposed : adapter.transposed) {
      if (transposed.is_same(weight.toTensor())) return &adapter;
    }
  }
  return nullptr;
}

AdaptedCall Product(LinearAdapter* adapter, const c10::IValue& x) {
  if (adapter == nullptr) return {};
  return {adapter, x.toTensor()};
}

}  // namespace

LinearAdapterScope::LinearAdapterScope(absl::Span<LinearAdapter> adapters)
    : outer_(std::exchange(current_adapters, adapters)) {}

LinearAdapterScope::~LinearAdapterScope() { current_adapters = outer_; }

bool HasAdapter(const at::Tensor& tensor) { return AdapterOf(tensor) != nullptr; }

AdaptedCall FindAdaptedCall(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  if (current_adapters.empty()) return {};
  const size_t count = op.schema().arguments().size();
  const auto argument = [&](size_t i) -> const c10::IValue& { return torch::jit::peek(stack, i, count); };
  const std::string& name = op.operator_name().name;
  if (name == "aten::linear") return Product(AdapterOf(argument(1)), argument(0));
  if (name == "aten::matmul" || name == "aten::mm") return Product(AdapterOfTransposed(argument(1)), argument(0));
  if (name == "aten::addmm" && argument(3).toScalar().equal(1) && argument(4).toScalar().equal(1)) {
    return Product(AdapterOfTransposed(argument(2)), argument(1));
  }
  if (name == "aten::t" || name == "aten::transpose" || name == "aten::permute" || name == "aten::numpy_T") {
    return {AdapterOf(argument(0)), at::Tensor()};
  }
  return {};
}

at::Tensor ApplyAdapter(const AdaptedCall& call, const at::Tensor& result) {
  LinearAdapter& adapter = *call.adapter;
  if (call.x.defined()) {
    adapter.is_used = true;
    return result + at::linear(at::linear(call.x, adapter.down), adapter.up) * adapter.scaling;
  }
  if (result.stride(0) == adapter.weight.stride(1) && result.size(0) == adapter.weight.size(1)) {
    adapter.transposed.push_back(result);
  }
  return result;
}

}  // namespace cotan::aot
