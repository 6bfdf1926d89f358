// SPDX-License-Identifier: Apache-2.0

// Ops of the Builder that have their own kernels.
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/ir/builder.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

void AppendConfig(const ConvolutionConfig& config, std::vector<Argument>& arguments) {
  arguments.insert(arguments.end(), {ToSymInts(config.stride), ToSymInts(config.padding), ToSymInts(config.dilation),
                                     config.transposed, ToSymInts(config.output_padding), SymInt(config.groups)});
}

void AppendConfig(const PoolConfig& config, std::vector<Argument>& arguments) {
  arguments.insert(arguments.end(), {ToSymInts(config.kernel), ToSymInts(config.stride), ToSymInts(config.padding),
                                     ToSymInts(config.dilation), config.ceil_mode, config.count_include_pad,
                                     SymInt(config.divisor_override)});
}

// Returns None for an undefined tensor.
Argument OptionalUse(const Tensor& tensor) {
  Argument argument;
  if (tensor.defined()) argument = Use{tensor.id()};
  return argument;
}

}  // namespace

Tensor Builder::Matmul(const Tensor& a, const Tensor& b, const Tensor& bias) {
  TensorType type{a.dtype(), a.sizes(), {}};
  if (a.rank() < 2 || b.rank() != a.rank() || b.dtype() != a.dtype()) {
    Fail(absl::InternalError(absl::StrCat("matmul of ", PrintType(a.type()), " and ", PrintType(b.type()))));
    return a;
  }
  for (size_t i = 0; i + 2 < type.sizes.size(); ++i) {
    if (type.sizes[i] == SymInt(1)) type.sizes[i] = b.sizes()[i];
  }
  type.sizes.back() = b.sizes().back();
  const Tensor added = bias.defined() ? StripExpand(bias) : bias;
  return Emit(PrimOp::kMatmul, {Use{a.id()}, Use{b.id()}, OptionalUse(added)}, {type})[0];
}

Tensor Builder::Convolution(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvolutionConfig& config,
                            SymIntVector output_sizes) {
  std::vector<Argument> arguments = {Use{x.id()}, Use{weight.id()}, OptionalUse(bias)};
  AppendConfig(config, arguments);
  const TensorType type{x.dtype(), std::move(output_sizes), {}};
  return Emit(PrimOp::kConvolution, std::move(arguments), {type})[0];
}

Tensor Builder::ConvolutionBackwardInput(const Tensor& grad, const Tensor& weight, const ConvolutionConfig& config,
                                         SymIntVector input_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}, Use{weight.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(input_sizes), {}};
  return Emit(PrimOp::kConvolutionBackwardInput, std::move(arguments), {type})[0];
}

Tensor Builder::ConvolutionBackwardWeight(const Tensor& grad, const Tensor& x, const ConvolutionConfig& config,
                                          SymIntVector weight_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}, Use{x.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(weight_sizes), {}};
  return Emit(PrimOp::kConvolutionBackwardWeight, std::move(arguments), {type})[0];
}

std::pair<Tensor, Tensor> Builder::MaxPool(const Tensor& x, const PoolConfig& config, SymIntVector output_sizes) {
  std::vector<Argument> arguments = {Use{x.id()}};
  AppendConfig(config, arguments);
  const TensorType values{x.dtype(), output_sizes, {}};
  const TensorType indices{DType::kInt64, output_sizes, {}};
  const std::vector<Tensor> results = Emit(PrimOp::kMaxPool, std::move(arguments), {values, indices});
  return {results[0], results[1]};
}

Tensor Builder::MaxPoolBackward(const Tensor& grad, const Tensor& indices, const PoolConfig& config,
                                SymIntVector input_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}, Use{indices.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(input_sizes), {}};
  return Emit(PrimOp::kMaxPoolBackward, std::move(arguments), {type})[0];
}

Tensor Builder::AvgPool(const Tensor& x, const PoolConfig& config, SymIntVector output_sizes) {
  std::vector<Argument> arguments = {Use{x.id()}};
  AppendConfig(config, arguments);
  const TensorType type{x.dtype(), std::move(output_sizes), {}};
  return Emit(PrimOp::kAvgPool, std::move(arguments), {type})[0];
}

Tensor Builder::AvgPoolBackward(const Tensor& grad, const PoolConfig& config, SymIntVector input_sizes) {
  std::vector<Argument> arguments = {Use{grad.id()}};
  AppendConfig(config, arguments);
  const TensorType type{grad.dtype(), std::move(input_sizes), {}};
  return Emit(PrimOp::kAvgPoolBackward, std::move(arguments), {type})[0];
}

Tensor Builder::Gather(const Tensor& x, const Tensor& index, int64_t dim) {
  dim = WrapDim(dim, x.rank());
  TensorType type{x.dtype(), x.sizes(), {}};
  type.sizes.erase(type.sizes.begin() + dim);
  type.sizes.insert(type.sizes.begin() + dim, index.sizes().begin(), index.sizes().end());
  return Emit(PrimOp::kGather, {Use{x.id()}, Use{index.id()}, SymInt(dim)}, {type})[0];
}

Tensor Builder::ScatterAdd(const Tensor& rows, const Tensor& index, const Tensor& base, int64_t dim,
                           int64_t padding_index, SymIntVector output_sizes) {
  if (rows.dtype() == DType::kBool) {
    // bool adds as logical or: count the true elements, then compare with 0.
    const Tensor count = base.defined() ? Cast(base, DType::kInt32) : base;
    const Tensor sum = ScatterAdd(Cast(rows, DType::kInt32), index, count, dim, padding_index, std::move(output_sizes));
    return Cast(sum, DType::kBool);
  }
  const TensorType type{rows.dtype(), std::move(output_sizes), {}};
  return Emit(PrimOp::kScatterAdd,
              {Use{rows.id()}, Use{index.id()}, OptionalUse(base), SymInt(dim), SymInt(padding_index)}, {type})[0];
}

Tensor Builder::CheckedIndex(const Tensor& index, const SymInt& size, bool from_end, std::optional<int64_t> ignored) {
  const Tensor wide = index.dtype() == DType::kInt32 ? index : Cast(index, DType::kInt64);
  const Argument passes = ignored.has_value() ? Argument(SymInt(*ignored)) : Argument(None{});
  return Emit(PrimOp::kCheckedIndex, {Use{wide.id()}, size, from_end, passes}, {{wide.dtype(), wide.sizes(), {}}})[0];
}

std::pair<Tensor, Tensor> Builder::Scan(serialization::Scan::Function function, const Tensor& x, int64_t dim,
                                        bool reverse) {
  std::vector<TensorType> types = {{x.dtype(), x.sizes(), {}}};
  const bool has_indices = function == serialization::Scan::MAX || function == serialization::Scan::MIN;
  if (has_indices) types.push_back({DType::kInt64, x.sizes(), {}});
  const std::vector<Tensor> results =
      Emit(PrimOp::kScan,
           {Use{x.id()}, SymInt(static_cast<int64_t>(function)), SymInt(WrapDim(dim, x.rank())), reverse}, types);
  return {results[0], has_indices ? results[1] : Tensor()};
}

std::pair<Tensor, Tensor> Builder::Sort(const Tensor& x, int64_t dim, SymInt count, bool descending) {
  dim = WrapDim(dim, x.rank());
  SymIntVector sizes = x.sizes();
  sizes[static_cast<size_t>(dim)] = std::move(count);
  const std::vector<Tensor> results =
      Emit(PrimOp::kSort, {Use{x.id()}, SymInt(dim), descending}, {{x.dtype(), sizes, {}}, {DType::kInt64, sizes, {}}});
  return {results[0], results[1]};
}

Tensor Builder::Concat(absl::Span<const Tensor> tensors, int64_t dim) {
  if (tensors.size() == 1) return tensors[0];
  dim = WrapDim(dim, tensors[0].rank());
  TensorType type{tensors[0].dtype(), tensors[0].sizes(), {}};
  SymInt total = 0;
  std::vector<Use> uses;
  for (const Tensor& tensor : tensors) {
    total = total + tensor.sizes()[static_cast<size_t>(dim)];
    uses.push_back(Use{tensor.id()});
  }
  type.sizes[static_cast<size_t>(dim)] = total;
  return Emit(PrimOp::kConcat, {std::move(uses), SymInt(dim)}, {type})[0];
}

}  // namespace cotan::aot
