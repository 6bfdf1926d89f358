// What a session, its functions and their graphs share: states, the arena, and
// where to run.
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

// Owns all of it. Not thread-safe. Does not move: executables and graphs point
// to it.
class SessionCore {
 public:
  // ResourceExhausted: from the device. `target` and its parts outlive it.
  static absl::StatusOr<std::shared_ptr<SessionCore>> Create(std::shared_ptr<const Program> program,
                                                             const ExecutionTarget& target, int max_plans,
                                                             EffectHandlers effects = {});
  SessionCore(const SessionCore&) = delete;
  SessionCore& operator=(const SessionCore&) = delete;

  const Program& program() const { return *program_; }
  const ExecutionTarget& target() const { return target_; }
  // Plans kept for each method and way of calling it.
  int max_plans() const { return max_plans_; }
  StateStore& states() { return states_; }
  const StateStore& states() const { return states_; }
  TensorOps& ops() { return ops_; }

  // Begins a call: binds the executable to the states and the arena, which grows
  // to what its plan needs. ResourceExhausted: from the device.
  absl::Status Begin(Executable& executable);
  int64_t arena_bytes() const { return arena_ == nullptr ? 0 : static_cast<int64_t>(arena_->bytes()); }

  // The state's memory as a variable, the same at each call: a leaf that requires
  // grad if the state is a parameter that does.
  const Variable& StateVariable(int state);
  // The method has written the state: backwards that read it as it was are told.
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
        ops_(*target.kernels, *target.device, target.threads),
        variables_(static_cast<size_t>(program_->artifact().states_size())) {
    target_.effects = &effects_;
  }

  std::shared_ptr<const Program> program_;
  EffectHandlers effects_;
  ExecutionTarget target_;
  int max_plans_;
  StateStore states_;
  TensorOps ops_;
  std::vector<Variable> variables_;  // by state; undefined before anybody asks
  std::shared_ptr<Storage> arena_;
  uint64_t generation_ = 1;  // of the addresses that executables are bound to
  int num_plans_made_ = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SESSION_CORE_H_
