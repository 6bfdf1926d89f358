// SPDX-License-Identifier: Apache-2.0

// Writes the machine code of a tile loop: a function of type TileCodeFn.
#ifndef COTAN_KERNELS_CPU_EXPR_LOOP_WRITER_H_
#define COTAN_KERNELS_CPU_EXPR_LOOP_WRITER_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/expr/tile_loop.h"
#include "kernels/cpu/expr/vector_code.h"

namespace cotan::cpu::expr {

// Vectors whose operations LoopBody writes side by side, if there are enough registers.
inline constexpr int64_t kMaxInterleaved = 4;

// Writes the function of `loop` to `code`. The other arguments are those of LoopBody. Returns false if the processor
// has too few registers.
bool WriteLoop(VectorCode& code, const TileLoop& loop, int64_t interleaved, absl::Span<const int64_t> register_offsets);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_LOOP_WRITER_H_
