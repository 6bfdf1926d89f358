// SPDX-License-Identifier: Apache-2.0

// Helpers for ops on [N, C, spatial...] that also take [C, spatial...].
#ifndef COTAN_AOT_LOWERING_OPS_UNBATCHED_H_
#define COTAN_AOT_LOWERING_OPS_UNBATCHED_H_

#include "aot/ir/builder.h"
#include "aot/lowering/ops/lowering.h"

namespace cotan::aot {

inline SymIntVector WithBatch(SymIntVector sizes, bool unbatched) {
  if (unbatched) sizes.insert(sizes.begin(), SymInt(1));
  return sizes;
}

inline Tensor Batched(Lowering& l, const Tensor& x, bool unbatched) { return unbatched ? l.b.Unsqueeze(x, 0) : x; }

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_UNBATCHED_H_
