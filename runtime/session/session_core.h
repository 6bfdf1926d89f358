// SPDX-License-Identifier: Apache-2.0

// The resources that a session, its functions and their autograd graphs share: states, the arena and the
// execution target.
#ifndef COTAN_RUNTIME_SESSION_SESSION_CORE_H_
#define COTAN_RUNTIME_SESSION_SESSION_CORE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/execution/effects.h"
#include "runtime/execution/executable.h"
#include "runtime/execution/program.h"
#include "runtime/session/state_store.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// Owns states and arena. Not thread-safe. Not movable: executables and graphs point to it.
class SessionCore {
 public:
  // Creates the states with their initial values. The kernels and the device of `target` outlive the core.
  // ResourceExhausted: the device has not enough memory.
  static absl::StatusOr<std::shared_ptr<SessionCore>> Create(std::shared_ptr<const Program> program,
                                                             const ExecutionTarget& target, int max_plans,
                                                             EffectHandlers effects = {});
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;

  const Program& program() const { return *program_; }
  const ExecutionTarget& target() const { return target_; }
  // Returns the number of plans cached by each MethodPlans.
  int max_plans() const { return max_plans_; }
  StateStore& states() { return states_; }
  const StateStore& states() const { return states_; }
  TensorOps& ops() { return ops_; }

  // Begins a call: binds the executable to the states and to the arenas, which grow to the size that the plan
  // needs.
  // ResourceExhausted: the device or the host has not enough memory.
  absl::Status Begin(Executable& executable);
  int64_t arena_bytes() const { return arena_ == nullptr ? 0 : static_cast<int64_t>(arena_->bytes()); }

  // Returns the state's memory as a variable, the same one at each call: a leaf, which requires grad if the
  // state is a parameter that does.
  const Variable& StateVariable(int state);
  // Counts a write of the state by a method. Backwards that would read the previous value fail from now on.
  void BumpVersion(int state);

  int num_plans_made() const { return num_plans_made_; }
  void CountPlan() { ++num_plans_made_; }

 private:
  SessionCore(std::shared_ptr<const Program> program, const ExecutionTarget& target, int max_plans, StateStore states,
              EffectHandlers effects)
      : program_(std::move(program)),
        effects_(std::move(effects)),
        target_(target),
        max_plans_(max_plans),
        states_(std::move(states)),
        ops_(*target.kernels, *target.device, target.threads, target.flush_denormals),
        variables_(static_cast<size_t>(program_->artifact().states_size())) {
    target_.effects = &effects_;
  }

  std::shared_ptr<const Program> program_;
  EffectHandlers effects_;
  ExecutionTarget target_;
  int max_plans_;
  StateStore states_;
  TensorOps ops_;
  std::vector<Variable> variables_;  // by state; lazily created
  std::shared_ptr<Storage> arena_;
  std::shared_ptr<Storage> host_arena_;  // in the device's pinned memory; null: no plan needs one
  uint64_t generation_ = 1;              // identifies the addresses that executables are bound to
  int num_plans_made_ = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SESSION_CORE_H_
