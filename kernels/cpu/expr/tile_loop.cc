// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_loop.h"

#include <algorithm>

namespace cotan::cpu::expr {

int64_t StackedRows(int64_t rows, int64_t cols) {
  int64_t stacked = 1;
  while (stacked * cols < 4 * kCodeLanes) stacked *= 2;
  while (stacked > std::max<int64_t>(rows, 1)) stacked /= 2;
  return stacked;
}

bool CanReduceColumns(int64_t rows, int64_t cols) {
  return cols % kCodeLanes == 0 && rows % StackedRows(rows, cols) == 0;
}

bool HasRowCode(int64_t cols) {
  const int64_t lanes = (cols + kCodeLanes - 1) / kCodeLanes * kCodeLanes;
  return cols >= kCodeLanes && 3 * lanes <= 4 * cols;
}

}  // namespace cotan::cpu::expr
