// The inner loops of the expression engine: functions over dense runs
// ("tiles") of elements in cache, in one version per instruction set.
//
// A tile register holds one value per element: bool as u8, f16 and bf16 as f32
// rounded to their precision, every other dtype as itself.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_OPS_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_OPS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "base/dtype.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::cpu::expr {

// out[i] = f(a[i], b[i], c[i]) for i < n. `out` may equal an operand; operands
// that the function does not take are ignored.
using TileFn = void (*)(void* out, const void* a, const void* b, const void* c, int64_t n);

// Copies [rows, cols] elements from memory with these strides (in elements) to
// a dense register (load), or back (store).
using CopyFn = void (*)(void* to, const void* from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride);

// A reduction, by stages: total[0..width) is initialised, takes in tiles, takes
// in totals of other parts of the domain, and is finished into a register.
struct ReduceFns {
  // Bytes of one total.
  int64_t total_bytes = 0;
  void (*init)(void* total, int64_t width) = nullptr;
  // total[r] takes in row r of the dense tile [rows, cols].
  void (*rows)(void* total, const void* tile, int64_t rows, int64_t cols) = nullptr;
  // total[c] takes in column c; rows >= 1, cols <= kMaxTile.
  void (*cols)(void* total, const void* tile, int64_t rows, int64_t cols) = nullptr;
  void (*combine)(void* total, const void* other, int64_t width) = nullptr;
  void (*finish)(void* out, const void* total, int64_t width) = nullptr;
};

// Elements of the largest tile.
inline constexpr int64_t kMaxTile = 1024;

// Draws for elements index, index + 1, ... (dense), or at
// index + r * row_stride + c * col_stride of [rows, cols] elements.
struct RandomRequest {
  uint64_t seed = 0;
  uint64_t first_block = 0;  // generator offset + slice
  int64_t index = 0;
  int64_t rows = 1;
  int64_t cols = 1;
  int64_t row_stride = 0;
  int64_t col_stride = 1;
};

// The dtype that a register of values of `dtype` holds.
inline DType RegisterDType(DType dtype) {
  if (dtype == DType::kFloat16 || dtype == DType::kBFloat16) return DType::kFloat32;
  return dtype;
}

// A product and a sum in one pass. Rounded once where the processor can.
enum class Contraction : uint8_t {
  kNone,
  kMulAdd,  // a * b + c
  kMulSub,  // a * b - c
  kSubMul,  // c - a * b
};

struct TileOps {
  const char* name;
  // The function on operands of register dtype `dtype` (of a select: of its
  // branches). Bit k of `scalars` says that operand k is one element for all i.
  // Null: not available in this form; with scalars == 0 every function of
  // expr.proto is that is no leaf, cast or reduction, and not FN_GT or FN_GE
  // (swap the operands of FN_LT, FN_LE).
  TileFn (*find)(serialization::ScalarFn fn, DType dtype, int scalars);
  // Of f32 or f64; bits 0 and 2 of `scalars` as above. Null for other dtypes.
  TileFn (*find_contraction)(Contraction contraction, DType dtype, int scalars);
  // Between register dtypes, as static_cast; to bool: != 0.
  TileFn (*find_cast)(DType from, DType to);
  // out[i] = a[i] rounded to f16 or bf16; null for other dtypes.
  TileFn (*find_round)(DType dtype);
  // Between memory of `dtype` and a register of it.
  CopyFn (*find_load)(DType dtype);
  CopyFn (*find_store)(DType dtype);
  // Reductions of registers of register dtype `dtype`.
  ReduceFns (*find_reduce)(serialization::ScalarFn fn, DType dtype);
  void (*random)(float* out, const RandomRequest& request);
};

// The best version that this processor runs. Thread-safe.
const TileOps& BestTileOps();

// All versions that this processor runs, the best one last.
absl::Span<const TileOps* const> RunnableTileOps();

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_OPS_H_
