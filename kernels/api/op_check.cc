// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/op_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/index_range.h"
#include "kernels/api/linear_algebra_check.h"
#include "kernels/api/matmul_epilogue.h"
#include "kernels/api/operand_check.h"
#include "kernels/api/recurrent_check.h"
#include "kernels/api/registry.h"
#include "kernels/api/window_check.h"

namespace cotan {
namespace {

using op_check::Describe;
using op_check::Expect;
using op_check::ExpectBroadcast;
using op_check::ExpectCounts;
using op_check::ExpectFloat;
using op_check::ExpectNumber;
using op_check::ExpectRank;
using serialization::Op;

absl::Status CheckMatmul(const KernelRequest& request);

absl::Status CheckMatmulWithEpilogue(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const MatmulParts parts, TakeApartMatmul(request));
  const KernelRequest product = parts.Product(request);
  COTAN_RETURN_IF_ERROR(CheckOperandLayouts(product));
  COTAN_RETURN_IF_ERROR(CheckMatmul(product));
  COTAN_ASSIGN_OR_RETURN(const ExprProgram program, ResolveExpr(parts.Epilogue(request)));
  if (request.outputs[0].dtype != product.outputs[0].dtype) {
    return absl::InvalidArgumentError(absl::StrCat("output 0 is ", DTypeName(request.outputs[0].dtype),
                                                   ", expected the product's ", DTypeName(product.outputs[0].dtype)));
  }
  if (program.has_reduce_dims) return absl::InvalidArgumentError("the epilogue reduces dimensions");
  const DimVector& sizes = product.outputs[0].layout.sizes;
  if (program.domain_sizes == sizes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the epilogue's domain is [", absl::StrJoin(program.domain_sizes, ","),
                                                 "], the product has sizes [", absl::StrJoin(sizes, ","), "]"));
}

absl::Status CheckMatmul(const KernelRequest& request) {
  if (request.op.matmul().has_epilogue()) return CheckMatmulWithEpilogue(request);
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 3, 1, 1));
  const TensorSpec& a = request.inputs[0];
  const TensorSpec& b = request.inputs[1];
  COTAN_RETURN_IF_ERROR(ExpectRank("input 0", a, 2, 64));
  COTAN_RETURN_IF_ERROR(ExpectRank("input 1", b, 2, 64));
  COTAN_RETURN_IF_ERROR(ExpectNumber("input 0", a));
  const int batch_rank = std::max(a.layout.rank(), b.layout.rank()) - 2;
  DimVector sizes(static_cast<size_t>(batch_rank), 1);
  for (const TensorSpec* spec : {&a, &b}) {
    const size_t missing = sizes.size() + 2 - spec->layout.sizes.size();
    for (size_t d = 0; d + 2 < spec->layout.sizes.size(); ++d) {
      if (spec->layout.sizes[d] != 1) sizes[missing + d] = spec->layout.sizes[d];
    }
  }
  DimVector a_sizes(a.layout.sizes.end() - 2, a.layout.sizes.end());
  for (const TensorSpec* spec : {&a, &b}) {
    const auto batch = absl::MakeConstSpan(spec->layout.sizes).subspan(0, spec->layout.sizes.size() - 2);
    if (op_check::BroadcastsTo(batch, sizes)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("batch dimensions of ", Describe(a), " and ", Describe(b), " differ"));
  }
  const int64_t k = a_sizes[1];
  const int64_t n = b.layout.sizes.back();
  DimVector b_sizes = b.layout.sizes;
  b_sizes[b_sizes.size() - 2] = k;
  COTAN_RETURN_IF_ERROR(Expect("input 1", b, a.dtype, b_sizes));
  sizes.push_back(a_sizes[0]);
  sizes.push_back(n);
  COTAN_RETURN_IF_ERROR(Expect("the output", request.outputs[0], a.dtype, sizes));
  if (request.inputs.size() < 3) return absl::OkStatus();
  return ExpectBroadcast("input 2", request.inputs[2], a.dtype, sizes);
}

absl::Status ExpectIndex(const TensorSpec& index) {
  if (index.dtype == DType::kInt32 || index.dtype == DType::kInt64) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the index is ", Describe(index), ", expected i32 or i64"));
}

absl::Status CheckCheckedIndex(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 1));
  const TensorSpec& index = request.inputs[0];
  COTAN_RETURN_IF_ERROR(ExpectIndex(index));
  COTAN_RETURN_IF_ERROR(IndexRange::Of(request).status());
  return Expect("the output", request.outputs[0], index.dtype, index.layout.sizes);
}

// Sizes of `table` with dimension `dim` replaced by those of `index`.
absl::StatusOr<DimVector> GatheredSizes(const TensorSpec& table, int64_t dim, const TensorSpec& index) {
  if (dim < 0 || dim >= table.layout.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("dim is ", dim, " for ", Describe(table)));
  }
  COTAN_RETURN_IF_ERROR(ExpectIndex(index));
  DimVector sizes(table.layout.sizes.begin(), table.layout.sizes.begin() + dim);
  sizes.insert(sizes.end(), index.layout.sizes.begin(), index.layout.sizes.end());
  sizes.insert(sizes.end(), table.layout.sizes.begin() + dim + 1, table.layout.sizes.end());
  return sizes;
}

absl::Status CheckGather(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 2, 1, 1));
  COTAN_ASSIGN_OR_RETURN(const DimVector sizes,
                         GatheredSizes(request.inputs[0], request.op.gather().dim(), request.inputs[1]));
  return Expect("the output", request.outputs[0], request.inputs[0].dtype, sizes);
}

absl::Status CheckScatterAdd(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 3, 1, 1));
  const TensorSpec& output = request.outputs[0];
  COTAN_RETURN_IF_ERROR(ExpectNumber("the output", output));
  COTAN_ASSIGN_OR_RETURN(const DimVector sizes,
                         GatheredSizes(output, request.op.scatter_add().dim(), request.inputs[1]));
  COTAN_RETURN_IF_ERROR(Expect("input 0", request.inputs[0], output.dtype, sizes));
  if (request.inputs.size() < 3) return absl::OkStatus();
  return Expect("input 2", request.inputs[2], output.dtype, output.layout.sizes);
}

absl::Status CheckConcat(const KernelRequest& request) {
  if (request.inputs.empty()) return absl::InvalidArgumentError("has no inputs");
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, request.inputs.size(), 1, 1));
  const TensorSpec& output = request.outputs[0];
  const int64_t dim = request.op.concat().dim();
  if (dim < 0 || dim >= output.layout.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("dim is ", dim, " for an output of ", Describe(output)));
  }
  int64_t total = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorSpec& input = request.inputs[i];
    DimVector sizes = output.layout.sizes;
    if (input.layout.rank() == output.layout.rank()) {
      sizes[static_cast<size_t>(dim)] = input.layout.sizes[static_cast<size_t>(dim)];
    }
    COTAN_RETURN_IF_ERROR(Expect(absl::StrCat("input ", i), input, output.dtype, sizes));
    if (__builtin_add_overflow(total, sizes[static_cast<size_t>(dim)], &total)) {
      return absl::InvalidArgumentError("the inputs' sizes exceed 64 bits");
    }
  }
  if (total == output.layout.sizes[static_cast<size_t>(dim)]) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the inputs have ", total, " elements along dim ", dim, ", the output is ", Describe(output)));
}

absl::Status CheckCopy(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 1));
  return Expect("the output", request.outputs[0], request.inputs[0].dtype, request.inputs[0].layout.sizes);
}

// The operands of an attention: q, k, v, result and logsumexp (null if there is none).
absl::Status CheckAttentionOperands(const TensorSpec& q, const TensorSpec& k, const TensorSpec& v,
                                    const TensorSpec& result, const TensorSpec* logsumexp, const TensorSpec* bias) {
  COTAN_RETURN_IF_ERROR(ExpectFloat("q", q));
  COTAN_RETURN_IF_ERROR(ExpectRank("q", q, 4, 4));
  COTAN_RETURN_IF_ERROR(ExpectRank("k", k, 4, 4));
  COTAN_RETURN_IF_ERROR(ExpectRank("v", v, 4, 4));
  const DimVector& sizes = q.layout.sizes;
  const int64_t keys = k.layout.sizes[2];
  const int64_t value_size = v.layout.sizes[3];
  COTAN_RETURN_IF_ERROR(Expect("k", k, q.dtype, {sizes[0], sizes[1], keys, sizes[3]}));
  COTAN_RETURN_IF_ERROR(Expect("v", v, q.dtype, {sizes[0], sizes[1], keys, value_size}));
  COTAN_RETURN_IF_ERROR(Expect("the result", result, q.dtype, {sizes[0], sizes[1], sizes[2], value_size}));
  if (logsumexp != nullptr) {
    const DType dtype = q.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    COTAN_RETURN_IF_ERROR(Expect("logsumexp", *logsumexp, dtype, {sizes[0], sizes[1], sizes[2]}));
  }
  if (bias == nullptr) return absl::OkStatus();
  return ExpectBroadcast("the bias", *bias, q.dtype, {sizes[0], sizes[1], sizes[2], keys});
}

absl::Status CheckAttention(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 3, 4, 1, 2));
  return CheckAttentionOperands(request.inputs[0], request.inputs[1], request.inputs[2], request.outputs[0],
                                request.outputs.size() > 1 ? &request.outputs[1] : nullptr,
                                request.inputs.size() > 3 ? &request.inputs[3] : nullptr);
}

absl::Status CheckAttentionBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 6, 7, 3, 3));
  const absl::Span<const TensorSpec> in = request.inputs;
  COTAN_RETURN_IF_ERROR(CheckAttentionOperands(in[1], in[2], in[3], in[4], &in[5], in.size() > 6 ? &in[6] : nullptr));
  COTAN_RETURN_IF_ERROR(Expect("grad_output", in[0], in[4].dtype, in[4].layout.sizes));
  for (size_t i = 0; i < 3; ++i) {
    COTAN_RETURN_IF_ERROR(
        Expect(absl::StrCat("output ", i), request.outputs[i], in[i + 1].dtype, in[i + 1].layout.sizes));
  }
  return absl::OkStatus();
}

absl::Status CheckScan(const KernelRequest& request) {
  using serialization::Scan;
  const Scan& scan = request.op.scan();
  const bool with_indices = scan.function() == Scan::MAX || scan.function() == Scan::MIN;
  if (scan.function() == Scan::FUNCTION_UNSPECIFIED || !Scan::Function_IsValid(scan.function())) {
    return absl::InvalidArgumentError(absl::StrCat("function ", scan.function(), " is unknown"));
  }
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, with_indices ? 2 : 1, with_indices ? 2 : 1));
  const TensorSpec& input = request.inputs[0];
  if (scan.dim() < 0 || scan.dim() >= input.layout.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("dim is ", scan.dim(), " for an input of ", Describe(input)));
  }
  COTAN_RETURN_IF_ERROR(Expect("the output", request.outputs[0], input.dtype, input.layout.sizes));
  if (!with_indices) return absl::OkStatus();
  return Expect("the indices", request.outputs[1], DType::kInt64, input.layout.sizes);
}

absl::Status CheckSort(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 2, 2));
  const TensorSpec& input = request.inputs[0];
  const TensorSpec& values = request.outputs[0];
  const int64_t dim = request.op.sort().dim();
  if (dim < 0 || dim >= input.layout.rank()) {
    return absl::InvalidArgumentError(absl::StrCat("dim is ", dim, " for an input of ", Describe(input)));
  }
  if (IsComplex(input.dtype)) return absl::InvalidArgumentError("sort is not defined for complex dtypes");
  DimVector sizes = input.layout.sizes;
  if (values.layout.rank() == input.layout.rank()) {
    int64_t& count = sizes[static_cast<size_t>(dim)];
    count = std::min(count, values.layout.sizes[static_cast<size_t>(dim)]);
  }
  COTAN_RETURN_IF_ERROR(Expect("the values", values, input.dtype, sizes));
  return Expect("the indices", request.outputs[1], DType::kInt64, sizes);
}

absl::Status CheckEffect(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 0, 0));
  const TensorSpec& value = request.inputs[0];
  if (IsComplex(value.dtype)) return absl::InvalidArgumentError(absl::StrCat("the value is ", Describe(value)));
  switch (request.op.effect().kind()) {
    case serialization::Effect::ASSERT:
      return Expect("the condition", value, DType::kBool, value.layout.sizes);
    case serialization::Effect::METRIC:
      if (NumElements(value.layout.sizes) == 1) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat("the metric is ", Describe(value), ", expected one number"));
    default:
      return absl::OkStatus();
  }
}

absl::Status CheckKind(const KernelRequest& request) {
  switch (request.op.kind_case()) {
    case Op::kExpr:
      return ResolveExpr(request).status();
    case Op::kCopy:
      return CheckCopy(request);
    case Op::kMatmul:
      return CheckMatmul(request);
    case Op::kConvolution:
      return op_check::CheckConvolution(request);
    case Op::kConvolutionBackwardInput:
      return op_check::CheckConvolutionBackwardInput(request);
    case Op::kConvolutionBackwardWeight:
      return op_check::CheckConvolutionBackwardWeight(request);
    case Op::kMaxPool:
      return op_check::CheckMaxPool(request);
    case Op::kMaxPoolBackward:
      return op_check::CheckMaxPoolBackward(request);
    case Op::kAvgPool:
      return op_check::CheckAvgPool(request);
    case Op::kAvgPoolBackward:
      return op_check::CheckAvgPoolBackward(request);
    case Op::kGather:
      return CheckGather(request);
    case Op::kScatterAdd:
      return CheckScatterAdd(request);
    case Op::kConcat:
      return CheckConcat(request);
    case Op::kAttention:
      return CheckAttention(request);
    case Op::kAttentionBackward:
      return CheckAttentionBackward(request);
    case Op::kCheckedIndex:
      return CheckCheckedIndex(request);
    case Op::kScan:
      return CheckScan(request);
    case Op::kSort:
      return CheckSort(request);
    case Op::kRecurrent:
      return op_check::CheckRecurrent(request);
    case Op::kRecurrentBackward:
      return op_check::CheckRecurrentBackward(request);
    case Op::kEffect:
      return CheckEffect(request);
    case Op::kView:
      return absl::InvalidArgumentError("a view is resolved by the planner and has no kernel");
    case Op::kCall:
      return absl::InvalidArgumentError("a call is replaced by the ops of its block and has no kernel");
    case Op::kLinearAlgebra:
      return op_check::CheckLinearAlgebra(request);
    case Op::kCollective:
      return absl::OkStatus();  // Communicator::Prepare() checks it, so that other programs do without the code
    case Op::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("the op has no kind; the program needs a newer runtime");
}

absl::Status CheckLayout(const TensorSpec& spec) {
  const StridedLayout& layout = spec.layout;
  if (ByteSize(spec.dtype) == 0) return absl::InvalidArgumentError("has no dtype");
  if (layout.sizes.size() != layout.strides.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", layout.sizes.size(), " sizes and ", layout.strides.size(), " strides"));
  }
  if (layout.rank() > 64) return absl::InvalidArgumentError(absl::StrCat("has ", layout.rank(), " dimensions"));
  int64_t last = 0;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    int64_t span = 0;
    if (layout.sizes[d] < 0 || layout.strides[d] < 0 ||
        __builtin_mul_overflow(std::max<int64_t>(layout.sizes[d] - 1, 0), layout.strides[d], &span) ||
        __builtin_add_overflow(last, span, &last)) {
      return absl::InvalidArgumentError(absl::StrCat("has layout ", ToString(layout), ": negative or too large"));
    }
  }
  int64_t bytes = 0;
  if (CheckedNumElements(layout.sizes) < 0 ||
      __builtin_mul_overflow(last + 1, static_cast<int64_t>(ByteSize(spec.dtype)), &bytes)) {
    return absl::InvalidArgumentError(absl::StrCat("has layout ", ToString(layout), ": too large"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOperandLayouts(const KernelRequest& request) {
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const absl::Status status = CheckLayout(request.inputs[i]);
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("input ", i, " ", status.message()));
  }
  for (size_t i = 0; i < request.outputs.size(); ++i) {
    const absl::Status status = CheckLayout(request.outputs[i]);
    if (!status.ok()) return absl::InvalidArgumentError(absl::StrCat("output ", i, " ", status.message()));
    if (OverlapsItself(request.outputs[i].layout)) {
      return absl::InvalidArgumentError(absl::StrCat("output ", i, " has layout ", ToString(request.outputs[i].layout),
                                                     ": elements of an output may not share memory"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOp(const KernelRequest& request) {
  absl::Status status = CheckOperandLayouts(request);
  if (status.ok()) status = CheckKind(request);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(OpKindName(request.op.kind_case()), ": ", status.message()));
}

}  // namespace cotan
