// SPDX-License-Identifier: Apache-2.0

// Ops that fail if an element of an index is out of range: an index of elements, or the pivots of an LU.
#ifndef COTAN_PLANNING_INDEX_OPS_H_
#define COTAN_PLANNING_INDEX_OPS_H_

#include <cstdint>

#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns the index operand of an op that may fail for its values; -1 for other ops.
int IndexInput(const serialization::Op& op);

// Returns the size of the dimension that the index of a Gather or ScatterAdd addresses.
int64_t IndexedSize(const serialization::Op& op, const ScheduledStep& step);

}  // namespace cotan

#endif  // COTAN_PLANNING_INDEX_OPS_H_
