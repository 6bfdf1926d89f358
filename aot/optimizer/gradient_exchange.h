// SPDX-License-Identifier: Apache-2.0

// The collectives of an optimizer. Private to //aot/optimizer.
#ifndef COTAN_AOT_OPTIMIZER_GRADIENT_EXCHANGE_H_
#define COTAN_AOT_OPTIMIZER_GRADIENT_EXCHANGE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "aot/ir/builder.h"
#include "aot/ir/graph.h"
#include "aot/optimizer/data_parallel.h"
#include "aot/optimizer/update_target.h"

namespace cotan::aot {

// Emits what ranks send to each other for one graph. Not thread-safe.
class GradientExchange {
 public:
  // Both outlive it.
  GradientExchange(const DataParallelStep& step, Builder& builder) : step_(step), b_(builder) {}

  // Averages the gradients of `targets`, and the loss, over all ranks. With shard_optimizer, replaces the targets by
  // this rank's shards of buckets of them. InvalidArgument: shard_optimizer with a parameter that is neither f32 nor
  // f64.
  absl::Status Average(std::vector<UpdateTarget>& targets);

  bool has_shards() const { return !shards_.empty(); }
  // Makes a call fail before all else if `saved`, f32[1], is neither negative nor this rank, because then the slots are
  // those of another rank. Returns the number of this rank.
  Tensor CheckRank(const Tensor& saved);

  // Returns a number of all ranks, from the numbers of their shards; the number itself without shards.
  Tensor SumOfShards(const Tensor& number);

  // Returns whether `name` is a shard, whose new content is then `value`.
  bool UpdateShard(const std::string& name, const Tensor& value);
  // Adds the new contents of the parameters, from the shards of all ranks, to the outputs of the graph.
  void GatherShards();

 private:
  // Parameters whose elements the ranks share out.
  struct Shards {
    std::string name;
    std::vector<UpdateTarget> members;
    Tensor updated;  // this rank's
  };

  // Returns the outputs of the graph whose values are averaged.
  std::vector<GraphOutput*> AveragedOutputs();
  // Returns the indexes of `values` in the order in which the graph computes them.
  std::vector<size_t> OrderOf(absl::Span<const Tensor> values) const;
  // Splits `values`, by their index and in the given order, into buckets of one key and dtype.
  std::vector<std::vector<size_t>> Buckets(absl::Span<const Tensor> values, absl::Span<const int> keys,
                                           absl::Span<const size_t> order) const;
  // Returns the means of `values` over all ranks.
  std::vector<Tensor> MeansOf(absl::Span<const Tensor> values);
  absl::Status Shard(std::vector<UpdateTarget>& targets);
  UpdateTarget ShardOf(std::vector<UpdateTarget> members);
  // Appends an assertion.
  void Assert(const Tensor& condition, const std::string& name, const std::string& message);

  const DataParallelStep& step_;
  Builder& b_;
  std::vector<Shards> shards_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_GRADIENT_EXCHANGE_H_
