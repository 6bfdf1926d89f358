// SPDX-License-Identifier: Apache-2.0

// Expression programs for the GPU: one plain struct, small enough for a kernel argument, and the function
// that evaluates it at one index. The function also runs on the host, where it is tested.
//
// Values are held as float: f32 exactly, bool as 0 and 1.
#ifndef COTAN_KERNELS_CUDA_DEVICE_EXPR_H_
#define COTAN_KERNELS_CUDA_DEVICE_EXPR_H_

#include <cmath>
#include <cstdint>

#include "base/philox.h"

namespace cotan::cuda {

inline constexpr int kMaxExprInstructions = 64;
inline constexpr int kMaxExprInputs = 16;
inline constexpr int kMaxExprOutputs = 8;
inline constexpr int kMaxExprRank = 8;

COTAN_HOST_DEVICE inline float MaximumOf(float a, float b) { return a != a || a > b ? a : b; }
COTAN_HOST_DEVICE inline float MinimumOf(float a, float b) { return a != a || a < b ? a : b; }

// Returns the remainder with the sign of the divisor.
COTAN_HOST_DEVICE inline float RemainderOf(float a, float b) {
  const float remainder = std::fmod(a, b);
  return remainder != 0 && (b < 0) != (remainder < 0) ? remainder + b : remainder;
}

// Returns a / b rounded down, computed from the exact remainder: the quotient itself may have been rounded up
// to the next integer.
COTAN_HOST_DEVICE inline float FloorDivOf(float a, float b) {
  if (b == 0) return a / b;
  const float remainder = std::fmod(a, b);
  float quotient = (a - remainder) / b;
  if (remainder != 0 && (b < 0) != (remainder < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0f, a / b);
  const float floor = std::floor(quotient);
  return quotient - floor > 0.5f ? floor + 1 : floor;
}

// The scalar functions of operands a, b, c: name after FN_ and number in serialization::ScalarFn, number of
// operands, value. One line adds a function.
#define COTAN_CUDA_SCALAR_FNS(X)                                 \
  X(CAST, 10, 1, a)                                              \
  X(NEG, 11, 1, -a)                                              \
  X(ABS, 12, 1, std::fabs(a))                                    \
  X(SIGN, 13, 1, static_cast<float>((a > 0) - (a < 0)))          \
  X(CEIL, 14, 1, std::ceil(a))                                   \
  X(FLOOR, 15, 1, std::floor(a))                                 \
  X(ROUND, 16, 1, std::rint(a))                                  \
  X(TRUNC, 17, 1, std::trunc(a))                                 \
  X(SQRT, 18, 1, std::sqrt(a))                                   \
  X(RSQRT, 19, 1, 1.0f / std::sqrt(a))                           \
  X(RECIPROCAL, 20, 1, 1.0f / a)                                 \
  X(EXP, 21, 1, std::exp(a))                                     \
  X(EXP2, 22, 1, std::exp2(a))                                   \
  X(EXPM1, 23, 1, std::expm1(a))                                 \
  X(LOG, 24, 1, std::log(a))                                     \
  X(LOG2, 25, 1, std::log2(a))                                   \
  X(LOG10, 26, 1, std::log10(a))                                 \
  X(LOG1P, 27, 1, std::log1p(a))                                 \
  X(SIN, 28, 1, std::sin(a))                                     \
  X(COS, 29, 1, std::cos(a))                                     \
  X(TAN, 30, 1, std::tan(a))                                     \
  X(ASIN, 31, 1, std::asin(a))                                   \
  X(ACOS, 32, 1, std::acos(a))                                   \
  X(ATAN, 33, 1, std::atan(a))                                   \
  X(SINH, 34, 1, std::sinh(a))                                   \
  X(COSH, 35, 1, std::cosh(a))                                   \
  X(TANH, 36, 1, std::tanh(a))                                   \
  X(ASINH, 37, 1, std::asinh(a))                                 \
  X(ACOSH, 38, 1, std::acosh(a))                                 \
  X(ATANH, 39, 1, std::atanh(a))                                 \
  X(ERF, 40, 1, std::erf(a))                                     \
  X(ERFC, 41, 1, std::erfc(a))                                   \
  X(LOGISTIC, 45, 1, 1.0f / (1.0f + std::exp(-a)))               \
  X(LOGICAL_NOT, 46, 1, static_cast<float>(a == 0))              \
  X(BITWISE_NOT, 47, 1, static_cast<float>(a == 0))              \
  X(ISNAN, 48, 1, static_cast<float>(a != a))                    \
  X(ISINF, 49, 1, static_cast<float>(std::fabs(a) == HUGE_VALF)) \
  X(RELU, 50, 1, a < 0 ? 0.0f : a)                               \
  X(ADD, 60, 2, a + b)                                           \
  X(SUB, 61, 2, a - b)                                           \
  X(MUL, 62, 2, a* b)                                            \
  X(DIV, 63, 2, a / b)                                           \
  X(FLOOR_DIV, 64, 2, FloorDivOf(a, b))                          \
  X(TRUNC_DIV, 65, 2, std::trunc(a / b))                         \
  X(REMAINDER, 66, 2, RemainderOf(a, b))                         \
  X(FMOD, 67, 2, std::fmod(a, b))                                \
  X(POW, 68, 2, std::pow(a, b))                                  \
  X(MAXIMUM, 69, 2, MaximumOf(a, b))                             \
  X(MINIMUM, 70, 2, MinimumOf(a, b))                             \
  X(FMAX, 71, 2, std::fmax(a, b))                                \
  X(FMIN, 72, 2, std::fmin(a, b))                                \
  X(ATAN2, 73, 2, std::atan2(a, b))                              \
  X(HYPOT, 74, 2, std::hypot(a, b))                              \
  X(COPYSIGN, 75, 2, std::copysign(a, b))                        \
  X(EQ, 76, 2, static_cast<float>(a == b))                       \
  X(NE, 77, 2, static_cast<float>(a != b))                       \
  X(LT, 78, 2, static_cast<float>(a < b))                        \
  X(LE, 79, 2, static_cast<float>(a <= b))                       \
  X(GT, 80, 2, static_cast<float>(a > b))                        \
  X(GE, 81, 2, static_cast<float>(a >= b))                       \
  X(AND, 82, 2, static_cast<float>(a != 0 && b != 0))            \
  X(OR, 83, 2, static_cast<float>(a != 0 || b != 0))             \
  X(XOR, 84, 2, static_cast<float>((a != 0) != (b != 0)))        \
  X(SELECT, 100, 3, a != 0 ? b : c)

// The functions of instructions, numbered as in serialization::ScalarFn.
enum class ExprFn : uint8_t {
  kInput = 1,
  kConstant = 2,  // also sizes, which are known when a kernel is prepared
  kIota = 4,
  kRandomUniform = 5,
  kCastToBool = 255,  // CAST with a bool result
#define COTAN_CUDA_FN(name, number, operands, value) k##name = number,
  COTAN_CUDA_SCALAR_FNS(COTAN_CUDA_FN)
#undef COTAN_CUDA_FN
};

struct DeviceInstruction {
  ExprFn fn;
  uint8_t operands[3];  // positions of earlier instructions; unused ones are 0
  uint8_t index;        // kInput, kRandomUniform: input; kIota: domain dimension
  float constant;       // kConstant
  uint64_t slice;       // kRandomUniform: first Philox block, relative to the state's offset
};

// The element type of an input or output in memory.
enum class DeviceDType : uint8_t { kFloat32, kBool };

struct DeviceOperand {
  DeviceDType dtype;
  int64_t strides[kMaxExprRank];  // in elements; 0 where an input is broadcast
};

struct DeviceExpr {
  int64_t num_elements;  // of the domain
  int64_t sizes[kMaxExprRank];
  int32_t rank;
  int32_t num_instructions;
  int32_t num_outputs;
  uint8_t results[kMaxExprOutputs];  // position of the instruction each output stores
  DeviceOperand inputs[kMaxExprInputs];
  DeviceOperand outputs[kMaxExprOutputs];
  DeviceInstruction instructions[kMaxExprInstructions];
};

struct ExprPointers {
  const void* inputs[kMaxExprInputs];
  void* outputs[kMaxExprOutputs];
};

// All GPUs and drivers accept 4096 bytes of kernel arguments.
static_assert(sizeof(DeviceExpr) + sizeof(ExprPointers) <= 4096);

// Returns the element of an input at `offset`; of a bool 0 or 1.
COTAN_HOST_DEVICE inline float LoadElement(DeviceDType dtype, const void* data, int64_t offset) {
  if (dtype == DeviceDType::kFloat32) return static_cast<const float*>(data)[offset];
  return static_cast<float>(static_cast<const uint8_t*>(data)[offset] != 0);
}

COTAN_HOST_DEVICE inline void StoreElement(DeviceDType dtype, float value, void* data, int64_t offset) {
  if (dtype == DeviceDType::kFloat32) {
    static_cast<float*>(data)[offset] = value;
  } else {
    static_cast<uint8_t*>(data)[offset] = value != 0;
  }
}

// Computes all outputs at row-major index `index` of the domain. `Index` is an integer type of 32 or 64 bits that can
// represent DeviceExpr::num_elements; 32-bit divisions are several times faster on a GPU.
template <typename Index>
COTAN_HOST_DEVICE inline void EvaluateExpr(const DeviceExpr& program, const ExprPointers& pointers, Index index) {
  Index coordinates[kMaxExprRank];
  Index rest = index;
  for (int d = program.rank - 1; d >= 0; --d) {
    const Index size = static_cast<Index>(program.sizes[d]);
    coordinates[d] = rest % size;
    rest /= size;
  }
  const auto offset_of = [&](const DeviceOperand& operand) {
    int64_t offset = 0;
    for (int d = 0; d < program.rank; ++d) offset += static_cast<int64_t>(coordinates[d]) * operand.strides[d];
    return offset;
  };

  float values[kMaxExprInstructions];
  values[0] = 0;  // read, not used, where an instruction has fewer than three operands
  for (int i = 0; i < program.num_instructions; ++i) {
    const DeviceInstruction& instruction = program.instructions[i];
    const float a = values[instruction.operands[0]];
    const float b = values[instruction.operands[1]];
    const float c = values[instruction.operands[2]];
    float value = 0;
    switch (instruction.fn) {
      case ExprFn::kInput: {
        const DeviceOperand& input = program.inputs[instruction.index];
        value = LoadElement(input.dtype, pointers.inputs[instruction.index], offset_of(input));
        break;
      }
      case ExprFn::kConstant:
        value = instruction.constant;
        break;
      case ExprFn::kIota:
        value = static_cast<float>(coordinates[instruction.index]);
        break;
      case ExprFn::kRandomUniform: {
        const int64_t* state = static_cast<const int64_t*>(pointers.inputs[instruction.index]);
        const uint64_t block = static_cast<uint64_t>(state[1]) + instruction.slice + index / 4;
        value = UniformFloat(Philox(static_cast<uint64_t>(state[0]), block).lane[index % 4]);
        break;
      }
      case ExprFn::kCastToBool:
        value = static_cast<float>(a != 0);
        break;
#define COTAN_CUDA_FN(name, number, operands, expression) \
  case ExprFn::k##name:                                   \
    value = expression;                                   \
    break;
        COTAN_CUDA_SCALAR_FNS(COTAN_CUDA_FN)
#undef COTAN_CUDA_FN
    }
    values[i] = value;
  }

  for (int k = 0; k < program.num_outputs; ++k) {
    const DeviceOperand& output = program.outputs[k];
    StoreElement(output.dtype, values[program.results[k]], pointers.outputs[k], offset_of(output));
  }
}

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_EXPR_H_
