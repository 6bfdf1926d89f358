// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/session_core.h"

#include <utility>

#include "base/status_macros.h"
#include "base/tasks.h"
#include "kernels/api/communicator.h"

namespace cotan {

absl::StatusOr<std::shared_ptr<SessionCore>> SessionCore::Create(std::shared_ptr<const Program> program,
                                                                 const ExecutionTarget& target, int max_plans,
                                                                 EffectHandlers effects) {
  const int rank = target.communicator == nullptr ? -1 : target.communicator->rank();
  COTAN_ASSIGN_OR_RETURN(StateStore states, StateStore::Create(program, *target.device, rank));
  if (program->artifact().has_cuda_kernels()) {
    target.device->AddCompiledKernels(program->artifact().cuda_kernels(),
                                      [&](uint32_t segment) { return program->segment(segment); });
  }
  return std::shared_ptr<SessionCore>(
      new SessionCore(std::move(program), target, max_plans, std::move(states), std::move(effects)));
}

absl::Status SessionCore::Begin(Executable& executable) {
  const int64_t bytes = executable.plan().arena_bytes;
  if (arena_ == nullptr || static_cast<int64_t>(arena_->bytes()) < bytes) {
    arena_ = nullptr;  // freed first: the device may not hold both
    ++generation_;
    COTAN_ASSIGN_OR_RETURN(arena_, Storage::Allocate(*target_.device, static_cast<size_t>(bytes)));
    if (target_.device->type() == DeviceType::kCpu) PopulatePages(arena_->data(), arena_->bytes());
  }
  const auto host_bytes = static_cast<size_t>(executable.plan().host_bytes);
  if (host_bytes > (host_arena_ == nullptr ? 0 : host_arena_->bytes())) {
    host_arena_ = nullptr;
    ++generation_;
    COTAN_ASSIGN_OR_RETURN(host_arena_, Storage::AllocatePinned(*target_.device->pinned_memory(), host_bytes));
  }
  executable.Bind({.arena = arena_->data(),
                   .host_arena = host_arena_ == nullptr ? nullptr : host_arena_->data(),
                   .states = states_.addresses()},
                  generation_);
  return absl::OkStatus();
}

const Variable& SessionCore::StateVariable(int state) {
  Variable& variable = variables_[static_cast<size_t>(state)];
  if (variable.defined()) return variable;
  variable = Variable(states_.tensor(state));
  const serialization::State& proto = program_->state(state);
  if (proto.role() == serialization::State::PARAMETER && proto.requires_grad()) {
    // Fails only for dtypes that cannot have gradients; the variable then does not require grad.
    variable.RequiresGrad(true).IgnoreError();
  }
  return variable;
}

void SessionCore::BumpVersion(int state) {
  states_.BumpVersion(state);
  Variable& variable = variables_[static_cast<size_t>(state)];
  if (variable.defined()) variable.BumpVersion();
}

}  // namespace cotan
