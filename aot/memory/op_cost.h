// SPDX-License-Identifier: Apache-2.0

// Cost model of ops.
#ifndef COTAN_AOT_MEMORY_OP_COST_H_
#define COTAN_AOT_MEMORY_OP_COST_H_

#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Returns the estimated nanoseconds on one core, from arithmetic and bytes moved; only ratios
// between ops of a method are meaningful. `step` is the scheduled step of `op`. Returns 0 for a
// view.
double OpCost(const serialization::Op& op, const ScheduledStep& step);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_OP_COST_H_
