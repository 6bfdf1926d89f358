// SPDX-License-Identifier: Apache-2.0

// Generates machine code for tile loops (tile_loop.h), for x86-64 processors with AVX-512 (F, BW, DQ and VL). A value
// stays in a register from the operation that computes it to the last that uses it, which an interpreter of tiles
// writes to memory and reads again. The results are bit for bit those of the tile functions for AVX-512 (tile_ops.h).
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_CODE_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_CODE_H_

#include <cstdint>
#include <memory>

#include "absl/types/span.h"
#include "kernels/cpu/expr/tile_loop.h"

namespace cotan::cpu::expr {

// Generates the code of `loops`. register_offsets[s] is the offset of slot s in the registers, or negative if its
// address varies. A loop has no code if it needs more registers than the processor has; no loop has code if the system
// refuses memory for code. Equal loops share their code while it is held. Thread-safe.
std::shared_ptr<const TileCode> GenerateTileCode(absl::Span<const TileLoop> loops,
                                                 absl::Span<const int64_t> register_offsets);

// Returns GenerateTileCode, or null if this build has no generator or the processor lacks AVX-512.
GenerateTileCodeFn FindTileCodeGenerator();

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_CODE_H_
