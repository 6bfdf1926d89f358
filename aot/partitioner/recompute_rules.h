// SPDX-License-Identifier: Apache-2.0

// Rules about what a backward may compute again instead of reading what the forward saved. They follow the rules of
// PyTorch's min-cut partitioner (torch/_functorch/partitioners.py), in terms of prim ops.
#ifndef COTAN_AOT_PARTITIONER_RECOMPUTE_RULES_H_
#define COTAN_AOT_PARTITIONER_RECOMPUTE_RULES_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "aot/ir/graph.h"
#include "aot/partitioner/joint_facts.h"

namespace cotan::aot {

// How the backward gets a value of the forward.
enum class SavePolicy : uint8_t {
  kDefault,
  kSave,
  kRecompute,  // from operands, which in turn are saved or recomputed
};

// Returns the policy for the results of `node`, a node of the lowered graph `joint` (prim.* and
// cotan.*). `PrimOpOf(node)` (prim_node.h) is its op, `PrimInfo(op).cost` the op's cost class, and
// `node.source` names its module. Corresponds to the policy function of PyTorch's selective
// activation checkpointing.
using SavePolicyFunction = std::function<SavePolicy(const Graph& joint, const Node& node)>;

// Classes of nodes, by what it takes to compute their results in the backward; each allows more than the next.
enum class RecomputeClass : uint8_t {
  // Required by the SavePolicy: never saved.
  kAlways,
  // No repeated work: views, constants, and nodes that no output of the forward depends on.
  kFree,
  // About as much work as reading the operands, and fusible or a copy: pointwise functions that compilers vectorize,
  // random draws, copies, concatenation, gathering, pooling, reductions of at most 8 elements to each of at least 32.
  // A draw is a function of the generator's state and of its slice of Philox blocks, so that a repeated draw has the
  // same numbers.
  kCheap,
  // Cheap, but computing it again would move more memory than it saves: the backward passes it to a kernel, and would
  // have to store it in any case; or it ends a long chain of cheap nodes.
  kAvoided,
  // Much work: matrix products, convolution, attention, recurrent layers, sorting, scans, sums by index, other
  // reductions, functions of libm.
  kHeavy,
  // Effects and checks of indices, which happen once, and what the SavePolicy requires to be saved.
  kNever,
};

// Classes of all nodes, in the order of JointFacts::nodes. Nodes that depend on tangents are kNever.
std::vector<RecomputeClass> RecomputeClasses(const JointFacts& facts, const SavePolicyFunction& policy);

// Returns the estimated nanoseconds of a node on one core, from arithmetic and bytes moved; only ratios between nodes
// of a graph are meaningful.
double NodeCost(const Graph& graph, const Node& node);

// Number of cheap nodes in a row that are recomputed; the next one is avoided.
inline constexpr int kMaxRecomputedChain = 64;

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_RECOMPUTE_RULES_H_
