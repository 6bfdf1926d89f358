// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan_chains.h"

#include <algorithm>
#include <utility>

#include "absl/types/span.h"
#include "kernels/cpu/expr/plan_steps.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// A function of two operands as an operation on the accumulator and one operand in memory.
struct BinaryForm {
  ChainFn fn = ChainFn::kNone;        // the accumulator is the first operand
  ChainFn reversed = ChainFn::kNone;  // it is the second one
  bool compares = false;
};

BinaryForm BinaryFormOf(ScalarFn fn) {
  switch (fn) {
    case FN_ADD:
      return {ChainFn::kAdd, ChainFn::kAdd};
    case FN_SUB:
      return {ChainFn::kSub, ChainFn::kSubFrom};
    case FN_MUL:
      return {ChainFn::kMul, ChainFn::kMul};
    case FN_DIV:
      return {ChainFn::kDiv, ChainFn::kDivInto};
    case FN_MAXIMUM:  // the operands of these two are not alike if one is NaN or both are zeros
      return {ChainFn::kMaximum};
    case FN_MINIMUM:
      return {ChainFn::kMinimum};
    case FN_EQ:
      return {ChainFn::kEq, ChainFn::kEq, true};
    case FN_NE:
      return {ChainFn::kNe, ChainFn::kNe, true};
    case FN_LT:
      return {ChainFn::kLt, ChainFn::kGt, true};
    case FN_LE:
      return {ChainFn::kLe, ChainFn::kGe, true};
    default:
      return {};
  }
}

ChainFn UnaryFormOf(ScalarFn fn) {
  switch (fn) {
    case FN_NEG:
      return ChainFn::kNeg;
    case FN_ABS:
      return ChainFn::kAbs;
    case FN_RELU:
      return ChainFn::kRelu;
    case FN_SQRT:
      return ChainFn::kSqrt;
    case FN_RSQRT:
      return ChainFn::kRsqrt;
    case FN_RECIPROCAL:
      return ChainFn::kReciprocal;
    case FN_EXP:
      return ChainFn::kExp;
    case FN_EXPM1:
      return ChainFn::kExpm1;
    case FN_LOG:
      return ChainFn::kLog;
    case FN_LOG1P:
      return ChainFn::kLog1p;
    case FN_TANH:
      return ChainFn::kTanh;
    case FN_ERF:
      return ChainFn::kErf;
    case FN_LOGISTIC:
      return ChainFn::kLogistic;
    default:
      return ChainFn::kNone;
  }
}

bool CanChain(const Step& step) {
  if (step.bfloat16) return true;
  if (step.kind != Step::Kind::kCompute) return false;
  if (step.contraction != Contraction::kNone || F32FunctionOf(step) == FN_SELECT) return true;
  return UnaryFormOf(F32FunctionOf(step)) != ChainFn::kNone || BinaryFormOf(F32FunctionOf(step)).fn != ChainFn::kNone;
}

// Translates a run of steps to operations.
class ChainBuilder {
 public:
  // The run is steps [begin, end).
  ChainBuilder(const Plan& plan, const std::vector<Step>& steps, size_t begin, size_t end)
      : plan_(plan),
        steps_(steps),
        begin_(begin),
        end_(end),
        computed_(plan.slots.size(), -1),
        converted_(plan.slots.size(), -1) {}

  // Appends the operations to `ops`.
  void Build(std::vector<ChainOp>& ops) {
    for (at_ = begin_; at_ < end_; ++at_) Add(steps_[at_]);
    for (size_t k = 0; k < entries_.size(); ++k) {
      const uint16_t slot = entries_[k].out;
      const bool last = entries_[k].has_out && computed_[slot] == static_cast<int>(k);
      if (last && NextRead(slot, end_, steps_.size()) < steps_.size()) entries_[k].stored = true;
    }
    for (const Entry& entry : entries_) {
      ops.push_back(entry.op);
      if (entry.stored) ops.push_back({.fn = ChainFn::kStore, .slot = entry.out});
    }
  }

 private:
  // An operation, and the slot of its result if it computes the value of one.
  struct Entry {
    ChainOp op;
    bool has_out = false;
    bool stored = false;
    uint16_t out = 0;
  };
  struct Operand {
    uint16_t slot = 0;
    bool scalar = false;
  };

  static Operand OperandOf(const Step& step, int k) {
    return {step.in[static_cast<size_t>(k)], (step.scalars & (1 << k)) != 0};
  }

  size_t NextRead(int slot, size_t first, size_t last) const { return expr::NextRead(steps_, slot, first, last); }

  bool InAccumulator(const Operand& x) const { return !x.scalar && x.slot == accumulated_; }

  // Appends an operation with operand m, which is read from memory if it is not the saved value.
  void AddOp(ChainFn fn, const Operand& m, uint16_t flags = 0) {
    ChainOp op = {.fn = fn, .source = ChainSource::kMemory, .slot = m.slot, .flags = flags};
    if (m.scalar) {
      op.source = ChainSource::kScalar;
    } else if (m.slot == saved_) {
      op.source = ChainSource::kSaved;
    } else if (converted_[m.slot] >= 0) {
      op.source = ChainSource::kBFloat16;
      op.slot = static_cast<uint16_t>(converted_[m.slot]);
      op.prefetch = plan_.exceeds_caches;
    } else if (computed_[m.slot] >= 0) {
      entries_[static_cast<size_t>(computed_[m.slot])].stored = true;
    } else {
      op.prefetch = plan_.exceeds_caches && plan_.slots[m.slot].kind == Slot::Kind::kMemory;
    }
    entries_.push_back({op});
  }
  void AddOp(ChainFn fn) { entries_.push_back({{.fn = fn}}); }

  // The current step is about to replace the value in the accumulator, which it needs itself as a second operand if
  // `also_second`. Saves it if it is read sooner than the one that is saved.
  void SaveAccumulator(bool also_second) {
    if (accumulated_ < 0 || accumulated_ == saved_) return;
    const bool overwritten = Writes(steps_[at_], accumulated_);
    size_t next = overwritten ? end_ : NextRead(accumulated_, at_ + 1, end_);
    if (also_second) next = at_;
    if (next == end_ || (saved_ >= 0 && NextRead(saved_, at_, end_) <= next)) return;
    AddOp(ChainFn::kSave);
    saved_ = accumulated_;
  }

  // Brings x into the accumulator. `others` are the operands that the step has besides.
  void Take(const Operand& x, absl::Span<const Operand> others) {
    const auto is_other = [&] {
      return std::any_of(others.begin(), others.end(), [&](const Operand& other) { return InAccumulator(other); });
    };
    SaveAccumulator(is_other());
    if (InAccumulator(x)) return;
    AddOp(ChainFn::kLoad, x);
    accumulated_ = x.scalar ? -1 : x.slot;
    SaveAccumulator(is_other());
  }

  // The last operation computed the value of `slot`.
  void SetValue(uint16_t slot) {
    Entry& entry = entries_.back();
    entry.has_out = true;
    entry.out = slot;
    entry.stored = plan_.slots[slot].kind != Slot::Kind::kRegister;
    computed_[slot] = static_cast<int>(entries_.size()) - 1;
    converted_[slot] = -1;
    accumulated_ = slot;
    if (saved_ == slot) saved_ = -1;
  }

  // Returns true if a step of [first, last) of another kind than kCompute reads `slot` before one writes it.
  bool IsCopied(int slot, size_t first, size_t last) const {
    for (size_t k = first; k < last && !Writes(steps_[k], slot); ++k) {
      if (steps_[k].kind != Step::Kind::kCompute && Reads(steps_[k], slot)) return true;
    }
    return false;
  }

  // Operations read the bf16 in memory where they need it, unless other steps or phases read the converted tile. A
  // store may change that memory, so that what it stores is read before.
  void AddLoad(const Step& step) {
    const uint16_t slot = step.out;
    computed_[slot] = -1;
    converted_[slot] = step.in[0];
    if (accumulated_ == slot) accumulated_ = -1;
    if (saved_ == slot) saved_ = -1;
    const bool is_register = plan_.slots[slot].kind == Slot::Kind::kRegister;
    const bool is_read = IsCopied(slot, at_ + 1, steps_.size()) || NextRead(slot, end_, steps_.size()) < steps_.size();
    if (is_register && !is_read) return;
    Take({slot, false}, {});
    SetValue(slot);
    entries_.back().stored = true;
  }

  void AddStore(const Step& step) {
    Take({step.in[0], false}, {});
    entries_.push_back({{.fn = ChainFn::kStoreBFloat16, .slot = step.out}});
  }

  void Add(const Step& step) {
    if (step.kind == Step::Kind::kLoad) return AddLoad(step);
    if (step.kind == Step::Kind::kStore) return AddStore(step);
    if (step.bfloat16) {
      Take(OperandOf(step, 0), {});
      AddOp(ChainFn::kRoundToBFloat16);
      return SetValue(step.out);
    }
    if (step.contraction != Contraction::kNone) return AddContraction(step);
    if (F32FunctionOf(step) == FN_SELECT) return AddSelect(step);
    const Operand a = OperandOf(step, 0);
    if (const ChainFn unary = UnaryFormOf(F32FunctionOf(step)); unary != ChainFn::kNone) {
      Take(a, {});
      AddOp(unary);
      return SetValue(step.out);
    }
    const BinaryForm form = BinaryFormOf(F32FunctionOf(step));
    if (form.compares) return AddComparison(step, form);
    AddBinary(form, a, OperandOf(step, 1), {});
    SetValue(step.out);
  }

  // Returns true if the second operand of a function should be the accumulator's value.
  bool IsReversed(const BinaryForm& form, const Operand& a, const Operand& b) const {
    return form.reversed != ChainFn::kNone && !InAccumulator(a) && (a.scalar || InAccumulator(b));
  }

  // `others` are operands that the step needs afterwards.
  void AddBinary(const BinaryForm& form, const Operand& a, const Operand& b, absl::Span<const Operand> others) {
    if (form.fn == ChainFn::kMul && !a.scalar && !b.scalar && a.slot == b.slot) {
      Take(a, others);
      return AddOp(ChainFn::kSquare);
    }
    const bool reversed = IsReversed(form, a, b);
    const Operand& memory = reversed ? a : b;
    std::vector<Operand> rest(others.begin(), others.end());
    rest.push_back(memory);
    Take(reversed ? b : a, rest);
    AddOp(reversed ? form.reversed : form.fn, memory);
  }

  // A product, and then a sum: the last operand is added to it or subtracted.
  void AddContraction(const Step& step) {
    const Operand c = OperandOf(step, 2);
    AddBinary({ChainFn::kMul, ChainFn::kMul}, OperandOf(step, 0), OperandOf(step, 1), {c});
    accumulated_ = -1;
    ChainFn fn = ChainFn::kAdd;
    if (step.contraction == Contraction::kMulSub) fn = ChainFn::kSub;
    if (step.contraction == Contraction::kSubMul) fn = ChainFn::kSubFrom;
    AddOp(fn, c);
    SetValue(step.out);
  }

  void AddSelect(const Step& step) {
    const Operand x = OperandOf(step, 1);
    const Operand y = OperandOf(step, 2);
    const bool takes_y = x.scalar || (InAccumulator(y) && !InAccumulator(x));
    const Operand& memory = takes_y ? x : y;
    Take(takes_y ? y : x, {memory});
    AddOp(takes_y ? ChainFn::kElse : ChainFn::kThen, memory, step.in[0]);
    SetValue(step.out);
  }

  // Comparisons leave the accumulator.
  void AddComparison(const Step& step, const BinaryForm& form) {
    const Operand a = OperandOf(step, 0);
    const Operand b = OperandOf(step, 1);
    const bool reversed = IsReversed(form, a, b);
    const Operand& memory = reversed ? a : b;
    const Operand& taken = reversed ? b : a;
    if (!InAccumulator(taken)) Take(taken, {memory});
    AddOp(reversed ? form.reversed : form.fn, memory, step.out);
  }

  const Plan& plan_;
  const std::vector<Step>& steps_;
  const size_t begin_;
  const size_t end_;
  std::vector<Entry> entries_;
  std::vector<int> computed_;   // per slot, the entry that computed its value, or -1
  std::vector<int> converted_;  // per slot, the slot of the bf16 that its value is, or -1
  size_t at_ = 0;
  int accumulated_ = -1;  // the slot whose value is in the accumulator, or -1
  int saved_ = -1;        // the slot whose value is saved, or -1
};

// Returns true if steps [begin, end) gain by a chain. A pass for each of few sums and products takes as long: both are
// bound by loads. Conversions of bf16 gain with any function.
bool IsWorthChaining(const std::vector<Step>& steps, size_t begin, size_t end) {
  if (end - begin < 2) return false;
  const auto first = steps.begin() + static_cast<int64_t>(begin), last = steps.begin() + static_cast<int64_t>(end);
  if (std::none_of(first, last, [](const Step& step) { return step.kind == Step::Kind::kCompute; })) return false;
  if (end - begin >= 4) return true;
  return std::any_of(first, last, [](const Step& step) {
    const ScalarFn fn = F32FunctionOf(step);
    const bool plain = fn == FN_ADD || fn == FN_SUB || fn == FN_MUL;
    return step.contraction == Contraction::kNone && !plain;
  });
}

// Replaces the runs of one list of steps.
void MakeChains(Plan& plan, std::vector<Step>& steps) {
  std::vector<Step> merged;
  for (size_t begin = 0; begin < steps.size();) {
    size_t end = begin;
    while (end < steps.size() && CanChain(steps[end])) ++end;
    if (!IsWorthChaining(steps, begin, end)) {
      end = std::max(end, begin + 1);
      for (; begin < end; ++begin) merged.push_back(steps[begin]);
      continue;
    }
    Step chain;
    chain.kind = Step::Kind::kChain;
    chain.index = static_cast<int>(plan.chain_ops.size());
    ChainBuilder(plan, steps, begin, end).Build(plan.chain_ops);
    chain.count = static_cast<int>(plan.chain_ops.size()) - chain.index;
    merged.push_back(chain);
    begin = end;
  }
  steps = std::move(merged);
}

}  // namespace

void MakeChains(Plan& plan) {
  for (Phase& phase : plan.phases) {
    MakeChains(plan, phase.steps);
    MakeChains(plan, phase.whole_tile_steps);
  }
}

}  // namespace cotan::cpu::expr
