// SPDX-License-Identifier: Apache-2.0

// The inner loops of expressions that a cotan_runtime() target links, one TileOps per instruction set. The target
// defines them.
#ifndef COTAN_KERNELS_SELECTIVE_SELECTED_TILE_OPS_H_
#define COTAN_KERNELS_SELECTIVE_SELECTED_TILE_OPS_H_

#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::selective {

const cpu::expr::TileOps& GenericTileOps();
#ifdef __x86_64__
const cpu::expr::TileOps& Avx2TileOps();
const cpu::expr::TileOps& Avx512TileOps();
#endif

}  // namespace cotan::selective

#endif  // COTAN_KERNELS_SELECTIVE_SELECTED_TILE_OPS_H_
