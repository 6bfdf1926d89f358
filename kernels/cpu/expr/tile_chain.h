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

// Vectors of the accumulator: as many as leave registers for the operands of an operation.
#ifdef __AVX512F__
constexpr int kChainVectors = 8;
#else
constexpr int kChainVectors = 4;
#endif
// Elements by which a chain prefetches operands that are not in cache. The processor does not: all loads of a chain are
// the same few instructions, whose addresses have no pattern.
constexpr int64_t kPrefetchDistance = 512;
// Vectors of f32 in a cache line.
constexpr int kLineVectors = 64 / (4 * kFloatLanes);

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
      return Generate<FloatVector, kSize>([&](size_t k) __attribute__((always_inline)) {
        return LoadVector(from + k * kFloatLanes);
      });
    }
  }
  // Reads operand m. What is prefetched may be beyond the operand, which has no effect.
  [[gnu::always_inline]] Floats ReadOperand(const ChainOp& op) const {
    if (op.prefetch) {
      const float* const later = reinterpret_cast<const float*>(slots[op.slot]) + at + kPrefetchDistance;
      for (int k = 0; k < kSize; k += kLineVectors) __builtin_prefetch(later + k * kFloatLanes);
    }
    return Read(op.slot);
  }
  // Reads operand m, of bf16.
  [[gnu::always_inline]] Floats ReadBFloat16(const ChainOp& op) const {
    const auto* const from = reinterpret_cast<const uint16_t*>(slots[op.slot]) + at;
    if (op.prefetch) {
      const uint16_t* const later = from + kPrefetchDistance;
      for (int k = 0; k < kSize; k += 2 * kLineVectors) __builtin_prefetch(later + k * kFloatLanes);
    }
    return Generate<FloatVector, kSize>([&](size_t k) __attribute__((always_inline)) {
      HalfVector bits{};
      __builtin_memcpy(&bits, from + k * kFloatLanes, kSome ? static_cast<size_t>(n) * 2 : sizeof(bits));
      return WidenBFloat16(bits);
    });
  }
  [[gnu::always_inline]] void WriteBFloat16(uint16_t slot, Floats x) const {
    auto* const to = reinterpret_cast<uint16_t*>(slots[slot]) + at;
    ForEach<kSize>([&](size_t k) __attribute__((always_inline)) {
      const HalfVector bits = NarrowToBFloat16(x.v[k]);
      __builtin_memcpy(to + k * kFloatLanes, &bits, kSome ? static_cast<size_t>(n) * 2 : sizeof(bits));
    });
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
    const FloatPack<kSize> m = run.ReadOperand(op);
    ForEach<kSize>([&](size_t k) __attribute__((always_inline)) { x.v[k] = fn(x.v[k], m.v[k]); });
  } else if (op.source == ChainSource::kBFloat16) {
    const FloatPack<kSize> m = run.ReadBFloat16(op);
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
  if (op.source == ChainSource::kMemory) return run.ReadOperand(op);
  if (op.source == ChainSource::kBFloat16) return run.ReadBFloat16(op);
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
template <int kSize>
[[gnu::always_inline]] inline void WriteComparison(const ChainRun<kSize>& run, const ChainOp& op,
                                                   const ChainState<kSize>& state) {
  using V = FloatVector;
  switch (op.fn) {
    case ChainFn::kEq:
      Compare(run, op, state, [](V a, V m) { return a == m; });
      break;
    case ChainFn::kNe:
      Compare(run, op, state, [](V a, V m) { return a != m; });
      break;
    case ChainFn::kLt:
      Compare(run, op, state, [](V a, V m) { return a < m; });
      break;
    case ChainFn::kLe:
      Compare(run, op, state, [](V a, V m) { return a <= m; });
      break;
    case ChainFn::kGt:
      Compare(run, op, state, [](V a, V m) { return a > m; });
      break;
    case ChainFn::kGe:
      Compare(run, op, state, [](V a, V m) { return a >= m; });
      break;
    default:
      break;
  }
}

// Runs an operation with one operand, the accumulator.
template <int kSize>
[[gnu::always_inline]] inline void RunFunction(const ChainRun<kSize>& run, const ChainOp& op,
                                               ChainState<kSize>& state) {
  using V = FloatVector;
  switch (op.fn) {
    case ChainFn::kNeg:
      Apply(state.x, [](V a) { return -a; });
      break;
    case ChainFn::kAbs:
      Apply(state.x, [](V a) { return Abs(a); });
      break;
    case ChainFn::kRelu:
      Apply(state.x, [](V a) { return AtLeast(0, a); });
      break;
    case ChainFn::kSqrt:
      Apply(state.x, [](V a) { return Sqrt(a); });
      break;
    case ChainFn::kRsqrt:
      Apply(state.x, [](V a) { return 1.0f / Sqrt(a); });
      break;
    case ChainFn::kReciprocal:
      Apply(state.x, [](V a) { return 1.0f / a; });
      break;
    case ChainFn::kExp:
      Apply(state.x, [](V a) { return Exp(a); });
      break;
    case ChainFn::kExpm1:
      Apply(state.x, [](V a) { return Expm1(a); });
      break;
    case ChainFn::kLog:
      Apply(state.x, [](V a) { return Log(a); });
      break;
    case ChainFn::kLog1p:
      Apply(state.x, [](V a) { return Log1p(a); });
      break;
    case ChainFn::kTanh:
      Apply(state.x, [](V a) { return Tanh(a); });
      break;
    case ChainFn::kErf:
      Apply(state.x, [](V a) { return Erf(a); });
      break;
    case ChainFn::kLogistic:
      Apply(state.x, [](V a) { return Logistic(a); });
      break;
    case ChainFn::kSquare:
      Apply(state.x, [](V a) { return a * a; });
      break;
    case ChainFn::kRoundToBFloat16:
      Apply(state.x, [](V a) { return RoundToBFloat16(a); });
      break;
    default:
      WriteComparison(run, op, state);
      break;
  }
}

// Runs the operations on one run of elements. A product is rounded before a sum, because they are different
// iterations.
template <int kSize>
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
      case ChainFn::kStoreBFloat16:
        run.WriteBFloat16(op->slot, state.x);
        break;
      case ChainFn::kSave:
        state.saved = state.x;
        break;
      case ChainFn::kAdd:
        Combine(run, *op, state, [](V a, V m) { return a + m; });
        break;
      case ChainFn::kSub:
        Combine(run, *op, state, [](V a, V m) { return a - m; });
        break;
      case ChainFn::kSubFrom:
        Combine(run, *op, state, [](V a, V m) { return m - a; });
        break;
      case ChainFn::kMul:
        Combine(run, *op, state, [](V a, V m) { return a * m; });
        break;
      case ChainFn::kDiv:
        Combine(run, *op, state, [](V a, V m) { return a / m; });
        break;
      case ChainFn::kDivInto:
        Combine(run, *op, state, [](V a, V m) { return m / a; });
        break;
      case ChainFn::kMaximum:
        Combine(run, *op, state, [](V a, V m) { return (a > m) | (a != a) ? a : m; });
        break;
      case ChainFn::kMinimum:
        Combine(run, *op, state, [](V a, V m) { return (a < m) | (a != a) ? a : m; });
        break;
      case ChainFn::kThen:
        Select<true>(run, *op, state);
        break;
      case ChainFn::kElse:
        Select<false>(run, *op, state);
        break;
      default:
        RunFunction(run, *op, state);
        break;
    }
  }
}

[[maybe_unused]] void Chain(const ChainOp* ops, int64_t num_ops, char* const* slots, int64_t n) {
  constexpr int64_t kStep = kChainVectors * kFloatLanes;
  const ChainOp* const end = ops + num_ops;
  int64_t at = 0;
  for (; at + kStep <= n; at += kStep) {
    RunChain(ops, end, ChainRun<kChainVectors>{slots, at, kStep});
  }
  for (; at < n; at += kFloatLanes) {
    const int64_t rest = n - at < kFloatLanes ? n - at : kFloatLanes;
    RunChain(ops, end, ChainRun<1>{slots, at, rest});
  }
}

// A function of one operand as a TileFn.
template <FloatVector (*kFn)(FloatVector)>
void MapVectors(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* const to = static_cast<float*>(out);
  const auto* const from = static_cast<const float*>(a);
  int64_t i = 0;
  for (; i + kFloatLanes <= n; i += kFloatLanes) StoreVector(to + i, kFn(LoadVector(from + i)));
  if (i < n) StoreSome(to + i, kFn(LoadSome(from + i, n - i)), n - i);
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_CHAIN_H_
