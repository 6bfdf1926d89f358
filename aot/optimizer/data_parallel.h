// SPDX-License-Identifier: Apache-2.0

// Gradients of several ranks, each of which computes with a part of the batch (docs/distributed.md).
#ifndef COTAN_AOT_OPTIMIZER_DATA_PARALLEL_H_
#define COTAN_AOT_OPTIMIZER_DATA_PARALLEL_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace cotan::aot {

// How the ranks of a group train one model. Each computes the gradients of its part of the batch; the optimizer is
// given their mean over all ranks, which is the gradient of the mean loss of the whole batch if the parts are equally
// large.
struct DataParallelOptions {
  // Gradients are averaged in buckets of at most so many bytes, or of one gradient. A bucket is sent as soon as its
  // gradients are computed, while the backward goes on.
  int64_t bucket_bytes = int64_t{4} << 20;
  // Each rank keeps the optimizer's slots of an equal share of the parameters, updates that share, and gets the others'
  // (ZeRO-1). Needs `ranks`.
  bool shard_optimizer = false;
  // Batch norm in train mode takes its statistics, and their gradients, over the batches of all ranks.
  bool sync_batch_norm = false;
  // The number of ranks, which the program is then compiled for; 0: any number.
  int ranks = 0;
};

// InvalidArgument: bucket_bytes is below 1, ranks is negative, or shard_optimizer without ranks.
absl::Status CheckDataParallel(const DataParallelOptions& options);

// Values of a method that the ranks average.
struct DataParallelStep {
  DataParallelOptions options;
  // The user output that is the loss, by its index among these; averaged as well.
  std::optional<int> loss_output = {};
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_DATA_PARALLEL_H_
