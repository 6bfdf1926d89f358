// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/transposition.h"

#include <algorithm>
#include <utility>

#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu::expr {
namespace {

// An operand with fewer elements stays in the first-level cache.
constexpr int64_t kMinElements = 4096;
// Shorter dense dimensions do not fill a good part of a line.
constexpr int64_t kMinDense = 8;

// Returns true if a dimension is dense.
bool HasDenseDimension(const StridedLayout& layout) {
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.strides[d] == 1 && layout.sizes[d] >= kMinDense) return true;
  }
  return false;
}

// Returns true if several elements have the same place in memory.
bool HasBroadcast(const StridedLayout& layout) {
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.strides[d] == 0 && layout.sizes[d] != 1) return true;
  }
  return false;
}

// Returns true if tiles visit lines of operand k several times.
bool CrossesLines(const Tiling& tiling, size_t k, const StridedLayout& layout) {
  const bool is_across = tiling.col_strides[k] > 1 && tiling.col_block >= kMinDense;
  return is_across && NumElements(layout.sizes) >= kMinElements && HasDenseDimension(layout) && !HasBroadcast(layout);
}

// Returns the dense layout with the dimensions in the order of the loops. `layout` broadcasts to a domain of `rank`
// dimensions.
StridedLayout InLoopOrder(const Tiling& tiling, const StridedLayout& layout, int64_t rank) {
  const int64_t missing = rank - layout.rank();
  DimVector order;
  for (int64_t d = 0; d < layout.rank(); ++d) {
    if (layout.sizes[static_cast<size_t>(d)] == 1) order.push_back(d);
  }
  for (const int64_t d : tiling.domain_dims) {
    const int64_t own = d - missing;
    if (own >= 0 && layout.sizes[static_cast<size_t>(own)] != 1) order.push_back(own);
  }
  return {layout.sizes, DenseStrides(layout.sizes, order), 0};
}

}  // namespace

Transposition::Transposition(const KernelRequest& request, const Plan& plan)
    : inputs_(request.inputs.begin(), request.inputs.end()), outputs_(request.outputs.begin(), request.outputs.end()) {
  const auto rank = static_cast<int64_t>(request.op.expr().domain_sizes_size());
  for (size_t k = 0; k < plan.operands.size(); ++k) {
    const PlanOperand& operand = plan.operands[k];
    if (operand.kind == PlanOperand::Kind::kPosition) continue;
    auto& specs = operand.kind == PlanOperand::Kind::kInput ? inputs_ : outputs_;
    StridedLayout& layout = specs[static_cast<size_t>(operand.index)].layout;
    if (!CrossesLines(plan.tiling, k, layout)) continue;
    layout = InLoopOrder(plan.tiling, layout, rank);
    is_needed_ = true;
  }
}

KernelRequest Transposition::InOrder(const KernelRequest& request) const {
  KernelRequest in_order = request;
  in_order.inputs = inputs_;
  in_order.outputs = outputs_;
  return in_order;
}

std::unique_ptr<Kernel> Transposition::Around(std::unique_ptr<Kernel> kernel, const KernelRequest& request) const {
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const auto scratch = [&](const TensorSpec& spec) {
    return pipeline->AddScratch(static_cast<size_t>(NumElements(spec.layout.sizes)) * ByteSize(spec.dtype));
  };
  const auto copy = [&](const TensorSpec& from, const TensorSpec& to) {
    return MakeCopyKernel(ByteSize(from.dtype), from.layout.sizes, from.layout.strides, to.layout.strides,
                          request.threads);
  };
  std::vector<cpu::Slot> in, out;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    in.push_back(cpu::Slot::Input(i));
    if (inputs_[i].layout.strides == request.inputs[i].layout.strides) continue;
    in.back() = scratch(inputs_[i]);
    pipeline->Add(copy(request.inputs[i], inputs_[i]), {cpu::Slot::Input(i)}, {in.back()});
  }
  for (size_t k = 0; k < outputs_.size(); ++k) {
    const bool is_direct = outputs_[k].layout.strides == request.outputs[k].layout.strides;
    out.push_back(is_direct ? cpu::Slot::Output(k) : scratch(outputs_[k]));
  }
  pipeline->Add(std::move(kernel), std::move(in), out);
  for (size_t k = 0; k < outputs_.size(); ++k) {
    if (outputs_[k].layout.strides == request.outputs[k].layout.strides) continue;
    pipeline->Add(copy(outputs_[k], request.outputs[k]), {out[k]}, {cpu::Slot::Output(k)});
  }
  return pipeline;
}

}  // namespace cotan::cpu::expr
