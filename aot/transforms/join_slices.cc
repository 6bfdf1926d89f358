// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/join_slices.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/transforms/dead_code.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// A term of a sum that is zero outside of positions [begin, end) of dimension `dim`.
struct Slice {
  const Node* node = nullptr;
  size_t dim = 0;
  int64_t begin = 0;
  int64_t end = 0;
  bool is_select = false;  // the gradient lacks the dimension
};

// Returns the number of an integer argument, if it is a constant.
std::optional<int64_t> Constant(const Argument& argument) {
  const SymInt* number = std::get_if<SymInt>(&argument);
  if (number == nullptr || !number->is_constant()) return std::nullopt;
  return number->constant();
}

// Returns a position as aten.slice takes it: counted from the end if negative, limited to [0, size].
int64_t Position(int64_t position, int64_t size) {
  return std::clamp(position < 0 ? position + size : position, int64_t{0}, size);
}

// Returns the slice that the node writes; nothing for other nodes and for sizes that are not constants.
std::optional<Slice> SliceOf(const Node& node, const TensorType& type) {
  const bool is_select = node.op == "aten.select_backward.default";
  if (!is_select && node.op != "aten.slice_backward.default") return std::nullopt;
  const auto rank = static_cast<int64_t>(type.sizes.size());
  const std::optional<int64_t> dim = Constant(node.arguments[2]);
  if (!dim.has_value()) return std::nullopt;
  Slice slice = {.node = &node, .dim = static_cast<size_t>(*dim < 0 ? *dim + rank : *dim), .is_select = is_select};
  if (slice.dim >= type.sizes.size() || !type.sizes[slice.dim].is_constant()) return std::nullopt;
  const int64_t size = type.sizes[slice.dim].constant();
  const std::optional<int64_t> first = Constant(node.arguments[3]);
  if (!first.has_value()) return std::nullopt;
  slice.begin = Position(*first, size);
  slice.end = slice.begin + 1;
  if (is_select) return slice;
  const std::optional<int64_t> last = Constant(node.arguments[4]);
  if (!last.has_value() || Constant(node.arguments[5]) != 1) return std::nullopt;
  slice.end = Position(*last, size);
  return slice;
}

// Sorts the slices; returns true if they are of one dimension and cover `size` positions exactly once.
bool Cover(std::vector<Slice>& slices, int64_t size) {
  std::sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  int64_t position = 0;
  for (const Slice& slice : slices) {
    if (slice.dim != slices[0].dim || slice.begin != position || slice.end <= slice.begin) return false;
    position = slice.end;
  }
  return position == size;
}

class Joiner {
 public:
  explicit Joiner(Graph& graph) : graph_(graph) {
    for (const Node& node : graph_.nodes()) {
      for (const ValueId id : TensorOperands(node)) ++uses_[id];
      if (node.outputs.size() == 1) producers_[node.outputs[0]] = &node;
    }
    for (const GraphOutput& output : graph_.outputs()) ++uses_[output.value];
  }

  absl::StatusOr<bool> Run() {
    bool changed = false;
    for (auto it = graph_.nodes().begin(); it != graph_.nodes().end(); ++it) {
      if (IsSum(*it) && Join(it)) changed = true;
    }
    if (changed) COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph_).status());
    return changed;
  }

 private:
  // The terms of a sum: slices, and at most one other value that counts.
  struct Terms {
    std::vector<Slice> slices;
    std::vector<ValueId> others;
  };

  const TensorType& TypeOf(ValueId id) const { return graph_.value(id).type; }

  // Returns true for an addition of two tensors of the result's type.
  bool IsSum(const Node& node) const {
    if (node.op != "aten.add.Tensor" || Constant(node.arguments[2]) != 1) return false;
    const Use* a = std::get_if<Use>(&node.arguments[0]);
    const Use* b = std::get_if<Use>(&node.arguments[1]);
    if (a == nullptr || b == nullptr) return false;
    const TensorType& type = TypeOf(node.outputs[0]);
    return !IsComplex(type.dtype) && TypeOf(a->value) == type && TypeOf(b->value) == type;
  }

  // Collects the terms below a sum, as long as at most one is not a slice.
  void Collect(const Node& sum, Terms& terms) const {
    std::vector<ValueId> pending = {std::get<Use>(sum.arguments[1]).value, std::get<Use>(sum.arguments[0]).value};
    while (!pending.empty() && terms.others.size() <= 1) {
      const ValueId id = pending.back();
      pending.pop_back();
      const auto it = producers_.find(id);
      const Node* producer = it == producers_.end() ? nullptr : it->second;
      if (producer != nullptr && uses_.at(id) == 1 && IsSum(*producer)) {
        pending.push_back(std::get<Use>(producer->arguments[1]).value);
        pending.push_back(std::get<Use>(producer->arguments[0]).value);
        continue;
      }
      const std::optional<Slice> slice = producer == nullptr ? std::nullopt : SliceOf(*producer, TypeOf(id));
      if (slice.has_value()) {
        terms.slices.push_back(*slice);
      } else {
        terms.others.push_back(id);
      }
    }
  }

  // Replaces the sum if its slices cover a dimension.
  bool Join(Graph::NodeList::iterator sum) {
    Terms terms;
    Collect(*sum, terms);
    if (terms.slices.size() < 2 || terms.others.size() > 1) return false;
    const ValueId result = sum->outputs[0];
    const TensorType type = TypeOf(result);
    const size_t dim = terms.slices[0].dim;
    if (!Cover(terms.slices, type.sizes[dim].constant())) return false;
    std::vector<Use> parts;
    for (const Slice& slice : terms.slices) parts.push_back({Part(sum, slice)});
    ValueId joined = Insert(sum, "aten.cat.default", {parts, SymInt(static_cast<int64_t>(dim))}, type);
    if (!terms.others.empty()) {
      joined = Insert(sum, "aten.add.Tensor", {Use{terms.others[0]}, Use{joined}, SymInt(1)}, type);
    }
    graph_.ReplaceAllUses(result, joined);
    uses_[joined] = uses_[result];
    uses_[result] = 0;
    return true;
  }

  // Returns the gradient of a slice with all dimensions of the tensor.
  ValueId Part(Graph::NodeList::iterator position, const Slice& slice) {
    const ValueId gradient = std::get<Use>(slice.node->arguments[0]).value;
    if (!slice.is_select) return gradient;
    TensorType type = TypeOf(gradient);
    type.sizes.insert(type.sizes.begin() + static_cast<std::ptrdiff_t>(slice.dim), SymInt(1));
    return Insert(position, "aten.unsqueeze.default", {Use{gradient}, SymInt(static_cast<int64_t>(slice.dim))}, type);
  }

  ValueId Insert(Graph::NodeList::iterator position, std::string op, std::vector<Argument> arguments,
                 const TensorType& type) {
    const Node& node =
        graph_.InsertNode(position, std::move(op), std::move(arguments), {&type, 1}, std::string(position->source));
    producers_[node.outputs[0]] = &node;
    uses_[node.outputs[0]] = 1;
    return node.outputs[0];
  }

  Graph& graph_;
  absl::flat_hash_map<ValueId, int> uses_;
  absl::flat_hash_map<ValueId, const Node*> producers_;
};

}  // namespace

absl::StatusOr<bool> JoinSlices(Graph& graph) { return Joiner(graph).Run(); }

}  // namespace cotan::aot
