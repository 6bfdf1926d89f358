// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/loop_body.h"

#include <algorithm>

namespace cotan::cpu::expr {
namespace {

using Xbyak::Address;
using Xbyak::Operand;
using Xbyak::Reg64;

// Elements by which operands that are not in cache are prefetched.
constexpr int64_t kPrefetchDistance = 512;
// Values for all elements, or all of a row, which stay in registers.
constexpr size_t kMaxSplats = 10;

size_t Arg(const LoopOp& op, int k) { return static_cast<size_t>(op.args[static_cast<size_t>(k)]); }
bool Commutes(LoopFn fn) { return fn == LoopFn::kAdd || fn == LoopFn::kMul; }

// Returns true if an operation reads or writes memory in each iteration, or for each row.
bool HasAddress(LoopFn fn) { return fn != LoopFn::kSplat && fn != LoopFn::kReduce && fn <= LoopFn::kStoreFlags; }

}  // namespace

LoopBody::LoopBody(VectorCode& code, const TileLoop& loop, int64_t interleaved,
                   absl::Span<const int64_t> register_offsets)
    : code_(code),
      loop_(loop),
      interleaved_(interleaved),
      register_offsets_(register_offsets),
      uses_(loop.ops.size(), 0),
      splats_(loop.ops.size(), -1),
      pointers_(register_offsets.size(), -1) {
  for (const LoopOp& op : loop_.ops) {
    for (int k = 0; k < NumArgs(op.fn); ++k) ++uses_[Arg(op, k)];
  }
}

bool LoopBody::AssignPointers(absl::Span<const Reg64> free) {
  for (const LoopOp& op : loop_.ops) {
    if (!HasAddress(op.fn) || register_offsets_[op.slot] >= 0 || pointers_[op.slot] >= 0) continue;
    if (used_.size() == free.size()) return false;
    used_.push_back(free[used_.size()]);
    pointers_[op.slot] = used_.back().getIdx();
  }
  return true;
}

bool LoopBody::LoadInvariants() {
  size_t splats = 0;
  for (size_t v = 0; v < loop_.ops.size(); ++v) {
    const bool is_row_value = op(v).fn == LoopFn::kRowValue;
    if (op(v).fn != LoopFn::kSplat && !is_row_value) continue;
    if (++splats > kMaxSplats) return false;
    const Zmm x = code_.TakeVector();
    splats_[v] = x.getIdx();
    if (is_row_value) continue;
    code_.mov(code_.rax, SlotPointer(op(v).slot));
    code_.vbroadcastss(x, code_.dword[code_.rax]);
  }
  for (size_t s = 0; s < pointers_.size(); ++s) {
    if (pointers_[s] >= 0) code_.mov(Reg64(pointers_[s]), SlotPointer(s));
  }
  return true;
}

void LoopBody::LoadRowValues() {
  for (size_t v = 0; v < loop_.ops.size(); ++v) {
    if (op(v).fn != LoopFn::kRowValue) continue;
    const Reg64 address(pointers_[op(v).slot]);
    code_.vbroadcastss(Zmm(splats_[v]), code_.dword[address]);
    code_.add(address, sizeof(float));
  }
}

Xbyak::RegExp LoopBody::AddressOf(uint16_t slot, int bytes, int64_t ahead) const {
  const int64_t offset = (element_ + ahead) * bytes;
  if (register_offsets_[slot] >= 0) {
    return code_.rsi + code_.rax * bytes + static_cast<int>(register_offsets_[slot] + offset);
  }
  return Reg64(pointers_[slot]) + code_.rax * bytes + static_cast<int>(offset);
}

VectorCode::Zmm LoopBody::Vector(size_t v) {
  if (values_[v].vector < 0) Load(v);
  return Zmm(values_[v].vector);
}
void LoopBody::Prefetch(size_t v, int bytes) {
  if (op(v).prefetch) code_.prefetcht0(code_.byte[AddressOf(op(v).slot, bytes, kPrefetchDistance)]);
}

void LoopBody::Load(size_t v) {
  const Zmm x = code_.TakeVector();
  values_[v].vector = x.getIdx();
  if (op(v).fn == LoopFn::kLoadBFloat16) {
    Prefetch(v, 2);
    const Address from = code_.yword[AddressOf(op(v).slot, 2)];
    if (masks_loads_) {
      code_.vpmovzxwd(x | code_.k1 | code_.T_z, from);
    } else {
      code_.vpmovzxwd(x, from);
    }
    code_.vpslld(x, x, 16);
    return;
  }
  Prefetch(v, 4);
  const Address from = code_.zword[AddressOf(op(v).slot, 4)];
  if (masks_loads_) {
    code_.vmovups(x | code_.k1 | code_.T_z, from);
  } else {
    code_.vmovups(x, from);
  }
}

void LoopBody::LoadFlags(size_t v) {
  const Zmm bytes = code_.TakeVector();
  const Xbyak::Xmm x(bytes.getIdx());
  const Opmask mask = code_.TakeMask();
  const Address from = code_.xword[AddressOf(op(v).slot, 1)];
  if (masks_loads_) {
    code_.vmovdqu8(x | code_.k1 | code_.T_z, from);
  } else {
    code_.vmovdqu8(x, from);
  }
  code_.vptestmb(mask, x, x);
  values_[v].mask = mask.getIdx();
  code_.Give(bytes);
}

void LoopBody::Release(const LoopOp& op) {
  for (int k = 0; k < NumArgs(op.fn); ++k) {
    Value& value = values_[Arg(op, k)];
    if (--value.left > 0 || splats_[Arg(op, k)] >= 0) continue;
    if (value.vector >= 0) code_.Give(Zmm(value.vector));
    if (value.mask >= 0) code_.Give(Opmask(value.mask));
    value.vector = value.mask = -1;
  }
}

VectorCode::Zmm LoopBody::Result(size_t v, size_t x) {
  const LoopOp& o = op(v);
  int here = 0;
  for (int k = 0; k < NumArgs(o.fn); ++k) here += Arg(o, k) == x ? 1 : 0;
  if (values_[x].left == here && splats_[x] < 0 && values_[x].vector >= 0) {
    values_[v].vector = values_[x].vector;
    values_[x].vector = -1;
  } else {
    values_[v].vector = code_.TakeVector().getIdx();
  }
  return Zmm(values_[v].vector);
}

void LoopBody::Write(int64_t first, int64_t count) {
  for (int64_t k = 0; k < count; k += interleaved_) {
    WriteGroup((first + k) * kCodeLanes, std::min(interleaved_, count - k));
  }
}

void LoopBody::WriteMasked() {
  masks_loads_ = masks_results_ = true;
  WriteGroup(0, 1);
  masks_loads_ = masks_results_ = false;
}

void LoopBody::WriteTail(int64_t begin) {
  masks_results_ = true;
  WriteGroup(begin, 1);
  masks_results_ = false;
}

void LoopBody::WriteGroup(int64_t begin, int64_t count) {
  std::vector<Value> start(uses_.size());
  for (size_t v = 0; v < start.size(); ++v) start[v] = {uses_[v], splats_[v], -1};
  std::vector<std::vector<Value>> values(static_cast<size_t>(count), start);
  const auto for_each_vector = [&](auto write) {
    for (int64_t k = 0; k < count; ++k) {
      element_ = begin + k * kCodeLanes;
      values_ = absl::MakeSpan(values[static_cast<size_t>(k)]);
      write();
    }
  };
  for (size_t v = 0; v < loop_.ops.size() && !code_.Failed(); ++v) {
    if (!IsVectorFunction(op(v).fn)) {
      for_each_vector([&] { WriteOp(v); });
      continue;
    }
    std::vector<Zmm> group;
    for_each_vector([&] { group.push_back(CopyArgument(v)); });
    WriteFunction(op(v).fn, group);
  }
}

void LoopBody::WriteOp(size_t v) {
  const LoopOp& o = op(v);
  switch (o.fn) {
    case LoopFn::kLoad:
      if (masks_loads_ || uses_[v] > 1 || o.prefetch) Load(v);
      return;
    case LoopFn::kLoadBFloat16:
      return Load(v);
    case LoopFn::kLoadFlags:
      return LoadFlags(v);
    case LoopFn::kSplat:
    case LoopFn::kRowValue:
      return;
    case LoopFn::kStore:
    case LoopFn::kStoreBFloat16:
    case LoopFn::kStoreFlags:
      WriteStore(o);
      return Release(o);
    case LoopFn::kReduce:
      WriteReduce(o);
      return Release(o);
    case LoopFn::kSelect:
      return WriteSelect(v);
    case LoopFn::kFlagsToFloat:
      values_[v].vector = code_.TakeVector().getIdx();
      code_.SplatWhere(Zmm(values_[v].vector), Mask(Arg(o, 0)), 1);
      return Release(o);
    default:
      return IsFlags(o.fn) ? WriteFlags(v) : WriteBinary(v);
  }
}

void LoopBody::WriteStore(const LoopOp& o) {
  if (o.fn == LoopFn::kStoreBFloat16) return WriteBFloat16Store(o);
  if (o.fn == LoopFn::kStoreFlags) return WriteFlagsStore(o);
  const Zmm x = Vector(Arg(o, 0));
  const Address to = code_.zword[AddressOf(o.slot, 4)];
  if (masks_results_) {
    code_.vmovups(to | code_.k1, x);
  } else {
    code_.vmovups(to, x);
  }
}

void LoopBody::WriteBFloat16Store(const LoopOp& o) {
  const Zmm x = Vector(Arg(o, 0));
  const Zmm bits = code_.TakeVector();
  code_.vpsrld(bits, x, 16);
  const Address to = code_.yword[AddressOf(o.slot, 2)];
  if (masks_results_) {
    code_.vpmovdw(to | code_.k1, bits);
  } else {
    code_.vpmovdw(to, bits);
  }
  code_.Give(bits);
}

void LoopBody::WriteFlagsStore(const LoopOp& o) {
  const Zmm bytes = code_.TakeVector();
  const Xbyak::Xmm x(bytes.getIdx());
  code_.vmovdqu8(x | Mask(Arg(o, 0)) | code_.T_z, code_.OneBytes());
  const Address to = code_.xword[AddressOf(o.slot, 1)];
  if (masks_results_) {
    code_.vmovdqu8(to | code_.k1, x);
  } else {
    code_.vmovdqu8(to, x);
  }
  code_.Give(bytes);
}

void LoopBody::WriteSelect(size_t v) {
  const LoopOp& o = op(v);
  const Zmm other = Vector(Arg(o, 2));
  const Opmask holds = Mask(Arg(o, 0));
  WithOperand(Arg(o, 1), [&](const Operand& x) {
    const Zmm result = Arg(o, 1) == Arg(o, 2) ? code_.TakeVector() : Result(v, Arg(o, 2));
    values_[v].vector = result.getIdx();
    code_.vblendmps(result | holds, other, x);
  });
  Release(o);
}

void LoopBody::WriteFlags(size_t v) {
  const LoopOp& o = op(v);
  const Opmask result = code_.TakeMask();
  values_[v].mask = result.getIdx();
  if (o.fn == LoopFn::kNot) code_.knotw(result, Mask(Arg(o, 0)));
  if (o.fn == LoopFn::kAnd) code_.kandw(result, Mask(Arg(o, 0)), Mask(Arg(o, 1)));
  if (o.fn == LoopFn::kOr) code_.korw(result, Mask(Arg(o, 0)), Mask(Arg(o, 1)));
  if (o.fn == LoopFn::kXor) code_.kxorw(result, Mask(Arg(o, 0)), Mask(Arg(o, 1)));
  if (o.fn >= LoopFn::kEq && o.fn <= LoopFn::kIntLe) {
    const Zmm x = Vector(Arg(o, 0));
    WithOperand(Arg(o, 1), [&](const Operand& y) { WriteComparison(o.fn, result, x, y); });
  }
  Release(o);
}

void LoopBody::WriteComparison(LoopFn fn, Opmask result, Zmm x, const Operand& y) {
  constexpr uint8_t kLess = 1, kLessOrEqual = 2, kNotEqual = 4;  // of vpcmpd
  switch (fn) {
    case LoopFn::kEq:
      return code_.vcmpeqps(result, x, y);
    case LoopFn::kNe:
      return code_.vcmpneqps(result, x, y);
    case LoopFn::kLt:
      return code_.vcmpltps(result, x, y);
    case LoopFn::kLe:
      return code_.vcmpleps(result, x, y);
    case LoopFn::kIntEq:
      return code_.vpcmpeqd(result, x, y);
    case LoopFn::kIntNe:
      return code_.vpcmpd(result, x, y, kNotEqual);
    case LoopFn::kIntLt:
      return code_.vpcmpd(result, x, y, kLess);
    case LoopFn::kIntLe:
      return code_.vpcmpd(result, x, y, kLessOrEqual);
    default:
      return;
  }
}

void LoopBody::WriteBinary(size_t v) {
  const LoopOp& o = op(v);
  size_t first = Arg(o, 0), second = Arg(o, 1);
  if (Commutes(o.fn) && IsInMemory(first) && !IsInMemory(second)) std::swap(first, second);
  const Zmm x = Vector(first);
  WithOperand(second, [&](const Operand& y) {
    switch (o.fn) {
      case LoopFn::kAdd:
        return code_.vaddps(Result(v, first), x, y);
      case LoopFn::kSub:
        return code_.vsubps(Result(v, first), x, y);
      case LoopFn::kMul:
        return code_.vmulps(Result(v, first), x, y);
      case LoopFn::kDiv:
        return code_.vdivps(Result(v, first), x, y);
      default:
        return WriteExtremum(v, first, y);
    }
  });
  Release(o);
}

void LoopBody::WriteExtremum(size_t v, size_t first, const Operand& y) {
  const Zmm x = Vector(first);
  const Zmm result = Result(v, first);
  if (result.getIdx() != x.getIdx()) code_.vmovaps(result, x);
  ReplaceByExtremum(result, y, op(v).fn == LoopFn::kMaximum);
}

// The processor's functions return y if one of them is NaN; x stays if it is NaN.
void LoopBody::ReplaceByExtremum(Zmm x, const Operand& y, bool maximum) {
  const Opmask is_number = code_.TakeMask();
  code_.vcmpordps(is_number, x, x);
  if (maximum) {
    code_.vmaxps(x | is_number, x, y);
  } else {
    code_.vminps(x | is_number, x, y);
  }
  code_.Give(is_number);
}

VectorCode::Zmm LoopBody::CopyArgument(size_t v) {
  const LoopOp& o = op(v);
  const Zmm x = Vector(Arg(o, 0));
  const Zmm result = Result(v, Arg(o, 0));
  if (result.getIdx() != x.getIdx()) code_.vmovaps(result, x);
  Release(o);
  return result;
}

void LoopBody::WriteFunction(LoopFn fn, VectorCode::Group x) {
  switch (fn) {
    case LoopFn::kNeg:
      return code_.Neg(x);
    case LoopFn::kAbs:
      return code_.Abs(x);
    case LoopFn::kRelu:
      return code_.Relu(x);
    case LoopFn::kSqrt:
      return code_.Sqrt(x);
    case LoopFn::kRsqrt:
      return code_.Rsqrt(x);
    case LoopFn::kReciprocal:
      return code_.Reciprocal(x);
    case LoopFn::kIntToFloat:
      return code_.IntToFloat(x);
    case LoopFn::kExp:
      return code_.Exp(x);
    case LoopFn::kExpm1:
      return code_.Expm1(x);
    case LoopFn::kLog:
      return code_.Log(x);
    case LoopFn::kLog1p:
      return code_.Log1p(x);
    case LoopFn::kTanh:
      return code_.Tanh(x);
    case LoopFn::kErf:
      return code_.Erf(x);
    case LoopFn::kLogistic:
      return code_.Logistic(x);
    case LoopFn::kRoundToBFloat16:
      return code_.RoundToBFloat16(x);
    default:
      return;
  }
}

void LoopBody::WriteReduce(const LoopOp& o) {
  const auto r = static_cast<size_t>(o.reduction);
  const std::vector<Zmm>& totals = accumulators_[r];
  WithOperand(Arg(o, 0), [&](const Operand& x) {
    if (!masks_results_) return Accumulate(r, totals[static_cast<size_t>(element_ / kCodeLanes) % totals.size()], x);
    const Zmm total = code_.TakeVector();
    code_.vmovaps(total, totals[0]);
    Accumulate(r, total, x);
    code_.vmovaps(totals[0] | code_.k1, total);
    code_.Give(total);
  });
}

void LoopBody::Accumulate(size_t reduction, Zmm total, const Operand& x) {
  if (loop_.reductions[reduction].is_maximum) {
    ReplaceByExtremum(total, x, /*maximum=*/true);
  } else {
    code_.vaddps(total, total, x);
  }
}

}  // namespace cotan::cpu::expr
