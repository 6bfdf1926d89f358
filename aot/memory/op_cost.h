// How long an op takes, roughly.
#ifndef COTAN_AOT_MEMORY_OP_COST_H_
#define COTAN_AOT_MEMORY_OP_COST_H_

#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Nanoseconds on one core, by arithmetic and bytes moved; only ratios between ops
// of a method mean anything. `step` is the op's. 0 for a view.
double OpCost(const serialization::Op& op, const ScheduledStep& step);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_OP_COST_H_
