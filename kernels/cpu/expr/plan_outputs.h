// SPDX-License-Identifier: Apache-2.0

// Decides how tiles of outputs are written: computed in the memory of the output, past the caches, or copied there.
#ifndef COTAN_KERNELS_CPU_EXPR_PLAN_OUTPUTS_H_
#define COTAN_KERNELS_CPU_EXPR_PLAN_OUTPUTS_H_

#include "kernels/api/kernel.h"
#include "kernels/cpu/expr/plan_analysis.h"

namespace cotan::cpu::expr {

// Returns the output of `request`, whose analysis is `analysis`, in whose memory node i is computed in `phase`; -1 if
// there is none.
int OutputToComputeInto(const PlanAnalysis& analysis, const KernelRequest& request, int i, int phase);

// Returns true if the operands of the resolved op of `request` do not fit in the caches.
bool ExceedsCaches(const KernelRequest& request);

// Returns true if each tile of `operand` begins a cache line if the operand does.
bool TilesBeginLines(const PlanAnalysis& analysis, int operand);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_OUTPUTS_H_
