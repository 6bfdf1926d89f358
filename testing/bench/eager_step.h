// SPDX-License-Identifier: Apache-2.0

// The training step in LibTorch eager, the baseline of the benchmark.
#ifndef COTAN_TESTING_BENCH_EAGER_STEP_H_
#define COTAN_TESTING_BENCH_EAGER_STEP_H_

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "testing/models/models.h"

namespace cotan::testing {

// Learning rate and momentum of the measured step, the same for both sides.
inline constexpr double kLearningRate = 0.01;
inline constexpr double kMomentum = 0.9;

// A model, its batch and torch::optim::SGD. `model` must outlive it.
class EagerStep {
 public:
  // Draws parameters and batch from `seed`. Forward and loss run under autocast to bf16 if `autocasts`.
  EagerStep(const ModelCase& model, uint64_t seed, bool autocasts);

  // Zeroes the gradients, then runs forward, loss, backward and update.
  void Run();

 private:
  const ModelCase& model_;
  torch::Tensor input_, label_;
  std::shared_ptr<Network> network_;
  torch::optim::SGD optimizer_;
  const bool autocasts_;
};

// Returns the peak bytes of LibTorch's CPU allocator while a new model runs two steps, with its
// parameters, batch, gradients and momentum.
int64_t EagerPeakBytes(const ModelCase& model, uint64_t seed, bool autocasts);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_EAGER_STEP_H_
