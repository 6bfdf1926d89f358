// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr_compile.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"

namespace cotan::cuda {
namespace {

using serialization::ScalarFn;

// Returns true if COTAN_CUDA_SCALAR_FNS has the function of this number.
constexpr auto kHasScalarFn = [] {
  std::array<bool, 256> has{};
#define COTAN_CUDA_FN(name, number, operands, value) \
  static_assert(number == serialization::FN_##name); \
  has[number] = true;
  COTAN_CUDA_SCALAR_FNS(COTAN_CUDA_FN)
#undef COTAN_CUDA_FN
  return has;
}();

// Arithmetic on bools is logical; on the floats of DeviceExpr it would compute sums.
bool MayYieldBool(ScalarFn fn) {
  switch (fn) {
    case serialization::FN_INPUT:
    case serialization::FN_CONSTANT:
    case serialization::FN_CAST:
    case serialization::FN_LOGICAL_NOT:
    case serialization::FN_BITWISE_NOT:
    case serialization::FN_ISNAN:
    case serialization::FN_ISINF:
    case serialization::FN_EQ:
    case serialization::FN_NE:
    case serialization::FN_LT:
    case serialization::FN_LE:
    case serialization::FN_GT:
    case serialization::FN_GE:
    case serialization::FN_AND:
    case serialization::FN_OR:
    case serialization::FN_XOR:
    case serialization::FN_SELECT:
      return true;
    default:
      return false;
  }
}

absl::Status Lacks(absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("the CUDA expression kernel has no ", what, " yet: run this program on the CPU"));
}

absl::Status CheckLimit(absl::string_view what, size_t count, size_t limit) {
  if (count <= limit) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("the CUDA expression kernel holds ", limit, " ", what,
                                               ", this expression has ", count, ": let the compiler fuse less"));
}

absl::Status CheckLimits(const KernelRequest& request, const ExprProgram& source) {
  if (source.has_reduce_dims) return Lacks("reductions");
  COTAN_RETURN_IF_ERROR(CheckLimit("dimensions", source.domain_sizes.size(), kMaxExprRank));
  COTAN_RETURN_IF_ERROR(CheckLimit("instructions", source.nodes.size(), kMaxExprInstructions));
  COTAN_RETURN_IF_ERROR(CheckLimit("inputs", request.inputs.size(), kMaxExprInputs));
  return CheckLimit("outputs", request.outputs.size(), kMaxExprOutputs);
}

absl::Status SetOperand(const TensorSpec& spec, const ExprProgram& source, DeviceOperand& operand) {
  if (spec.dtype != DType::kFloat32 && spec.dtype != DType::kBool) return Lacks(DTypeName(spec.dtype));
  operand.dtype = spec.dtype == DType::kFloat32 ? DeviceDType::kFloat32 : DeviceDType::kBool;
  std::ranges::copy(BroadcastStrides(spec.layout, source.domain_sizes), operand.strides);
  return absl::OkStatus();
}

absl::Status SetInstruction(const KernelRequest& request, const ExprProgram& source, const ExprNode& node,
                            DeviceExpr& expr, DeviceInstruction& instruction) {
  const bool is_bool = node.dtype == DType::kBool;
  if (!is_bool && node.dtype != DType::kFloat32) return Lacks(DTypeName(node.dtype));
  if (is_bool && !MayYieldBool(node.fn)) return Lacks(absl::StrCat(ExprFnName(node.fn), " of bool"));
  instruction.index = static_cast<uint8_t>(node.index);
  switch (node.fn) {
    case serialization::FN_INPUT:
      instruction.fn = ExprFn::kInput;
      return SetOperand(request.inputs[node.index], source, expr.inputs[node.index]);
    case serialization::FN_CONSTANT:
    case serialization::FN_SIZE:
      instruction.fn = ExprFn::kConstant;
      instruction.constant = is_bool ? static_cast<float>(node.int_value != 0) : static_cast<float>(node.float_value);
      return absl::OkStatus();
    case serialization::FN_IOTA:
      instruction.fn = ExprFn::kIota;
      return absl::OkStatus();
    case serialization::FN_RANDOM_UNIFORM:
      if (!IsContiguous(request.inputs[node.index].layout)) return Lacks("generator states with gaps");
      instruction.fn = ExprFn::kRandomUniform;
      instruction.slice = node.slice;
      return absl::OkStatus();
    default:
      break;
  }
  if (!kHasScalarFn[node.fn]) return Lacks(ExprFnName(node.fn));
  instruction.fn = is_bool && node.fn == serialization::FN_CAST ? ExprFn::kCastToBool : static_cast<ExprFn>(node.fn);
  for (int k = 0; k < ExprArity(node.fn); ++k) instruction.operands[k] = static_cast<uint8_t>(node.operands[k]);
  return absl::OkStatus();
}

// Returns true if every operand has one stride over dimensions `outer` and `inner` together.
bool CanMerge(const DeviceExpr& expr, size_t num_inputs, int outer, int inner) {
  const auto even = [&](const DeviceOperand& operand) {
    return operand.strides[outer] == operand.strides[inner] * expr.sizes[inner];
  };
  return std::all_of(expr.inputs, expr.inputs + num_inputs, even) &&
         std::all_of(expr.outputs, expr.outputs + expr.num_outputs, even);
}

// Merges adjacent dimensions where possible: each remaining one costs a division per element on the GPU.
void MergeDimensions(size_t num_inputs, DeviceExpr& expr) {
  const auto move = [&](int from, int to) {
    for (DeviceOperand& input : expr.inputs) input.strides[to] = input.strides[from];
    for (DeviceOperand& output : expr.outputs) output.strides[to] = output.strides[from];
  };
  int kept = 0;
  for (int d = 0; d < expr.rank; ++d) {
    if (expr.sizes[d] == 1) continue;
    if (kept > 0 && CanMerge(expr, num_inputs, kept - 1, d)) {
      expr.sizes[kept - 1] *= expr.sizes[d];
      move(d, kept - 1);
    } else {
      expr.sizes[kept] = expr.sizes[d];
      move(d, kept);
      ++kept;
    }
  }
  expr.rank = kept;
}

}  // namespace

absl::StatusOr<DeviceExpr> CompileExpr(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ExprProgram source, ResolveExpr(request));
  COTAN_RETURN_IF_ERROR(CheckLimits(request, source));
  DeviceExpr expr = {};
  expr.num_elements = NumElements(source.domain_sizes);
  expr.rank = source.rank();
  std::ranges::copy(source.domain_sizes, expr.sizes);
  expr.num_instructions = static_cast<int32_t>(source.nodes.size());
  expr.num_outputs = static_cast<int32_t>(source.outputs.size());
  std::ranges::copy(source.outputs, expr.results);
  for (size_t k = 0; k < request.outputs.size(); ++k) {
    COTAN_RETURN_IF_ERROR(SetOperand(request.outputs[k], source, expr.outputs[k]));
  }
  for (size_t i = 0; i < source.nodes.size(); ++i) {
    COTAN_RETURN_IF_ERROR(SetInstruction(request, source, source.nodes[i], expr, expr.instructions[i]));
  }
  const bool uses_coordinates =
      std::ranges::any_of(source.nodes, [](const ExprNode& node) { return node.fn == serialization::FN_IOTA; });
  if (!uses_coordinates) MergeDimensions(request.inputs.size(), expr);
  return expr;
}

}  // namespace cotan::cuda
