// What the compiler of plans knows about an expression before it emits steps:
// where and how often each value is computed.
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

// How often a value changes.
enum class Home : uint8_t {
  kUniform,  // one value for the whole domain
  kHoisted,  // the same tile everywhere
  kUnit,     // a reduced value
  kTile,
};

// What the compiler knows about a node.
struct NodeInfo {
  int same_as = -1;  // an earlier node with the same value; this one is then not computed
  bool needed = false;
  Home home = Home::kTile;
  // Full values of tiles: the first phase in which they can be computed.
  // Reduced values: the phase after which they are known, -1: before all.
  int phase = -1;
  int operand = -1;           // of leaves that walk the domain
  int first_phase = -1;       // in which the value is computed
  bool kept = false;          // from then on, for later phases
  bool keep_decided = false;  // whether `kept` is final
  // Unless kNone, this sum has taken in a product and has its three operands.
  Contraction contraction = Contraction::kNone;
};

struct PlanAnalysis {
  // The program's, simplified.
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
  // Operands of node i.
  int Arity(int i) const;
  bool IsComputed(int i, int phase) const { return computed[static_cast<size_t>(phase)][static_cast<size_t>(i)]; }
  // Whether node i is a reduction that takes in the tiles of the phase.
  bool IsReduced(int i, int phase) const;
  // The phase in which output k, stored tile by tile, is written.
  int StorePhase(size_t k) const;
  // Whether tiles of the operand are dense in its memory.
  bool TileIsDense(int operand) const;
  // Elements of a whole tile.
  int64_t TileItems() const { return tiling.row_block * tiling.col_block; }
};

// Bytes per element in a register.
int64_t RegisterItemBytes(DType dtype);

bool IsHalf(DType dtype);  // f16, bf16

// `program` is the resolved op of `request`.
PlanAnalysis AnalyzePlan(const ExprProgram& program, const KernelRequest& request);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_ANALYSIS_H_
