// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/half_precision/half_precision.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// Returns the layout with the same order of dimensions in memory, without gaps.
StridedLayout Compact(const StridedLayout& layout) {
  DimVector order(layout.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return layout.strides[static_cast<size_t>(a)] > layout.strides[static_cast<size_t>(b)];
  });
  return {layout.sizes, DenseStrides(layout.sizes, order), 0};
}

TensorSpec Widened(const TensorSpec& spec) {
  return IsHalf(spec.dtype) ? TensorSpec{DType::kFloat32, Compact(spec.layout)} : spec;
}

size_t Bytes(const TensorSpec& spec) {
  return ByteSize(spec.dtype) * static_cast<size_t>(NumElements(spec.layout.sizes));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeCastKernel(const TensorSpec& from, const TensorSpec& to, int threads) {
  serialization::Op op;
  serialization::Expr& expr = *op.mutable_expr();
  serialization::ExprInstruction& input = *expr.add_instructions();
  input.set_fn(serialization::FN_INPUT);
  input.set_dtype(static_cast<serialization::DTypeProto>(from.dtype));
  serialization::ExprInstruction& cast = *expr.add_instructions();
  cast.set_fn(serialization::FN_CAST);
  cast.set_dtype(static_cast<serialization::DTypeProto>(to.dtype));
  cast.add_operands(0);
  expr.add_outputs(1);
  for (const int64_t size : from.layout.sizes) expr.add_domain_sizes(absl::StrCat(size));
  return MakeExpr({op, {&from, 1}, {&to, 1}, {}, threads});
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeWidenedKernel(const KernelRequest& request, KernelFactory f32_factory) {
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  std::vector<TensorSpec> inputs;
  std::vector<Slot> from;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    inputs.push_back(Widened(request.inputs[i]));
    from.push_back(Slot::Input(i));
    if (!IsHalf(request.inputs[i].dtype)) continue;
    from[i] = pipeline->AddScratch(Bytes(inputs[i]));
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> cast, MakeCastKernel(request.inputs[i], inputs[i], request.threads));
    pipeline->Add(std::move(cast), {Slot::Input(i)}, {from[i]});
  }
  std::vector<TensorSpec> outputs;
  std::vector<Slot> to;
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    outputs.push_back(Widened(request.outputs[i]));
    const bool is_half = IsHalf(request.outputs[i].dtype);
    to.push_back(is_half ? pipeline->AddScratch(Bytes(outputs[i])) : Slot::Output(i));
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                         f32_factory({request.op, inputs, outputs, request.symbols, request.threads, request.device}));
  pipeline->Add(std::move(kernel), std::move(from), to);
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    if (!IsHalf(request.outputs[i].dtype)) continue;
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> cast,
                           MakeCastKernel(outputs[i], request.outputs[i], request.threads));
    pipeline->Add(std::move(cast), {to[i]}, {Slot::Output(i)});
  }
  return pipeline;
}

}  // namespace cotan::cpu
