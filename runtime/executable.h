// One method for one set of sizes, ready to run: plan, addresses, and copies
// of arguments that do not lie in memory as the plan wants.
#ifndef COTAN_RUNTIME_EXECUTABLE_H_
#define COTAN_RUNTIME_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/bound_plan.h"
#include "runtime/plan.h"
#include "runtime/program.h"
#include "runtime/tensor.h"

namespace cotan {

// Not thread-safe. Does not move. Program and target outlive it.
class Executable {
 public:
  // Errors as MakePlan().
  static absl::StatusOr<std::unique_ptr<Executable>> Make(const Program& program, int method,
                                                          absl::Span<const int64_t> symbols,
                                                          const ExecutionTarget& target);

  const Plan& plan() const { return *plan_; }

  // Addresses for the runs to come; `generation` says which they are: nothing
  // happens if it is the last call's.
  void Bind(const FixedAddresses& addresses, uint64_t generation);

  // Makes `argument`, whose dtype and sizes are those of plan().inputs[index],
  // an input of the next Run(): in place if its layout is the planned one, else
  // through a copy. The memory for it is allocated once, the kernel once for
  // each change of layout.
  // ResourceExhausted: from the device. NotFound, Unimplemented: no kernel
  // copies this dtype.
  absl::Status SetInput(int index, const Tensor& argument);

  // Gives plan().outputs[index] a place: `result` if it has the planned dtype
  // and layout and is on the device, else a new tensor, which replaces it.
  // ResourceExhausted: from the device.
  absl::Status SetOutput(int index, Tensor& result);

  // Executes. The status of a step that fails, with its name.
  absl::Status Run();
  // The same, timing each step as BoundPlan::ExecuteTimed() does.
  absl::Status RunTimed(absl::Span<int64_t> nanoseconds);

 private:
  // For an argument of another layout.
  struct Staging {
    StridedLayout layout;  // that `copy` was prepared for
    std::unique_ptr<Kernel> copy;
    Tensor memory;
  };

  Executable(const Program& program, const ExecutionTarget& target, std::unique_ptr<Plan> plan);
  absl::Status AtStep(const absl::Status& status, int step) const;
  absl::Status Stage(int index, const Tensor& argument);

  const Program& program_;
  const ExecutionTarget target_;
  const std::unique_ptr<Plan> plan_;
  BoundPlan bound_;
  uint64_t generation_ = 0;
  std::vector<Staging> staging_;  // one per input
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTABLE_H_
