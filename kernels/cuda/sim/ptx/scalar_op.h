// SPDX-License-Identifier: Apache-2.0

// Instructions that compute one value from the values of the same thread.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_SCALAR_OP_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_SCALAR_OP_H_

#include <cstdint>
#include <optional>

#include "kernels/cuda/sim/ptx/float_rounding.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {

enum class Comparison : uint8_t { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual, kNumber, kNan };
enum class BoolOp : uint8_t { kNone, kAnd, kOr, kXor };

struct ScalarOp;

// Computes the result's bits from those of the sources, which may have set bits above their width.
using ScalarFn = uint64_t (*)(const ScalarOp& op, const uint64_t* sources);

// The same for the 32 lanes of a warp: sources[i] has the lanes of source i.
using WarpFn = void (*)(const uint64_t* const* sources, uint64_t* results);

struct ScalarOp {
  ScalarFn fn = nullptr;
  WarpFn warp_fn = nullptr;  // Of common ops.
  int num_sources = 0;
  ScalarType type = {};         // Of the operation.
  ScalarType result_type = {};  // Differs for wide products, comparisons and conversions.
  bool each_half = false;       // `fn` is applied to each half of packed sources.
  Rounding rounding = Rounding::kNearestEven;
  bool to_integer = false;
  bool ftz = false;
  bool sat = false;
  bool relu = false;
  bool nan = false;
  bool flag = false;  // Of the opcode: unordered comparison, `wrap` of shf, `shiftamt` of bfind.
  Comparison comparison = Comparison::kEqual;
  BoolOp bool_op = BoolOp::kNone;
};

// Returns the result of `op` for one thread.
inline uint64_t EvaluateScalar(const ScalarOp& op, const uint64_t* sources) {
  if (!op.each_half) return op.fn(op, sources);
  uint64_t low[4] = {}, high[4] = {};
  for (int i = 0; i < op.num_sources; ++i) {
    low[i] = sources[i] & 0xffff;
    high[i] = sources[i] >> 16 & 0xffff;
  }
  return op.fn(op, low) | op.fn(op, high) << 16;
}

// These return nothing for an opcode or a combination of modifiers that they do not know.
std::optional<ScalarOp> FindIntegerOp(const OpcodeName& name);  // Also bits, predicates and selp.
std::optional<ScalarOp> FindFloatOp(const OpcodeName& name);
std::optional<ScalarOp> FindComparison(const OpcodeName& name);  // setp and set.
std::optional<ScalarOp> FindConversion(const OpcodeName& name);  // cvt.

// Returns the first that knows `name`.
std::optional<ScalarOp> FindScalarOp(const OpcodeName& name);

// Returns an op with the modifiers of `name` that all opcodes share and the type `type`.
ScalarOp MakeScalarOp(const OpcodeName& name, ScalarType type, int num_sources, ScalarFn fn);

// Returns a source of a floating-point op as a number, a subnormal as zero if the op says ftz.
double FloatSource(const ScalarOp& op, ScalarType type, uint64_t bits);

// Rounds to the op's result type and applies sat, relu and ftz.
uint64_t FloatResult(const ScalarOp& op, double value);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_SCALAR_OP_H_
