// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/memory_plan.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "planning/host_copies.h"
#include "planning/kernel_key.h"
#include "planning/lifetimes.h"
#include "planning/step_requests.h"
#include "serialization/schema/op_kind.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::aot {

using serialization::Method;
using serialization::Op;

std::vector<int64_t> MemoryPlan::BytesByStep() const {
  std::vector<int64_t> change(schedule.steps.size() + 1);
  for (const BufferLifetime& buffer : lifetimes) {
    if (buffer.bytes == 0) continue;
    const int64_t bytes = (buffer.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    change[static_cast<size_t>(buffer.first)] += bytes;
    change[static_cast<size_t>(buffer.last) + 1] -= bytes;
  }
  for (size_t i = 1; i < change.size(); ++i) change[i] += change[i - 1];
  change.pop_back();
  return change;
}

absl::StatusOr<int64_t> MemoryPlanner::ScratchOf(const Op& op, const ScheduledStep& step) const {
  if (op.has_effect()) return 0;      // runs in the host's handler
  if (op.has_collective()) return 0;  // in the buffers of the communicator
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  for (const Operand& input : step.inputs) inputs.push_back(SpecOf(input));
  for (const Operand& output : step.outputs) outputs.push_back(SpecOf(output));
  const KernelRequest request = {.op = op,
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .symbols = symbols_,
                                 .threads = target_.threads,
                                 .device = &HostDevice()};
  std::string key = KernelKey({&request, 1});
  if (const auto known = scratch_by_request_.find(key); known != scratch_by_request_.end()) return known->second;
  COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                         target_.kernels->Find(DeviceType::kCpu, op.kind_case(), outputs[0].dtype));
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, factory(request));
  const auto scratch = static_cast<int64_t>(kernel->scratch_bytes());
  scratch_by_request_.emplace(std::move(key), scratch);
  return scratch;
}

absl::StatusOr<int64_t> MemoryPlanner::ScratchOfPair(const Method& method, const Schedule& schedule,
                                                     const ScheduledStep& step) const {
  StepRequests pair(method, schedule, step, symbols_);
  const absl::Span<KernelRequest> requests = pair.requests();
  for (KernelRequest& request : requests) {
    request.threads = target_.threads;
    request.device = &HostDevice();
  }
  const ComputedOperandKernels& kernels = *target_.kernels->FindComputedOperands(DeviceType::kCpu);
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                         kernels.make({.product = requests[0], .expression = requests[1]}));
  return static_cast<int64_t>(kernel->scratch_bytes());
}

absl::StatusOr<MemoryPlan> MemoryPlanner::Plan(const Method& method, std::vector<int64_t>& scratch) const {
  MemoryPlan plan;
  const ScheduleOptions options = {.has_host_memory = true,
                                   .computed_operands = target_.kernels->FindComputedOperands(DeviceType::kCpu)};
  COTAN_ASSIGN_OR_RETURN(plan.schedule, MakeSchedule(artifact_, method, symbols_, options));
  scratch.resize(static_cast<size_t>(method.ops_size()), -1);
  std::vector<int64_t> by_step;
  for (const ScheduledStep& step : plan.schedule.steps) {
    const Op& op = OpOf(method, step);
    if (IsHostCopy(plan.schedule, step)) {
      by_step.push_back(scratch[static_cast<size_t>(step.op)] = 0);
      continue;
    }
    if (step.op < 0) {
      COTAN_ASSIGN_OR_RETURN(by_step.emplace_back(), ScratchOf(op, step));
      continue;
    }
    const bool is_pair = step.computed != nullptr;
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it has an element for each op
    int64_t& known = scratch[static_cast<size_t>(is_pair ? step.computed->op : step.op)];
    if (known < 0) {
      COTAN_ASSIGN_OR_RETURN(known, is_pair ? ScratchOfPair(method, plan.schedule, step) : ScratchOf(op, step));
    }
    by_step.push_back(known);
  }
  plan.lifetimes = ArenaLifetimes(plan.schedule, by_step);
  COTAN_ASSIGN_OR_RETURN(const ArenaLayout layout, PlanArena(plan.lifetimes));
  plan.arena_bytes = layout.bytes;
  return plan;
}

absl::StatusOr<int64_t> MemoryPlanner::BytesOf(const serialization::TensorType& type) const {
  COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, DenseLayout(type, symbols_));
  return NumElements(layout.sizes) * static_cast<int64_t>(ByteSize(ToDType(type.dtype())));
}

}  // namespace cotan::aot
