// SPDX-License-Identifier: Apache-2.0

// The work of a step, from which bounds of its time and cost models are made.
#ifndef COTAN_PLANNING_OP_WORK_H_
#define COTAN_PLANNING_OP_WORK_H_

#include <cstdint>

#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

struct OpWork {
  // Bytes of all operands: what a step moves at least, if it reads or writes each element once. Expanded dimensions
  // count as one element.
  int64_t bytes = 0;
  // Multiplications and additions of products, convolutions, attention, recurrent layers and, roughly, decompositions;
  // 0 for other ops.
  int64_t flops = 0;
};

// Returns the work of `step`, which is the scheduled step of `op`. A view has none.
OpWork WorkOf(const serialization::Op& op, const ScheduledStep& step);

}  // namespace cotan

#endif  // COTAN_PLANNING_OP_WORK_H_
