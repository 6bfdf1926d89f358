// SPDX-License-Identifier: Apache-2.0

// Text of a schedule, for dumps of the compiler.
#ifndef COTAN_PLANNING_SCHEDULE_TEXT_H_
#define COTAN_PLANNING_SCHEDULE_TEXT_H_

#include <string>

#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns the buffers and the steps of a schedule of `method`, a method of `artifact`:
//
//   buffers
//     0: input 0 "x", 16 bytes
//     1: arena, 16 bytes
//     2: result 0, 16 bytes
//   steps
//     0: expr aten.exp.default (0 f32[4]{1}) -> (1 f32[4]{1})
//     1: matmul aten.mm.default (0 f32[4]{1}, 1 f32[4]{1}) -> (2 f32[4]{1})
//
// An operand is the number of its buffer, its dtype and its layout.
std::string ScheduleText(const serialization::Artifact& artifact, const serialization::Method& method,
                         const Schedule& schedule);

}  // namespace cotan

#endif  // COTAN_PLANNING_SCHEDULE_TEXT_H_
