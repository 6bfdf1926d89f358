// SPDX-License-Identifier: Apache-2.0

// Cases of data parallel training, and the same training in a process that has the whole batch.
#ifndef COTAN_TESTING_DISTRIBUTED_PARALLEL_CASE_H_
#define COTAN_TESTING_DISTRIBUTED_PARALLEL_CASE_H_

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "testing/distributed/ranks.h"
#include "testing/models/models.h"

namespace cotan::testing {

struct ParallelCase {
  std::string name;
  int ranks = 2;
  ModelCase model;
  aot::OptimizerConfig optimizer;
  aot::DataParallelOptions parallel;
  int64_t accumulate = 0;  // calls before each update; 0: train_step
};

void PrintTo(const ParallelCase& parallel, std::ostream* os);

inline const aot::SgdOptions kMomentum = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
inline const aot::AdamOptions kAdam = {.lr = 0.01};

aot::OptimizerConfig Config(aot::OptimizerOptions options);
// Limits the norm of all gradients to 0.5.
aot::OptimizerConfig ClippedByNorm(aot::OptimizerOptions options);

// Return options with several buckets, so that their order matters.
aot::DataParallelOptions Averaged();
aot::DataParallelOptions Sharded(int ranks);
aot::DataParallelOptions Synchronised();

// Losses and states of a process that has the whole batch.
struct Whole {
  std::vector<float> losses;  // of each step
  std::map<std::string, torch::Tensor> states;
};

// Trains on all batches with LibTorch eager.
Whole TrainWhole(const ParallelCase& parallel, const RankData& data);

// Return the error in the units of testing/tolerance.h.
double LossError(float actual, float expected);
double StateError(const std::vector<float>& actual, const torch::Tensor& expected);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_DISTRIBUTED_PARALLEL_CASE_H_
