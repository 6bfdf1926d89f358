// SPDX-License-Identifier: Apache-2.0

// One method for one set of sizes, ready to run: a plan, its addresses, and copies of arguments whose layout
// differs from the planned one.
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

// A bound plan that a session runs. Not thread-safe. Not movable. The program and the target outlive it.
class Executable {
 public:
  // Plans `method` for these values of the dynamic dimensions. Errors as MakePlan().
  static absl::StatusOr<std::unique_ptr<Executable>> Make(const Program& program, int method,
                                                          absl::Span<const int64_t> symbols,
                                                          const ExecutionTarget& target,
                                                          const ScheduleOptions& options = {});

  const Plan& plan() const { return *plan_; }

  // Begins a call; SetInput() and SetOutput() for all inputs and outputs follow, then Run(). `generation`
  // identifies the addresses: they are bound only if it differs from that of the previous call.
  void Bind(const FixedAddresses& addresses, uint64_t generation);

  // Makes `argument`, whose dtype and sizes are those of plan().inputs[index], an input of the next Run(). It is on the
  // device or on the host; one on the host is copied to the device, and back afterwards if the method writes it. An
  // argument of another layout than the planned one is copied before the steps run, and copied back
  // afterwards if the method writes it. The memory of the copy is allocated once; its kernels are prepared
  // once for each change of layout.
  // A saved value that the plan has on the host is one of SetOutput(), or InvalidArgument is returned.
  // ResourceExhausted: the device has not enough memory.
  // NotFound: there is no kernel that copies this dtype.
  // Unimplemented: as NotFound, or the method writes an argument with a conjugate or negative bit.
  absl::Status SetInput(int index, const Tensor& argument);

  // Makes `result` the memory of plan().outputs[index] if it has the planned dtype and layout and is on the
  // device, or in its pinned memory if the plan has it there; else replaces `result` by a new tensor.
  // ResourceExhausted: the device or the host has not enough memory.
  absl::Status SetOutput(int index, Tensor& result);
  // Makes `result` the destination of plan().outputs[index] whatever its layout; one of another layout than
  // the planned one is filled by a copy after the steps have run. It has the planned dtype and sizes and is
  // on the device.
  // ResourceExhausted, NotFound, Unimplemented: as SetInput().
  absl::Status SetStridedOutput(int index, const Tensor& result);

  // Executes the steps. Returns the status of the first step that fails; the message names the step.
  absl::Status Run();
  // Executes the steps and times each one as BoundPlan::ExecuteTimed() does. Errors as Run().
  absl::Status RunTimed(absl::Span<int64_t> nanoseconds);

 private:
  // The planned memory of an argument or result of another layout, and the copies between both.
  struct Staging {
    Tensor memory;
    StridedLayout in_layout;  // that `copy_in` was prepared for
    std::unique_ptr<Kernel> copy_in;
    StridedLayout out_layout;
    std::unique_ptr<Kernel> copy_out;
  };
  // The memory on the device of an argument on the host.
  struct HostStaging {
    Tensor memory;
    Tensor arranged;  // on the host, in the planned layout; undefined while arguments have that layout
  };
  // A written argument on the host, which gets its new content after the steps have run.
  struct CopyBack {
    int input;
    Tensor argument;
  };
  // A copy that is made after the steps have run.
  struct CopyOut {
    Kernel* kernel;
    void* from;
    void* to;
  };

  Executable(const Program& program, const ExecutionTarget& target, std::unique_ptr<Plan> plan);
  absl::Status AtStep(const absl::Status& status, int step) const;
  absl::Status SetPinnedInput(int index, const Tensor& argument);
  absl::Status SetHostInput(int index, const Tensor& argument);
  absl::Status CopyBackToHost(const CopyBack& copy);
  absl::Status AllocateStaging(const TensorSpec& planned, Staging& staging) const;
  // Sets an input whose argument has a conjugate or negative bit: resolves the bits in a copy.
  absl::Status SetInputReading(int index, const Tensor& argument);
  absl::Status CopyIn(const TensorSpec& planned, const Tensor& argument, Staging& staging) const;
  absl::Status AddCopyOut(const TensorSpec& planned, const Tensor& result, Staging& staging);
  absl::Status RunKernel(Kernel& kernel, void* from, void* to) const;
  // Makes the copies that follow the steps.
  absl::Status CopyOutAll();
  bool IsWritten(int input) const;

  const Program& program_;
  const ExecutionTarget target_;
  const std::unique_ptr<Plan> plan_;
  BoundPlan bound_;
  uint64_t generation_ = 0;
  std::vector<Staging> input_staging_;     // one per input
  std::vector<Staging> output_staging_;    // one per output
  std::vector<CopyOut> copies_out_;        // of the next Run()
  std::vector<HostStaging> host_staging_;  // one per input, or none before the first argument on the host
  std::vector<CopyBack> copies_back_;      // of the next Run()
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_EXECUTABLE_H_
