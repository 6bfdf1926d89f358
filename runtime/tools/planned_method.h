// SPDX-License-Identifier: Apache-2.0

// The steps and buffers of a method as the runtime plans them, for pictures and comparisons.
#ifndef COTAN_RUNTIME_TOOLS_PLANNED_METHOD_H_
#define COTAN_RUNTIME_TOOLS_PLANNED_METHOD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/api/registry.h"
#include "planning/op_work.h"
#include "serialization/schema/program.pb.h"

namespace cotan::tools {

// A step of the schedule.
struct StepCost {
  int op = -1;                      // index into Method.ops; -1: a copy that the planner added
  DType dtype = DType::kUndefined;  // of its first output
  std::string name;                 // kind of the op: "matmul"; "matmul + expr" if its kernel computes an operand
  std::string source;               // Op.source
  OpWork work;
};

// A buffer of the arena on the device.
struct PlacedBuffer {
  int64_t offset = 0;  // in the arena, bytes
  int64_t bytes = 0;
  int first = 0;  // first and last step that uses it, inclusive
  int last = 0;
};

struct PlannedMethod {
  std::vector<int64_t> symbols;  // values of the dynamic dimensions
  std::vector<StepCost> steps = {};
  std::vector<PlacedBuffer> buffers = {};  // without buffers that no step uses, and without the scratch of kernels
  std::vector<int64_t> live_bytes = {};    // of the arena, one per step
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;
};

// Plans `method`, a method of the verified `artifact`, for the sizes of its recorded run, or, if none is recorded, for
// the smallest ones, and for the CPU kernels of `kernels`; null: for kernels of single ops. Errors of MakeSchedule()
// and PlanArena().
absl::StatusOr<PlannedMethod> PlanMethod(const serialization::Artifact& artifact, const serialization::Method& method,
                                         const KernelRegistry* kernels = nullptr);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_PLANNED_METHOD_H_
