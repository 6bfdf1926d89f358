// The training step as the runtime runs it.
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
#include "runtime/session.h"

namespace cotan::testing {

// A session of a compiled model and its batch.
class CotanStep {
 public:
  // Loads the artifact.
  static absl::StatusOr<std::unique_ptr<CotanStep>> Create(const std::string& artifact, int threads,
                                                           const torch::Tensor& input, const torch::Tensor& label);

  // The same for the bytes of the file.
  static absl::StatusOr<std::unique_ptr<CotanStep>> FromBytes(std::string artifact, int threads,
                                                              const torch::Tensor& input, const torch::Tensor& label);

  // Forward, loss, backward, update.
  absl::Status Run();

  // Bytes that the training holds after a step: states, arena, batch, results.
  int64_t PeakBytes() const;

  // The arena alone.
  int64_t ArenaBytes() const { return session_.arena_bytes(); }

  // The dearest steps of the plan, for reading; runs `calls` more.
  absl::StatusOr<std::string> ProfileText(int calls);

 private:
  static absl::StatusOr<std::unique_ptr<CotanStep>> Start(std::shared_ptr<const Program> program, int threads,
                                                          const torch::Tensor& input, const torch::Tensor& label);
  explicit CotanStep(Session session) : session_(std::move(session)) {}

  Session session_;
  MethodHandle train_step_;
  std::vector<torch::Tensor> torch_batch_;
  std::vector<Tensor> batch_;    // views of torch_batch_
  std::vector<Tensor> results_;  // logits, loss
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_COTAN_STEP_H_
