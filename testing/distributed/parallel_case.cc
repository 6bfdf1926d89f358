// SPDX-License-Identifier: Apache-2.0

#include "testing/distributed/parallel_case.h"

#include "testing/distributed/parallel_model.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/tolerance.h"

namespace cotan::testing {

using aot::DataParallelOptions;
using aot::OptimizerConfig;
using aot::OptimizerOptions;

void PrintTo(const ParallelCase& parallel, std::ostream* os) { *os << parallel.name; }

OptimizerConfig Config(OptimizerOptions options) {
  OptimizerConfig config;
  config.options = options;
  return config;
}

OptimizerConfig ClippedByNorm(OptimizerOptions options) {
  OptimizerConfig config = Config(options);
  config.clip_norm = 0.5;
  return config;
}

DataParallelOptions Averaged() { return {.bucket_bytes = 1024}; }

DataParallelOptions Sharded(int ranks) { return {.bucket_bytes = 1024, .shard_optimizer = true, .ranks = ranks}; }

DataParallelOptions Synchronised() { return {.bucket_bytes = 1024, .sync_batch_norm = true}; }

Whole TrainWhole(const ParallelCase& parallel, const RankData& data) {
  EagerTrainer eager(parallel.model, kModelSeed, parallel.optimizer);
  Whole whole;
  const int64_t batch = data.batch * parallel.ranks;
  for (int64_t step = 0; step < data.steps; ++step) {
    const auto [input, label] = RowsOf(data, step * batch, batch);
    whole.losses.push_back(static_cast<float>(eager.Accumulate(input, label)));
    if (parallel.accumulate == 0 || (step + 1) % parallel.accumulate == 0) eager.Update();
  }
  whole.states = eager.States();
  return whole;
}

double LossError(float actual, float expected) { return ErrorInEps<float>({&actual, 1}, {&expected, 1}); }

double StateError(const std::vector<float>& actual, const torch::Tensor& expected) {
  const torch::Tensor dense = expected.contiguous();
  return ErrorInEps<float>(actual, {dense.data_ptr<float>(), static_cast<size_t>(dense.numel())});
}

}  // namespace cotan::testing
