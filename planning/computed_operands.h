// SPDX-License-Identifier: Apache-2.0

// Chooses the products of a schedule whose right operand their own kernel computes, so that it has no memory.
#ifndef COTAN_PLANNING_COMPUTED_OPERANDS_H_
#define COTAN_PLANNING_COMPUTED_OPERANDS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/api/computed_operand.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Makes one step of a product without epilogue and the expression that computes its right operand, if
// - the expression has one output, in the arena, which the product reads once and as a whole, and nothing else reads;
// - the output is larger than the inputs of the expression in the arena, which are kept until the product;
// - no step between the two writes an input of the expression; and
// - `kernels` takes the pair.
// The step is at the place of the product and has ScheduledStep::computed. Every output of a step has a buffer of its
// own, states and results excepted: this comes before OverwriteDyingInputs(). `symbols` as for MakeSchedule().
void PlaceComputedOperands(const serialization::Method& method, absl::Span<const int64_t> symbols,
                           const ComputedOperandKernels& kernels, Schedule& schedule);

}  // namespace cotan

#endif  // COTAN_PLANNING_COMPUTED_OPERANDS_H_
