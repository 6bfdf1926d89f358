// What a user of the device half works with: a program's states and the calls
// of its methods.
#ifndef COTAN_RUNTIME_SESSION_SESSION_H_
#define COTAN_RUNTIME_SESSION_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/device.h"
#include "kernels/api/registry.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/execution/effects.h"
#include "runtime/execution/program.h"
#include "runtime/session/memory_overlap.h"
#include "runtime/session/method_plans.h"
#include "runtime/session/session_core.h"
#include "runtime/session/state_store.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

struct SessionOptions {
  // The kernels of the linked backend, such as cotan::CpuKernels()
  // (kernels/cpu/register_cpu.h). Required; outlives the session.
  const KernelRegistry* kernels = nullptr;
  // Where states live and steps run; null = the host. Outlives the session and
  // the tensors that come from it.
  Device* device = nullptr;
  // Threads that a step may use; 0 = one for each physical core.
  int threads = 0;
  // Plans kept per method, one for each set of sizes that was seen; the one
  // not used for longest goes. At least 1.
  int max_plans = 8;
  // What the program's prints, metrics and assertions do; copied.
  EffectHandlers effects = {};
};

// The random generator (base/philox.h): what is drawn next follows from it.
struct RngState {
  int64_t seed = 0;
  int64_t offset = 0;  // in Philox blocks
  friend bool operator==(const RngState&, const RngState&) = default;
};

// A method of a program, looked up. Valid for all sessions of the program.
struct MethodHandle {
  int index = -1;
};

// Memory and work of one method's last plan, for tools and tests.
struct PlanSummary {
  int64_t arena_bytes = 0;  // the session's arena is as large as the largest
  int64_t peak_bytes = 0;   // most of it alive at one step
  int num_steps = 0;
  ScheduleStats stats;
};

// Owns a copy of the program's states and the memory that its methods need.
// Movable. Not thread-safe: one call at a time; different sessions of one
// program may run on different threads. Example:
//
//   COTAN_ASSIGN_OR_RETURN(auto program, cotan::Program::Load("digits.cotan"));
//   COTAN_ASSIGN_OR_RETURN(auto session,
//                          cotan::Session::Create(program, {.kernels = &cotan::CpuKernels()}));
//   COTAN_ASSIGN_OR_RETURN(auto results, session.Run("train_step", {images, labels}));
//
// A call that is refused (InvalidArgument, OutOfRange, NotFound,
// FailedPrecondition, ResourceExhausted, Unimplemented) leaves all states as
// they were. Only when the device itself fails (Internal) are they undefined.
class Session {
 public:
  // InvalidArgument: no kernels, or negative numbers in `options`.
  // FailedPrecondition: nobody handles an effect of the program (all are named).
  // ResourceExhausted: from the device.
  static absl::StatusOr<Session> Create(std::shared_ptr<const Program> program, const SessionOptions& options);

  const Program& program() const { return core_->program(); }

  // Runs a method once and returns its results in tensors of their own. Updates
  // of states are done when it returns. The first call for given sizes plans
  // and prepares kernels.
  // Arguments of any layout are taken; row-major ones (or as the program says)
  // without a copy. They are only read, but for those that the program says it
  // writes (Method.input_updates); inputs and results are those of the program:
  // see Function (runtime/function/function.h) for those of the traced function.
  // NotFound: no such method, or the registry lacks a kernel. InvalidArgument:
  // a wrong count, dtype, rank, size or device of an argument (the message
  // names it), one that shares memory with a state that the method updates or,
  // if the method writes it, with another argument, or values that the program cannot take (an index out of range, a
  // failed assertion). Whatever a handler of an effect returns.
  // OutOfRange: a dynamic dimension outside its range. FailedPrecondition: a
  // backward without forward, or whose states have changed since; a method that
  // gives an argument another storage.
  // ResourceExhausted: from the device. Internal: the device failed.
  absl::StatusOr<std::vector<Tensor>> Run(absl::string_view method, absl::Span<const Tensor> arguments);

  // The same without allocation once it has run with these sizes: results go to
  // `results`, into the tensors there if they fit (dtype, sizes, layout,
  // device, memory shared neither with an argument nor with a state of this
  // session nor among themselves), else into new ones that replace them.
  // results.size() is NumResults(method).
  // On error they may be partly written.
  absl::StatusOr<MethodHandle> FindMethod(absl::string_view name) const;
  int NumResults(MethodHandle method) const;
  absl::Status Run(MethodHandle method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results);

  // The same, and the time of each step of the plan; see StepNames().
  absl::Status RunTimed(MethodHandle method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                        std::vector<int64_t>& nanoseconds);

  // The gradient of a parameter that the last backward computed; shares memory
  // with that call's result.
  // NotFound: no method computes it. FailedPrecondition: no backward has run.
  absl::StatusOr<Tensor> Gradient(absl::string_view parameter) const;

  // The memory of a parameter or buffer as a variable, the same at each call: of
  // a parameter that is trained, a leaf to whose grad() the backwards of all
  // functions (runtime/function/function.h) add. Operations in place on it train it.
  // NotFound: no parameter or buffer of this name (or alias).
  absl::StatusOr<Variable> Parameter(absl::string_view name) const;
  // For autograd::Backward() and operations in place.
  TensorOps& ops() const { return core_->ops(); }

  // States by name (or alias): copies, row-major on the host.
  // NotFound: no such state. InvalidArgument: a wrong dtype or sizes, or a
  // constant. Errors of the device.
  absl::StatusOr<Tensor> State(absl::string_view name) const;
  absl::Status SetState(absl::string_view name, const Tensor& value);

  // Inputs of the optimizer that may change between steps: "lr",
  // "weight_decay", ... of parameter group `group`.
  // NotFound: the message lists those there are. OutOfRange: not a number of
  // its dtype.
  absl::StatusOr<double> Hyperparameter(absl::string_view name, int group = 0) const;
  absl::Status SetHyperparameter(absl::string_view name, double value, int group = 0);

  // FailedPrecondition: the program draws no random numbers.
  absl::StatusOr<RngState> Rng() const;
  absl::Status SetRng(RngState rng);

  // The states as a safetensors file and back; see checkpoint.h for its content
  // and for what is guaranteed.
  absl::Status SaveCheckpoint(const std::string& path) const;
  absl::Status LoadCheckpoint(const std::string& path);

  StateStore& states() { return core_->states(); }
  const StateStore& states() const { return core_->states(); }
  // FailedPrecondition: the method has not been planned, for want of sizes.
  absl::StatusOr<PlanSummary> Summary(MethodHandle method) const;
  // What the steps of the last run of the method are: "op 7 (matmul) from fc1".
  // FailedPrecondition: as Summary().
  absl::StatusOr<std::vector<std::string>> StepNames(MethodHandle method) const;
  // Plans made so far, over all methods.
  int num_plans_made() const { return core_->num_plans_made(); }
  // Bytes of the arena that all methods share.
  int64_t arena_bytes() const { return core_->arena_bytes(); }

  // For functions.
  const std::shared_ptr<SessionCore>& core() const { return core_; }

 private:
  // What a forward leaves for its backward.
  struct Saved {
    std::vector<Tensor> values;
    DimVector symbols;
    std::vector<uint64_t> versions;  // of the states that the backward reads
    bool valid = false;              // between forward and backward
  };
  struct MethodState {
    int index = 0;  // in the artifact
    int num_results = 0;
    std::vector<int> read_states;  // by state read
    std::vector<int> updated_states;
    bool sets_storage = false;
    int forward = -1;   // a backward's other half
    int backward = -1;  // a forward's other half
    std::unique_ptr<MethodPlans> plans;
    Saved saved;                    // a forward's
    std::vector<Tensor> gradients;  // a backward's last results
  };

  explicit Session(std::shared_ptr<SessionCore> core);
  void PairMethods();
  MethodState& StateOf(MethodHandle method) { return methods_[static_cast<size_t>(method.index)]; }

  absl::Status CheckBackward(const MethodState& method) const;
  // Runs a method by calling `execute` on its prepared executable.
  absl::Status RunWith(MethodHandle method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                       absl::FunctionRef<absl::Status(Executable&)> execute);
  absl::StatusOr<Executable*> Prepare(MethodState& method, absl::Span<const Tensor> arguments);
  absl::Status SetArguments(MethodState& method, absl::Span<const Tensor> arguments, Executable& executable);
  absl::Status SetResults(MethodState& method, absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                          Executable& executable);
  bool IsUsed(const Storage& storage, absl::Span<const Tensor> arguments,
              absl::Span<const Tensor> earlier_results) const;
  void Finish(MethodState& method, absl::Span<const Tensor> results, const Executable& executable);
  absl::StatusOr<int> FindHyperparameter(absl::string_view name, int group) const;
  absl::StatusOr<int> FindRng() const;

  std::shared_ptr<SessionCore> core_;
  StateIntervals states_by_address_;  // all of them
  std::vector<MethodState> methods_;  // as in the artifact
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SESSION_H_
