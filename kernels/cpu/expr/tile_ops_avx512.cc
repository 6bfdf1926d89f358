// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_ops_impl.h"
#include "kernels/cpu/expr/tile_ops_isa.h"

namespace cotan::cpu::expr {

const TileOps& Avx512TileOps() {
  static const TileOps ops = MakeTileOps("avx512");
  return ops;
}

}  // namespace cotan::cpu::expr
