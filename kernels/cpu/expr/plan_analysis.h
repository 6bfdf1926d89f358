// SPDX-License-Identifier: Apache-2.0

// Analysis of an expression before its steps are emitted: which values are computed where and how often.
#ifndef COTAN_KERNELS_CPU_EXPR_PLAN_ANALYSIS_H_
#define COTAN_KERNELS_CPU_EXPR_PLAN_ANALYSIS_H_

#include <cstdint>
#include <vector>

#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/expr/geometry.h"
#include "kernels/cpu/expr/plan.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {

// The scope in which a value is constant, the largest one first.
enum class Home : uint8_t {
  kUniform,  // one value for the whole domain
  kHoisted,  // the same tile everywhere
  kUnit,     // one value (or block of reduced values) per unit
  kTile,     // a new value for every tile
};

// The result of the analysis for one node.
struct NodeInfo {
  int same_as = -1;  // an earlier node with the same value; this one is then not computed
  bool needed = false;
  Home home = Home::kTile;
  // For values of tiles: the first phase in which they can be computed. For reduced values: the phase after
  // which they are available; -1: before the first phase.
  int phase = -1;
  int operand = -1;           // of leaves: index into PlanAnalysis::operands
  int first_phase = -1;       // in which the value is computed
  bool kept = false;          // stored from first_phase on, for later phases
  bool keep_decided = false;  // `kept` is final
  // If not kNone, the node is a sum that absorbed a product; its three operands are the a, b and c of the
  // Contraction.
  Contraction contraction = Contraction::kNone;
  bool sums_products = false;  // a REDUCE_SUM that absorbed a product; its two operands are the factors
};

// The analysis of an expression. Nodes are numbered as in the program.
struct PlanAnalysis {
  // The nodes of the program, simplified.
  std::vector<ExprNode> nodes;
  std::vector<NodeInfo> info;         // per node
  std::vector<int> stored;            // per output: the node it stores
  std::vector<bool> output_is_full;   // per output: stored tile by tile, not unit by unit
  std::vector<PlanOperand> operands;  // op inputs, op outputs, positions
  std::vector<DimVector> strides;     // per operand, per domain dimension
  Tiling tiling;
  int64_t splits = 1;  // see Plan::splits
  int num_phases = 0;
  std::vector<std::vector<bool>> computed;  // [phase][node]: computed in the phase, in each tile
  double cost_ns = 0;

  const ExprNode& node(int i) const { return nodes[static_cast<size_t>(i)]; }
  // Returns the number of operands of node i.
  int Arity(int i) const;
  bool IsComputed(int i, int phase) const { return computed[static_cast<size_t>(phase)][static_cast<size_t>(i)]; }
  // Returns true if node i is a reduction that accumulates the tiles of `phase`.
  bool IsReduced(int i, int phase) const;
  // Returns the phase in which output k, stored tile by tile, is written.
  int StorePhase(size_t k) const;
  // Returns, for each node, the last node of `phase` that uses it; -1 if there is none, the number of nodes if the end
  // of the phase uses it.
  std::vector<int> LastUses(int phase) const;
  // Returns true if the operand's tiles are dense arrays in its memory.
  bool TileIsDense(int operand) const;
  // Returns the number of elements of a whole tile.
  int64_t TileItems() const { return tiling.row_block * tiling.col_block; }
};

// Returns the bytes per element in a register.
int64_t RegisterItemBytes(DType dtype);

// Returns true for the floats that are f32 in a register: those of 16 and 8 bits.
bool IsNarrowFloat(DType dtype);

// Returns true if the result of the function needs no rounding to f16 or bf16 when the operands have that precision.
bool IsExactInHalf(serialization::ScalarFn fn);

// Analyzes `program`, the resolved op of `request`.
PlanAnalysis AnalyzePlan(const ExprProgram& program, const KernelRequest& request);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_ANALYSIS_H_
