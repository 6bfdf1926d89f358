#include "runtime/executable.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/arguments.h"

namespace cotan {

absl::StatusOr<std::unique_ptr<Executable>> Executable::Make(const Program& program, int method,
                                                             absl::Span<const int64_t> symbols,
                                                             const ExecutionTarget& target) {
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Plan> plan, MakePlan(program, method, symbols, target));
  return std::unique_ptr<Executable>(new Executable(program, target, std::move(plan)));
}

Executable::Executable(const Program& program, const ExecutionTarget& target, std::unique_ptr<Plan> plan)
    : program_(program), target_(target), plan_(std::move(plan)), bound_(*plan_), staging_(plan_->inputs.size()) {}

void Executable::Bind(const FixedAddresses& addresses, uint64_t generation) {
  if (generation_ == generation) return;
  bound_.Bind(addresses);
  generation_ = generation;
}

absl::Status Executable::SetInput(int index, const Tensor& argument) {
  if (!SameGeometry(argument.layout(), plan_->inputs[static_cast<size_t>(index)].layout)) return Stage(index, argument);
  bound_.SetInput(index, argument.address());
  return absl::OkStatus();
}

absl::Status Executable::Stage(int index, const Tensor& argument) {
  const TensorSpec& wanted = plan_->inputs[static_cast<size_t>(index)];
  Staging& staging = staging_[static_cast<size_t>(index)];
  if (!staging.memory.defined()) {
    COTAN_ASSIGN_OR_RETURN(staging.memory, Tensor::EmptyStrided(wanted.dtype, wanted.layout, *target_.device));
  }
  TensorSpec given = {argument.dtype(), argument.layout()};
  given.layout.offset = 0;
  if (staging.copy == nullptr || staging.layout != given.layout) {
    staging.copy = nullptr;
    COTAN_ASSIGN_OR_RETURN(staging.copy, PrepareCopy(given, wanted, target_));
    staging.layout = given.layout;
  }
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<Storage> scratch,
                         Storage::Allocate(*target_.device, staging.copy->scratch_bytes()));
  void* const from = argument.address();
  void* const to = staging.memory.address();
  COTAN_RETURN_IF_ERROR(staging.copy->Run({.inputs = &from, .outputs = &to, .scratch = scratch->data()}));
  bound_.SetInput(index, to);
  return absl::OkStatus();
}

absl::Status Executable::SetOutput(int index, Tensor& result) {
  const TensorSpec& wanted = plan_->outputs[static_cast<size_t>(index)];
  const bool fits = result.defined() && result.dtype() == wanted.dtype && &result.device() == target_.device &&
                    SameGeometry(result.layout(), wanted.layout);
  if (!fits) {
    COTAN_ASSIGN_OR_RETURN(result, Tensor::EmptyStrided(wanted.dtype, wanted.layout, *target_.device));
  }
  bound_.SetOutput(index, result.address());
  return absl::OkStatus();
}

absl::Status Executable::Run() {
  int failed = 0;
  return AtStep(bound_.Execute(failed), failed);
}

absl::Status Executable::RunTimed(absl::Span<int64_t> nanoseconds) {
  int failed = 0;
  return AtStep(bound_.ExecuteTimed(*target_.device, nanoseconds, failed), failed);
}

absl::Status Executable::AtStep(const absl::Status& status, int step) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(StepName(program_, *plan_, plan_->steps[static_cast<size_t>(step)]),
                                                  ": ", status.message()));
}

}  // namespace cotan
