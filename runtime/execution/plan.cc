// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/plan.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/memory_planner.h"
#include "base/status_macros.h"
#include "kernels/api/communicator.h"
#include "kernels/api/pinned_memory.h"
#include "planning/host_copies.h"
#include "planning/kernel_key.h"
#include "planning/lifetimes.h"
#include "planning/merge_launches.h"
#include "planning/step_requests.h"
#include "runtime/execution/effect_kernel.h"

namespace cotan {
namespace {

using serialization::Method;
using serialization::Op;

// Steps for which the memory of a value rests before another value gets it: the first number by which the arena grows
// by a quarter at most.
constexpr int kRestingSteps[] = {4, 2, 1};

// Copies between tensors of the same dense layout with Device::Copy().
class DenseCopy final : public Kernel {
 public:
  DenseCopy(Device& device, size_t bytes) : device_(device), bytes_(bytes) {}
  absl::Status Run(const KernelArgs& args) override {
    return bytes_ == 0 ? absl::OkStatus() : device_.Copy(args.outputs[0], args.inputs[0], bytes_);
  }

 private:
  Device& device_;
  const size_t bytes_;
};

// Copies between the device and its pinned memory, in the order of the device's queue.
class PinnedCopy final : public Kernel {
 public:
  PinnedCopy(PinnedMemory& pinned, bool to_host, size_t bytes) : pinned_(pinned), to_host_(to_host), bytes_(bytes) {}
  absl::Status Run(const KernelArgs& args) override {
    if (bytes_ == 0) return absl::OkStatus();
    return to_host_ ? pinned_.QueueCopyToHost(args.outputs[0], args.inputs[0], bytes_)
                    : pinned_.QueueCopyToDevice(args.outputs[0], args.inputs[0], bytes_);
  }

 private:
  PinnedMemory& pinned_;
  const bool to_host_;
  const size_t bytes_;
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(KernelRequest request, const ExecutionTarget& target,
                                                absl::string_view name = "") {
  COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                         target.kernels->Find(target.device->type(), request.op.kind_case(), request.outputs[0].dtype));
  request.threads = target.threads;
  request.device = target.device;
  request.name = name;
  return factory(request);
}

bool IsSameDense(const TensorSpec& from, const TensorSpec& to) {
  return from.dtype == to.dtype && from.layout == to.layout && IsDenseNonOverlapping(from.layout);
}

class Planner {
 public:
  Planner(const Program& program, int method, absl::Span<const int64_t> symbols, const ExecutionTarget& target,
          const ScheduleOptions& options)
      : program_(program),
        method_(program.method(method)),
        target_(target),
        options_(options),
        plan_(std::make_unique<Plan>()) {
    options_.has_host_memory = target.device->pinned_memory() != nullptr;
    options_.computed_operands = target.kernels->FindComputedOperands(target.device->type());
    plan_->method = method;
    plan_->symbols.assign(symbols.begin(), symbols.end());
  }

  absl::StatusOr<std::unique_ptr<Plan>> Make() {
    COTAN_ASSIGN_OR_RETURN(schedule_, MakeSchedule(program_.artifact(), method_, plan_->symbols, options_));
    if (target_.kernels->FindGroup(target_.device->type()) != nullptr) {
      COTAN_RETURN_IF_ERROR(MergeLaunches(method_, plan_->symbols, schedule_));
    }
    plan_->inputs = std::move(schedule_.inputs);
    plan_->outputs = std::move(schedule_.outputs);
    plan_->places = std::move(schedule_.places);
    plan_->written_inputs = std::move(schedule_.written_inputs);
    plan_->inputs_on_host = std::move(schedule_.inputs_on_host);
    plan_->outputs_on_host = std::move(schedule_.outputs_on_host);
    plan_->stats = schedule_.stats;
    for (const ScheduledStep& step : schedule_.steps) {
      const absl::Status status = PrepareStep(step);
      if (!status.ok()) return absl::Status(status.code(), absl::StrCat(NameOf(step), ": ", status.message()));
    }
    COTAN_RETURN_IF_ERROR(PlaceBuffers());
    AddPointers();
    return std::move(plan_);
  }

 private:
  absl::Status PrepareStep(const ScheduledStep& step) {
    StepRequests requests(method_, schedule_, step, plan_->symbols);
    Kernel** shared = nullptr;
    if (MayShareKernel(step, requests)) {
      shared = &shared_kernels_.try_emplace(KernelKey(requests.requests()), nullptr).first->second;
      if (*shared != nullptr) {
        step_kernels_.push_back(*shared);
        return absl::OkStatus();
      }
    }
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, PrepareKernel(step, requests));
    if (shared != nullptr) *shared = kernel.get();
    step_kernels_.push_back(kernel.get());
    plan_->kernels.push_back(std::move(kernel));
    return absl::OkStatus();
  }

  // Returns true if the kernel of another step may execute this one. Effects and collectives have kernels of their own,
  // as do steps of a device whose kernels know their names.
  bool MayShareKernel(const ScheduledStep& step, StepRequests& requests) const {
    if (target_.device->queues_work() || IsHostCopy(schedule_, step)) return false;
    const Op& op = requests.requests()[0].op;
    return !op.has_effect() && !op.has_collective();
  }

  std::string NameOf(const ScheduledStep& step) const {
    return StepName(program_, *plan_, {.op = step.op, .num_ops = NumOps(step)});
  }

  static int NumOps(const ScheduledStep& step) {
    return step.computed != nullptr ? 2 : std::max(1, static_cast<int>(step.members.size()));
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareKernel(const ScheduledStep& step, StepRequests& step_requests) const {
    if (IsHostCopy(schedule_, step)) {
      const TensorSpec& moved = step_requests.inputs()[0];
      const auto bytes = static_cast<size_t>(NumElements(moved.layout.sizes)) * ByteSize(moved.dtype);
      return std::make_unique<PinnedCopy>(*target_.device->pinned_memory(), BufferOf(step.outputs[0]).on_host, bytes);
    }
    const absl::Span<KernelRequest> requests = step_requests.requests();
    if (!step.members.empty()) {
      std::vector<std::string> names;
      for (const GroupMember& member : step.members) names.push_back(StepName(program_, *plan_, {.op = member.op}));
      for (size_t i = 0; i < requests.size(); ++i) {
        requests[i].threads = target_.threads;
        requests[i].device = target_.device;
        requests[i].name = names[i];
      }
      return target_.kernels->FindGroup(target_.device->type())(requests);
    }
    if (step.computed != nullptr) return PreparePair(step, requests);
    const KernelRequest& request = requests[0];
    if (step.op < 0) return PrepareCopy(request.inputs[0], request.outputs[0], target_, request.guarded_outputs);
    if (request.op.has_effect()) {
      return PrepareEffect(request.op.effect(), request.inputs[0], *target_.device, target_.effects);
    }
    if (request.op.has_collective()) return PrepareCollective(request, NameOf(step));
    // Devices that queue work name the op in errors that come later.
    const std::string name = target_.device->queues_work() ? NameOf(step) : std::string();
    return Prepare(request, target_, name);
  }

  // Prepares a product with the expression that computes its right operand.
  absl::StatusOr<std::unique_ptr<Kernel>> PreparePair(const ScheduledStep& step,
                                                      absl::Span<KernelRequest> requests) const {
    const std::string name = target_.device->queues_work() ? NameOf(step) : std::string();
    for (KernelRequest& request : requests) {
      request.threads = target_.threads;
      request.device = target_.device;
      request.name = name;
    }
    return options_.computed_operands->make({.product = requests[0], .expression = requests[1]});
  }

  absl::StatusOr<std::unique_ptr<Kernel>> PrepareCollective(KernelRequest request, const std::string& name) const {
    if (target_.communicator == nullptr) return absl::FailedPreconditionError("SessionOptions.communicator is not set");
    request.device = target_.device;
    request.name = name;
    return target_.communicator->Prepare(request);
  }

  absl::Status PlaceBuffers() {
    std::vector<int64_t> scratch;
    for (const Kernel* kernel : step_kernels_) {
      scratch.push_back(static_cast<int64_t>(kernel->scratch_bytes()));
    }
    const std::vector<BufferLifetime> lifetimes = ArenaLifetimes(schedule_, scratch);
    COTAN_ASSIGN_OR_RETURN(arena_, PlanArena(lifetimes));
    if (target_.device->queues_work()) COTAN_RETURN_IF_ERROR(LetMemoryRest(lifetimes));
    plan_->arena_bytes = arena_.bytes;
    plan_->peak_bytes = PeakBytes(lifetimes);
    COTAN_ASSIGN_OR_RETURN(host_arena_, PlanArena(HostLifetimes(schedule_)));
    plan_->host_bytes = host_arena_.bytes;
    return absl::OkStatus();
  }

  // Lets memory rest for some steps before it is used again: a device that runs independent steps at the same time has
  // to wait for the last use of what a step writes.
  absl::Status LetMemoryRest(absl::Span<const BufferLifetime> lifetimes) {
    for (const int steps : kRestingSteps) {
      std::vector<BufferLifetime> longer(lifetimes.begin(), lifetimes.end());
      for (BufferLifetime& lifetime : longer) lifetime.last += steps;
      COTAN_ASSIGN_OR_RETURN(ArenaLayout arena, PlanArena(longer));
      if (arena.bytes - arena_.bytes > arena_.bytes / 4) continue;
      arena_ = std::move(arena);
      return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  const Buffer& BufferOf(const Operand& operand) const {
    return schedule_.buffers[static_cast<size_t>(operand.buffer)];
  }

  void AddPointers() {
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const ScheduledStep& step = schedule_.steps[i];
      plan_->steps.push_back({.kernel = step_kernels_[i],
                              .first_pointer = static_cast<int>(plan_->pointers.size()),
                              .num_inputs = static_cast<int>(step.inputs.size()),
                              .scratch_offset = arena_.offsets[schedule_.buffers.size() + i],
                              .op = step.op,
                              .num_ops = NumOps(step)});
      for (const Operand& input : step.inputs) AddPointer(input);
      for (const Operand& output : step.outputs) AddPointer(output);
    }
  }

  void AddPointer(const Operand& operand) {
    const auto index = static_cast<size_t>(operand.buffer);
    const Buffer& buffer = schedule_.buffers[index];
    const int64_t offset = operand.geometry.layout.offset * static_cast<int64_t>(ByteSize(operand.geometry.dtype));
    const ArenaLayout& arena = buffer.on_host ? host_arena_ : arena_;
    const int64_t base = buffer.kind == BufferKind::kArena ? arena.offsets[index] : 0;
    plan_->pointers.push_back({buffer.kind, buffer.index, base + offset, buffer.on_host});
  }

  const Program& program_;
  const Method& method_;
  const ExecutionTarget& target_;
  ScheduleOptions options_;
  Schedule schedule_;
  ArenaLayout arena_;
  ArenaLayout host_arena_;
  std::vector<Kernel*> step_kernels_;
  absl::flat_hash_map<std::string, Kernel*> shared_kernels_;  // by KernelKey()
  std::unique_ptr<Plan> plan_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Plan>> MakePlan(const Program& program, int method, absl::Span<const int64_t> symbols,
                                               const ExecutionTarget& target, const ScheduleOptions& options) {
  return Planner(program, method, symbols, target, options).Make();
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareCopy(const TensorSpec& from, const TensorSpec& to,
                                                    const ExecutionTarget& target, bool guarded) {
  const bool checks_errors = guarded && target.device->queues_work();
  if (IsSameDense(from, to) && !checks_errors) {
    const size_t bytes = static_cast<size_t>(NumElements(to.layout.sizes)) * ByteSize(to.dtype);
    return std::make_unique<DenseCopy>(*target.device, bytes);
  }
  Op op;
  op.mutable_copy();
  return Prepare({.op = op, .inputs = {&from, 1}, .outputs = {&to, 1}, .symbols = {}, .guarded_outputs = guarded},
                 target);
}

std::string StepName(const Program& program, const Plan& plan, const PlannedStep& step) {
  const Method& method = program.method(plan.method);
  if (step.op < 0) return absl::StrCat("method '", method.name(), "', a copy");
  const Op& op = method.ops(step.op);
  return absl::StrCat("method '", method.name(), "', op ", step.op, " (", OpKindName(op.kind_case()), ")",
                      op.source().empty() ? "" : " from ", op.source(),
                      step.num_ops == 1 ? "" : absl::StrCat(" and ", step.num_ops - 1, " more"));
}

}  // namespace cotan
