// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/overlap_collectives.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/ir/collective_node.h"
#include "aot/ir/prim_node.h"
#include "base/dtype.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {
namespace {

using serialization::Collective;

// Returns whether the node may be split. A sum that is not a mean is a statistic, which is needed at once.
bool Exchanges(const Node& node) {
  if (node.op != kCollectiveOp) return false;
  const Collective op = CollectiveOf(node);
  if (op.starts()) return false;
  if (op.function() == Collective::ALL_REDUCE) return op.mean();
  return op.function() == Collective::REDUCE_SCATTER || op.function() == Collective::ALL_GATHER;
}

class Overlapper {
 public:
  explicit Overlapper(Graph& graph) : graph_(graph) {}

  bool Run() {
    NumberNodes();
    is_split_.resize(nodes_.size(), false);
    FindBatches();
    for (const std::vector<size_t>& batch : batches_) Place(batch);
    if (starts_.empty()) return false;
    Rebuild();
    return true;
  }

 private:
  // A collective: positions are those of nodes before the pass.
  struct Exchange {
    size_t position = 0;
    size_t ready = 0;  // position after the last operand
    size_t used = 0;   // position of the first reader of a result; the number of nodes: none
  };

  void NumberNodes() {
    for (auto it = graph_.nodes().begin(); it != graph_.nodes().end(); ++it) nodes_.push_back(it);
    absl::flat_hash_map<ValueId, size_t> after;  // position after the producer
    absl::flat_hash_map<ValueId, size_t> exchange_of;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = *nodes_[i];
      size_t ready = 0;
      for (const ValueId id : TensorOperands(node)) {
        if (const auto found = after.find(id); found != after.end()) ready = std::max(ready, found->second);
        const auto of = exchange_of.find(id);
        if (of != exchange_of.end()) exchanges_[of->second].used = std::min(exchanges_[of->second].used, i);
      }
      for (const ValueId id : node.outputs) after[id] = i + 1;
      if (!Exchanges(node)) continue;
      for (const ValueId id : node.outputs) exchange_of[id] = exchanges_.size();
      exchanges_.push_back({.position = i, .ready = ready, .used = nodes_.size()});
    }
  }

  // Splits the collectives, in their order, where one needs what is computed from those before it.
  void FindBatches() {
    size_t used = 0;
    for (size_t k = 0; k < exchanges_.size(); ++k) {
      if (batches_.empty() || exchanges_[k].ready > used) {
        batches_.emplace_back();
        used = nodes_.size();
      }
      batches_.back().push_back(k);
      used = std::min(used, exchanges_[k].used);
    }
  }

  // Returns whether nodes between two positions compute something.
  bool Computes(size_t from, size_t to) const {
    return std::any_of(
        nodes_.begin() + static_cast<std::ptrdiff_t>(from), nodes_.begin() + static_cast<std::ptrdiff_t>(to),
        [](const Graph::NodeList::iterator& node) { return !IsView(*node) && node->op != kCollectiveOp; });
  }

  // Decides where the collectives of a batch start and are waited for.
  void Place(const std::vector<size_t>& batch) {
    size_t used = nodes_.size();
    for (const size_t k : batch) used = std::min(used, exchanges_[k].used);
    size_t ready = exchanges_[batch[0]].ready;
    if (!Computes(ready, used)) return;
    for (const size_t k : batch) {
      ready = std::max(ready, exchanges_[k].ready);
      starts_[ready].push_back(k);
      waits_[used].push_back(k);
      is_split_[exchanges_[k].position] = true;
    }
  }

  // Appends the node that starts a collective and notes its token.
  void Start(size_t k) {
    tokens_[k] = graph_.AddValue({DType::kBool, {SymInt(0)}, {}});
    rebuilt_.push_back(StartOf(*nodes_[exchanges_[k].position], tokens_[k]));
  }

  void Wait(size_t k) { rebuilt_.push_back(WaitOf(*nodes_[exchanges_[k].position], tokens_.at(k))); }

  void Rebuild() {
    for (size_t i = 0; i <= nodes_.size(); ++i) {
      // Both are of one batch: the next one starts after what is computed here.
      for (const size_t k : starts_[i]) Start(k);
      for (const size_t k : waits_[i]) Wait(k);
      if (i < nodes_.size() && !is_split_[i]) rebuilt_.splice(rebuilt_.end(), graph_.nodes(), nodes_[i]);
    }
    graph_.nodes() = std::move(rebuilt_);
  }

  Graph& graph_;
  std::vector<Graph::NodeList::iterator> nodes_;
  std::vector<Exchange> exchanges_;
  std::vector<std::vector<size_t>> batches_;              // of exchanges
  std::map<size_t, std::vector<size_t>> starts_, waits_;  // exchanges by position
  std::vector<bool> is_split_;                            // by node
  absl::flat_hash_map<size_t, ValueId> tokens_;           // by exchange
  Graph::NodeList rebuilt_;
};

}  // namespace

absl::StatusOr<bool> OverlapCollectives(Graph& graph) { return Overlapper(graph).Run(); }

}  // namespace cotan::aot
