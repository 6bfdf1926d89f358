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
#include "kernels/api/matmul_epilogue.h"
#include "kernels/api/registry.h"

namespace cotan {
namespace {

using serialization::Convolution;
using serialization::Op;
using serialization::Pool;

// The largest value of an attribute, so that sums of a few products of attributes and tensor sizes fit int64.
constexpr int64_t kMaxAttribute = int64_t{1} << 24;
constexpr int64_t kMaxSize = int64_t{1} << 36;

std::string Describe(DType dtype, absl::Span<const int64_t> sizes) {
  return absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(sizes, ","), "]");
}

std::string Describe(const TensorSpec& spec) { return Describe(spec.dtype, spec.layout.sizes); }

int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

absl::Status Expect(absl::string_view operand, const TensorSpec& spec, DType dtype, absl::Span<const int64_t> sizes) {
  if (spec.dtype == dtype && absl::MakeConstSpan(spec.layout.sizes) == sizes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected ", Describe(dtype, sizes)));
}

absl::Status ExpectRank(absl::string_view operand, const TensorSpec& spec, int min, int max) {
  if (spec.layout.rank() >= min && spec.layout.rank() <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected ", min, " to ", max, " dimensions"));
}

absl::Status ExpectCounts(const KernelRequest& request, size_t min_inputs, size_t max_inputs, size_t min_outputs,
                          size_t max_outputs) {
  if (request.inputs.size() >= min_inputs && request.inputs.size() <= max_inputs &&
      request.outputs.size() >= min_outputs && request.outputs.size() <= max_outputs) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("has ", request.inputs.size(), " inputs and ", request.outputs.size(),
                                                 " outputs, takes ", min_inputs, " to ", max_inputs, " and ",
                                                 min_outputs, " to ", max_outputs));
}

absl::Status ExpectFloat(absl::string_view operand, const TensorSpec& spec) {
  if (IsFloatingPoint(spec.dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(operand, " is ", Describe(spec), ", expected a float dtype"));
}

absl::Status ExpectNumber(absl::string_view operand, const TensorSpec& spec) {
  if (IsFloatingPoint(spec.dtype) || IsInteger(spec.dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected an integer or float dtype"));
}

// Returns true if `sizes` broadcasts to `target` by PyTorch's rule.
bool BroadcastsTo(absl::Span<const int64_t> sizes, absl::Span<const int64_t> target) {
  if (sizes.size() > target.size()) return false;
  const size_t missing = target.size() - sizes.size();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && sizes[d] != target[missing + d]) return false;
  }
  return true;
}

absl::Status ExpectBroadcast(absl::string_view operand, const TensorSpec& spec, DType dtype,
                             absl::Span<const int64_t> target) {
  if (spec.dtype == dtype && BroadcastsTo(spec.layout.sizes, target)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(operand, " is ", Describe(spec), ", expected sizes that broadcast to ", Describe(dtype, target)));
}

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
    if (BroadcastsTo(batch, sizes)) continue;
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

template <typename List>
absl::Status ExpectAttribute(absl::string_view name, const List& list, int count, int64_t min) {
  if (list.size() != count) {
    return absl::InvalidArgumentError(absl::StrCat(name, " has ", list.size(), " entries, expected ", count));
  }
  for (const int64_t value : list) {
    if (value < min || value > kMaxAttribute) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", expected ", min, " to ", kMaxAttribute));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckConvolutionAttributes(const Convolution& op, int spatial) {
  COTAN_RETURN_IF_ERROR(ExpectAttribute("stride", op.stride(), spatial, 1));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("padding", op.padding(), spatial, 0));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("dilation", op.dilation(), spatial, 1));
  if (op.groups() < 1) return absl::InvalidArgumentError(absl::StrCat("groups is ", op.groups()));
  if (!op.transposed()) return absl::OkStatus();
  return ExpectAttribute("output_padding", op.output_padding(), spatial, 0);
}

// Checks input, weight and output of a convolution; the op computes one of them from the other two.
absl::Status CheckConvolutionOperands(const Convolution& op, const TensorSpec& input, const TensorSpec& weight,
                                      const TensorSpec& output) {
  COTAN_RETURN_IF_ERROR(ExpectRank("the convolution's input", input, 3, 5));
  COTAN_RETURN_IF_ERROR(ExpectFloat("the convolution's input", input));
  const int spatial = input.layout.rank() - 2;
  COTAN_RETURN_IF_ERROR(CheckConvolutionAttributes(op, spatial));
  COTAN_RETURN_IF_ERROR(ExpectRank("the weight", weight, spatial + 2, spatial + 2));
  const int64_t channels = input.layout.sizes[1];
  const int64_t groups = op.groups();
  if (channels % groups != 0) {
    return absl::InvalidArgumentError(absl::StrCat("groups ", groups, " does not divide ", channels, " channels"));
  }
  DimVector weight_sizes = weight.layout.sizes;
  if (op.transposed()) {
    weight_sizes[0] = channels;
  } else {
    weight_sizes[1] = channels / groups;
  }
  COTAN_RETURN_IF_ERROR(Expect("the weight", weight, input.dtype, weight_sizes));
  if (!op.transposed() && weight_sizes[0] % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("groups ", groups, " does not divide ", weight_sizes[0], " output channels"));
  }
  DimVector output_sizes = {input.layout.sizes[0], op.transposed() ? weight_sizes[1] * groups : weight_sizes[0]};
  for (int d = 0; d < spatial; ++d) {
    const auto axis = static_cast<size_t>(d + 2);
    if (weight_sizes[axis] < 1 || weight_sizes[axis] > kMaxAttribute || input.layout.sizes[axis] > kMaxSize) {
      return absl::InvalidArgumentError(absl::StrCat("the weight is ", Describe(weight), " for an input of ",
                                                     Describe(input), ": a spatial size is out of range"));
    }
    output_sizes.push_back(ConvolutionOutputSize(op, d, input.layout.sizes[axis], weight_sizes[axis]));
  }
  return Expect("the convolution's output", output, input.dtype, output_sizes);
}

absl::Status CheckConvolution(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 3, 1, 1));
  COTAN_RETURN_IF_ERROR(
      CheckConvolutionOperands(request.op.convolution(), request.inputs[0], request.inputs[1], request.outputs[0]));
  if (request.inputs.size() < 3) return absl::OkStatus();
  return Expect("the bias", request.inputs[2], request.outputs[0].dtype, {request.outputs[0].layout.sizes[1]});
}

absl::Status CheckConvolutionBackwardInput(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 2, 1, 1));
  return CheckConvolutionOperands(request.op.convolution_backward_input().forward(), request.outputs[0],
                                  request.inputs[1], request.inputs[0]);
}

absl::Status CheckConvolutionBackwardWeight(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 2, 1, 1));
  return CheckConvolutionOperands(request.op.convolution_backward_weight().forward(), request.inputs[1],
                                  request.outputs[0], request.inputs[0]);
}

// `input` and `output` are those of the forward pool.
absl::Status CheckPoolOperands(const Pool& op, bool is_max, const TensorSpec& input, const TensorSpec& output) {
  const int spatial = op.kernel_size();
  if (spatial < 1 || spatial > 3) {
    return absl::InvalidArgumentError(absl::StrCat("kernel has ", spatial, " entries, expected 1 to 3"));
  }
  COTAN_RETURN_IF_ERROR(ExpectAttribute("kernel", op.kernel(), spatial, 1));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("stride", op.stride(), spatial, 1));
  COTAN_RETURN_IF_ERROR(ExpectAttribute("padding", op.padding(), spatial, 0));
  if (is_max || op.dilation_size() != 0) {
    COTAN_RETURN_IF_ERROR(ExpectAttribute("dilation", op.dilation(), spatial, 1));
  }
  if (!is_max && std::any_of(op.dilation().begin(), op.dilation().end(), [](int64_t d) { return d != 1; })) {
    return absl::InvalidArgumentError("average pooling has no dilation");
  }
  if (op.divisor_override() < 0) return absl::InvalidArgumentError("divisor_override is negative");
  COTAN_RETURN_IF_ERROR(ExpectRank("the pool's input", input, spatial, 64));
  COTAN_RETURN_IF_ERROR(is_max ? ExpectNumber("the pool's input", input) : ExpectFloat("the pool's input", input));
  DimVector sizes = input.layout.sizes;
  for (int d = 0; d < spatial; ++d) {
    const size_t axis = sizes.size() - static_cast<size_t>(spatial - d);
    const int64_t dilation = is_max ? op.dilation(d) : 1;
    if (sizes[axis] > kMaxSize) return absl::InvalidArgumentError("a spatial size is out of range");
    if (op.padding(d) > (dilation * (op.kernel(d) - 1) + 1) / 2) {
      return absl::InvalidArgumentError(absl::StrCat("padding ", op.padding(d), " exceeds half of the kernel, ",
                                                     op.kernel(d), " (dilation ", dilation, ")"));
    }
    sizes[axis] = PoolOutputSize(op, d, sizes[axis]);
  }
  return Expect("the pool's output", output, input.dtype, sizes);
}

absl::Status CheckMaxPool(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 2));
  COTAN_RETURN_IF_ERROR(CheckPoolOperands(request.op.max_pool(), true, request.inputs[0], request.outputs[0]));
  if (request.outputs.size() < 2) return absl::OkStatus();
  return Expect("the indices", request.outputs[1], DType::kInt64, request.outputs[0].layout.sizes);
}

absl::Status CheckMaxPoolBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 2, 2, 1, 1));
  COTAN_RETURN_IF_ERROR(CheckPoolOperands(request.op.max_pool_backward(), true, request.outputs[0], request.inputs[0]));
  return Expect("the indices", request.inputs[1], DType::kInt64, request.inputs[0].layout.sizes);
}

absl::Status CheckAvgPool(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 1));
  return CheckPoolOperands(request.op.avg_pool(), false, request.inputs[0], request.outputs[0]);
}

absl::Status CheckAvgPoolBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, 1, 1, 1, 1));
  return CheckPoolOperands(request.op.avg_pool_backward(), false, request.outputs[0], request.inputs[0]);
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

// An operand of a recurrent layer, for messages.
struct NamedSizes {
  absl::string_view name;
  DimVector sizes;
};

absl::Status ExpectAll(absl::Span<const TensorSpec> specs, DType dtype, absl::Span<const NamedSizes> expected) {
  for (size_t i = 0; i < specs.size(); ++i) {
    COTAN_RETURN_IF_ERROR(Expect(expected[i].name, specs[i], dtype, expected[i].sizes));
  }
  return absl::OkStatus();
}

struct RecurrentSizes {
  int64_t steps, batch, hidden, gates;
};

// The sizes of a recurrent layer, from `hidden` [T, N, H], an operand of the forward and the backward op.
absl::StatusOr<RecurrentSizes> SizesOf(const serialization::Recurrent& op, const TensorSpec& hidden) {
  using serialization::Recurrent;
  COTAN_RETURN_IF_ERROR(ExpectFloat("hidden", hidden));
  COTAN_RETURN_IF_ERROR(ExpectRank("hidden", hidden, 3, 3));
  const DimVector& sizes = hidden.layout.sizes;
  RecurrentSizes result = {sizes[0], sizes[1], sizes[2], 1};
  for (const int64_t size : sizes) {
    if (size > kMaxAttribute) return absl::InvalidArgumentError(absl::StrCat("hidden is ", Describe(hidden)));
  }
  switch (op.cell()) {
    case Recurrent::RNN_TANH:
    case Recurrent::RNN_RELU:
      return result;
    case Recurrent::LSTM:
      result.gates = 4;
      return result;
    case Recurrent::GRU:
      result.gates = 3;
      return result;
    default:
      return absl::InvalidArgumentError(absl::StrCat("cell ", op.cell(), " is unknown"));
  }
}

absl::Status CheckRecurrent(const KernelRequest& request) {
  using serialization::Recurrent;
  const Recurrent& op = request.op.recurrent();
  const bool is_lstm = op.cell() == Recurrent::LSTM, is_gru = op.cell() == Recurrent::GRU;
  const size_t states = is_lstm ? 2 : 1;
  COTAN_RETURN_IF_ERROR(
      ExpectCounts(request, 2 + states, is_gru ? 4 : 2 + states, states, states + (is_lstm || is_gru ? 1 : 0)));
  const TensorSpec& hidden = request.outputs[0];
  COTAN_ASSIGN_OR_RETURN(const RecurrentSizes s, SizesOf(op, hidden));
  const int64_t gates = s.gates * s.hidden;
  const NamedSizes state = {is_lstm ? "c0" : "the bias", is_lstm ? DimVector{s.batch, s.hidden} : DimVector{gates}};
  COTAN_RETURN_IF_ERROR(ExpectAll(request.inputs, hidden.dtype,
                                  {{"projected", {s.steps, s.batch, gates}},
                                   {"the weight", {gates, s.hidden}},
                                   {"h0", {s.batch, s.hidden}},
                                   state}));
  const NamedSizes saved = {"gates", {s.steps, s.batch, 4 * s.hidden}};
  const NamedSizes steps = {"hidden", {s.steps, s.batch, s.hidden}};
  if (is_lstm) return ExpectAll(request.outputs, hidden.dtype, {steps, {"cell", steps.sizes}, saved});
  return ExpectAll(request.outputs, hidden.dtype, {steps, saved});
}

absl::Status CheckRecurrentBackward(const KernelRequest& request) {
  using serialization::Recurrent;
  const Recurrent& op = request.op.recurrent_backward();
  const bool is_lstm = op.cell() == Recurrent::LSTM, is_gru = op.cell() == Recurrent::GRU;
  const size_t inputs = is_lstm ? 8 : is_gru ? 5 : 4;
  const size_t outputs = is_lstm || is_gru ? 3 : 2;
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, inputs, inputs, outputs, outputs));
  const TensorSpec& hidden = request.inputs[1];
  COTAN_ASSIGN_OR_RETURN(const RecurrentSizes s, SizesOf(op, hidden));
  const int64_t gates = s.gates * s.hidden;
  const DimVector steps = {s.steps, s.batch, s.hidden};
  const DimVector state = {s.batch, s.hidden};
  COTAN_RETURN_IF_ERROR(ExpectAll(request.inputs, hidden.dtype,
                                  {{"grad_hidden", steps},
                                   {"hidden", steps},
                                   {"the weight", {gates, s.hidden}},
                                   {"h0", state},
                                   {"gates", {s.steps, s.batch, 4 * s.hidden}},
                                   {"cell", steps},
                                   {"c0", state},
                                   {"the gradient of the last cell", state}}));
  const NamedSizes last = {is_lstm ? "the gradient of c0" : "the gradient of the hidden products",
                           is_lstm ? state : DimVector{s.steps, s.batch, gates}};
  return ExpectAll(request.outputs, hidden.dtype,
                   {{"the gradient of projected", {s.steps, s.batch, gates}}, {"the gradient of h0", state}, last});
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
      return CheckConvolution(request);
    case Op::kConvolutionBackwardInput:
      return CheckConvolutionBackwardInput(request);
    case Op::kConvolutionBackwardWeight:
      return CheckConvolutionBackwardWeight(request);
    case Op::kMaxPool:
      return CheckMaxPool(request);
    case Op::kMaxPoolBackward:
      return CheckMaxPoolBackward(request);
    case Op::kAvgPool:
      return CheckAvgPool(request);
    case Op::kAvgPoolBackward:
      return CheckAvgPoolBackward(request);
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
      return CheckRecurrent(request);
    case Op::kRecurrentBackward:
      return CheckRecurrentBackward(request);
    case Op::kEffect:
      return CheckEffect(request);
    case Op::kView:
      return absl::InvalidArgumentError("a view is resolved by the planner and has no kernel");
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

int64_t ConvolutionOutputSize(const Convolution& op, int dim, int64_t input, int64_t kernel) {
  const int64_t extent = op.dilation(dim) * (kernel - 1) + 1;
  if (op.transposed()) {
    return (input - 1) * op.stride(dim) - 2 * op.padding(dim) + extent + op.output_padding(dim);
  }
  return FloorDiv(input + 2 * op.padding(dim) - extent, op.stride(dim)) + 1;
}

int64_t PoolOutputSize(const Pool& op, int dim, int64_t input) {
  const int64_t dilation = op.dilation_size() == 0 ? 1 : op.dilation(dim);
  const int64_t extent = dilation * (op.kernel(dim) - 1) + 1;
  const int64_t stride = op.stride(dim);
  const int64_t slack = op.ceil_mode() ? stride - 1 : 0;
  const int64_t output = FloorDiv(input + 2 * op.padding(dim) - extent + slack, stride) + 1;
  // A window must not start in the padding after the input.
  if (op.ceil_mode() && (output - 1) * stride >= input + op.padding(dim)) return output - 1;
  return output;
}

}  // namespace cotan
