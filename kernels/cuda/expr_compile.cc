#include "kernels/cuda/expr_compile.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sym_int.h"

namespace cotan::cuda {
namespace {

using serialization::Expr;

struct ScalarFnInfo {
  absl::string_view name;
  int operands;
};

// By number of the function; an empty name where there is none.
constexpr auto kScalarFns = [] {
  std::array<ScalarFnInfo, 128> infos{};
#define COTAN_CUDA_FN(name, number, operands, value) \
  static_assert(number == serialization::FN_##name); \
  infos[number] = {#name, operands};
  COTAN_CUDA_SCALAR_FNS(COTAN_CUDA_FN)
#undef COTAN_CUDA_FN
  return infos;
}();

// Functions whose result may be bool.
bool YieldsBool(serialization::ScalarFn fn) {
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

absl::StatusOr<int64_t> EvaluateSize(const std::string& text, absl::Span<const int64_t> symbols) {
  COTAN_ASSIGN_OR_RETURN(SymInt size, SymInt::Parse(text.empty() ? "0" : text));
  return size.Evaluate(symbols);
}

absl::Status TooMany(absl::string_view what, int64_t count, int64_t limit) {
  return absl::UnimplementedError(absl::StrCat("the CUDA expression kernel holds ", limit, " ", what,
                                               ", this expression has ", count, ": let the compiler fuse less"));
}

// Sizes and dtypes of the operands; strides of inputs are 0 where they are
// broadcast.
class Compiler {
 public:
  explicit Compiler(const KernelRequest& request) : request_(request), expr_(request.op.expr()) {}

  absl::StatusOr<ExprProgram> Compile() {
    COTAN_RETURN_IF_ERROR(SetDomain());
    COTAN_RETURN_IF_ERROR(SetOperands());
    for (int i = 0; i < expr_.instructions_size(); ++i) {
      if (absl::Status status = AddInstruction(i); !status.ok()) {
        return absl::Status(status.code(), absl::StrCat("instruction ", i, " of the expression: ", status.message()));
      }
    }
    for (int k = 0; k < expr_.outputs_size(); ++k) {
      COTAN_RETURN_IF_ERROR(SetResult(k));
    }
    if (!uses_coordinates_) MergeDimensions();
    return program_;
  }

 private:
  absl::Status SetDomain() {
    if (expr_.reduce_dims_size() != 0) {
      return absl::UnimplementedError("the CUDA expression kernel has no reductions yet: run this program on the CPU");
    }
    if (expr_.domain_sizes_size() > kMaxExprRank) {
      return TooMany("dimensions", expr_.domain_sizes_size(), kMaxExprRank);
    }
    if (expr_.instructions_size() > kMaxExprInstructions) {
      return TooMany("instructions", expr_.instructions_size(), kMaxExprInstructions);
    }
    for (const std::string& text : expr_.domain_sizes()) {
      COTAN_ASSIGN_OR_RETURN(program_.sizes[program_.rank], EvaluateSize(text, request_.symbols));
      ++program_.rank;
    }
    program_.num_elements = CheckedNumElements(absl::MakeConstSpan(program_.sizes, program_.rank));
    if (program_.num_elements < 0) {
      return absl::InvalidArgumentError("the domain of the expression has a negative size or overflows");
    }
    return absl::OkStatus();
  }

  absl::Status SetOperands() {
    if (request_.inputs.size() > kMaxExprInputs) return TooMany("inputs", request_.inputs.size(), kMaxExprInputs);
    if (request_.outputs.size() > kMaxExprOutputs) return TooMany("outputs", request_.outputs.size(), kMaxExprOutputs);
    if (static_cast<int>(request_.outputs.size()) != expr_.outputs_size()) {
      return absl::InvalidArgumentError(absl::StrCat("the expression stores ", expr_.outputs_size(),
                                                     " results, the op has ", request_.outputs.size(), " outputs"));
    }
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      COTAN_RETURN_IF_ERROR(SetOperand(absl::StrCat("input ", i), request_.inputs[i], true, program_.inputs[i]));
    }
    for (size_t k = 0; k < request_.outputs.size(); ++k) {
      COTAN_RETURN_IF_ERROR(SetOperand(absl::StrCat("output ", k), request_.outputs[k], false, program_.outputs[k]));
    }
    program_.num_outputs = expr_.outputs_size();
    return absl::OkStatus();
  }

  absl::Status SetOperand(absl::string_view name, const TensorSpec& spec, bool may_broadcast, ExprOperand& operand) {
    if (spec.dtype == DType::kInt64 && may_broadcast) {
      operand.dtype = ExprDType::kRngState;  // the only use of integers; AddInstruction refuses others
      return absl::OkStatus();
    }
    if (spec.dtype != DType::kFloat32 && spec.dtype != DType::kBool) {
      return absl::UnimplementedError(
          absl::StrCat("the CUDA expression kernel knows f32 and bool; ", name, " is ", DTypeName(spec.dtype)));
    }
    operand.dtype = spec.dtype == DType::kFloat32 ? ExprDType::kFloat32 : ExprDType::kBool;
    const int missing = program_.rank - spec.layout.rank();
    bool fits = missing >= 0 && (may_broadcast || missing == 0);
    for (int d = std::max(missing, 0); fits && d < program_.rank; ++d) {
      const int64_t size = spec.layout.sizes[d - missing];
      const bool broadcast = may_broadcast && size == 1;
      fits = size == program_.sizes[d] || broadcast;
      operand.strides[d] = broadcast ? 0 : spec.layout.strides[d - missing];
    }
    if (fits) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(name, " ", ToString(spec.layout), " does not fit the domain of the expression"));
  }

  absl::Status AddInstruction(int position) {
    const serialization::ExprInstruction& source = expr_.instructions(position);
    const bool is_bool = source.dtype() == serialization::DTYPE_BOOL;
    if (!is_bool && source.dtype() != serialization::DTYPE_F32) {
      return absl::UnimplementedError(absl::StrCat("the CUDA expression kernel knows f32 and bool, not ",
                                                   DTypeName(static_cast<DType>(source.dtype()))));
    }
    if (is_bool && !YieldsBool(source.fn())) {
      return absl::UnimplementedError(
          absl::StrCat("the CUDA expression kernel lacks function ", source.fn(), " for bool"));
    }
    ExprInstruction& instruction = program_.instructions[program_.num_instructions];
    switch (source.fn()) {
      case serialization::FN_INPUT:
        COTAN_RETURN_IF_ERROR(CheckInput(source.index(), is_bool ? ExprDType::kBool : ExprDType::kFloat32));
        instruction.fn = ExprFn::kInput;
        instruction.index = static_cast<uint8_t>(source.index());
        break;
      case serialization::FN_RANDOM_UNIFORM: {
        COTAN_RETURN_IF_ERROR(CheckInput(source.index(), ExprDType::kRngState));
        const StridedLayout& state = request_.inputs[source.index()].layout;
        if (state.rank() != 1 || state.sizes[0] != 2 || state.strides[0] != 1) {
          return absl::InvalidArgumentError(absl::StrCat("the generator state is ", ToString(state), ", not i64[2]"));
        }
        instruction.fn = ExprFn::kRandomUniform;
        instruction.index = static_cast<uint8_t>(source.index());
        COTAN_ASSIGN_OR_RETURN(instruction.slice, EvaluateSize(source.slice(), request_.symbols));
        break;
      }
      case serialization::FN_CONSTANT:
        instruction.fn = ExprFn::kConstant;
        instruction.constant =
            is_bool ? static_cast<float>(source.int_value() != 0) : static_cast<float>(source.float_value());
        break;
      case serialization::FN_SIZE: {
        COTAN_ASSIGN_OR_RETURN(int64_t size, EvaluateSize(source.size(), request_.symbols));
        instruction.fn = ExprFn::kConstant;
        instruction.constant = static_cast<float>(size);
        break;
      }
      case serialization::FN_IOTA:
        if (source.index() >= static_cast<uint32_t>(program_.rank)) {
          return absl::InvalidArgumentError(absl::StrCat("dimension ", source.index(), " is outside the domain"));
        }
        uses_coordinates_ = true;
        instruction.fn = ExprFn::kIota;
        instruction.index = static_cast<uint8_t>(source.index());
        break;
      default:
        COTAN_RETURN_IF_ERROR(SetFunction(position, source, instruction));
        if (is_bool && source.fn() == serialization::FN_CAST) instruction.fn = ExprFn::kCastToBool;
    }
    ++program_.num_instructions;
    return absl::OkStatus();
  }

  absl::Status SetFunction(int position, const serialization::ExprInstruction& source, ExprInstruction& instruction) {
    const int number = source.fn();
    if (number < 0 || number >= static_cast<int>(kScalarFns.size()) || kScalarFns[number].name.empty()) {
      return absl::UnimplementedError(
          absl::StrCat("the CUDA expression kernel lacks function ", number, " of serialization/expr.proto"));
    }
    if (source.operands_size() != kScalarFns[number].operands) {
      return absl::InvalidArgumentError(absl::StrCat(kScalarFns[number].name, " takes ", kScalarFns[number].operands,
                                                     " operands, not ", source.operands_size()));
    }
    for (int k = 0; k < source.operands_size(); ++k) {
      if (source.operands(k) >= static_cast<uint32_t>(position)) {
        return absl::InvalidArgumentError(
            absl::StrCat("operand ", source.operands(k), " of ", kScalarFns[number].name, " is not an earlier one"));
      }
      instruction.operands[k] = static_cast<uint8_t>(source.operands(k));
    }
    instruction.fn = static_cast<ExprFn>(number);
    return absl::OkStatus();
  }

  absl::Status CheckInput(uint32_t index, ExprDType dtype) {
    if (index >= request_.inputs.size() || program_.inputs[index].dtype != dtype) {
      return absl::InvalidArgumentError(absl::StrCat("input ", index, " does not exist or has another dtype"));
    }
    return absl::OkStatus();
  }

  absl::Status SetResult(int k) {
    const uint32_t position = expr_.outputs(k);
    if (position >= static_cast<uint32_t>(program_.num_instructions)) {
      return absl::InvalidArgumentError(
          absl::StrCat("output ", k, " stores instruction ", position, " of ", program_.num_instructions));
    }
    if (static_cast<int>(expr_.instructions(position).dtype()) != static_cast<int>(request_.outputs[k].dtype)) {
      return absl::InvalidArgumentError(
          absl::StrCat("output ", k, " is ", DTypeName(request_.outputs[k].dtype), ", its value has another dtype"));
    }
    program_.results[k] = static_cast<uint8_t>(position);
    return absl::OkStatus();
  }

  // Joins neighbouring dimensions that every operand steps through evenly:
  // each one left costs the GPU a division per element.
  void MergeDimensions() {
    int kept = 0;
    for (int d = 0; d < program_.rank; ++d) {
      if (program_.sizes[d] == 1) continue;
      if (kept > 0 && CanMerge(kept - 1, d)) {
        program_.sizes[kept - 1] *= program_.sizes[d];
        MoveStrides(d, kept - 1);
      } else {
        program_.sizes[kept] = program_.sizes[d];
        MoveStrides(d, kept);
        ++kept;
      }
    }
    program_.rank = kept;
  }

  bool CanMerge(int outer, int inner) const {
    const auto even = [&](const ExprOperand& operand) {
      return operand.strides[outer] == operand.strides[inner] * program_.sizes[inner];
    };
    return std::all_of(program_.inputs, program_.inputs + request_.inputs.size(), even) &&
           std::all_of(program_.outputs, program_.outputs + program_.num_outputs, even);
  }

  void MoveStrides(int from, int to) {
    for (ExprOperand& input : program_.inputs) input.strides[to] = input.strides[from];
    for (ExprOperand& output : program_.outputs) output.strides[to] = output.strides[from];
  }

  const KernelRequest& request_;
  const Expr& expr_;
  ExprProgram program_ = {};
  bool uses_coordinates_ = false;
};

}  // namespace

absl::StatusOr<ExprProgram> CompileExpr(const KernelRequest& request) { return Compiler(request).Compile(); }

}  // namespace cotan::cuda
