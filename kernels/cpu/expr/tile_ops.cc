// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_ops.h"

#include <vector>

#include "kernels/cpu/expr/tile_code.h"
#include "kernels/cpu/expr/tile_ops_isa.h"

namespace cotan::cpu::expr {
namespace {

#ifdef __x86_64__
// Those for AVX-512, with generated code.
const TileOps& GeneratingTileOps() {
  static const TileOps ops = [] {
    TileOps generating = Avx512TileOps();
    generating.name = "avx512_generated";
    generating.generate = FindTileCodeGenerator();
    return generating;
  }();
  return ops;
}
#endif

std::vector<const TileOps*> FindRunnable() {
  std::vector<const TileOps*> runnable = {&GenericTileOps()};
#ifdef __x86_64__
  if (BestIsa() >= Isa::kAvx2) runnable.push_back(&Avx2TileOps());
  if (BestIsa() >= Isa::kAvx512) {
    runnable.push_back(&Avx512TileOps());
    if (FindTileCodeGenerator() != nullptr) runnable.push_back(&GeneratingTileOps());
  }
#endif
  return runnable;
}

}  // namespace

absl::Span<const TileOps* const> RunnableTileOps() {
  static const std::vector<const TileOps*>& runnable = *new std::vector<const TileOps*>(FindRunnable());
  return runnable;
}

const TileOps& BestTileOps() { return *RunnableTileOps().back(); }

}  // namespace cotan::cpu::expr
