// SPDX-License-Identifier: Apache-2.0

// The part of an expression that has to run again for some of its results.
#ifndef COTAN_AOT_MEMORY_REPEATED_PART_H_
#define COTAN_AOT_MEMORY_REPEATED_PART_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

struct RepeatedPart {
  serialization::Op op;  // on values of the method
  ScheduledStep step;    // its operands
};

// Returns the part of `method.ops(step.op)` that computes `results`, some of its outputs, from its inputs and, in place
// of reductions, from others of its outputs: those of which `is_known` is true. Its results have the same bits.
// Returns nothing if the whole op has to run: it is not an expression, a reduction remains, whose order of terms could
// change, or a result does not have the sizes of the domain. `step` is the scheduled step of the op.
std::optional<RepeatedPart> PartFor(const std::vector<uint32_t>& results, const serialization::Method& method,
                                    const ScheduledStep& step, absl::FunctionRef<bool(uint32_t)> is_known);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_REPEATED_PART_H_
