// One method for one set of sizes, ready to run: plan, addresses, and copies
// of arguments that do not lie in memory as the plan wants.
#ifndef COTAN_RUNTIME_EXECUTION_EXECUTABLE_H_
#define COTAN_RUNTIME_EXECUTION_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/execution/bound_plan.h"
#include "runtime/execution/plan.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// Not thread-safe. Does not move. Program and target outlive it.
class Executable {
 public:
  // Errors as MakePlan().
  static absl::StatusOr<std::unique_ptr<Executable>> Make(const Program& program, int method,
                                                          absl::Span<const int64_t> symbols,
                                                          const ExecutionTarget& target,
                                                          const ScheduleOptions& options = {});

  const Plan& plan() const { return *plan_; }

  // Begins a call: to be followed by SetInput() and SetOutput() for all, then
  // Run(). Addresses for the runs to come; `generation` says which they are:
  // they are taken over only if it is not the last call's.
  void Bind(const FixedAddresses& addresses, uint64_t generation);

  // Makes `argument`, whose dtype and sizes are those of plan().inputs[index],
  // an input of the next Run(): in place if its layout is the planned one, else
  // through a copy, and if the method writes it, back through another. The memory
  // for it is allocated once, kernels once for each change of layout.
  // ResourceExhausted: from the device. NotFound, Unimplemented: no kernel
  // copies this dtype.
  absl::Status SetInput(int index, const Tensor& argument);

  // Gives plan().outputs[index] a place: `result` if it has the planned dtype
  // and layout and is on the device, else a new tensor, which replaces it.
  // ResourceExhausted: from the device.
  absl::Status SetOutput(int index, Tensor& result);
  // The same for a tensor that is used whatever its layout, if need be through a
  // copy after Run(). It has the planned dtype and sizes and is on the device.
  // ResourceExhausted, NotFound, Unimplemented: as SetInput().
  absl::Status SetStridedOutput(int index, const Tensor& result);

  // Executes. The status of a step that fails, with its name.
  absl::Status Run();
  // The same, timing each step as BoundPlan::ExecuteTimed() does.
  absl::Status RunTimed(absl::Span<int64_t> nanoseconds);

 private:
  // For an argument or result of another layout: memory as planned, and a copy
  // between it and the tensor.
  struct Staging {
    Tensor memory;
    StridedLayout in_layout;  // that `copy_in` was prepared for
    std::unique_ptr<Kernel> copy_in;
    StridedLayout out_layout;
    std::unique_ptr<Kernel> copy_out;
  };
  // A copy to be made when the steps have run.
  struct CopyOut {
    Kernel* kernel;
    void* from;
    void* to;
  };

  Executable(const Program& program, const ExecutionTarget& target, std::unique_ptr<Plan> plan);
  absl::Status AtStep(const absl::Status& status, int step) const;
  absl::Status AllocateStaging(const TensorSpec& planned, Staging& staging) const;
  // Of an argument that is not plain: a copy.
  absl::Status SetInputReading(int index, const Tensor& argument);
  absl::Status CopyIn(const TensorSpec& planned, const Tensor& argument, Staging& staging) const;
  absl::Status AddCopyOut(const TensorSpec& planned, const Tensor& result, Staging& staging);
  absl::Status RunKernel(Kernel& kernel, void* from, void* to) const;
  absl::Status CopyOutAll();
  bool IsWritten(int input) const;

  const Program& program_;
  const ExecutionTarget target_;
  const std::unique_ptr<Plan> plan_;
  BoundPlan bound_;
  uint64_t generation_ = 0;
  std::vector<Staging> input_staging_;   // one per input
  std::vector<Staging> output_staging_;  // one per output
  std::vector<CopyOut> copies_out_;      // of the next Run()
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_EXECUTABLE_H_
