// SPDX-License-Identifier: Apache-2.0

// Places results of a schedule in the memory of inputs that are not read any more.
#ifndef COTAN_PLANNING_OVERWRITE_H_
#define COTAN_PLANNING_OVERWRITE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/api/kernel.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns SpecOf() of each operand.
std::vector<TensorSpec> SpecsOf(const std::vector<Operand>& operands);

// Returns true if the kernel of `step` may write output `output` to the memory of input `input`
// (InPlaceSafe()).
bool IsSafeInPlace(const serialization::Method& method, const ScheduledStep& step, absl::Span<const int64_t> symbols,
                   int input, int output);

// Places results of elementwise ops in the memory of inputs that no later step reads: arena buffers, and the
// method's inputs in `donated`. Changes buffers of operands in `schedule` and counts them in its statistics.
void OverwriteDyingInputs(const serialization::Method& method, absl::Span<const int64_t> symbols,
                          absl::Span<const int> donated, Schedule& schedule);

}  // namespace cotan

#endif  // COTAN_PLANNING_OVERWRITE_H_
