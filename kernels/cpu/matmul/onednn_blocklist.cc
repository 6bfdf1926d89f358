// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/onednn_blocklist.h"

#include <cstdlib>

#include "absl/strings/match.h"

namespace cotan::cpu {

bool IsMiscomputedByOneDnn(const MatmulGeometry& geometry, absl::string_view implementation) {
  if (getenv("NOLIST")) return false;
  // A vector is read or written as if it were dense.
  if (!absl::StartsWith(implementation, "brg_matmul")) return false;
  return (geometry.m == 1 && geometry.a.column != 1) || (geometry.n == 1 && geometry.c.row != 1);
}

}  // namespace cotan::cpu
