// SPDX-License-Identifier: Apache-2.0

// Chains of f32 functions (ChainOp): a run of elements goes through all operations in vector registers, where a pass
// over a tile for each of them would load and store it.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_CHAIN_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_CHAIN_H_

#include <cstdint>

#include "kernels/cpu/expr/tile_ops.h"
#include "kernels/cpu/expr/tile_pack.h"
#include "kernels/cpu/expr/tile_vector_math.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// Vectors of the accumulator: as many as leave registers for the operands of an operation.
#ifdef __AVX512F__
constexpr int kChainVectors = 8;
#else
constexpr int kChainVectors = 4;
#endif
// Returns the function of expr.proto that an operation belongs to.
constexpr ScalarFn FunctionOf(ChainFn fn) {
  switch (fn) {
    case ChainFn::kNone:
    case ChainFn::kLoad:
    case ChainFn::kStore:
    case ChainFn::kSave:
      return SCALAR_FN_UNSPECIFIED;
    case ChainFn::kNeg:
      return FN_NEG;
    case ChainFn::kAbs:
      return FN_ABS;
    case ChainFn::kRelu:
      return FN_RELU;
    case ChainFn::kSqrt:
      return FN_SQRT;
    case ChainFn::kRsqrt:
      return FN_RSQRT;
    case ChainFn::kReciprocal:
      return FN_RECIPROCAL;
    case ChainFn::kExp:
      return FN_EXP;
    case ChainFn::kExpm1:
      return FN_EXPM1;
    case ChainFn::kLog:
      return FN_LOG;
    case ChainFn::kLog1p:
      return FN_LOG1P;
    case ChainFn::kTanh:
      return FN_TANH;
    case ChainFn::kErf:
      return FN_ERF;
    case ChainFn::kLogistic:
      return FN_LOGISTIC;
    case ChainFn::kSquare:
    case ChainFn::kMul:
      return FN_MUL;
    case ChainFn::kAdd:
      return FN_ADD;
    case ChainFn::kSub:
    case ChainFn::kSubFrom:
      return FN_SUB;
    case ChainFn::kDiv:
    case ChainFn::kDivInto:
      return FN_DIV;
    case ChainFn::kMaximum:
      return FN_MAXIMUM;
    case ChainFn::kMinimum:
      return FN_MINIMUM;
    case ChainFn::kThen:
    case ChainFn::kElse:
      return FN_SELECT;
    case ChainFn::kEq:
      return FN_EQ;
    case ChainFn::kNe:
      return FN_NE;
    case ChainFn::kLt:
    case ChainFn::kGt:
      return FN_LT;
    case ChainFn::kLe:
    case ChainFn::kGe:
      return FN_LE;
  }
  return SCALAR_FN_UNSPECIFIED;
}

// Names the functions that a Chain has.
struct AllFunctions {
  static constexpr bool Has(ScalarFn) { return true; }
};
template <ChainFn kFn>
struct OneFunction {
  static constexpr bool Has(ScalarFn fn) { return fn == FunctionOf(kFn); }
};

// Copies the first n elements of a vector, n <= lanes.
[[gnu::always_inline]] inline FloatVector LoadSome(const float* from, int64_t n) {
#ifdef __AVX512F__
  return FloatVector(_mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), from));
#else
  FloatVector v{};
  __builtin_memcpy(&v, from, static_cast<size_t>(n) * sizeof(float));
  return v;
#endif
}
[[gnu::always_inline]] inline void StoreSome(float* to, FloatVector v, int64_t n) {
#ifdef __AVX512F__
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1u << n) - 1), __m512(v));
#else
  __builtin_memcpy(to, &v, static_cast<size_t>(n) * sizeof(float));
#endif
}

// A run of elements, from `at` on: kSize whole vectors, or one of which the first `n` elements count.
template <int kSize>
struct ChainRun {
  using Floats = FloatPack<kSize>;
  static constexpr bool kSome = kSize == 1;

  char* const* slots;
  int64_t at;
  int64_t n;

  [[gnu::always_inline]] Floats Read(uint16_t slot) const {
    const float* const from = reinterpret_cast<const float*>(slots[slot]) + at;
    if constexpr (kSome) {
      return {{LoadSome(from, n)}};
    } else {
      return Generate<FloatVector, kSize>(
          [&](size_t k) __attribute__((always_inline)) { return LoadVector(from + k * kFloatLanes); });
    }
  }
  [[gnu::always_inline]] FloatVector Scalar(uint16_t slot) const {
    return SplatFloat(*reinterpret_cast<const float*>(slots[slot]));
  }
  [[gnu::always_inline]] void Write(uint16_t slot, Floats x) const {
    float* const to = reinterpret_cast<float*>(slots[slot]) + at;
    if constexpr (kSome) {
      StoreSome(to, x.v[0], n);
    } else {
      ForEach<kSize>([&](size_t k) __attribute__((always_inline)) { StoreVector(to + k * kFloatLanes, x.v[k]); });
    }
  }
  [[gnu::always_inline]] IntPack<kSize> ReadFlags(uint16_t slot) const {
    const char* const from = slots[slot] + at;
    return Generate<IntVector, kSize>([&](size_t k) __attribute__((always_inline)) {
      FlagVector flags{};
      __builtin_memcpy(&flags, from + k * kFloatLanes, kSome ? static_cast<size_t>(n) : sizeof(flags));
      return Widen(flags) != 0;
    });
  }
  [[gnu::always_inline]] void WriteFlags(uint16_t slot, IntPack<kSize> x) const {
    char* const to = slots[slot] + at;
    ForEach<kSize>([&](size_t k) __attribute__((always_inline)) {
      const FlagVector flags = Narrow(x.v[k]);
      __builtin_memcpy(to + k * kFloatLanes, &flags, kSome ? static_cast<size_t>(n) : sizeof(flags));
    });
  }
};

// Applies `fn` to the accumulator.
template <int kSize, typename Fn>
[[gnu::always_inline]] inline void Apply(FloatPack<kSize>& x, Fn fn) {
  ForEach<kSize>([&](size_t k) __attribute__((always_inline)) { x.v[k] = fn(x.v[k]); });
}

// The values in vector registers.
template <int kSize>
struct ChainState {
  FloatPack<kSize> x{};      // the accumulator
  FloatPack<kSize> saved{};  // the second value
};

// Applies `fn` to the accumulator and the operand m of an operation.
template <int kSize, typename Fn>
[[gnu::always_inline]] inline void Combine(const ChainRun<kSize>& run, const ChainOp& op, ChainState<kSize>& state,
                                           Fn fn) {
  FloatPack<kSize>& x = state.x;
  if (op.source == ChainSource::kMemory) {
    const FloatPack<kSize> m = run.Read(op.slot);
    ForEach<kSize>([&](size_t k) __attribute__((always_inline)) { x.v[k] = fn(x.v[k], m.v[k]); });
  } else if (op.source == ChainSource::kScalar) {
    const FloatVector m = run.Scalar(op.slot);
    ForEach<kSize>([&](size_t k) __attribute__((always_inline)) { x.v[k] = fn(x.v[k], m); });
  } else {
    ForEach<kSize>([&](size_t k) __attribute__((always_inline)) { x.v[k] = fn(x.v[k], state.saved.v[k]); });
  }
}

// Returns the operand m of an operation.
template <int kSize>
[[gnu::always_inline]] inline FloatPack<kSize> OperandOf(const ChainRun<kSize>& run, const ChainOp& op,
                                                         const ChainState<kSize>& state) {
  if (op.source == ChainSource::kMemory) return run.Read(op.slot);
  if (op.source == ChainSource::kSaved) return state.saved;
  const FloatVector m = run.Scalar(op.slot);
  return Generate<FloatVector, kSize>([&](size_t) __attribute__((always_inline)) { return m; });
}

// Writes where the comparison `fn` of both holds.
template <int kSize, typename Fn>
[[gnu::always_inline]] inline void Compare(const ChainRun<kSize>& run, const ChainOp& op,
                                           const ChainState<kSize>& state, Fn fn) {
  const FloatPack<kSize> m = OperandOf(run, op, state);
  run.WriteFlags(op.flags, Generate<IntVector, kSize>([&](size_t k) __attribute__((always_inline)) {
                   return fn(state.x.v[k], m.v[k]);
                 }));
}

// Chooses between the accumulator, where the bools are kFlagged, and m.
template <bool kFlagged, int kSize>
[[gnu::always_inline]] inline void Select(const ChainRun<kSize>& run, const ChainOp& op, ChainState<kSize>& state) {
  const IntPack<kSize> flags = run.ReadFlags(op.flags);
  const FloatPack<kSize> m = OperandOf(run, op, state);
  ForEach<kSize>([&](size_t k) __attribute__((always_inline)) {
    const FloatVector x = state.x.v[k];
    state.x.v[k] = flags.v[k] ? (kFlagged ? x : m.v[k]) : (kFlagged ? m.v[k] : x);
  });
}

// Runs an operation that writes bools.
template <typename Functions, int kSize>
[[gnu::always_inline]] inline void WriteComparison(const ChainRun<kSize>& run, const ChainOp& op,
                                                   const ChainState<kSize>& state) {
  using V = FloatVector;
  switch (op.fn) {
    case ChainFn::kEq:
      if constexpr (Functions::Has(FN_EQ)) Compare(run, op, state, [](V a, V m) { return a == m; });
      break;
    case ChainFn::kNe:
      if constexpr (Functions::Has(FN_NE)) Compare(run, op, state, [](V a, V m) { return a != m; });
      break;
    case ChainFn::kLt:
      if constexpr (Functions::Has(FN_LT)) Compare(run, op, state, [](V a, V m) { return a < m; });
      break;
    case ChainFn::kLe:
      if constexpr (Functions::Has(FN_LE)) Compare(run, op, state, [](V a, V m) { return a <= m; });
      break;
    case ChainFn::kGt:
      if constexpr (Functions::Has(FN_LT)) Compare(run, op, state, [](V a, V m) { return a > m; });
      break;
    case ChainFn::kGe:
      if constexpr (Functions::Has(FN_LE)) Compare(run, op, state, [](V a, V m) { return a >= m; });
      break;
    default:
      break;
  }
}

// Runs an operation with one operand, the accumulator.
template <typename Functions, int kSize>
[[gnu::always_inline]] inline void RunFunction(const ChainRun<kSize>& run, const ChainOp& op,
                                               ChainState<kSize>& state) {
  using V = FloatVector;
  switch (op.fn) {
    case ChainFn::kNeg:
      if constexpr (Functions::Has(FN_NEG)) Apply(state.x, [](V a) { return -a; });
      break;
    case ChainFn::kAbs:
      if constexpr (Functions::Has(FN_ABS)) Apply(state.x, [](V a) { return Abs(a); });
      break;
    case ChainFn::kRelu:
      if constexpr (Functions::Has(FN_RELU)) Apply(state.x, [](V a) { return AtLeast(0, a); });
      break;
    case ChainFn::kSqrt:
      if constexpr (Functions::Has(FN_SQRT)) Apply(state.x, [](V a) { return Sqrt(a); });
      break;
    case ChainFn::kRsqrt:
      if constexpr (Functions::Has(FN_RSQRT)) Apply(state.x, [](V a) { return 1.0f / Sqrt(a); });
      break;
    case ChainFn::kReciprocal:
      if constexpr (Functions::Has(FN_RECIPROCAL)) Apply(state.x, [](V a) { return 1.0f / a; });
      break;
    case ChainFn::kExp:
      if constexpr (Functions::Has(FN_EXP)) Apply(state.x, [](V a) { return Exp(a); });
      break;
    case ChainFn::kExpm1:
      if constexpr (Functions::Has(FN_EXPM1)) Apply(state.x, [](V a) { return Expm1(a); });
      break;
    case ChainFn::kLog:
      if constexpr (Functions::Has(FN_LOG)) Apply(state.x, [](V a) { return Log(a); });
      break;
    case ChainFn::kLog1p:
      if constexpr (Functions::Has(FN_LOG1P)) Apply(state.x, [](V a) { return Log1p(a); });
      break;
    case ChainFn::kTanh:
      if constexpr (Functions::Has(FN_TANH)) Apply(state.x, [](V a) { return Tanh(a); });
      break;
    case ChainFn::kErf:
      if constexpr (Functions::Has(FN_ERF)) Apply(state.x, [](V a) { return Erf(a); });
      break;
    case ChainFn::kLogistic:
      if constexpr (Functions::Has(FN_LOGISTIC)) Apply(state.x, [](V a) { return Logistic(a); });
      break;
    case ChainFn::kSquare:
      if constexpr (Functions::Has(FN_MUL)) Apply(state.x, [](V a) { return a * a; });
      break;
    default:
      WriteComparison<Functions>(run, op, state);
      break;
  }
}

// Runs the operations on one run of elements. A product is rounded before a sum, because they are different
// iterations.
template <typename Functions, int kSize>
[[gnu::always_inline]] inline void RunChain(const ChainOp* op, const ChainOp* end, const ChainRun<kSize>& run) {
  using V = FloatVector;
  ChainState<kSize> state;
  for (; op != end; ++op) {
    switch (op->fn) {
      case ChainFn::kLoad:
        Combine(run, *op, state, [](V, V m) { return m; });
        break;
      case ChainFn::kStore:
        run.Write(op->slot, state.x);
        break;
      case ChainFn::kSave:
        state.saved = state.x;
        break;
      case ChainFn::kAdd:
        if constexpr (Functions::Has(FN_ADD)) Combine(run, *op, state, [](V a, V m) { return a + m; });
        break;
      case ChainFn::kSub:
        if constexpr (Functions::Has(FN_SUB)) Combine(run, *op, state, [](V a, V m) { return a - m; });
        break;
      case ChainFn::kSubFrom:
        if constexpr (Functions::Has(FN_SUB)) Combine(run, *op, state, [](V a, V m) { return m - a; });
        break;
      case ChainFn::kMul:
        if constexpr (Functions::Has(FN_MUL)) Combine(run, *op, state, [](V a, V m) { return a * m; });
        break;
      case ChainFn::kDiv:
        if constexpr (Functions::Has(FN_DIV)) Combine(run, *op, state, [](V a, V m) { return a / m; });
        break;
      case ChainFn::kDivInto:
        if constexpr (Functions::Has(FN_DIV)) Combine(run, *op, state, [](V a, V m) { return m / a; });
        break;
      case ChainFn::kMaximum:
        if constexpr (Functions::Has(FN_MAXIMUM)) Combine(run, *op, state, [](V a, V m) { return (a > m) | (a != a) ? a : m; });
        break;
      case ChainFn::kMinimum:
        if constexpr (Functions::Has(FN_MINIMUM)) Combine(run, *op, state, [](V a, V m) { return (a < m) | (a != a) ? a : m; });
        break;
      case ChainFn::kThen:
        if constexpr (Functions::Has(FN_SELECT)) Select<true>(run, *op, state);
        break;
      case ChainFn::kElse:
        if constexpr (Functions::Has(FN_SELECT)) Select<false>(run, *op, state);
        break;
      default:
        RunFunction<Functions>(run, *op, state);
        break;
    }
  }
}

template <typename Functions>
__attribute__((noinline)) void Chain(const ChainOp* ops, int64_t num_ops, char* const* slots, int64_t n) {
  constexpr int64_t kStep = kChainVectors * kFloatLanes;
  const ChainOp* const end = ops + num_ops;
  int64_t at = 0;
  for (; at + kStep <= n; at += kStep) {
    RunChain<Functions>(ops, end, ChainRun<kChainVectors>{slots, at, kStep});
  }
  for (; at < n; at += kFloatLanes) {
    const int64_t rest = n - at < kFloatLanes ? n - at : kFloatLanes;
    RunChain<Functions>(ops, end, ChainRun<1>{slots, at, rest});
  }
}

// One function of one operand as a TileFn.
template <ChainFn kFn>
void MapChained(void* out, const void* a, const void*, const void*, int64_t n) {
  const ChainOp ops[] = {{.fn = ChainFn::kLoad, .slot = 1}, {.fn = kFn}, {.fn = ChainFn::kStore}};
  char* const slots[] = {static_cast<char*>(out), static_cast<char*>(const_cast<void*>(a))};
  Chain<OneFunction<kFn>>(ops, 3, slots, n);
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_CHAIN_H_
