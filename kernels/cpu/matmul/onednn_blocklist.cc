// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/onednn_blocklist.h"

#include "absl/strings/match.h"

namespace cotan::cpu {

bool IsMiscomputedByOneDnn(const MatmulGeometry& geometry, absl::string_view implementation) {
  if (!absl::StartsWith(implementation, "brg_matmul")) return false;
  // Memory of other matrices is read or written, unless all matrices of the batch lie one after the other.
  if (geometry.batch.size() > 1) return true;
  // A vector is read or written as if it were dense.
  return (geometry.m == 1 && geometry.a.column != 1) || (geometry.n == 1 && geometry.c.row != 1);
}

}  // namespace cotan::cpu
