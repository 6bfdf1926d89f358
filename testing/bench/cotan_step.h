// SPDX-License-Identifier: Apache-2.0

// The training step in the runtime.
#ifndef COTAN_TESTING_BENCH_COTAN_STEP_H_
#define COTAN_TESTING_BENCH_COTAN_STEP_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tools/machine_rates.h"

namespace cotan::testing {

// The work of a training step, summed over the steps of its plan.
struct StepBound {
  int64_t flops = 0;
  int64_t bytes = 0;
  double us = 0;  // sum of the bounds of the steps
};

// A session of a compiled model and its batch.
class CotanStep {
 public:
  // Loads the artifact and makes a session with `options`. The batch is copied to options.device unless that is null.
  // NotFound: there is no such file. Errors of Program::Load(), Session::Create() and Tensor::ToDevice().
  static absl::StatusOr<std::unique_ptr<CotanStep>> Create(const std::string& artifact, const SessionOptions& options,
                                                           const torch::Tensor& input, const torch::Tensor& label);

  // As Create(), from the bytes of the file.
  static absl::StatusOr<std::unique_ptr<CotanStep>> FromBytes(std::string artifact, const SessionOptions& options,
                                                              const torch::Tensor& input, const torch::Tensor& label);

  // Runs forward, loss, backward and update, and waits for the device.
  absl::Status Run();

  // Returns the bytes held after a step: states, arena, batch, results.
  int64_t PeakBytes() const;

  // Returns the bytes of the arena only.
  int64_t ArenaBytes() const { return session_.arena_bytes(); }

  // Returns a table of the steps of the plan, with bounds if there are `rates`; runs `calls` further calls.
  absl::StatusOr<std::string> ProfileText(int calls, const tools::MachineRates* rates);

  // Returns the work of a step, and the time that it takes at least. Errors of tools::PlanMethod().
  absl::StatusOr<StepBound> Bound(const tools::MachineRates& rates) const;

 private:
  static absl::StatusOr<std::unique_ptr<CotanStep>> Start(std::shared_ptr<const Program> program,
                                                          const SessionOptions& options, const torch::Tensor& input,
                                                          const torch::Tensor& label);
  CotanStep(std::shared_ptr<const Program> program, const KernelRegistry* kernels, Session session)
      : program_(std::move(program)), kernels_(kernels), session_(std::move(session)) {}

  std::shared_ptr<const Program> program_;
  const KernelRegistry* kernels_;
  Session session_;
  MethodHandle train_step_;
  std::vector<torch::Tensor> torch_batch_;
  std::vector<Tensor> batch_;    // views of torch_batch_, or copies on the device
  std::vector<Tensor> results_;  // logits, loss
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_COTAN_STEP_H_
