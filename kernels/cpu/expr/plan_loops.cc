// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan_loops.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "kernels/cpu/expr/plan_steps.h"
#include "kernels/cpu/expr/tile_loop.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// A loop that does what steps [begin, end) of phase `phase` do on a whole tile.
struct LoopRun {
  size_t phase = 0;
  size_t begin = 0;
  size_t end = 0;
  std::vector<Step> finish;  // steps that complete its reductions
};

LoopFn F32LoopFn(ScalarFn fn) {
  switch (fn) {
    case FN_ADD:
      return LoopFn::kAdd;
    case FN_SUB:
      return LoopFn::kSub;
    case FN_MUL:
      return LoopFn::kMul;
    case FN_DIV:
      return LoopFn::kDiv;
    case FN_MAXIMUM:
      return LoopFn::kMaximum;
    case FN_MINIMUM:
      return LoopFn::kMinimum;
    case FN_EQ:
      return LoopFn::kEq;
    case FN_NE:
      return LoopFn::kNe;
    case FN_LT:
      return LoopFn::kLt;
    case FN_LE:
      return LoopFn::kLe;
    case FN_SELECT:
      return LoopFn::kSelect;
    case FN_NEG:
      return LoopFn::kNeg;
    case FN_ABS:
      return LoopFn::kAbs;
    case FN_RELU:
      return LoopFn::kRelu;
    case FN_SQRT:
      return LoopFn::kSqrt;
    case FN_RSQRT:
      return LoopFn::kRsqrt;
    case FN_RECIPROCAL:
      return LoopFn::kReciprocal;
    case FN_EXP:
      return LoopFn::kExp;
    case FN_EXPM1:
      return LoopFn::kExpm1;
    case FN_LOG:
      return LoopFn::kLog;
    case FN_LOG1P:
      return LoopFn::kLog1p;
    case FN_TANH:
      return LoopFn::kTanh;
    case FN_ERF:
      return LoopFn::kErf;
    case FN_LOGISTIC:
      return LoopFn::kLogistic;
    default:
      return LoopFn::kNone;
  }
}

LoopFn IntLoopFn(ScalarFn fn) {
  switch (fn) {
    case FN_EQ:
      return LoopFn::kIntEq;
    case FN_NE:
      return LoopFn::kIntNe;
    case FN_LT:
      return LoopFn::kIntLt;
    case FN_LE:
      return LoopFn::kIntLe;
    case FN_SELECT:
      return LoopFn::kSelect;
    default:
      return LoopFn::kNone;
  }
}

LoopFn BoolLoopFn(ScalarFn fn) {
  switch (fn) {
    case FN_AND:
      return LoopFn::kAnd;
    case FN_OR:
      return LoopFn::kOr;
    case FN_XOR:
      return LoopFn::kXor;
    case FN_LOGICAL_NOT:
      return LoopFn::kNot;
    default:
      return LoopFn::kNone;
  }
}

// Returns the operation of a step of kind kCompute, kNone if there is none.
LoopFn LoopFnOf(const Step& step) {
  if (step.bfloat16) return LoopFn::kRoundToBFloat16;
  if (step.function == FN_CAST) {
    if (step.result_dtype != DType::kFloat32) return LoopFn::kNone;
    if (step.dtype == DType::kBool) return LoopFn::kFlagsToFloat;
    return step.dtype == DType::kInt32 ? LoopFn::kIntToFloat : LoopFn::kNone;
  }
  if (step.dtype == DType::kFloat32) return F32LoopFn(step.function);
  if (step.dtype == DType::kInt32) return IntLoopFn(step.function);
  return step.dtype == DType::kBool ? BoolLoopFn(step.function) : LoopFn::kNone;
}

// Returns true if argument k of an operation is bools.
bool TakesFlags(LoopFn fn, int k) {
  if (fn == LoopFn::kSelect) return k == 0;
  return fn == LoopFn::kFlagsToFloat || fn == LoopFn::kNot || (fn >= LoopFn::kAnd && fn <= LoopFn::kXor);
}

// Returns true if loops may read one value for each row. If a row had several tiles, the last would not be whole, and
// its steps would read the values that are spread.
bool HasRowValues(const Tiling& tiling) {
  return tiling.mode == TileMode::kRows && tiling.col_block == tiling.col_size && HasRowCode(tiling.col_block);
}

// Returns true if a step spreads one value of 4 bytes over each row.
bool IsRowSpread(const Step& step) {
  return step.kind == Step::Kind::kSpread && step.row_stride == 1 && ByteSize(step.dtype) == 4;
}

// Finds the loops of one phase.
class LoopFinder {
 public:
  LoopFinder(const Plan& plan, size_t phase, PlanSlots& slots)
      : plan_(plan), steps_(plan.phases[phase].steps), phase_(phase), slots_(slots) {
    row_values_.assign(plan.slots.size(), -1);
    if (!HasRowValues(plan.tiling)) return;
    for (const Step& step : plan.phases[phase].start) {
      if (IsRowSpread(step)) row_values_[step.out] = step.in[0];
    }
  }

  // Appends the loops, and the steps that each replaces.
  void Find(std::vector<LoopRun>& runs, std::vector<TileLoop>& loops) {
    for (size_t begin = 0; begin < steps_.size();) {
      size_t end = begin;
      while (end < steps_.size() && CanLoop(steps_[end])) ++end;
      if (IsWorthCode(begin, end)) {
        run_ = {phase_, begin, end, {}};
        loops.push_back(Build(begin, end));
        runs.push_back(std::move(run_));
      }
      begin = std::max(end, begin + 1);
    }
  }

 private:
  bool CanReduce(const Step& step) const {
    const Reduction& reduction = plan_.reductions[static_cast<size_t>(step.index)];
    if (reduction.dtype != DType::kFloat32) return false;
    const Tiling& tiling = plan_.tiling;
    if (tiling.mode == TileMode::kColumns) {
      return reduction.function == FN_REDUCE_SUM && CanReduceColumns(tiling.row_block, tiling.col_block);
    }
    const bool is_known = reduction.function == FN_REDUCE_SUM || reduction.function == FN_REDUCE_MAX;
    return is_known && tiling.mode == TileMode::kRows && HasRowCode(tiling.col_block);
  }

  bool CanLoop(const Step& step) const {
    switch (step.kind) {
      case Step::Kind::kCompute:
        return step.contraction != Contraction::kNone || LoopFnOf(step) != LoopFn::kNone;
      case Step::Kind::kLoad:
        return step.bfloat16;
      case Step::Kind::kStore:
        return step.bfloat16 || step.is_dense;
      case Step::Kind::kReduce:
      case Step::Kind::kSumProducts:
        return CanReduce(step);
      default:
        return false;
    }
  }

  // Returns true if the slot has values that were spread over rows, which code reads before that.
  bool IsRowValue(uint16_t slot) const { return slot < row_values_.size() && row_values_[slot] >= 0; }

  // One step alone is as fast without code, except a sum of columns or one with values of rows; so are the steps of few
  // elements.
  bool IsWorthCode(size_t begin, size_t end) const {
    if (plan_.tiling.row_block * plan_.tiling.col_block < 2 * kCodeLanes) return false;
    if (end - begin != 1) return end > begin;
    const Step& step = steps_[begin];
    if (step.kind != Step::Kind::kCompute) return plan_.tiling.mode == TileMode::kColumns;
    return IsRowValue(step.in[0]) || IsRowValue(step.in[1]) || IsRowValue(step.in[2]);
  }

  TileLoop Build(size_t begin, size_t end) {
    loop_ = {plan_.tiling.row_block, plan_.tiling.col_block, plan_.tiling.mode == TileMode::kRows, {}, {}};
    values_.assign(plan_.slots.size(), -1);
    for (size_t k = begin; k < end; ++k) Add(steps_[k]);
    for (size_t slot = 0; slot < values_.size(); ++slot) {
      const int v = values_[slot];
      if (v < 0 || !IsComputed(FnOf(v)) || plan_.slots[slot].kind != Slot::Kind::kRegister) continue;
      const bool is_read = NextRead(steps_, static_cast<int>(slot), end, steps_.size()) < steps_.size();
      if (is_read) AddStore(static_cast<uint16_t>(slot), v);
    }
    return std::move(loop_);
  }

  // Returns true for values that are not in memory.
  static bool IsComputed(LoopFn fn) { return NumArgs(fn) > 0 || fn == LoopFn::kLoadBFloat16; }

  LoopFn FnOf(int value) const { return loop_.ops[static_cast<size_t>(value)].fn; }

  int AddOp(const LoopOp& op) {
    loop_.ops.push_back(op);
    return static_cast<int>(loop_.ops.size()) - 1;
  }
  int AddOp(LoopFn fn, int x, int y = -1) { return AddOp({.fn = fn, .args = {x, y, -1}}); }

  void AddStore(uint16_t slot, int value) {
    const LoopFn fn = IsFlags(FnOf(value)) ? LoopFn::kStoreFlags : LoopFn::kStore;
    AddOp({.fn = fn, .slot = slot, .args = {value, -1, -1}});
  }

  // Returns the value of `slot`, of bools if `flags`.
  int ValueOf(uint16_t slot, bool flags) {
    if (values_[slot] < 0 && !flags && IsRowValue(slot)) {
      values_[slot] = AddOp({.fn = LoopFn::kRowValue, .slot = static_cast<uint16_t>(row_values_[slot])});
    } else if (values_[slot] < 0) {
      const bool prefetch = !flags && plan_.exceeds_caches && plan_.slots[slot].kind == Slot::Kind::kMemory;
      const LoopFn fn = flags ? LoopFn::kLoadFlags : LoopFn::kLoad;
      values_[slot] = AddOp({.fn = fn, .prefetch = prefetch, .slot = slot});
    }
    return values_[slot];
  }

  // Returns operand k of a step.
  int OperandOf(const Step& step, int k, bool flags = false) {
    const uint16_t slot = step.in[static_cast<size_t>(k)];
    if ((step.scalars & (1 << k)) == 0) return ValueOf(slot, flags);
    if (values_[slot] < 0) values_[slot] = AddOp({.fn = LoopFn::kSplat, .slot = slot});
    return values_[slot];
  }

  // Sets the value of the step's result.
  void SetValue(const Step& step, int value) {
    values_[step.out] = value;
    if (plan_.slots[step.out].kind != Slot::Kind::kRegister) AddStore(step.out, value);
  }

  void Add(const Step& step) {
    switch (step.kind) {
      case Step::Kind::kLoad: {
        const bool prefetch = plan_.exceeds_caches;
        return SetValue(step, AddOp({.fn = LoopFn::kLoadBFloat16, .prefetch = prefetch, .slot = step.in[0]}));
      }
      case Step::Kind::kStore:
        return AddStoreStep(step);
      case Step::Kind::kReduce:
      case Step::Kind::kSumProducts:
        return AddReduction(step);
      default:
        return step.contraction != Contraction::kNone ? AddContraction(step) : AddFunction(step);
    }
  }

  void AddStoreStep(const Step& step) {
    if (step.is_dense) {
      const bool flags = plan_.operands[static_cast<size_t>(step.operand)].item_bytes == 1;
      return AddStore(step.out, ValueOf(step.in[0], flags));
    }
    AddOp({.fn = LoopFn::kStoreBFloat16, .slot = step.out, .args = {ValueOf(step.in[0], false), -1, -1}});
  }

  void AddFunction(const Step& step) {
    LoopOp op = {.fn = LoopFnOf(step)};
    for (int k = 0; k < NumArgs(op.fn); ++k) {
      op.args[static_cast<size_t>(k)] = OperandOf(step, k, TakesFlags(op.fn, k));
    }
    SetValue(step, AddOp(op));
  }

  void AddReduction(const Step& step) {
    int value = ValueOf(step.in[0], false);
    if (step.kind == Step::Kind::kSumProducts) value = AddOp(LoopFn::kMul, value, ValueOf(step.in[1], false));
    const Reduction& reduction = plan_.reductions[static_cast<size_t>(step.index)];
    LoopReduction r = {.is_maximum = reduction.function == FN_REDUCE_MAX, .total_offset = reduction.total_offset};
    if (loop_.reduces_rows) {
      Step finish;
      finish.kind = Step::Kind::kFinishRows;
      finish.index = step.index;
      finish.in[0] = r.slot = static_cast<uint16_t>(slots_.AddRegister(DType::kFloat32));
      run_.finish.push_back(finish);
      values_.push_back(-1);
    }
    AddOp({.fn = LoopFn::kReduce, .reduction = static_cast<int>(loop_.reductions.size()), .args = {value, -1, -1}});
    loop_.reductions.push_back(r);
  }

  // A product, which is rounded, and then a sum.
  void AddContraction(const Step& step) {
    const int a = OperandOf(step, 0), b = OperandOf(step, 1), c = OperandOf(step, 2);
    const int product = AddOp(LoopFn::kMul, a, b);
    if (step.contraction == Contraction::kMulAdd) return SetValue(step, AddOp(LoopFn::kAdd, product, c));
    if (step.contraction == Contraction::kMulSub) return SetValue(step, AddOp(LoopFn::kSub, product, c));
    SetValue(step, AddOp(LoopFn::kSub, c, product));
  }

  const Plan& plan_;
  const std::vector<Step>& steps_;
  const size_t phase_;
  PlanSlots& slots_;
  std::vector<int> row_values_;  // per slot with values that were spread over rows, the slot of these, or -1
  LoopRun run_;
  TileLoop loop_;
  std::vector<int> values_;  // per slot, the value in it, or -1
};

// Returns true if a step writes memory of the op.
bool WritesMemory(const Plan& plan, const Step& step) {
  if (step.kind == Step::Kind::kStore || step.kind == Step::Kind::kStream) return true;
  if (step.kind != Step::Kind::kCompute) return false;
  const Slot::Kind kind = plan.slots[step.out].kind;
  return kind == Slot::Kind::kMemory || kind == Slot::Kind::kStreamed;
}

// Moves each load and each leaf that is computed as far to the front as the use of its register allows.
void MoveLeavesToFront(const Plan& plan, std::vector<Step>& steps) {
  for (size_t k = 1; k < steps.size(); ++k) {
    const bool is_leaf = (steps[k].kind == Step::Kind::kLoad && !steps[k].bfloat16) ||
                         steps[k].kind == Step::Kind::kRandom || steps[k].kind == Step::Kind::kIota;
    if (!is_leaf) continue;
    size_t to = k;
    const auto may_pass = [&](const Step& step) {
      return !Reads(step, steps[k].out) && !Writes(step, steps[k].out) && !WritesMemory(plan, step);
    };
    while (to > 0 && may_pass(steps[to - 1])) --to;
    const auto begin = steps.begin();
    std::rotate(begin + static_cast<int64_t>(to), begin + static_cast<int64_t>(k), begin + static_cast<int64_t>(k) + 1);
  }
}

// Returns the steps of phase.start whose results the steps of whole tiles read. Code reads values of rows before they
// are spread.
std::vector<Step> StartOfWholeTiles(const Phase& phase, const Tiling& tiling) {
  if (!HasRowValues(tiling)) return phase.start;
  std::vector<Step> start;
  for (const Step& step : phase.start) {
    const auto reads = [&](const Step& other) { return other.kind != Step::Kind::kCode && Reads(other, step.out); };
    const std::vector<Step>& steps = phase.whole_tile_steps;
    if (!IsRowSpread(step) || std::any_of(steps.begin(), steps.end(), reads)) start.push_back(step);
  }
  return start;
}

}  // namespace

void GenerateCode(Plan& plan, PlanSlots& slots, const TileOps& ops) {
  if (ops.generate == nullptr) {
    for (Phase& phase : plan.phases) {
      phase.whole_tile_start = phase.start;
      phase.whole_tile_steps = phase.steps;
    }
    return;
  }
  std::vector<LoopRun> runs;
  std::vector<TileLoop> loops;
  for (size_t phase = 0; phase < plan.phases.size(); ++phase) {
    MoveLeavesToFront(plan, plan.phases[phase].steps);
    LoopFinder(plan, phase, slots).Find(runs, loops);
    plan.phases[phase].whole_tile_steps = plan.phases[phase].steps;
  }
  std::vector<int64_t> register_offsets;
  for (const Slot& slot : plan.slots) {
    register_offsets.push_back(slot.kind == Slot::Kind::kRegister ? slot.offset : -1);
  }
  plan.code = ops.generate(loops, register_offsets);
  for (size_t r = runs.size(); r-- > 0;) {
    if (plan.code->loops[r] == nullptr) continue;
    std::vector<Step>& steps = plan.phases[runs[r].phase].whole_tile_steps;
    Step code;
    code.kind = Step::Kind::kCode;
    code.code = plan.code->loops[r];
    const auto begin = steps.begin() + static_cast<int64_t>(runs[r].begin);
    *begin = code;
    steps.erase(begin + 1, steps.begin() + static_cast<int64_t>(runs[r].end));
    steps.insert(begin + 1, runs[r].finish.begin(), runs[r].finish.end());
  }
  for (Phase& phase : plan.phases) phase.whole_tile_start = StartOfWholeTiles(phase, plan.tiling);
}

}  // namespace cotan::cpu::expr
