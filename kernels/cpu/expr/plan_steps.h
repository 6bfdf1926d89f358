// SPDX-License-Identifier: Apache-2.0

// Which slots the steps of a phase read and write.
#ifndef COTAN_KERNELS_CPU_EXPR_PLAN_STEPS_H_
#define COTAN_KERNELS_CPU_EXPR_PLAN_STEPS_H_

#include <cstddef>
#include <vector>

#include "kernels/cpu/expr/plan.h"

namespace cotan::cpu::expr {

// Returns true if `step` may read `slot`. Chains and code, which replace steps, are taken to read all slots.
bool Reads(const Step& step, int slot);

// Returns true if `step` replaces the value in `slot`.
bool Writes(const Step& step, int slot);

// Returns the first step in [first, last) that reads `slot` before one writes it; `last` if there is none.
size_t NextRead(const std::vector<Step>& steps, int slot, size_t first, size_t last);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_STEPS_H_
