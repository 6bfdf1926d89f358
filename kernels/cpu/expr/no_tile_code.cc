// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_code.h"

namespace cotan::cpu::expr {

GenerateTileCodeFn FindTileCodeGenerator() { return nullptr; }

}  // namespace cotan::cpu::expr
