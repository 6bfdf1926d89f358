// SPDX-License-Identifier: Apache-2.0

// Merges consecutive f32 functions of a phase into chains (ChainOp): a run of elements goes through all of them in
// registers, and values that nothing else uses are not stored.
#ifndef COTAN_KERNELS_CPU_EXPR_PLAN_CHAINS_H_
#define COTAN_KERNELS_CPU_EXPR_PLAN_CHAINS_H_

#include <vector>

#include "kernels/cpu/expr/plan.h"

namespace cotan::cpu::expr {

// Replaces each run of two or more f32 functions in the steps of the phases of `plan` by a step of kind kChain, whose
// operations are added to Plan::chain_ops.
void MakeChains(Plan& plan);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_CHAINS_H_
