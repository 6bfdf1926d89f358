// SPDX-License-Identifier: Apache-2.0

// Second half of planning: a schedule with prepared kernels and an offset for every buffer. A plan is valid
// for one method, one set of sizes and one device.
#ifndef COTAN_RUNTIME_EXECUTION_PLAN_H_
#define COTAN_RUNTIME_EXECUTION_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "planning/schedule.h"
#include "runtime/execution/effects.h"
#include "runtime/execution/program.h"

namespace cotan {

class Communicator;  // kernels/api/communicator.h

// The device and the resources that kernels are prepared for. All outlive the plans.
struct ExecutionTarget {
  const KernelRegistry* kernels = nullptr;
  Device* device = nullptr;
  int threads = 1;
  const EffectHandlers* effects = nullptr;  // null: none
  Communicator* communicator = nullptr;     // null: collectives are refused
  bool flush_denormals = false;             // steps take subnormal numbers as zeros
};

// An address that becomes known when the plan is bound: an offset into the memory of a buffer.
struct PlannedPointer {
  BufferKind kind = BufferKind::kArena;
  int index = 0;         // by kind, see BufferKind; kArena: 0
  int64_t offset = 0;    // bytes
  bool on_host = false;  // kArena: in the arena on the host
};

// One kernel call. Its operands are plan.pointers[first_pointer ...]: the inputs, then the outputs.
struct PlannedStep {
  Kernel* kernel = nullptr;
  int first_pointer = 0;
  int num_inputs = 0;
  int64_t scratch_offset = 0;  // in the arena, bytes
  int op = -1;                 // index into Method.ops, of a group's first op; -1: a copy
  int num_ops = 1;             // above 1: a group of expressions, or a product and its computed operand
};

struct Plan {
  int method = 0;
  DimVector symbols;
  std::vector<TensorSpec> inputs;     // dense; one per argument of the method
  std::vector<TensorSpec> outputs;    // dense; one per result, see Schedule
  std::vector<ResultBuffer> places;   // one per result
  std::vector<int> written_inputs;    // arguments that get new contents, ascending
  std::vector<bool> inputs_on_host;   // one per argument: in the device's pinned memory
  std::vector<bool> outputs_on_host;  // one per result
  std::vector<PlannedStep> steps;
  std::vector<PlannedPointer> pointers;
  std::vector<std::unique_ptr<Kernel>> kernels;  // one may serve several steps
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;  // most bytes of the arena alive at one step
  int64_t host_bytes = 0;  // of the arena in the device's pinned memory
  ScheduleStats stats;
};

// Schedules a method for these values of the dynamic dimensions, prepares its kernels and assigns memory
// offsets.
// InvalidArgument: as MakeSchedule().
// NotFound: the registry has no kernel for an op.
// FailedPrecondition: an effect has no handler, or a collective no communicator.
// Unimplemented: a kernel does not support a combination of dtypes or attributes.
// ResourceExhausted: the arena would be too large.
absl::StatusOr<std::unique_ptr<Plan>> MakePlan(const Program& program, int method, absl::Span<const int64_t> symbols,
                                               const ExecutionTarget& target, const ScheduleOptions& options = {});

// Prepares a copy between tensors of equal dtype and sizes: the device's own copy if both are dense with
// equal strides, else the registry's kernel.
// NotFound, Unimplemented: as MakePlan(). `guarded`: as KernelRequest::guarded_outputs.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareCopy(const TensorSpec& from, const TensorSpec& to,
                                                    const ExecutionTarget& target, bool guarded = false);

// Returns the name of a step for messages: "method 'eval', op 3 (matmul) from fc1"; of several ops, "... and 4 more".
std::string StepName(const Program& program, const Plan& plan, const PlannedStep& step);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_PLAN_H_
