// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/cotan_step.h"

#include <utility>

#include "base/status_macros.h"
#include "runtime/tools/planned_method.h"
#include "runtime/tools/profile.h"

namespace cotan::testing {
namespace {

// The batch stays in LibTorch's memory, which both sides read.
template <typename T>
absl::StatusOr<Tensor> Borrow(const torch::Tensor& tensor) {
  return Tensor::Borrow<T>({tensor.data_ptr<T>(), static_cast<size_t>(tensor.numel())},
                           {tensor.sizes().data(), static_cast<size_t>(tensor.dim())});
}

absl::StatusOr<Tensor> BorrowBatch(const torch::Tensor& tensor, Device* device) {
  COTAN_ASSIGN_OR_RETURN(Tensor borrowed,
                         tensor.scalar_type() == at::kLong ? Borrow<int64_t>(tensor) : Borrow<float>(tensor));
  if (device == nullptr) return borrowed;
  return borrowed.ToDevice(*device);
}

absl::StatusOr<tools::PlannedMethod> PlanOf(const Program& program, const KernelRegistry* kernels) {
  COTAN_ASSIGN_OR_RETURN(const int method, program.FindMethod("train_step"));
  return tools::PlanMethod(program.artifact(), program.method(method), kernels);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CotanStep>> CotanStep::Create(const std::string& artifact, const SessionOptions& options,
                                                             const torch::Tensor& input, const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(artifact));
  return Start(std::move(program), options, input, label);
}

absl::StatusOr<std::unique_ptr<CotanStep>> CotanStep::FromBytes(std::string artifact, const SessionOptions& options,
                                                                const torch::Tensor& input,
                                                                const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::LoadBytes(std::move(artifact)));
  return Start(std::move(program), options, input, label);
}

absl::StatusOr<std::unique_ptr<CotanStep>> CotanStep::Start(std::shared_ptr<const Program> program,
                                                            const SessionOptions& options, const torch::Tensor& input,
                                                            const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, options));
  std::unique_ptr<CotanStep> step(new CotanStep(std::move(program), options.kernels, std::move(session)));
  COTAN_ASSIGN_OR_RETURN(step->train_step_, step->session_.FindMethod("train_step"));
  step->results_.resize(static_cast<size_t>(step->session_.NumResults(step->train_step_)));
  COTAN_ASSIGN_OR_RETURN(step->batch_.emplace_back(), BorrowBatch(input, options.device));
  COTAN_ASSIGN_OR_RETURN(step->batch_.emplace_back(), BorrowBatch(label, options.device));
  step->torch_batch_ = {input, label};
  return step;
}

absl::Status CotanStep::Run() {
  COTAN_RETURN_IF_ERROR(session_.Run(train_step_, batch_, absl::MakeSpan(results_)));
  return session_.Synchronize();
}

absl::StatusOr<std::string> CotanStep::ProfileText(int calls, const tools::MachineRates* rates) {
  constexpr size_t kRows = 60;
  COTAN_ASSIGN_OR_RETURN(std::vector<tools::ProfiledStep> steps,
                         tools::Profile(session_, train_step_, batch_, absl::MakeSpan(results_), calls));
  if (rates != nullptr) {
    COTAN_ASSIGN_OR_RETURN(const tools::PlannedMethod planned, PlanOf(*program_, kernels_));
    tools::AddBounds(planned, *rates, absl::MakeSpan(steps));
  }
  return tools::ProfileText(steps, kRows);
}

absl::StatusOr<StepBound> CotanStep::Bound(const tools::MachineRates& rates) const {
  COTAN_ASSIGN_OR_RETURN(const tools::PlannedMethod planned, PlanOf(*program_, kernels_));
  StepBound bound;
  for (const tools::StepCost& step : planned.steps) {
    bound.flops += step.work.flops;
    bound.bytes += step.work.bytes;
    bound.us += rates.BoundNs(step.work, step.dtype) / 1000;
  }
  return bound;
}

int64_t CotanStep::PeakBytes() const {
  int64_t bytes = session_.state_bytes() + session_.arena_bytes();
  for (const torch::Tensor& tensor : torch_batch_) bytes += static_cast<int64_t>(tensor.nbytes());
  for (const Tensor& result : results_) bytes += static_cast<int64_t>(result.storage()->bytes());
  return bytes;
}

}  // namespace cotan::testing
