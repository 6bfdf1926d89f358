// SPDX-License-Identifier: Apache-2.0

// The user's interface to the device half: the states of a program and calls of its methods.
#ifndef COTAN_RUNTIME_SESSION_SESSION_H_
#define COTAN_RUNTIME_SESSION_SESSION_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "planning/schedule_stats.h"
#include "runtime/autograd/variable.h"
#include "runtime/execution/effects.h"
#include "runtime/execution/program.h"
#include "runtime/session/call_argument.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

class Communicator;    // kernels/api/communicator.h
class Device;          // kernels/api/device.h
class KernelRegistry;  // kernels/api/registry.h
class SessionCore;     // runtime/session/session_core.h
class TensorOps;       // runtime/autograd/tensor_ops.h

struct SessionOptions {
  // The kernels of the linked backend, such as cotan::CpuKernels() (kernels/cpu/register_cpu.h). Required;
  // outlives the session.
  const KernelRegistry* kernels = nullptr;
  // The device of states and steps; null = the host. Outlives the session and the tensors that it returns.
  Device* device = nullptr;
  // The number of threads that a step may use, at most one for each processor that the process may run on; 0 = one for
  // each physical core.
  int threads = 0;
  // The number of plans cached per method, one for each set of sizes; the least recently used is evicted. At
  // least 1.
  int max_plans = 8;
  // True: methods take subnormal (denormal) numbers as zeros, operands and results alike, as after
  // torch.set_flush_denormal(true); for the host. Faster where gradients or momenta vanish (docs/numerics.md). Results
  // do not depend on the number of threads. Handlers of effects run in the mode of their thread.
  bool flush_denormals = false;
  // Handlers of the program's prints, metrics and assertions; copied.
  EffectHandlers effects = {};
  // This rank's end of the group that trains one model, for programs with collectives (docs/distributed.md). Outlives
  // the session. With one, the generator draws other numbers on each rank: see RngState. Null: the session is alone.
  Communicator* communicator = nullptr;
};

// The state of the random generator (base/philox.h); determines all draws that follow.
struct RngState {
  int64_t seed = 0;
  // In Philox blocks. With SessionOptions.communicator, bits 46 to 62 are the rank; they are set whenever the state is.
  int64_t offset = 0;
  friend bool operator==(const RngState&, const RngState&) = default;
};

// A method of a program. Valid for all sessions of the program.
struct MethodHandle {
  int index = -1;
};

// Memory and steps of one method's last plan, for tools and tests.
struct PlanSummary {
  int64_t arena_bytes = 0;  // the session's arena is as large as the largest
  int64_t peak_bytes = 0;   // most bytes of it alive at one step
  int64_t host_bytes = 0;   // of values that the plan keeps in host memory beside the device's arena
  int num_steps = 0;
  ScheduleStats stats;
};

// Owns copies of the states that methods update, and the memory that its methods need; large frozen states share the
// pages of the program's file until they are written (docs/memory.md). Movable. Not thread-safe: one call at a time;
// different sessions of one program may run on different threads. Example:
//
//   COTAN_ASSIGN_OR_RETURN(auto program, cotan::Program::Load("digits.cotan"));
//   COTAN_ASSIGN_OR_RETURN(auto session,
//                          cotan::Session::Create(program, {.kernels = &cotan::CpuKernels()}));
//   COTAN_ASSIGN_OR_RETURN(auto results, session.Run("train_step", {images, labels}));
//
// A call that fails with InvalidArgument, OutOfRange, NotFound, FailedPrecondition, ResourceExhausted, Unavailable or
// Unimplemented leaves all states unchanged. States are undefined only after a failure of the device
// (Internal).
class Session {
 public:
  // Creates a session whose states have their initial values.
  // InvalidArgument: `program` is null, options.kernels is null, a number in `options` is out of range, or
  // options.flush_denormals is set for another device than the host.
  // Unimplemented: options.flush_denormals is set, but this processor cannot.
  // FailedPrecondition: a print or metric of the program has no handler; the message names all of them. The program has
  // collectives, and options.communicator is null. Errors of Communicator::CheckProgram().
  // ResourceExhausted: the device has not enough memory. Unavailable: the program's file cannot be read.
  static absl::StatusOr<Session> Create(std::shared_ptr<const Program> program, const SessionOptions& options);
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;
  ~Session();

  const Program& program() const;

  // Runs a method once and returns its results in new tensors. States are updated when it returns. The first
  // call for a set of sizes makes a plan and prepares its kernels.
  // On a device that queues work (a GPU) the results and states are complete when a later call waits for the device:
  // Tensor::ToHost(), State(), SaveCheckpoint(), Synchronize(); errors of values come from that call.
  // Arguments may have any layout; those of the planned layout (row-major unless the program says otherwise)
  // are not copied. Arguments are read only, except those that the method writes (Method.input_updates).
  // Inputs and results are those of the program; see Function (runtime/function/function.h) for those of the
  // traced function.
  // NotFound: there is no such method, or the registry lacks a kernel.
  // InvalidArgument: the number of arguments is wrong; an argument has a wrong dtype, rank, size or device
  // (the message names it); it shares memory with a state that the method updates or, if the method writes
  // it, with another argument; or a value is invalid (an index out of range, a failed assertion).
  // OutOfRange: a dynamic dimension is outside its range.
  // FailedPrecondition: a backward has no run of its forward before it, or a state that it reads has changed
  // since that run; or the method gives an argument another storage, which only a Function supports.
  // ResourceExhausted: the device has not enough memory.
  // Internal: the device failed.
  // An error of an effect handler is returned as it is.
  // Unavailable: another rank has ended or does not answer; the message names it.
  absl::StatusOr<std::vector<Tensor>> Run(absl::string_view method, absl::Span<const Tensor> arguments);
  // Runs a method as above, with numbers for inputs that are numbers: Run("forward", {x, 0.5}). Errors of
  // TensorOfNumber(), too.
  absl::StatusOr<std::vector<Tensor>> Run(absl::string_view method,
                                          std::initializer_list<CallArgument<Tensor>> arguments);

  // Returns the handle of a method. NotFound: there is none of this name; the message lists all methods.
  absl::StatusOr<MethodHandle> FindMethod(absl::string_view name) const;
  // Returns the number of results of a method. The handle must be one of this program (FindMethod()).
  int NumResults(MethodHandle method) const;
  // Runs a method as above, but allocates nothing after the first call for a set of sizes: each result is
  // written to its tensor in `results` if dtype, sizes, layout and device fit and the tensor shares no memory
  // with an argument, a state of this session or an earlier result; else a new tensor replaces it.
  // On error the results may be partly written.
  // Errors of Run() above; InvalidArgument also: the handle is not one of this program, or results.size() is
  // not NumResults(method).
  absl::Status Run(MethodHandle method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results);

  // Runs a method as Run() does and sets `nanoseconds` to the time of each step of the plan; see StepNames().
  absl::Status RunTimed(MethodHandle method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                        std::vector<int64_t>& nanoseconds);

  // Waits until the work that calls queued on the device is done.
  // InvalidArgument: a value made an op fail since the last call that waited (an index out of range); the message names
  // the first such op. States and arguments are unchanged by that call and those after it.
  // Internal: the device failed.
  absl::Status Synchronize() const;

  // Returns the gradient of a parameter, by name or alias, that the last backward computed. It shares memory
  // with that call's result.
  // NotFound: there is no such parameter, or no method computes its gradient.
  // FailedPrecondition: no backward has run.
  absl::StatusOr<Tensor> Gradient(absl::string_view parameter) const;

  // Returns the memory of a parameter or buffer as a variable, the same one at each call. A trained parameter
  // is a leaf that requires grad: the backwards of all functions (runtime/function/function.h) accumulate
  // into its grad(), and in-place operations on it update the parameter.
  // NotFound: there is no parameter or buffer of this name or alias.
  absl::StatusOr<Variable> Parameter(absl::string_view name) const;
  // Returns the tensor operations for autograd::Backward() and in-place operations on variables.
  TensorOps& ops() const;

  // Return or set the value of a state by name or alias. State() returns a row-major copy on the host.
  // NotFound: there is no such state.
  // InvalidArgument (SetState()): the value has a wrong dtype or wrong sizes, or the state is a constant.
  // Errors of the device.
  absl::StatusOr<Tensor> State(absl::string_view name) const;
  absl::Status SetState(absl::string_view name, const Tensor& value);

  // Return or set a hyperparameter of the optimizer ("lr", "weight_decay", ...) of parameter group `group`.
  // It may change between steps.
  // NotFound: there is no such hyperparameter; the message lists all of them.
  // OutOfRange: the hyperparameter's dtype cannot hold `value`.
  absl::StatusOr<double> Hyperparameter(absl::string_view name, int group = 0) const;
  absl::Status SetHyperparameter(absl::string_view name, double value, int group = 0);

  // Return or set the state of the random generator.
  // FailedPrecondition: the program draws no random numbers.
  absl::StatusOr<RngState> Rng() const;
  absl::Status SetRng(RngState rng);

  // Write the persistent states to a safetensors file and read them back; see checkpoint.h for contents,
  // guarantees and errors.
  absl::Status SaveCheckpoint(const std::string& path) const;
  absl::Status LoadCheckpoint(const std::string& path);

  // Returns the total bytes of all states except constants, of which frozen ones may be shared with other sessions
  // (docs/memory.md).
  int64_t state_bytes() const;
  // Returns the memory and steps of the method's last plan.
  // InvalidArgument: the handle is not one of this program.
  // FailedPrecondition: the method has not run yet, so its sizes are unknown.
  absl::StatusOr<PlanSummary> Summary(MethodHandle method) const;
  // Returns the names of the steps of the method's last plan, such as "method 'eval', op 7 (matmul) from
  // fc1". Errors as Summary().
  absl::StatusOr<std::vector<std::string>> StepNames(MethodHandle method) const;
  // Returns the number of plans made so far for all methods.
  int num_plans_made() const;
  // Returns the bytes of the arena, which all methods share.
  int64_t arena_bytes() const;

 private:
  class Impl;
  friend const std::shared_ptr<SessionCore>& SessionCoreOf(const Session& session);  // session_access.h

  explicit Session(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SESSION_H_
