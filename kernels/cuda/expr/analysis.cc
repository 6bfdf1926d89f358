// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/analysis.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cuda/expr/node_text.h"

namespace cotan::cuda::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

bool AreEqual(const ExprNode& a, const ExprNode& b) {
  return a.fn == b.fn && a.dtype == b.dtype && a.operands == b.operands && a.index == b.index &&
         std::memcmp(&a.float_value, &b.float_value, sizeof(double)) == 0 && a.int_value == b.int_value &&
         a.slice == b.slice && a.level == b.level;
}

// Lets nodes and outputs name, of nodes with equal values, the first one. The others stay, and nothing needs them.
void MergeEqualNodes(ExprProgram& program) {
  std::vector<int> first(program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    ExprNode& node = program.nodes[i];
    const auto arity = static_cast<size_t>(ExprArity(node.fn));
    for (size_t k = 0; k < arity; ++k) node.operands[k] = first[static_cast<size_t>(node.operands[k])];
    first[i] = static_cast<int>(i);
    if (node.fn == FN_CAST) {
      const int operand = node.operands[0];
      if (CastIsIdentity(program.nodes[static_cast<size_t>(operand)].dtype, node.dtype)) {
        first[i] = operand;
        continue;
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (first[j] == static_cast<int>(j) && AreEqual(program.nodes[j], node)) {
        first[i] = static_cast<int>(j);
        break;
      }
    }
  }
  for (int& stored : program.outputs) stored = first[static_cast<size_t>(stored)];
}

void FindTimes(Problem& problem) {
  problem.time.resize(problem.program.nodes.size());
  for (int i = 0; i < problem.NumNodes(); ++i) {
    int latest = -1;
    for (const int operand : problem.OperandsOf(i)) latest = std::max(latest, problem.Time(operand));
    int& time = problem.time[static_cast<size_t>(i)];
    if (IsExprReduction(problem.node(i).fn)) {
      time = latest + (latest % 2 == 0 ? 1 : 2);
    } else {
      time = problem.IsFull(i) && latest % 2 != 0 ? latest + 1 : latest;
    }
  }
}

void FindNeeded(Problem& problem) {
  problem.needed.assign(problem.program.nodes.size(), false);
  for (const int stored : problem.program.outputs) problem.needed[static_cast<size_t>(stored)] = true;
  for (int i = problem.NumNodes(); i-- > 0;) {
    if (!problem.IsNeeded(i)) continue;
    for (const int operand : problem.OperandsOf(i)) problem.needed[static_cast<size_t>(operand)] = true;
    const bool reduces = IsExprReduction(problem.node(i).fn);
    problem.has_reductions |= reduces;
    if (problem.IsFull(i) || reduces) problem.num_phases = std::max(problem.num_phases, problem.Time(i) / 2 + 1);
  }
}

// Returns the strides of the positions that an iota or a random draw has.
DimVector PositionStrides(const Problem& problem, const ExprNode& node) {
  if (node.fn == FN_RANDOM_UNIFORM) return ContiguousStrides(problem.program.domain_sizes);
  DimVector strides(problem.program.domain_sizes.size(), 0);
  strides[static_cast<size_t>(node.index)] = 1;
  return strides;
}

void FindOperands(Problem& problem) {
  const DimVector& sizes = problem.program.domain_sizes;
  for (size_t i = 0; i < problem.inputs.size(); ++i) {
    const TensorSpec& spec = problem.inputs[i];
    problem.operands.push_back({Operand::Kind::kInput, static_cast<int>(i), spec.dtype, DimVector(sizes.size(), 0)});
  }
  for (size_t k = 0; k < problem.outputs.size(); ++k) {
    const TensorSpec& spec = problem.outputs[k];
    problem.operands.push_back(
        {Operand::Kind::kOutput, static_cast<int>(k), spec.dtype, BroadcastStrides(spec.layout, sizes)});
  }
  problem.operand_of.assign(problem.program.nodes.size(), -1);
  for (int i = 0; i < problem.NumNodes(); ++i) {
    const ExprNode& node = problem.node(i);
    if (!problem.IsNeeded(i)) continue;
    int& operand = problem.operand_of[static_cast<size_t>(i)];
    if (node.fn == FN_INPUT) {
      operand = node.index;
      const auto input = static_cast<size_t>(node.index);
      problem.operands[input].strides = BroadcastStrides(problem.inputs[input].layout, sizes);
    } else if (node.fn == FN_IOTA || node.fn == FN_RANDOM_UNIFORM) {
      operand = static_cast<int>(problem.operands.size());
      problem.operands.push_back({Operand::Kind::kPosition, i, node.dtype, PositionStrides(problem, node)});
    }
  }
}

// Returns true if the value of a full node is kept in registers rather than computed again.
bool IsWorthKeeping(const ExprNode& node, Keep keep) {
  if (keep == Keep::kValues) return node.level == ExprLevel::kFull;
  return node.fn == FN_INPUT || (node.level == ExprLevel::kFull && ExprCostOf(node.fn) >= ExprCost::kFunction);
}

// Adds `root` and what it needs to the full nodes of a phase; `available` nodes are taken from earlier ones.
template <typename IsAvailable>
void AddFullNodes(const Problem& problem, int root, NodeSet& nodes, IsAvailable is_available) {
  std::vector<int> stack = {root};
  while (!stack.empty()) {
    const int i = stack.back();
    stack.pop_back();
    if (!problem.IsFull(i) || nodes[static_cast<size_t>(i)] || is_available(i)) continue;
    nodes[static_cast<size_t>(i)] = true;
    for (const int operand : problem.OperandsOf(i)) stack.push_back(operand);
  }
}

std::vector<int> RootsOf(const Problem& problem, int phase) {
  std::vector<int> roots;
  for (const int stored : problem.program.outputs) {
    if (problem.IsFull(stored) && problem.Time(stored) == 2 * phase) roots.push_back(stored);
  }
  for (int i = 0; i < problem.NumNodes(); ++i) {
    const bool reduces = problem.IsNeeded(i) && IsExprReduction(problem.node(i).fn);
    if (reduces && problem.Time(i) == 2 * phase + 1) roots.push_back(problem.OperandsOf(i)[0]);
  }
  return roots;
}

void AddReducedNodes(const Problem& problem, int root, const NodeSet& known, NodeSet& nodes) {
  std::vector<int> stack = {root};
  while (!stack.empty()) {
    const int i = stack.back();
    stack.pop_back();
    const auto at = static_cast<size_t>(i);
    if (problem.IsFull(i) || nodes[at] || (!known.empty() && known[at])) continue;
    nodes[at] = true;
    if (IsExprReduction(problem.node(i).fn)) continue;
    for (const int operand : problem.OperandsOf(i)) stack.push_back(operand);
  }
}

}  // namespace

absl::Span<const int> Problem::OperandsOf(int i) const {
  return absl::MakeConstSpan(node(i).operands).subspan(0, static_cast<size_t>(ExprArity(node(i).fn)));
}

absl::StatusOr<Problem> AnalyzeExpr(const KernelRequest& request) {
  Problem problem;
  COTAN_ASSIGN_OR_RETURN(problem.program, ResolveExpr(request));
  problem.inputs.assign(request.inputs.begin(), request.inputs.end());
  problem.outputs.assign(request.outputs.begin(), request.outputs.end());
  problem.guarded_outputs = request.guarded_outputs;
  MergeEqualNodes(problem.program);
  FindTimes(problem);
  FindNeeded(problem);
  FindOperands(problem);
  return problem;
}

PhaseNodes PhaseNodesOf(const Problem& problem, Keep keep) {
  const NodeSet none(problem.program.nodes.size(), false);
  PhaseNodes result = {std::vector<NodeSet>(static_cast<size_t>(problem.num_phases), none), none, none};
  for (int p = 0; p < problem.num_phases; ++p) {
    for (const int root : RootsOf(problem, p)) {
      AddFullNodes(problem, root, result.full[static_cast<size_t>(p)], [](int) { return false; });
    }
  }
  if (keep == Keep::kNothing) return result;
  const std::vector<NodeSet> all = std::exchange(result.full, std::vector<NodeSet>(result.full.size(), none));
  for (int p = problem.num_phases; p-- > 0;) {
    const auto is_available = [&](int i) {
      if (!IsWorthKeeping(problem.node(i), keep)) return false;
      for (int q = p; q-- > 0;) {
        if (!all[static_cast<size_t>(q)][static_cast<size_t>(i)]) continue;
        result.kept[static_cast<size_t>(i)] = true;
        return true;
      }
      return false;
    };
    // A kept value is computed in the first phase that needs it.
    std::vector<int> roots = RootsOf(problem, p);
    for (int i = 0; i < problem.NumNodes(); ++i) {
      if (result.kept[static_cast<size_t>(i)] && all[static_cast<size_t>(p)][static_cast<size_t>(i)])
        roots.push_back(i);
    }
    for (const int root : roots) AddFullNodes(problem, root, result.full[static_cast<size_t>(p)], is_available);
  }
  return result;
}

NodeSet InvariantInputsOf(const Problem& problem) {
  NodeSet result(problem.program.nodes.size(), false);
  for (int i = 0; i < problem.NumNodes(); ++i) {
    if (!problem.IsNeeded(i) || !problem.IsFull(i) || problem.node(i).fn != FN_INPUT) continue;
    const DimVector& strides =
        problem.operands[static_cast<size_t>(problem.operand_of[static_cast<size_t>(i)])].strides;
    bool varies = false;
    for (size_t d = 0; d < strides.size(); ++d) {
      varies |= !problem.program.reduce[d] && problem.program.domain_sizes[d] > 1 && strides[d] != 0;
    }
    result[static_cast<size_t>(i)] = !varies;
  }
  return result;
}

void HoistInvariantInputs(const Problem& problem, PhaseNodes& nodes) {
  const NodeSet invariant = InvariantInputsOf(problem);
  for (size_t i = 0; i < invariant.size(); ++i) {
    if (!invariant[i]) continue;
    for (NodeSet& of_phase : nodes.full) {
      if (of_phase[i]) nodes.invariant[i] = nodes.kept[i] = true;
      of_phase[i] = false;
    }
  }
}

bool StoresAfterPhases(const Problem& problem) {
  return std::any_of(problem.program.outputs.begin(), problem.program.outputs.end(),
                     [&](int stored) { return problem.Time(stored) == 2 * problem.num_phases - 1; });
}

NodeSet ReducedNodesOf(const Problem& problem, const PhaseNodes& nodes, int first, int end) {
  NodeSet result(problem.program.nodes.size(), false);
  for (int p = first; p < end && p < problem.num_phases; ++p) {
    for (int i = 0; i < problem.NumNodes(); ++i) {
      const bool reduces = problem.IsNeeded(i) && IsExprReduction(problem.node(i).fn) && problem.Time(i) == 2 * p + 1;
      if (!nodes.full[static_cast<size_t>(p)][static_cast<size_t>(i)] && !reduces) continue;
      for (const int operand : problem.OperandsOf(i)) AddReducedNodes(problem, operand, {}, result);
    }
  }
  return result;
}

NodeSet StoredNodesOf(const Problem& problem, int time, const NodeSet& known) {
  NodeSet result(problem.program.nodes.size(), false);
  for (const int stored : problem.program.outputs) {
    if (!problem.IsFull(stored) && problem.Time(stored) == time) AddReducedNodes(problem, stored, known, result);
  }
  return result;
}

}  // namespace cotan::cuda::expr
