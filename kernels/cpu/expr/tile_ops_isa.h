// SPDX-License-Identifier: Apache-2.0

// One TileOps per instruction set, each defined in a file that is compiled for it. Call only those that the
// processor supports.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_OPS_ISA_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_OPS_ISA_H_

#include <cstdint>

#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {

// Instruction sets, each including those before it.
enum class Isa : uint8_t {
  kGeneric,
  kAvx2,    // with FMA and F16C
  kAvx512,  // with F, BW, DQ and VL
};
// Returns the last one that this processor supports.
Isa BestIsa();

const TileOps& GenericTileOps();
#ifdef __x86_64__
const TileOps& Avx2TileOps();
const TileOps& Avx512TileOps();
#endif

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_OPS_ISA_H_
