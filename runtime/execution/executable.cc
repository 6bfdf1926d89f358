// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/executable.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/denormal_mode.h"
#include "base/status_macros.h"
#include "runtime/execution/arguments.h"

namespace cotan {

absl::StatusOr<std::unique_ptr<Executable>> Executable::Make(const Program& program, int method,
                                                             absl::Span<const int64_t> symbols,
                                                             const ExecutionTarget& target,
                                                             const ScheduleOptions& options) {
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(program, method, symbols, target, options));
  return std::unique_ptr<Executable>(new Executable(program, target, std::move(plan)));
}

Executable::Executable(const Program& program, const ExecutionTarget& target, std::unique_ptr<Plan> plan)
    : program_(program),
      target_(target),
      plan_(std::move(plan)),
      bound_(*plan_, *target.device),
      input_staging_(plan_->inputs.size()),
      output_staging_(plan_->outputs.size()) {}

void Executable::Bind(const FixedAddresses& addresses, uint64_t generation) {
  copies_out_.clear();  // those of a call that failed before Run()
  copies_back_.clear();
  if (generation_ == generation) return;
  bound_.Bind(addresses);
  generation_ = generation;
}

bool Executable::IsWritten(int input) const {
  return std::binary_search(plan_->written_inputs.begin(), plan_->written_inputs.end(), input);
}

absl::Status Executable::SetInput(int index, const Tensor& argument) {
  const TensorSpec& planned = plan_->inputs[static_cast<size_t>(index)];
  if (plan_->inputs_on_host[static_cast<size_t>(index)]) return SetPinnedInput(index, argument);
  if (!argument.is_plain()) return SetInputReading(index, argument);
  if (&argument.device() != target_.device) return SetHostInput(index, argument);
  if (SameGeometry(argument.layout(), planned.layout)) {
    bound_.SetInput(index, argument.address());
    return absl::OkStatus();
  }
  Staging& staging = input_staging_[static_cast<size_t>(index)];
  COTAN_RETURN_IF_ERROR(CopyIn(planned, argument, staging));
  bound_.SetInput(index, staging.memory.address());
  return IsWritten(index) ? AddCopyOut(planned, argument, staging) : absl::OkStatus();
}

absl::Status Executable::SetPinnedInput(int index, const Tensor& argument) {
  const TensorSpec& planned = plan_->inputs[static_cast<size_t>(index)];
  const bool fits = argument.is_plain() && argument.storage()->pinned() == target_.device->pinned_memory() &&
                    SameGeometry(argument.layout(), planned.layout);
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", index, " of method '", program_.method(plan_->method).name(),
                     "' is a saved value in the device's pinned memory, got ", argument.ToString()));
  }
  bound_.SetInput(index, argument.address());
  return absl::OkStatus();
}

absl::Status Executable::SetInputReading(int index, const Tensor& argument) {
  const TensorSpec& planned = plan_->inputs[static_cast<size_t>(index)];
  if (IsWritten(index)) {
    return absl::UnimplementedError(absl::StrCat("input ", index,
                                                 " is written by the program, but the argument is a "
                                                 "conjugate or negative view: pass a copy (Clone())"));
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor plain, argument.ResolveConjNeg());
  if (&plain.device() != target_.device) return SetHostInput(index, plain);
  Staging& staging = input_staging_[static_cast<size_t>(index)];
  COTAN_RETURN_IF_ERROR(CopyIn(planned, plain, staging));
  bound_.SetInput(index, staging.memory.address());
  return absl::OkStatus();
}

absl::Status Executable::SetHostInput(int index, const Tensor& argument) {
  const TensorSpec& planned = plan_->inputs[static_cast<size_t>(index)];
  if (host_staging_.empty()) host_staging_.resize(plan_->inputs.size());
  HostStaging& staging = host_staging_[static_cast<size_t>(index)];
  if (!staging.memory.defined()) {
    COTAN_ASSIGN_OR_RETURN(staging.memory, Tensor::EmptyStrided(planned.dtype, planned.layout, *target_.device));
  }
  bound_.SetInput(index, staging.memory.address());
  const size_t bytes = static_cast<size_t>(argument.num_elements()) * ByteSize(planned.dtype);
  if (bytes == 0) return absl::OkStatus();
  if (IsWritten(index)) copies_back_.push_back({index, argument});
  const Tensor* from = &argument;
  if (!SameGeometry(argument.layout(), planned.layout)) {
    if (!staging.arranged.defined()) {
      COTAN_ASSIGN_OR_RETURN(staging.arranged, Tensor::EmptyStrided(planned.dtype, planned.layout));
    }
    CopyStrided(argument.address(), argument.layout(), staging.arranged.address(), planned.layout,
                ByteSize(planned.dtype));
    from = &staging.arranged;
  }
  return target_.device->CopyFromHost(staging.memory.address(), from->address(), bytes);
}

absl::Status Executable::CopyBackToHost(const CopyBack& copy) {
  const TensorSpec& planned = plan_->inputs[static_cast<size_t>(copy.input)];
  HostStaging& staging = host_staging_[static_cast<size_t>(copy.input)];
  const size_t bytes = static_cast<size_t>(copy.argument.num_elements()) * ByteSize(planned.dtype);
  if (SameGeometry(copy.argument.layout(), planned.layout)) {
    return target_.device->CopyToHost(copy.argument.address(), staging.memory.address(), bytes);
  }
  COTAN_RETURN_IF_ERROR(target_.device->CopyToHost(staging.arranged.address(), staging.memory.address(), bytes));
  CopyStrided(staging.arranged.address(), planned.layout, copy.argument.address(), copy.argument.layout(),
              ByteSize(planned.dtype));
  return absl::OkStatus();
}

absl::Status Executable::AllocateStaging(const TensorSpec& planned, Staging& staging) const {
  if (staging.memory.defined()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(staging.memory, Tensor::EmptyStrided(planned.dtype, planned.layout, *target_.device));
  return absl::OkStatus();
}

absl::Status Executable::RunKernel(Kernel& kernel, void* from, void* to) const {
  std::shared_ptr<Storage> scratch;
  if (kernel.scratch_bytes() != 0) {
    COTAN_ASSIGN_OR_RETURN(scratch, Storage::Allocate(*target_.device, kernel.scratch_bytes()));
  }
  return kernel.Run({.inputs = &from, .outputs = &to, .scratch = scratch == nullptr ? nullptr : scratch->data()});
}

absl::Status Executable::CopyIn(const TensorSpec& planned, const Tensor& argument, Staging& staging) const {
  COTAN_RETURN_IF_ERROR(AllocateStaging(planned, staging));
  TensorSpec given = {argument.dtype(), argument.layout()};
  given.layout.offset = 0;
  if (staging.copy_in == nullptr || staging.in_layout != given.layout) {
    staging.copy_in = nullptr;
    COTAN_ASSIGN_OR_RETURN(staging.copy_in, PrepareCopy(given, planned, target_));
    staging.in_layout = given.layout;
  }
  return RunKernel(*staging.copy_in, argument.address(), staging.memory.address());
}

absl::Status Executable::AddCopyOut(const TensorSpec& planned, const Tensor& result, Staging& staging) {
  COTAN_RETURN_IF_ERROR(AllocateStaging(planned, staging));
  TensorSpec wanted = {result.dtype(), result.layout()};
  wanted.layout.offset = 0;
  if (staging.copy_out == nullptr || staging.out_layout != wanted.layout) {
    staging.copy_out = nullptr;
    COTAN_ASSIGN_OR_RETURN(staging.copy_out, PrepareCopy(planned, wanted, target_));
    staging.out_layout = wanted.layout;
  }
  copies_out_.push_back({staging.copy_out.get(), staging.memory.address(), result.address()});
  return absl::OkStatus();
}

absl::Status Executable::CopyOutAll() {
  for (const CopyOut& copy : copies_out_) COTAN_RETURN_IF_ERROR(RunKernel(*copy.kernel, copy.from, copy.to));
  for (const CopyBack& copy : copies_back_) COTAN_RETURN_IF_ERROR(CopyBackToHost(copy));
  return absl::OkStatus();
}

absl::Status Executable::SetOutput(int index, Tensor& result) {
  const TensorSpec& wanted = plan_->outputs[static_cast<size_t>(index)];
  PinnedMemory* const pinned =
      plan_->outputs_on_host[static_cast<size_t>(index)] ? target_.device->pinned_memory() : nullptr;
  const auto is_there = [&] {
    return pinned == nullptr ? &result.device() == target_.device : result.storage()->pinned() == pinned;
  };
  const bool fits =
      result.defined() && result.dtype() == wanted.dtype && is_there() && SameGeometry(result.layout(), wanted.layout);
  if (!fits && pinned != nullptr) {
    const auto bytes = static_cast<size_t>(NumElements(wanted.layout.sizes)) * ByteSize(wanted.dtype);
    COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, Storage::AllocatePinned(*pinned, bytes));
    COTAN_ASSIGN_OR_RETURN(result, Tensor::InStorage(std::move(storage), wanted.dtype, wanted.layout));
  } else if (!fits) {
    COTAN_ASSIGN_OR_RETURN(result, Tensor::EmptyStrided(wanted.dtype, wanted.layout, *target_.device));
  }
  bound_.SetOutput(index, result.address());
  return absl::OkStatus();
}

absl::Status Executable::SetStridedOutput(int index, const Tensor& result) {
  const TensorSpec& planned = plan_->outputs[static_cast<size_t>(index)];
  if (SameGeometry(result.layout(), planned.layout)) {
    bound_.SetOutput(index, result.address());
    return absl::OkStatus();
  }
  Staging& staging = output_staging_[static_cast<size_t>(index)];
  COTAN_RETURN_IF_ERROR(AddCopyOut(planned, result, staging));
  bound_.SetOutput(index, staging.memory.address());
  return absl::OkStatus();
}

absl::Status Executable::Run() {
  int failed = 0;
  const ScopedDenormalMode mode(target_.flush_denormals);
  const absl::Status status = bound_.Execute(failed);
  COTAN_RETURN_IF_ERROR(AtStep(status, failed));
  return CopyOutAll();
}

absl::Status Executable::RunTimed(absl::Span<int64_t> nanoseconds) {
  int failed = 0;
  const ScopedDenormalMode mode(target_.flush_denormals);
  const absl::Status status = bound_.ExecuteTimed(nanoseconds, failed);
  COTAN_RETURN_IF_ERROR(AtStep(status, failed));
  return CopyOutAll();
}

absl::Status Executable::AtStep(const absl::Status& status, int step) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(StepName(program_, *plan_, plan_->steps[static_cast<size_t>(step)]),
                                                  ": ", status.message()));
}

}  // namespace cotan
