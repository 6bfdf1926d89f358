// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/expr/plan_analysis.h"
#include "kernels/cpu/expr/plan_chains.h"
#include "kernels/cpu/expr/plan_loops.h"
#include "kernels/cpu/expr/plan_outputs.h"
#include "kernels/cpu/expr/plan_slots.h"
#include "kernels/cpu/expr/stream.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// The slots in which the emitted steps find a node's value.
struct NodeSlots {
  int main = -1;
  int splat = -1;  // a tile full of a uniform value
};

class Compiler {
 public:
  Compiler(const ExprProgram& program, const KernelRequest& request, const TileOps& ops)
      : a_(AnalyzePlan(program, request)),
        program_(program),
        request_(request),
        ops_(ops),
        slots_(program.nodes.size()),
        plan_slots_(a_.tiling.unit_width(), a_.TileItems(), ops, plan_) {}

  absl::StatusOr<Plan> Compile() {
    plan_.tiling = a_.tiling;
    plan_.operands = a_.operands;
    plan_.splits = a_.splits;
    plan_.cost_ns = a_.cost_ns;
    plan_.exceeds_caches = ExceedsCaches(request_);
    plan_.streams = kCanStream && plan_.exceeds_caches;
    EmitShared();
    EmitUnitSteps(-1, plan_.unit_start);
    for (int p = 0; p < a_.num_phases; ++p) EmitPhase(p);
    if (!status_.ok()) return status_;
    GenerateCode(plan_, plan_slots_, ops_);
    if (ops_.chain != nullptr) MakeChains(plan_);
    return std::move(plan_);
  }

 private:
  const NodeInfo& info(int node) const { return a_.info[static_cast<size_t>(node)]; }
  NodeSlots& slots(int node) { return slots_[static_cast<size_t>(node)]; }
  const ExprNode& node(int index) const { return a_.node(index); }
  int num_nodes() const { return static_cast<int>(a_.nodes.size()); }
  int Arity(int index) const { return a_.Arity(index); }
  int OperandOf(int index, int k) const { return node(index).operands[static_cast<size_t>(k)]; }

  // --- Constants and shared values ----------------------------------------------

  // Returns a slot in the operand's memory if its tiles are dense there, otherwise -1.
  int DirectSlot(int operand, DType dtype) {
    return IsNarrowFloat(dtype) || !a_.TileIsDense(operand) ? -1 : MemorySlot(operand);
  }

  uint16_t MemorySlot(int operand) {
    return static_cast<uint16_t>(plan_slots_.Add({Slot::Kind::kMemory, operand, 0, 0}));
  }

  // Returns true if chains may convert the tiles of an operand.
  bool IsDenseBFloat16(int operand, DType dtype) const {
    return dtype == DType::kBFloat16 && ops_.chain != nullptr && a_.TileIsDense(operand);
  }

  // Returns true if code may write the tiles of an operand.
  bool IsDenseForCode(int operand, DType dtype) const {
    const bool is_plain = dtype == DType::kFloat32 || dtype == DType::kBool;
    return is_plain && ops_.generate != nullptr && a_.TileIsDense(operand);
  }

  void EmitShared() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (!info(i).needed || info(i).same_as >= 0) continue;
      if (info(i).home == Home::kUniform) {
        EmitUniform(i);
      } else if (info(i).home == Home::kHoisted) {
        EmitHoisted(i);
      }
    }
  }

  void EmitUniform(int i) {
    const ExprNode& n = node(i);
    if (n.fn == FN_CONSTANT || n.fn == FN_SIZE) {
      slots(i).main = plan_slots_.AddConstant(n, 1);
      return;
    }
    if (n.fn == FN_INPUT && !IsNarrowFloat(n.dtype)) {
      slots(i).main = plan_slots_.Add({Slot::Kind::kBase, n.index, 0, 0});
      return;
    }
    slots(i).main = plan_slots_.AddShared(8);
    if (n.fn == FN_INPUT) {
      plan_.shared_uniform.push_back(LoadStep(i, slots(i).main, 0, 0));
    } else {
      EmitCompute(i, slots(i).main, Context::kUniform, plan_.shared_uniform);
    }
  }

  void EmitHoisted(int i) {
    const ExprNode& n = node(i);
    const int operand = info(i).operand;
    if (n.fn == FN_INPUT && !IsNarrowFloat(n.dtype) && a_.TileIsDense(operand)) {
      slots(i).main = plan_slots_.Add({Slot::Kind::kBase, operand, 0, 0});
      return;
    }
    slots(i).main = plan_slots_.AddShared(a_.TileItems() * RegisterItemBytes(n.dtype));
    if (operand >= 0) {
      const auto k = static_cast<size_t>(operand);
      plan_.shared_tile.push_back(LoadStep(i, slots(i).main, a_.tiling.row_strides[k], a_.tiling.col_strides[k]));
      RoundIota(i, slots(i).main, plan_.shared_tile);
    } else {
      EmitCompute(i, slots(i).main, Context::kHoisted, plan_.shared_tile);
    }
  }

  // Returns the slot of a tile filled with the uniform value of node i.
  int Splat(int i) {
    if (slots(i).splat >= 0) return slots(i).splat;
    const ExprNode& n = node(i);
    if (n.fn == FN_CONSTANT || n.fn == FN_SIZE) {
      slots(i).splat = plan_slots_.AddConstant(n, a_.TileItems());
      return slots(i).splat;
    }
    slots(i).splat = plan_slots_.AddShared(a_.TileItems() * RegisterItemBytes(n.dtype));
    plan_.shared_tile.push_back(SpreadStep(i, slots(i).splat));
    return slots(i).splat;
  }

  // Returns the step that fills the tile `out` with the first element of node i's value, or by the strides that are
  // set.
  Step SpreadStep(int i, int out) {
    Step step;
    step.kind = Step::Kind::kSpread;
    step.dtype = RegisterDType(node(i).dtype);
    step.out = static_cast<uint16_t>(out);
    step.in[0] = static_cast<uint16_t>(slots(i).main);
    step.copy = ops_.find_load(step.dtype);
    return step;
  }

  // --- Steps ------------------------------------------------------------------

  enum class Context : uint8_t { kUniform, kHoisted, kUnit, kTile };

  // Loads or computes the leaf `i` from its operand.
  Step LoadStep(int i, int out, int64_t row_stride, int64_t col_stride) {
    const ExprNode& n = node(i);
    Step step;
    step.out = static_cast<uint16_t>(out);
    step.operand = info(i).operand;
    step.dtype = RegisterDType(n.dtype);
    step.row_stride = row_stride;
    step.col_stride = col_stride;
    if (n.fn == FN_INPUT) {
      step.kind = Step::Kind::kLoad;
      step.copy = ops_.find_load(n.dtype);
    } else if (n.fn == FN_IOTA) {
      step.kind = Step::Kind::kIota;
    } else {
      step.kind = Step::Kind::kRandom;
      step.index = n.index;
      step.slice = n.slice;
      step.state_stride = request_.inputs[static_cast<size_t>(n.index)].layout.strides[0];
    }
    return step;
  }

  // Adds the rounding of positions, which are written to f32 registers unrounded.
  void RoundIota(int i, int slot, std::vector<Step>& steps) {
    if (node(i).fn != FN_IOTA || !IsNarrowFloat(node(i).dtype)) return;
    Step step;
    step.out = static_cast<uint16_t>(slot);
    step.in[0] = static_cast<uint16_t>(slot);
    step.fn = ops_.find_round(node(i).dtype);
    steps.push_back(step);
  }

  // Returns the slot of operand `i` of a step in `context`. *scalar is set to true if the slot has one
  // element, which happens only if `allow_scalar`.
  int OperandSlot(int i, Context context, bool allow_scalar, bool* scalar) {
    *scalar = false;
    const NodeInfo& operand = info(i);
    if (context == Context::kUniform) return slots(i).main;
    if (operand.home == Home::kUniform) {
      *scalar = allow_scalar;
      return allow_scalar ? slots(i).main : Splat(i);
    }
    if (operand.home == Home::kUnit && context == Context::kTile && a_.tiling.mode != TileMode::kElements) {
      *scalar = allow_scalar && a_.tiling.mode == TileMode::kRows && a_.tiling.row_block == 1;
      return *scalar ? slots(i).main : SpreadSlot(i);
    }
    return slots(i).main;
  }

  // Returns true if operand i of a step in `context` could be a scalar.
  bool MayBeScalar(int i, Context context) {
    const NodeInfo& operand = info(i);
    if (context == Context::kUniform) return false;
    if (operand.home == Home::kUniform) return true;
    return operand.home == Home::kUnit && context == Context::kTile && a_.tiling.mode == TileMode::kRows &&
           a_.tiling.row_block == 1;
  }

  // Returns the dtype that a function works in: that of its last operand in the program before simplification
  // (a bool may have replaced the u8 that it was cast to).
  DType WorkDType(int i) {
    const ExprNode& n = program_.nodes[static_cast<size_t>(i)];
    if (info(i).contraction != Contraction::kNone) return n.dtype;
    const int last = n.operands[static_cast<size_t>(Arity(i) - 1)];
    return RegisterDType(program_.nodes[static_cast<size_t>(last)].dtype);
  }

  void EmitContraction(int i, int out, Context context, std::vector<Step>& steps) {
    Step step;
    step.out = static_cast<uint16_t>(out);
    int scalars = 0;
    for (int k = 0; k < 3; ++k) {
      bool scalar = false;
      step.in[static_cast<size_t>(k)] = static_cast<uint16_t>(OperandSlot(OperandOf(i, k), context, k != 1, &scalar));
      if (scalar) scalars |= 1 << k;
    }
    step.fn = ops_.find_contraction(info(i).contraction, WorkDType(i), scalars);
    step.scalars = static_cast<uint8_t>(scalars);
    if (WorkDType(i) == DType::kFloat32) step.contraction = info(i).contraction;
    steps.push_back(step);
  }

  void EmitCompute(int i, int out, Context context, std::vector<Step>& steps) {
    if (info(i).contraction != Contraction::kNone) return EmitContraction(i, out, context, steps);
    const ExprNode& n = node(i);
    Step step;
    step.out = static_cast<uint16_t>(out);
    // The first operand that may be a scalar is passed as one, if the function has that form.
    int scalars = 0;
    const DType dtype = WorkDType(i);
    step.function = n.fn;
    step.dtype = dtype;
    step.result_dtype = RegisterDType(n.dtype);
    for (int k = 0; k < Arity(i) && n.fn != FN_CAST && scalars == 0; ++k) {
      if (MayBeScalar(OperandOf(i, k), context) && ops_.find(n.fn, dtype, 1 << k) != nullptr) scalars = 1 << k;
    }
    for (int k = 0; k < Arity(i); ++k) {
      bool scalar = false;
      step.in[static_cast<size_t>(k)] =
          static_cast<uint16_t>(OperandSlot(OperandOf(i, k), context, scalars == (1 << k), &scalar));
    }
    if (n.fn == FN_CAST) {
      step.fn = RegisterDType(n.dtype) == dtype ? nullptr : ops_.find_cast(dtype, RegisterDType(n.dtype));
    } else {
      step.fn = ops_.find(n.fn, dtype, scalars);
      step.scalars = static_cast<uint8_t>(scalars);
      if (step.fn == nullptr) {
        status_ = absl::UnimplementedError(
            absl::StrCat("expr: function ", ExprFnName(n.fn), " does not support dtype ", DTypeName(dtype)));
      }
    }
    const TileFn round = IsNarrowFloat(n.dtype) && !IsExactInHalf(n.fn) ? ops_.find_round(n.dtype) : nullptr;
    if (step.fn != nullptr) {
      steps.push_back(step);
      step.in[0] = step.out;
    }
    if (round != nullptr) {
      step.fn = round;
      step.function = SCALAR_FN_UNSPECIFIED;
      step.scalars = 0;
      step.bfloat16 = n.dtype == DType::kBFloat16;
      steps.push_back(step);
    }
  }

  Step StoreStep(size_t output, int slot, bool unit) {
    Step step;
    step.kind = Step::Kind::kStore;
    step.in[0] = static_cast<uint16_t>(slot);
    const DType dtype = request_.outputs[output].dtype;
    step.operand = static_cast<int>(request_.inputs.size() + output);
    step.copy = ops_.find_store(dtype);
    SetStrides(step, unit);
    step.bfloat16 = !unit && IsDenseBFloat16(step.operand, dtype);
    step.is_dense = !unit && IsDenseForCode(step.operand, dtype);
    if (step.bfloat16 || step.is_dense) step.out = MemorySlot(step.operand);
    return step;
  }

  // Sets the strides of the step's operand through a tile, or through the reduced values of a unit.
  void SetStrides(Step& step, bool unit) {
    const auto k = static_cast<size_t>(step.operand);
    if (unit && a_.tiling.mode != TileMode::kElements) {
      step.row_stride = 0;
      step.col_stride = a_.tiling.mode == TileMode::kRows ? a_.tiling.row_strides[k] : a_.tiling.col_strides[k];
    } else {
      step.row_stride = a_.tiling.row_strides[k];
      step.col_stride = a_.tiling.col_strides[k];
    }
  }

  // --- Units ------------------------------------------------------------------

  // Emits the reduced values that are available after phase `phase`, and their stores.
  void EmitUnitSteps(int phase, std::vector<Step>& steps) {
    for (int i = 0; i < num_nodes(); ++i) {
      const NodeInfo& value = info(i);
      if (!value.needed || value.same_as >= 0 || value.home != Home::kUnit || value.phase != phase) continue;
      if (IsExprReduction(node(i).fn)) continue;
      slots(i).main = plan_slots_.AddUnit(node(i).dtype);
      if (node(i).fn == FN_INPUT) {
        Step step = LoadStep(i, slots(i).main, 0, 0);
        SetStrides(step, /*unit=*/true);
        steps.push_back(step);
      } else {
        EmitCompute(i, slots(i).main, Context::kUnit, steps);
      }
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const int stored = a_.stored[k];
      if (a_.output_is_full[k] || info(stored).phase != phase) continue;
      const int slot = info(stored).home == Home::kUniform ? Splat(stored) : slots(stored).main;
      steps.push_back(StoreStep(k, slot, /*unit=*/true));
    }
  }

  // --- Phases -----------------------------------------------------------------

  // Returns the slot of the reduced value of node i spread over a tile, which is emitted at the start of the
  // phase. Only for modes kRows and kColumns.
  int SpreadSlot(int i) {
    int& slot = spread_[static_cast<size_t>(i)];
    if (slot >= 0) return slot;
    // It needs a new register, because it is live before the phase's other values.
    slot = plan_slots_.AddRegister(node(i).dtype);
    Step step = SpreadStep(i, slot);
    step.row_stride = a_.tiling.mode == TileMode::kRows ? 1 : 0;
    step.col_stride = a_.tiling.mode == TileMode::kRows ? 0 : 1;
    phase_->start.push_back(step);
    return slot;
  }

  // Adds the slot of output k, whose tiles are computed in its memory, or streamed to it.
  int AddDirectOutput(size_t k) {
    const size_t operand = request_.inputs.size() + k;
    if (!plan_.streams || !TilesBeginLines(a_, static_cast<int>(operand))) {
      return plan_slots_.Add({Slot::Kind::kMemory, static_cast<int>(operand), 0, 0});
    }
    const int slot = plan_slots_.Add({Slot::Kind::kStreamed, static_cast<int>(operand), plan_.register_bytes, 0});
    plan_.register_bytes += AlignPlanBytes(a_.TileItems() * a_.operands[operand].item_bytes);
    streamed_.push_back(slot);
    return slot;
  }

  void EmitStreams() {
    for (const int slot : streamed_) {
      Step step;
      step.kind = Step::Kind::kStream;
      step.in[0] = static_cast<uint16_t>(slot);
      step.operand = plan_.slots[static_cast<size_t>(slot)].operand;
      phase_->steps.push_back(step);
    }
    streamed_.clear();
  }

  void EmitPhase(int p) {
    plan_.phases.emplace_back();
    phase_ = &plan_.phases.back();
    spread_.assign(a_.nodes.size(), -1);
    direct_.assign(program_.outputs.size(), false);
    const std::vector<int> last_use = a_.LastUses(p);
    for (int i = 0; i < num_nodes(); ++i) {
      // Operands are released first, because the node may reuse their register.
      ReleaseOperands(i, last_use);
      if (a_.IsComputed(i, p)) EmitTileNode(i, p);
      if (a_.IsReduced(i, p)) EmitReduction(i);
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      if (!a_.output_is_full[k] || a_.StorePhase(k) != p || direct_[k]) continue;
      bool scalar = false;
      phase_->steps.push_back(StoreStep(k, OperandSlot(a_.stored[k], Context::kTile, false, &scalar), /*unit=*/false));
    }
    EmitStreams();
    for (const auto& [i, slot] : live_) plan_slots_.GiveRegister(slot, node(i).dtype);
    live_.clear();
    EmitUnitSteps(p, phase_->finish);
  }

  void EmitTileNode(int i, int p) {
    const NodeInfo& value = info(i);
    const ExprNode& n = node(i);
    const bool first = value.first_phase == p;
    if (n.fn == FN_INPUT) {
      if (const int slot = DirectSlot(value.operand, n.dtype); slot >= 0) {
        slots(i).main = slot;
        return;
      }
    }
    const int output = OutputToComputeInto(a_, request_, i, p);
    if (output >= 0) {
      direct_[static_cast<size_t>(output)] = true;
      slots(i).main = AddDirectOutput(static_cast<size_t>(output));
    } else if (value.kept && first) {
      slots(i).main = plan_slots_.AddKept(n.dtype, std::max<int64_t>(a_.tiling.chunks, 1));
    } else {
      // Loads get registers that no earlier step uses, so that they can come first.
      const bool is_first = value.operand >= 0 && ops_.generate != nullptr;
      slots(i).main = is_first ? plan_slots_.AddRegister(n.dtype) : plan_slots_.TakeRegister(n.dtype);
      live_.push_back({i, slots(i).main});
    }
    if (value.operand >= 0) {
      Step step = LoadStep(i, slots(i).main, 0, 0);
      SetStrides(step, /*unit=*/false);
      if (n.fn == FN_INPUT && IsDenseBFloat16(step.operand, n.dtype)) {
        step.bfloat16 = true;
        step.in[0] = MemorySlot(step.operand);
      }
      phase_->steps.push_back(step);
      RoundIota(i, slots(i).main, phase_->steps);
    } else {
      EmitCompute(i, slots(i).main, Context::kTile, phase_->steps);
    }
  }

  // Frees the registers of operands that node i was the last to use.
  void ReleaseOperands(int i, const std::vector<int>& last_use) {
    for (size_t k = 0; k < live_.size();) {
      if (last_use[static_cast<size_t>(live_[k].first)] == i) {
        plan_slots_.GiveRegister(live_[k].second, node(live_[k].first).dtype);
        live_.erase(live_.begin() + static_cast<int64_t>(k));
      } else {
        ++k;
      }
    }
  }

  void EmitReduction(int i) {
    const ExprNode& n = node(i);
    Reduction reduction;
    reduction.function = n.fn;
    reduction.dtype = RegisterDType(n.dtype);
    reduction.fns = ops_.find_reduce(n.fn, reduction.dtype);
    slots(i).main = plan_slots_.AddUnit(n.dtype);
    reduction.out = static_cast<uint16_t>(slots(i).main);
    reduction.total_offset = plan_.total_bytes;
    if (!IsExactInHalf(n.fn)) reduction.round = ops_.find_round(n.dtype);
    plan_.total_bytes += AlignPlanBytes(a_.tiling.unit_width() * reduction.fns.total_bytes);
    Step step;
    step.kind = Step::Kind::kReduce;
    step.index = static_cast<int>(plan_.reductions.size());
    for (int k = 0; k < Arity(i); ++k) {
      bool scalar = false;
      step.in[static_cast<size_t>(k)] =
          static_cast<uint16_t>(OperandSlot(OperandOf(i, k), Context::kTile, false, &scalar));
    }
    if (info(i).sums_products) step.kind = Step::Kind::kSumProducts;
    phase_->steps.push_back(step);
    phase_->reductions.push_back(step.index);
    plan_.reductions.push_back(reduction);
  }

  const PlanAnalysis a_;
  const ExprProgram& program_;
  const KernelRequest& request_;
  const TileOps& ops_;
  std::vector<NodeSlots> slots_;  // per node
  Plan plan_;
  PlanSlots plan_slots_;  // adds to plan_
  absl::Status status_;

  // State of the phase being emitted.
  Phase* phase_ = nullptr;
  std::vector<int> spread_;                // per node: slot of its spread value, or -1
  std::vector<std::pair<int, int>> live_;  // node, its register
  std::vector<bool> direct_;               // per output: computed into its memory
  std::vector<int> streamed_;              // slots of outputs that may be streamed
};

}  // namespace

absl::StatusOr<Plan> CompilePlan(const ExprProgram& program, const KernelRequest& request, const TileOps& ops) {
  return Compiler(program, request, ops).Compile();
}

}  // namespace cotan::cpu::expr
