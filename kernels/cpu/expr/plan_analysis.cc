// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan_analysis.h"

#include <algorithm>
#include <utility>

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// Bytes of values that a unit may keep from phase to phase; they should stay in the second-level cache.
constexpr int64_t kKeepBudget = 256 * 1024;

int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Returns the rough cost of a function, in f32 additions.
double FnCost(ScalarFn fn, DType dtype) {
  switch (ExprCostOf(fn)) {
    case ExprCost::kAddition:
      return 1;
    case ExprCost::kDivision:
      return 3;
    case ExprCost::kFunction:
      return dtype == DType::kFloat32 ? 12 : 48;
    case ExprCost::kRandom:
      return 16;
    case ExprCost::kQuotient:
    case ExprCost::kRemainder:
      return 20;
    case ExprCost::kLibrary:
      break;
  }
  return 60;
}

class Analyzer {
 public:
  Analyzer(const ExprProgram& program, const KernelRequest& request) : program_(program), request_(request) {
    a_.nodes = program.nodes;
    a_.info.resize(program.nodes.size());
  }

  PlanAnalysis Analyze() {
    Simplify();
    ResolveOutputs();
    MarkNeeded();
    CollectOperands();
    MakeLoops();
    ReplaceEmptyLeaves();
    Classify();
    ContractProducts();
    ChooseSplits();
    SelectPhases();
    Estimate();
    return std::move(a_);
  }

 private:
  NodeInfo& info(int node) { return a_.info[static_cast<size_t>(node)]; }
  ExprNode& node(int index) { return a_.nodes[static_cast<size_t>(index)]; }
  int num_nodes() const { return static_cast<int>(a_.nodes.size()); }
  int Arity(int index) { return a_.Arity(index); }
  int OperandOf(int index, int k) { return node(index).operands[static_cast<size_t>(k)]; }

  void ResolveOutputs() {
    for (const int output : program_.outputs) {
      a_.stored.push_back(info(output).same_as >= 0 ? info(output).same_as : output);
      const ExprNode& stored = program_.nodes[static_cast<size_t>(output)];
      a_.output_is_full.push_back(!program_.has_reduce_dims || stored.level == ExprLevel::kFull);
    }
  }

  // Removes casts that do not change the register, and rewrites nodes that have a cheaper form.
  void Simplify() {
    for (int i = 0; i < num_nodes(); ++i) {
      ExprNode& n = node(i);
      for (int k = 0; k < Arity(i); ++k) {
        int& operand = n.operands[static_cast<size_t>(k)];
        if (info(operand).same_as >= 0) operand = info(operand).same_as;
      }
      if (n.fn == FN_GT || n.fn == FN_GE) {
        n.fn = n.fn == FN_GT ? FN_LT : FN_LE;
        std::swap(n.operands[0], n.operands[1]);
      }
      if (!IsFloatingPoint(n.dtype) && (n.fn == FN_FMAX || n.fn == FN_FMIN)) {
        n.fn = n.fn == FN_FMAX ? FN_MAXIMUM : FN_MINIMUM;
      }
      if (n.fn == FN_SIGN && n.dtype == DType::kBool) info(i).same_as = n.operands[0];
      if (n.fn == FN_POW && node(n.operands[1]).fn == FN_CONSTANT && IsFloatingPoint(n.dtype) &&
          node(n.operands[1]).float_value == 2) {
        n.fn = FN_MUL;
        n.operands[1] = n.operands[0];
      }
      if (n.fn == FN_CAST && n.level == node(n.operands[0]).level && CastKeepsRegister(n.operands[0], n.dtype)) {
        info(i).same_as = n.operands[0];
      }
    }
  }

  bool CastKeepsRegister(int from, DType to) {
    const DType dtype = program_.nodes[static_cast<size_t>(from)].dtype;
    return dtype == to || (IsNarrowFloat(dtype) && to == DType::kFloat32) ||
           (dtype == DType::kBool && to == DType::kUInt8);
  }

  void MarkNeeded() {
    for (size_t k = 0; k < program_.outputs.size(); ++k) info(a_.stored[k]).needed = true;
    for (int i = num_nodes() - 1; i >= 0; --i) {
      if (!info(i).needed) continue;
      for (int k = 0; k < Arity(i); ++k) info(OperandOf(i, k)).needed = true;
    }
  }

  void AddOperand(PlanOperand operand, DimVector strides) {
    a_.operands.push_back(operand);
    a_.strides.push_back(std::move(strides));
  }

  // Collects an operand for each input (in order), then each output, then each position.
  void CollectOperands() {
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      const TensorSpec& input = request_.inputs[i];
      // The state of a random generator is not addressed by tiles.
      const bool walked = std::any_of(a_.nodes.begin(), a_.nodes.end(), [&](const ExprNode& n) {
        return n.fn == FN_INPUT && n.index == static_cast<int>(i);
      });
      AddOperand(
          {PlanOperand::Kind::kInput, static_cast<int>(i), static_cast<int64_t>(ByteSize(input.dtype))},
          walked ? BroadcastStrides(input.layout, program_.domain_sizes) : DimVector(program_.domain_sizes.size(), 0));
    }
    for (size_t k = 0; k < request_.outputs.size(); ++k) {
      const TensorSpec& output = request_.outputs[k];
      AddOperand({PlanOperand::Kind::kOutput, static_cast<int>(k), static_cast<int64_t>(ByteSize(output.dtype))},
                 BroadcastStrides(output.layout, program_.domain_sizes));
    }
    for (int i = 0; i < num_nodes(); ++i) {
      const ExprNode& n = node(i);
      if (!info(i).needed) continue;
      if (n.fn == FN_INPUT) info(i).operand = n.index;
      if (n.fn != FN_RANDOM_UNIFORM && n.fn != FN_IOTA) continue;
      DimVector strides(program_.domain_sizes.size(), 0);
      if (n.fn == FN_IOTA) {
        if (program_.domain_sizes[static_cast<size_t>(n.index)] != 1) strides[static_cast<size_t>(n.index)] = 1;
      } else {
        strides = ContiguousStrides(program_.domain_sizes);
      }
      info(i).operand = static_cast<int>(a_.operands.size());
      AddOperand({PlanOperand::Kind::kPosition, 0, 1}, std::move(strides));
    }
  }

  // Returns the operands in the order in which they decide the order of dimensions: those that cover more of
  // the domain first, outputs before inputs.
  std::vector<int> Priority() {
    std::vector<int> order(a_.operands.size());
    std::vector<double> weight(order.size(), 0);
    for (size_t k = 0; k < order.size(); ++k) {
      order[k] = static_cast<int>(k);
      double visited = 1;
      for (size_t d = 0; d < a_.strides[k].size(); ++d) {
        if (a_.strides[k][d] != 0) visited *= static_cast<double>(program_.domain_sizes[d]);
      }
      if (a_.operands[k].kind == PlanOperand::Kind::kOutput) visited *= 1.5;
      if (a_.operands[k].kind != PlanOperand::Kind::kPosition) weight[k] = visited;
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return weight[static_cast<size_t>(a)] > weight[static_cast<size_t>(b)]; });
    return order;
  }

  void MakeLoops() {
    const std::vector<LoopDim> dims = OrderLoops(program_.domain_sizes, program_.reduce, a_.strides, Priority());
    // Registers of more than 4 bytes per element get smaller tiles.
    int64_t bytes = 0;
    for (int i = 0; i < num_nodes(); ++i) {
      if (info(i).needed) bytes = std::max(bytes, RegisterItemBytes(node(i).dtype));
    }
    const int64_t max_tile = bytes > 4 ? kMaxTile / 2 : kMaxTile;
    a_.tiling = MakeTiling(dims, static_cast<int>(a_.operands.size()), max_tile);
  }

  bool IsUniformOperand(int operand) {
    const DimVector& strides = a_.strides[static_cast<size_t>(operand)];
    return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 0; });
  }

  // Returns true if the operand's tile is the same for all units and chunks.
  bool IsHoistedOperand(int operand) {
    const auto k = static_cast<size_t>(operand);
    for (const auto* loops : {&a_.tiling.unit_loops, &a_.tiling.chunk_loops}) {
      for (const Tiling::Loop& loop : *loops) {
        if (loop.steps[k] != 0 && loop.count != 1) return false;
      }
    }
    return true;
  }

  Home HomeOf(int i) {
    const ExprNode& n = node(i);
    if (IsExprReduction(n.fn)) return Home::kUnit;
    if (n.fn == FN_CONSTANT || n.fn == FN_SIZE) return Home::kUniform;
    if (n.fn == FN_RANDOM_UNIFORM) return Home::kTile;
    const bool reduced = program_.has_reduce_dims && n.level == ExprLevel::kReduced;
    if (info(i).operand >= 0) {
      if (IsUniformOperand(info(i).operand)) return Home::kUniform;
      if (reduced) return Home::kUnit;
      // With a single tile, computing the value before the loop gains nothing.
      const bool many_tiles = a_.tiling.units * a_.tiling.chunks > 1;
      return many_tiles && IsHoistedOperand(info(i).operand) ? Home::kHoisted : Home::kTile;
    }
    Home home = Home::kUniform;
    for (int k = 0; k < Arity(i); ++k) home = std::max(home, info(OperandOf(i, k)).home);
    if (home == Home::kUnit && !reduced) return Home::kTile;
    return home;
  }

  // Returns NodeInfo::phase of node i.
  int PhaseOf(int i) {
    int phase = -1;
    for (int k = 0; k < Arity(i); ++k) {
      const NodeInfo& operand = info(OperandOf(i, k));
      const bool waits = info(i).home == Home::kTile || IsExprReduction(node(i).fn);
      phase = std::max(phase, operand.home == Home::kUnit && waits ? operand.phase + 1 : operand.phase);
    }
    const bool visits = info(i).home == Home::kTile || IsExprReduction(node(i).fn);
    return visits ? std::max(phase, 0) : phase;
  }

  // Replaces leaves without strides by the constant 0: positions along a dimension of size 1, and empty
  // inputs, which are never read.
  void ReplaceEmptyLeaves() {
    for (int i = 0; i < num_nodes(); ++i) {
      ExprNode& n = node(i);
      const bool empty =
          n.fn == FN_INPUT && NumElements(request_.inputs[static_cast<size_t>(n.index)].layout.sizes) == 0;
      if (!info(i).needed || !(empty || n.fn == FN_IOTA) || !IsUniformOperand(info(i).operand)) continue;
      n.fn = FN_CONSTANT;
      n.float_value = 0;
      n.int_value = 0;
      info(i).operand = -1;
    }
  }

  void Classify() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (!info(i).needed) continue;
      info(i).home = HomeOf(i);
      info(i).phase = PhaseOf(i);
      if (info(i).home == Home::kTile || IsExprReduction(node(i).fn)) {
        a_.num_phases = std::max(a_.num_phases, info(i).phase + 1);
      }
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      if (a_.output_is_full[k]) a_.num_phases = std::max(a_.num_phases, 1);
    }
  }

  // Merges products that have no other use into sums and reductions: one pass over the tile instead of two.
  void ContractProducts() {
    std::vector<int> uses(a_.nodes.size(), 0);
    for (int stored : a_.stored) ++uses[static_cast<size_t>(stored)];
    for (int i = 0; i < num_nodes(); ++i) {
      if (!info(i).needed) continue;
      for (int k = 0; k < Arity(i); ++k) ++uses[static_cast<size_t>(OperandOf(i, k))];
    }
    for (int i = 0; i < num_nodes(); ++i) {
      if (node(i).fn == FN_REDUCE_SUM) {
        const int product = OperandOf(i, 0);
        if (uses[static_cast<size_t>(product)] == 1 && CanSumProducts(product, i)) SumProducts(product, i);
        continue;
      }
      const bool is_sum = node(i).fn == FN_ADD || node(i).fn == FN_SUB;
      if (!info(i).needed || !is_sum || info(i).home != Home::kTile) continue;
      for (int k = 0; k < 2; ++k) {
        const int product = OperandOf(i, k);
        if (uses[static_cast<size_t>(product)] != 1 || !CanContract(product, i)) continue;
        Contract(product, k, i);
        break;
      }
    }
  }

  bool CanContract(int product, int sum) {
    const DType dtype = node(sum).dtype;
    return node(product).fn == FN_MUL && info(product).home == Home::kTile && node(product).dtype == dtype &&
           (dtype == DType::kFloat32 || dtype == DType::kFloat64);
  }

  // Merges `product`, operand number k of `sum`, into `sum`.
  void Contract(int product, int k, int sum) {
    const int other = OperandOf(sum, 1 - k);
    Contraction& contraction = info(sum).contraction;
    contraction = Contraction::kMulAdd;
    if (node(sum).fn == FN_SUB) contraction = k == 0 ? Contraction::kMulSub : Contraction::kSubMul;
    std::array<int, 3>& operands = node(sum).operands;
    operands = {OperandOf(product, 0), OperandOf(product, 1), other};
    // Only the first factor may be a scalar.
    if (info(operands[1]).home != Home::kTile) std::swap(operands[0], operands[1]);
    info(product).needed = false;
  }

  // A factor that is not a tile would first be spread over one, which costs what the product costs.
  bool CanSumProducts(int product, int sum) {
    if (!CanContract(product, sum)) return false;
    const std::array<int, 3>& factors = node(product).operands;
    return info(factors[0]).home >= Home::kHoisted && info(factors[0]).home != Home::kUnit &&
           info(factors[1]).home >= Home::kHoisted && info(factors[1]).home != Home::kUnit;
  }

  // Merges `product`, the operand of the reduction `sum`, into it.
  void SumProducts(int product, int sum) {
    info(sum).sums_products = true;
    node(sum).operands = node(product).operands;
    info(product).needed = false;
  }

  void ChooseSplits() {
    const bool reduces =
        std::any_of(a_.nodes.begin(), a_.nodes.end(), [](const ExprNode& n) { return IsExprReduction(n.fn); });
    if (!reduces || a_.tiling.units >= 32) return;
    a_.splits = std::clamp<int64_t>(a_.tiling.chunks / 16, 1, 32);
  }

  // Returns the cost, in additions, of computing the tile of node i from memory again.
  double RecomputeCost(int i) {
    const NodeInfo& value = info(i);
    if (value.home != Home::kTile) return 0;
    if (node(i).fn == FN_INPUT) return a_.TileIsDense(value.operand) && !IsNarrowFloat(node(i).dtype) ? 0 : 4;
    double cost = FnCost(node(i).fn, node(i).dtype);
    for (int k = 0; k < Arity(i) && cost < 100; ++k) cost += RecomputeCost(OperandOf(i, k));
    return cost;
  }

  bool ShouldKeep(int i) {
    if (a_.splits > 1) return false;
    const double cost = RecomputeCost(i);
    if (a_.tiling.chunks <= 1) return cost > 0;
    const int64_t bytes = a_.tiling.chunks * Align(a_.TileItems() * RegisterItemBytes(node(i).dtype));
    if (cost < 4 || kept_bytes_ + bytes > kKeepBudget) return false;
    kept_bytes_ += bytes;
    return true;
  }

  // Adds the nodes that node i needs in phase p to the phase's set.
  void Need(int i, int p) {
    NodeInfo& value = info(i);
    std::vector<bool>& set = a_.computed[static_cast<size_t>(p)];
    if (value.home != Home::kTile || set[static_cast<size_t>(i)]) return;
    if (value.first_phase >= 0 && value.first_phase < p) {
      if (!value.keep_decided) value.kept = ShouldKeep(i);
      value.keep_decided = true;
      if (value.kept) return;
    }
    set[static_cast<size_t>(i)] = true;
    if (value.first_phase < 0) value.first_phase = p;
    for (int k = 0; k < Arity(i); ++k) Need(OperandOf(i, k), p);
  }

  void SelectPhases() {
    a_.computed.assign(static_cast<size_t>(a_.num_phases), std::vector<bool>(a_.nodes.size(), false));
    for (int p = 0; p < a_.num_phases; ++p) {
      for (int i = 0; i < num_nodes(); ++i) {
        if (!info(i).needed || !IsExprReduction(node(i).fn) || info(i).phase != p) continue;
        for (int k = 0; k < Arity(i); ++k) Need(OperandOf(i, k), p);
      }
      for (size_t k = 0; k < program_.outputs.size(); ++k) {
        if (a_.output_is_full[k] && a_.StorePhase(k) == p) Need(a_.stored[k], p);
      }
    }
  }

  void Estimate() {
    double per_element = 0;
    for (int i = 0; i < num_nodes(); ++i) {
      if (info(i).needed && (info(i).home == Home::kTile || IsExprReduction(node(i).fn))) {
        per_element +=
            FnCost(node(i).fn, node(i).dtype) * 0.05 * static_cast<double>(RegisterItemBytes(node(i).dtype)) / 4;
      }
    }
    a_.cost_ns = static_cast<double>(NumElements(program_.domain_sizes)) * (per_element + 0.1);
  }

  const ExprProgram& program_;
  const KernelRequest& request_;
  PlanAnalysis a_;
  int64_t kept_bytes_ = 0;
};

}  // namespace

int PlanAnalysis::Arity(int i) const {
  const NodeInfo& value = info[static_cast<size_t>(i)];
  if (value.sums_products) return 2;
  return value.contraction == Contraction::kNone ? ExprArity(node(i).fn) : 3;
}

bool PlanAnalysis::IsReduced(int i, int phase) const {
  const NodeInfo& value = info[static_cast<size_t>(i)];
  return value.needed && IsExprReduction(node(i).fn) && value.phase == phase;
}

int PlanAnalysis::StorePhase(size_t k) const { return std::max(info[static_cast<size_t>(stored[k])].phase, 0); }

std::vector<int> PlanAnalysis::LastUses(int phase) const {
  const int num_nodes = static_cast<int>(nodes.size());
  std::vector<int> last(nodes.size(), -1);
  for (int i = 0; i < num_nodes; ++i) {
    if (!IsComputed(i, phase) && !IsReduced(i, phase)) continue;
    for (int k = 0; k < Arity(i); ++k) last[static_cast<size_t>(node(i).operands[static_cast<size_t>(k)])] = i;
  }
  for (size_t k = 0; k < stored.size(); ++k) {
    if (output_is_full[k] && StorePhase(k) == phase) last[static_cast<size_t>(stored[k])] = num_nodes;
  }
  return last;
}

bool PlanAnalysis::TileIsDense(int operand) const {
  const auto k = static_cast<size_t>(operand);
  return (tiling.col_block == 1 || tiling.col_strides[k] == 1) &&
         (tiling.row_block == 1 || tiling.row_strides[k] == tiling.col_block);
}

int64_t RegisterItemBytes(DType dtype) { return static_cast<int64_t>(ByteSize(RegisterDType(dtype))); }

bool IsNarrowFloat(DType dtype) { return RegisterDType(dtype) != dtype; }

bool IsExactInHalf(ScalarFn fn) {
  switch (fn) {
    case FN_NEG:
    case FN_ABS:
    case FN_SIGN:
    case FN_RELU:
    case FN_CEIL:
    case FN_FLOOR:
    case FN_ROUND:
    case FN_TRUNC:
    case FN_MAXIMUM:
    case FN_MINIMUM:
    case FN_FMAX:
    case FN_FMIN:
    case FN_COPYSIGN:
    case FN_SELECT:
    case FN_REDUCE_MAX:
    case FN_REDUCE_MIN:
      return true;
    default:
      return false;
  }
}

PlanAnalysis AnalyzePlan(const ExprProgram& program, const KernelRequest& request) {
  return Analyzer(program, request).Analyze();
}

}  // namespace cotan::cpu::expr
