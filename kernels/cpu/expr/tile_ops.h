// SPDX-License-Identifier: Apache-2.0

// The inner loops of the expression engine: functions on tiles, dense runs of elements in cache, in one
// version per instruction set.
//
// A register is a buffer of one tile: bool as u8, the narrow floats (f16, bf16, f8e4m3fn, f8e5m2) as f32 rounded to
// their precision, every other dtype as itself.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_OPS_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_OPS_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "base/dtype.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::cpu::expr {

struct TileCode;
struct TileLoop;

// Computes out[i] = f(a[i], b[i], c[i]) for i < n. `out` may equal an operand; operands that the function
// does not have are ignored.
using TileFn = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);

// Copies [rows, cols] elements from memory with these strides (in elements) to a dense register (load), or
// back (store).
using CopyFn = void (*)(void* to, const void* from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride);

// A reduction in stages: total[0..width) is initialized, accumulates tiles, is combined with totals of other
// parts of the domain, and is converted to a register.
struct ReduceFns {
  // Bytes of one total.
  int64_t total_bytes = 0;
  void (*init)(void* total, int64_t width) = nullptr;
  // Accumulates row r of the dense tile [rows, cols] into total[r].
  void (*rows)(void* total, const void* tile, int64_t rows, int64_t cols) = nullptr;
  // Accumulates column c into total[c]; rows >= 1, cols <= kMaxTile.
  void (*cols)(void* total, const void* tile, int64_t rows, int64_t cols) = nullptr;
  void (*combine)(void* total, const void* other, int64_t width) = nullptr;
  void (*finish)(void* out, const void* total, int64_t width) = nullptr;
  // Sums of f32 and f64 accumulate the products of two tiles, each rounded; null for other reductions.
  void (*row_products)(void* total, const void* a, const void* b, int64_t rows, int64_t cols) = nullptr;
  void (*col_products)(void* total, const void* a, const void* b, int64_t rows, int64_t cols) = nullptr;
};

// Number of elements of the largest tile.
inline constexpr int64_t kMaxTile = 1024;

// Random numbers for the elements index + r * row_stride + c * col_stride of a tile [rows, cols], by Philox
// (base/philox.h).
struct RandomRequest {
  uint64_t seed = 0;
  uint64_t first_block = 0;  // generator offset + slice
  int64_t index = 0;
  int64_t rows = 1;
  int64_t cols = 1;
  int64_t row_stride = 0;
  int64_t col_stride = 1;
};

// Returns the dtype of the values in a register for `dtype`.
inline DType RegisterDType(DType dtype) {
  if (IsFloatingPoint(dtype) && ByteSize(dtype) < 4) return DType::kFloat32;
  return dtype;
}

// A product and a sum in one pass, rounded once if the processor has FMA.
enum class Contraction : uint8_t {
  kNone,
  kMulAdd,  // a * b + c
  kMulSub,  // a * b - c
  kSubMul,  // c - a * b
};

// An operation of a chain. A chain has an accumulator and a second value, both runs of f32 in vector registers. Most
// operations take the accumulator, some of them also an operand m, and leave their result in the accumulator.
enum class ChainFn : uint8_t {
  kNone,
  kLoad,           // m
  kStore,          // writes the accumulator to m
  kStoreBFloat16,  // the same, to bf16; the accumulator has that precision
  kSave,           // copies the accumulator to the second value
  kAdd,
  kSub,
  kSubFrom,  // m - accumulator
  kMul,
  kDiv,
  kDivInto,  // m / accumulator
  kMaximum,
  kMinimum,
  kThen,  // where the bool `flags` holds the accumulator, else m
  kElse,  // where the bool `flags` holds m, else the accumulator
  // No operand m.
  kNeg,
  kAbs,
  kRelu,
  kSqrt,
  kRsqrt,
  kReciprocal,
  kExp,
  kExpm1,
  kLog,
  kLog1p,
  kTanh,
  kErf,
  kLogistic,
  kSquare,
  kRoundToBFloat16,
  // These write a bool to `flags` and leave the accumulator.
  kEq,
  kNe,
  kLt,  // accumulator < m
  kLe,
  kGt,
  kGe,
};

// Names the place of the operand m of an operation.
enum class ChainSource : uint8_t {
  kMemory,
  kBFloat16,  // the same, of bf16
  kScalar,    // one element for all
  kSaved,     // the second value
};

struct ChainOp {
  ChainFn fn = ChainFn::kNone;
  ChainSource source = ChainSource::kMemory;
  bool prefetch = false;  // m is an operand of the op that is not in cache
  uint16_t slot = 0;      // of m
  uint16_t flags = 0;     // the slot of bools
};

// The inner loops of one instruction set.
struct TileOps {
  const char* name;
  // Returns the function on operands of register dtype `dtype` (for a select: of its branches), or null if
  // this form does not exist. Bit k of `scalars` is set if operand k is one element for all i. If `scalars`
  // is 0, every function of expr.proto that is defined for the dtype exists, except leaves, casts, reductions,
  // FN_GT and FN_GE (swap the operands of FN_LT, FN_LE).
  TileFn (*find)(serialization::ScalarFn fn, DType dtype, int scalars);
  // Returns the contraction of f32 or f64, or null for other dtypes and forms; bits 0 and 2 of `scalars` are
  // as in `find`.
  TileFn (*find_contraction)(Contraction contraction, DType dtype, int scalars);
  // Returns the conversion between register dtypes, as static_cast; to bool: x != 0.
  TileFn (*find_cast)(DType from, DType to);
  // Returns the rounding to a narrow float; null for other dtypes.
  TileFn (*find_round)(DType dtype);
  // Returns the copy from memory of `dtype` to a register, or back.
  CopyFn (*find_load)(DType dtype);
  CopyFn (*find_store)(DType dtype);
  // Returns the reduction of registers of register dtype `dtype`.
  ReduceFns (*find_reduce)(serialization::ScalarFn fn, DType dtype);
  // Writes uniform random numbers in [0, 1).
  void (*random)(float* out, const RandomRequest& request);
  // Runs a chain of f32 on n elements: all operations on one run of elements before the next. Each operation gives the
  // bits that `find` gives for the function. Slots may share memory if they begin at the same element. Null if
  // there are no chains.
  void (*chain)(const ChainOp* ops, int64_t num_ops, char* const* slots, int64_t n);
  // Generates code for loops: GenerateTileCode(). Null if there is no generator.
  std::shared_ptr<const TileCode> (*generate)(absl::Span<const TileLoop> loops,
                                              absl::Span<const int64_t> register_offsets);
};

// Returns the best version that this processor supports. Thread-safe.
const TileOps& BestTileOps();

// Returns all versions that this processor supports, the best one last.
absl::Span<const TileOps* const> RunnableTileOps();

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_OPS_H_
