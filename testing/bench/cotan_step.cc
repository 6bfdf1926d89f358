// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/cotan_step.h"

#include <utility>

#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/tools/profile.h"

namespace cotan::testing {
namespace {

// The batch stays in LibTorch's memory, which both sides read.
template <typename T>
absl::StatusOr<Tensor> Borrow(const torch::Tensor& tensor) {
  return Tensor::Borrow<T>({tensor.data_ptr<T>(), static_cast<size_t>(tensor.numel())},
                           {tensor.sizes().data(), static_cast<size_t>(tensor.dim())});
}

absl::StatusOr<Tensor> BorrowBatch(const torch::Tensor& tensor) {
  if (tensor.scalar_type() == at::kLong) return Borrow<int64_t>(tensor);
  return Borrow<float>(tensor);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CotanStep>> CotanStep::Create(const std::string& artifact, int threads,
                                                             const torch::Tensor& input, const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(artifact));
  return Start(std::move(program), threads, input, label);
}

absl::StatusOr<std::unique_ptr<CotanStep>> CotanStep::FromBytes(std::string artifact, int threads,
                                                                const torch::Tensor& input,
                                                                const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::LoadBytes(std::move(artifact)));
  return Start(std::move(program), threads, input, label);
}

absl::StatusOr<std::unique_ptr<CotanStep>> CotanStep::Start(std::shared_ptr<const Program> program, int threads,
                                                            const torch::Tensor& input, const torch::Tensor& label) {
  SessionOptions options;
  options.kernels = &CpuKernels();
  options.threads = threads;
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(std::move(program), options));
  std::unique_ptr<CotanStep> step(new CotanStep(std::move(session)));
  COTAN_ASSIGN_OR_RETURN(step->train_step_, step->session_.FindMethod("train_step"));
  step->results_.resize(static_cast<size_t>(step->session_.NumResults(step->train_step_)));
  COTAN_ASSIGN_OR_RETURN(step->batch_.emplace_back(), BorrowBatch(input));
  COTAN_ASSIGN_OR_RETURN(step->batch_.emplace_back(), BorrowBatch(label));
  step->torch_batch_ = {input, label};
  return step;
}

absl::Status CotanStep::Run() { return session_.Run(train_step_, batch_, absl::MakeSpan(results_)); }

absl::StatusOr<std::string> CotanStep::ProfileText(int calls) {
  constexpr size_t kRows = 60;
  COTAN_ASSIGN_OR_RETURN(const std::vector<tools::ProfiledStep> steps,
                         tools::Profile(session_, train_step_, batch_, absl::MakeSpan(results_), calls));
  return tools::ProfileText(steps, kRows);
}

int64_t CotanStep::PeakBytes() const {
  int64_t bytes = session_.state_bytes() + session_.arena_bytes();
  for (const torch::Tensor& tensor : torch_batch_) bytes += static_cast<int64_t>(tensor.nbytes());
  for (const Tensor& result : results_) bytes += static_cast<int64_t>(result.storage()->bytes());
  return bytes;
}

}  // namespace cotan::testing
