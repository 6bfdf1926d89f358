// SPDX-License-Identifier: Apache-2.0

// Analysis of an expression before a schedule is chosen: which values are known when, and what each phase computes.
//
// Times are those of InPlaceSafe() (kernels/api/in_place.cc): time 2 p is phase p, a visit of the domain; time 2 p + 1
// are the reduced values that are known after it; time -1 those known before. An output is stored exactly at the time
// of its value, and nothing is read later than InPlaceSafe() assumes: so any output may share memory with any input
// that it allows.
#ifndef COTAN_KERNELS_CUDA_EXPR_ANALYSIS_H_
#define COTAN_KERNELS_CUDA_EXPR_ANALYSIS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/expr/geometry.h"

namespace cotan::cuda::expr {

// A resolved expression with its operands. Immutable.
struct Problem {
  // Equal nodes are one, and casts that leave a held value as it is are replaced by their operand: the dtype of an
  // output is that in `outputs`, not that of the node it stores.
  ExprProgram program;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  bool guarded_outputs = false;

  // Inputs, outputs, then the positions of iotas and random draws.
  std::vector<Operand> operands;
  std::vector<int> operand_of;  // per node: of FN_INPUT, FN_IOTA and FN_RANDOM_UNIFORM
  std::vector<int> time;        // per node
  std::vector<bool> needed;     // per node: an output depends on it
  int num_phases = 0;           // visits of the domain
  bool has_reductions = false;  // needed ones

  const ExprNode& node(int i) const { return program.nodes[static_cast<size_t>(i)]; }
  int Time(int i) const { return time[static_cast<size_t>(i)]; }
  bool IsFull(int i) const { return node(i).level == ExprLevel::kFull; }
  bool IsNeeded(int i) const { return needed[static_cast<size_t>(i)]; }
  int NumNodes() const { return static_cast<int>(program.nodes.size()); }
  int Stored(size_t output) const { return program.outputs[output]; }
  // Returns the nodes that `i` reads.
  absl::Span<const int> OperandsOf(int i) const;
  size_t InputOperand(int input) const { return static_cast<size_t>(input); }
  size_t OutputOperand(size_t output) const { return inputs.size() + output; }
};

// Errors as ResolveExpr().
absl::StatusOr<Problem> AnalyzeExpr(const KernelRequest& request);

// A set of nodes.
using NodeSet = std::vector<bool>;

// The nodes that each phase computes.
struct PhaseNodes {
  std::vector<NodeSet> full;  // [phase]: full nodes that are computed
  NodeSet kept;               // full nodes whose values stay in registers until later phases
  NodeSet invariant;          // kept inputs that are loaded before the phases, and computed in none
};

// The values that stay in registers until a later phase needs them.
enum class Keep : uint8_t {
  kNothing,  // each phase computes everything from the inputs
  kInputs,   // inputs, and values that are expensive
  kValues,   // all: fewer than the inputs if several inputs make one value
};

// Returns the nodes of each phase.
PhaseNodes PhaseNodesOf(const Problem& problem, Keep keep);

// Returns the needed full inputs that are the same for all indices of dimensions that are not reduced.
NodeSet InvariantInputsOf(const Problem& problem);

// Makes the invariant inputs that the phases load values that are loaded before.
void HoistInvariantInputs(const Problem& problem, PhaseNodes& nodes);

// Returns true if an output is stored after the last phase.
bool StoresAfterPhases(const Problem& problem);

// Returns the reduced nodes that the full nodes and the reductions of phases [first, end) need, and what these need. A
// reduction ends the search.
NodeSet ReducedNodesOf(const Problem& problem, const PhaseNodes& nodes, int first, int end);

// Returns the reduced nodes that the reduced outputs stored at `time` need, except those in `known`.
NodeSet StoredNodesOf(const Problem& problem, int time, const NodeSet& known);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_ANALYSIS_H_
