// SPDX-License-Identifier: Apache-2.0

// Merges consecutive steps of a phase into loops (tile_loop.h), for which machine code is generated.
#ifndef COTAN_KERNELS_CPU_EXPR_PLAN_LOOPS_H_
#define COTAN_KERNELS_CPU_EXPR_PLAN_LOOPS_H_

#include "kernels/cpu/expr/plan.h"
#include "kernels/cpu/expr/plan_slots.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {

// Sets Phase::whole_tile_steps of all phases of `plan`, before chains are made: Phase::steps, with runs of functions of
// f32, conversions, comparisons and reductions replaced by code of TileOps::generate, if `ops` has it. Moves loads
// before other steps then, so that runs are longer. Sets Phase::whole_tile_start to what these need of Phase::start.
void GenerateCode(Plan& plan, PlanSlots& slots, const TileOps& ops);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_LOOPS_H_
