// SPDX-License-Identifier: Apache-2.0

// Runs a program with its repeated modules as blocks.
#ifndef COTAN_AOT_FRONTEND_PT2_RUN_SCHEDULE_H_
#define COTAN_AOT_FRONTEND_PT2_RUN_SCHEDULE_H_

#include "aot/frontend/pt2/interpreter.h"
#include "aot/frontend/pt2/module_runs.h"

namespace cotan::aot::pt2 {

// Runs all steps, as RunGraph() does. A run becomes a call of a block, with its key, so that only the first of equal
// runs is traced; outside of a trace, or if the block cannot be shared (aot/blocks/block.h), its body is run instead.
void RunSchedule(const Schedule& schedule, Environment& values);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_RUN_SCHEDULE_H_
