// SPDX-License-Identifier: Apache-2.0

#include "aot/optimizer/gradient_exchange.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/collective_node.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Collective;

bool IsSummed(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

int64_t ElementsOf(const Tensor& tensor) { return NumElementsOf(tensor.sizes()).constant(); }

}  // namespace

absl::Status CheckDataParallel(const DataParallelOptions& options) {
  if (options.bucket_bytes < 1 || options.ranks < 0) {
    return absl::InvalidArgumentError(absl::StrCat("data_parallel: bucket_bytes = ", options.bucket_bytes, ", ranks = ",
                                                   options.ranks, "; bucket_bytes >= 1 and ranks >= 0 are needed"));
  }
  if (!options.shard_optimizer || options.ranks > 0) return absl::OkStatus();
  return absl::InvalidArgumentError("data_parallel: shard_optimizer needs the number of ranks (data_parallel.ranks)");
}

absl::Status GradientExchange::Average(std::vector<UpdateTarget>& targets) {
  const std::vector<GraphOutput*> outputs = AveragedOutputs();
  std::vector<Tensor> values;
  for (const GraphOutput* output : outputs) values.push_back(b_.Value(output->value));
  if (!step_.options.shard_optimizer) {
    for (const UpdateTarget& target : targets) values.push_back(target.gradient);
  }
  const std::vector<Tensor> means = MeansOf(values);
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i]->value = means[i].id();
  if (step_.options.shard_optimizer) return Shard(targets);
  for (size_t i = 0; i < targets.size(); ++i) targets[i].gradient = means[outputs.size() + i];
  return absl::OkStatus();
}

std::vector<GraphOutput*> GradientExchange::AveragedOutputs() {
  std::vector<GraphOutput*> outputs;
  if (!step_.loss_output.has_value()) return outputs;
  for (GraphOutput& output : b_.graph().outputs()) {
    const bool is_loss = output.kind == OutputKind::kUserOutput && output.index == *step_.loss_output;
    if (is_loss && output.value != kNoValue) outputs.push_back(&output);
  }
  return outputs;
}

std::vector<size_t> GradientExchange::OrderOf(absl::Span<const Tensor> values) const {
  absl::flat_hash_map<ValueId, int> computed;
  int position = 0;
  for (const Node& node : b_.graph().nodes()) {
    ++position;
    for (const ValueId output : node.outputs) computed[output] = position;
  }
  const auto position_of = [&](size_t i) {
    const auto found = computed.find(values[i].id());
    return found == computed.end() ? 0 : found->second;
  };
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return position_of(a) < position_of(b); });
  return order;
}

std::vector<std::vector<size_t>> GradientExchange::Buckets(absl::Span<const Tensor> values, absl::Span<const int> keys,
                                                           absl::Span<const size_t> order) const {
  std::vector<std::vector<size_t>> buckets;
  std::map<std::pair<int, DType>, std::pair<size_t, int64_t>> open;  // bucket, bytes
  for (const size_t i : order) {
    const int64_t bytes = ElementsOf(values[i]) * static_cast<int64_t>(ByteSize(values[i].dtype()));
    const std::pair<int, DType> kind(keys[i], values[i].dtype());
    const auto found = open.find(kind);
    if (found != open.end() && found->second.second + bytes <= step_.options.bucket_bytes) {
      buckets[found->second.first].push_back(i);
      found->second.second += bytes;
      continue;
    }
    open[kind] = {buckets.size(), bytes};
    buckets.push_back({i});
  }
  return buckets;
}

std::vector<Tensor> GradientExchange::MeansOf(absl::Span<const Tensor> values) {
  std::vector<Tensor> wide;
  for (const Tensor& value : values) {
    wide.push_back(IsSummed(value.dtype()) ? value : b_.Cast(value, DType::kFloat32));
  }
  std::vector<Tensor> means(values.size());
  for (const std::vector<size_t>& bucket : Buckets(wide, std::vector<int>(wide.size()), OrderOf(wide))) {
    std::vector<Tensor> members;
    for (const size_t i : bucket) members.push_back(wide[i]);
    const std::vector<Tensor> reduced = AllReduce(b_, members, /*mean=*/true);
    for (size_t k = 0; k < bucket.size(); ++k) means[bucket[k]] = b_.Cast(reduced[k], values[bucket[k]].dtype());
  }
  return means;
}

absl::Status GradientExchange::Shard(std::vector<UpdateTarget>& targets) {
  std::vector<Tensor> gradients;
  std::vector<int> groups;
  for (const UpdateTarget& target : targets) {
    if (!IsSummed(target.gradient.dtype()) || target.parameter.dtype() != target.gradient.dtype()) {
      return absl::InvalidArgumentError(absl::StrCat("data_parallel.shard_optimizer: parameter '", target.name, "' is ",
                                                     DTypeName(target.parameter.dtype()), ", not f32 or f64"));
    }
    gradients.push_back(target.gradient);
    groups.push_back(target.group);
  }
  // "train_step" and "apply_optimizer" have the same slots: the buckets do not depend on the graph. A backward computes
  // the gradients of the last layers first.
  std::vector<size_t> order(targets.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::vector<UpdateTarget> sharded;
  for (const std::vector<size_t>& bucket : Buckets(gradients, groups, order)) {
    std::vector<UpdateTarget> members;
    for (const size_t i : bucket) members.push_back(targets[i]);
    sharded.push_back(ShardOf(std::move(members)));
  }
  targets = std::move(sharded);
  return absl::OkStatus();
}

UpdateTarget GradientExchange::ShardOf(std::vector<UpdateTarget> members) {
  std::vector<Tensor> gradients, parameters;
  int64_t elements = 0;
  for (const UpdateTarget& member : members) {
    gradients.push_back(member.gradient);
    parameters.push_back(member.parameter);
    elements += ElementsOf(member.parameter);
  }
  const int64_t ranks = step_.options.ranks;
  const TensorType type{members[0].parameter.dtype(), {SymInt((elements + ranks - 1) / ranks)}, {}};
  UpdateTarget shard;
  shard.name = absl::StrCat("shard.", shards_.size());
  shard.group = members[0].group;
  shard.is_shard = true;
  shard.gradient = Combine(b_, Collective::REDUCE_SCATTER, gradients, /*mean=*/true, ranks, {type})[0];
  shard.parameter = Combine(b_, Collective::SHARD, parameters, /*mean=*/false, ranks, {type})[0];
  shards_.push_back({shard.name, std::move(members), Tensor()});
  return shard;
}

Tensor GradientExchange::CheckRank(const Tensor& saved) {
  Graph::NodeList others;
  others.swap(b_.graph().nodes());
  const int64_t ranks = step_.options.ranks;
  const Tensor numbers = b_.Cast(b_.Iota(0, DType::kInt64, {SymInt(ranks)}), DType::kFloat32);
  const TensorType type{DType::kFloat32, {SymInt(1)}, {}};
  const Tensor rank = Combine(b_, Collective::SHARD, {numbers}, /*mean=*/false, ranks, {type})[0];
  Assert(b_.Or(b_.Lt(saved, b_.Literal(0.0)), b_.Eq(saved, rank)), "optimizer.shard_rank",
         "the checkpoint is of another rank: with shard_optimizer each rank has its own");
  b_.graph().nodes().splice(b_.graph().nodes().end(), others);
  return rank;
}

void GradientExchange::Assert(const Tensor& condition, const std::string& name, const std::string& message) {
  Graph& graph = b_.graph();
  // Effects of the model have a chain of tokens of their own.
  const TensorType type{DType::kBool, {SymInt(0)}, {}};
  const ValueId token = graph.AddInput(type, InputKind::kToken, 0, "token.rank");
  const std::vector<Tensor> next =
      b_.Emit(PrimOp::kEffect, {Use{token}, Use{condition.id()}, std::string("assert"), name, message}, {type});
  graph.AddOutput(next[0].id(), OutputKind::kToken, 0, "token.rank");
}

Tensor GradientExchange::SumOfShards(const Tensor& number) {
  return shards_.empty() ? number : AllReduce(b_, {number}, /*mean=*/false)[0];
}

bool GradientExchange::UpdateShard(const std::string& name, const Tensor& value) {
  const auto found =
      std::find_if(shards_.begin(), shards_.end(), [&](const Shards& shards) { return shards.name == name; });
  if (found == shards_.end()) return false;
  found->updated = value;
  return true;
}

void GradientExchange::GatherShards() {
  for (const Shards& shards : shards_) {
    std::vector<TensorType> types;
    for (const UpdateTarget& member : shards.members) {
      types.push_back({member.parameter.dtype(), member.parameter.sizes(), {}});
    }
    const std::vector<Tensor> updated =
        Combine(b_, Collective::ALL_GATHER, {shards.updated}, /*mean=*/false, step_.options.ranks, types);
    for (size_t i = 0; i < updated.size(); ++i) {
      b_.graph().AddOutput(updated[i].id(), OutputKind::kStateUpdate, 0, shards.members[i].name);
    }
  }
}

}  // namespace cotan::aot
