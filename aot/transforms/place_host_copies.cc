// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/place_host_copies.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "aot/ir/prim_node.h"

namespace cotan::aot {
namespace {

using Position = Graph::NodeList::iterator;

// Moves the node before `to` unless it is there.
bool Move(Graph& graph, Position node, Position to) {
  if (node == to || std::next(node) == to) return false;
  graph.nodes().splice(to, graph.nodes(), node);
  return true;
}

bool PlaceCopiesToHost(Graph& graph) {
  absl::flat_hash_map<ValueId, Position> producers;
  std::vector<Position> copies;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end(); ++it) {
    for (const ValueId value : it->outputs) producers[value] = it;
    if (IsPrim(*it, PrimOp::kToHost)) copies.push_back(it);
  }
  bool changed = false;
  for (const Position copy : copies) {
    const auto producer = producers.find(OperandOf(*copy, "x"));
    Position place = producer == producers.end() ? graph.nodes().begin() : std::next(producer->second);
    while (place != copy && IsPrim(*place, PrimOp::kToHost)) ++place;
    changed |= Move(graph, copy, place);
  }
  return changed;
}

bool PlaceCopiesFromHost(Graph& graph) {
  absl::flat_hash_set<ValueId> copied;  // values of copies from the host, and views of them
  std::vector<Position> makers;
  for (auto it = graph.nodes().begin(); it != graph.nodes().end(); ++it) {
    const bool is_view = IsView(*it) && copied.contains(TensorOperands(*it)[0]);
    if (!is_view && !IsPrim(*it, PrimOp::kFromHost)) continue;
    copied.insert(it->outputs[0]);
    makers.push_back(it);
  }
  bool changed = false;
  // Views come before the copies that they are of.
  for (auto maker = makers.rbegin(); maker != makers.rend(); ++maker) {
    const ValueId value = (*maker)->outputs[0];
    const Position reader = std::find_if(std::next(*maker), graph.nodes().end(), [&](const Node& node) {
      const std::vector<ValueId> operands = TensorOperands(node);
      return std::find(operands.begin(), operands.end(), value) != operands.end();
    });
    changed |= Move(graph, *maker, reader);
  }
  return changed;
}

}  // namespace

absl::StatusOr<bool> PlaceHostCopies(Graph& graph) {
  const bool moved_to_host = PlaceCopiesToHost(graph);
  return PlaceCopiesFromHost(graph) || moved_to_host;
}

}  // namespace cotan::aot
