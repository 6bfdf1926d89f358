// SPDX-License-Identifier: Apache-2.0

// Small models that several ranks train, and their batches.
#ifndef COTAN_TESTING_DISTRIBUTED_PARALLEL_MODEL_H_
#define COTAN_TESTING_DISTRIBUTED_PARALLEL_MODEL_H_

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "aot/compile.h"
#include "testing/distributed/ranks.h"
#include "testing/models/models.h"

namespace cotan::testing {

inline constexpr uint64_t kModelSeed = 7;

// Three layers; input [12], classes 0 to 4.
ModelCase Perceptron();
// The same with dropout.
ModelCase PerceptronWithDropout();
// A convolution with batch norm; input [2, 6, 6], classes 0 to 4.
ModelCase NormalizedNetwork();

// Returns drawn batches for `ranks` ranks.
RankData DrawData(const ModelCase& model, int ranks, int64_t batch, int64_t steps, uint64_t seed);
// Returns rows of the data: inputs and labels.
std::pair<torch::Tensor, torch::Tensor> RowsOf(const RankData& data, int64_t first, int64_t count);

// Compiles a model for batches of `batch` rows and returns the path of the file.
std::string CompileParallel(const ModelCase& model, int64_t batch, const aot::OptimizerConfig& optimizer,
                            const std::optional<aot::DataParallelOptions>& parallel, bool accumulate = false);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_DISTRIBUTED_PARALLEL_MODEL_H_
