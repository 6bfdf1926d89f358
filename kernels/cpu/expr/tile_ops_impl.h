// SPDX-License-Identifier: Apache-2.0

// The bodies of TileOps: plain loops that the compiler vectorizes for the instruction set of the including
// file. Each of tile_ops_{generic,avx2,avx512}.cc includes this file once. Everything here, in
// tile_functions.h and in tile_math.h has internal linkage, and no inline function of another header is
// called: otherwise the linker could select a copy compiled for a newer processor for the rest of the
// program.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_OPS_IMPL_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_OPS_IMPL_H_

#include "kernels/cpu/expr/tile_functions.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// --- Loops -----------------------------------------------------------------

template <typename Fn, typename T>
void Map1(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* o = static_cast<decltype(Fn::Do(T{}))*>(out);
  const auto* x = static_cast<const T*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = Fn::Do(x[i]);
}

template <typename Fn, typename T, int kScalars>
void Map2(void* out, const void* a, const void* b, const void*, int64_t n) {
  auto* o = static_cast<decltype(Fn::Do(T{}, T{}))*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  if constexpr (kScalars == 1) {
    const T s = x[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = Fn::Do(s, y[i]);
  } else if constexpr (kScalars == 2) {
    const T s = y[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = Fn::Do(x[i], s);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = Fn::Do(x[i], y[i]);
  }
}

template <Contraction kContraction, typename T, bool kScalarA, bool kScalarC>
void Contract(void* out, const void* a, const void* b, const void* c, int64_t n) {
  auto* o = static_cast<T*>(out);
  const auto* x = static_cast<const T*>(a);
  const auto* y = static_cast<const T*>(b);
  const auto* z = static_cast<const T*>(c);
  const T scalar_a = x[0];
  const T scalar_c = z[0];
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) {
    const T product = (kScalarA ? scalar_a : x[i]) * y[i];
    const T term = kScalarC ? scalar_c : z[i];
    if constexpr (kContraction == Contraction::kMulAdd) o[i] = product + term;
    if constexpr (kContraction == Contraction::kMulSub) o[i] = product - term;
    if constexpr (kContraction == Contraction::kSubMul) o[i] = term - product;
  }
}

// T is an unsigned type of the values' size: a select only moves bits.
template <typename T, int kScalars>
void Select(void* out, const void* a, const void* b, const void* c, int64_t n) {
  auto* o = static_cast<T*>(out);
  const auto* condition = static_cast<const uint8_t*>(a);
  const auto* x = static_cast<const T*>(b);
  const auto* y = static_cast<const T*>(c);
  if constexpr (kScalars == 2) {
    const T s = x[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = condition[i] != 0 ? s : y[i];
  } else if constexpr (kScalars == 4) {
    const T s = y[0];
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) o[i] = condition[i] != 0 ? x[i] : s;
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
      const T then = x[i];
      const T otherwise = y[i];
      o[i] = condition[i] != 0 ? then : otherwise;
    }
  }
}

// Computes sin or cos. If an argument of the run is too large for fast reduction, the whole run uses libm.
template <typename Fn, float (*kLibm)(float)>
void Trig(void* out, const void* a, const void* b, const void* c, int64_t n) {
  const auto* x = static_cast<const float*>(a);
  int32_t large = 0;
  for (int64_t i = 0; i < n; ++i) large |= __builtin_fabsf(x[i]) < kMaxTrigArgument ? 0 : 1;
  if (large == 0) return Map1<Fn, float>(out, a, b, c, n);
  auto* o = static_cast<float*>(out);
  for (int64_t i = 0; i < n; ++i) o[i] = kLibm(x[i]);
}

struct RoundToBFloat16Fn {
  static float Do(float x) { return RoundToBFloat16(x); }
};
struct RoundToFloat16Fn {
  static float Do(float x) { return RoundToFloat16(x); }
};

TileFn FindRound(DType dtype) {
  if (dtype == DType::kBFloat16) return Map1<RoundToBFloat16Fn, float>;
  if (dtype == DType::kFloat16) return Map1<RoundToFloat16Fn, float>;
  return nullptr;
}

// --- Lookup ----------------------------------------------------------------

// Forms with one scalar operand exist for the common float functions.
template <typename Fn, typename T>
TileFn Find2(int scalars) {
  if (scalars == 0) return Map2<Fn, T, 0>;
  if constexpr (kIsFloat<T>) {
    if (scalars == 1) return Map2<Fn, T, 1>;
    if (scalars == 2) return Map2<Fn, T, 2>;
  }
  return nullptr;
}

template <Contraction kContraction, typename T>
TileFn FindContraction(int scalars) {
  switch (scalars) {
    case 0:
      return Contract<kContraction, T, false, false>;
    case 1:
      return Contract<kContraction, T, true, false>;
    case 4:
      return Contract<kContraction, T, false, true>;
    case 5:
      return Contract<kContraction, T, true, true>;
    default:
      return nullptr;
  }
}

template <typename T>
TileFn FindContraction(Contraction contraction, int scalars) {
  switch (contraction) {
    case Contraction::kNone:
      return nullptr;
    case Contraction::kMulAdd:
      return FindContraction<Contraction::kMulAdd, T>(scalars);
    case Contraction::kMulSub:
      return FindContraction<Contraction::kMulSub, T>(scalars);
    case Contraction::kSubMul:
      return FindContraction<Contraction::kSubMul, T>(scalars);
  }
  return nullptr;
}

TileFn FindContraction(Contraction contraction, DType dtype, int scalars) {
  if (dtype == DType::kFloat32) return FindContraction<float>(contraction, scalars);
  if (dtype == DType::kFloat64) return FindContraction<double>(contraction, scalars);
  return nullptr;
}

// Comparisons and min/max of any type.
template <typename T>
TileFn FindOrder(ScalarFn fn, int scalars) {
  switch (fn) {
    case FN_EQ:
      return Find2<EqFn, T>(scalars);
    case FN_NE:
      return Find2<NeFn, T>(scalars);
    case FN_LT:
      return Find2<LtFn, T>(scalars);
    case FN_LE:
      return Find2<LeFn, T>(scalars);
    case FN_MAXIMUM:
      return Find2<MaximumFn, T>(scalars);
    case FN_MINIMUM:
      return Find2<MinimumFn, T>(scalars);
    default:
      return nullptr;
  }
}

TileFn FindBool(ScalarFn fn, int scalars) {
  if (scalars != 0) return nullptr;
  switch (fn) {
    case FN_LOGICAL_NOT:
    case FN_BITWISE_NOT:
      return Map1<BitwiseNotFn, Bool>;
    case FN_ADD:
    case FN_OR:
      return Map2<OrFn, Bool, 0>;
    case FN_MUL:
    case FN_AND:
      return Map2<AndFn, Bool, 0>;
    case FN_XOR:
      return Map2<XorFn, Bool, 0>;
    default:
      return FindOrder<uint8_t>(fn, scalars);
  }
}

template <typename T>
TileFn FindFloat1(ScalarFn fn) {
  switch (fn) {
    case FN_NEG:
      return Map1<NegFn, T>;
    case FN_ABS:
      return Map1<AbsFn, T>;
    case FN_SIGN:
      return Map1<SignFn, T>;
    case FN_CEIL:
      return Map1<CeilFn, T>;
    case FN_FLOOR:
      return Map1<FloorFn, T>;
    case FN_ROUND:
      return Map1<RoundFn, T>;
    case FN_TRUNC:
      return Map1<TruncFn, T>;
    case FN_SQRT:
      return Map1<SqrtFn, T>;
    case FN_RSQRT:
      return Map1<RsqrtFn, T>;
    case FN_RECIPROCAL:
      return Map1<ReciprocalFn, T>;
    case FN_EXP:
      return Map1<ExpFn, T>;
    case FN_EXP2:
      return Map1<Exp2Fn, T>;
    case FN_EXPM1:
      return Map1<Expm1Fn, T>;
    case FN_LOG:
      return Map1<LogFn, T>;
    case FN_LOG2:
      return Map1<Log2Fn, T>;
    case FN_LOG10:
      return Map1<Log10Fn, T>;
    case FN_LOG1P:
      return Map1<Log1pFn, T>;
    case FN_TAN:
      return Map1<TanFn, T>;
    case FN_ASIN:
      return Map1<AsinFn, T>;
    case FN_ACOS:
      return Map1<AcosFn, T>;
    case FN_ATAN:
      return Map1<AtanFn, T>;
    case FN_SINH:
      return Map1<SinhFn, T>;
    case FN_COSH:
      return Map1<CoshFn, T>;
    case FN_TANH:
      return Map1<TanhFn, T>;
    case FN_ASINH:
      return Map1<AsinhFn, T>;
    case FN_ACOSH:
      return Map1<AcoshFn, T>;
    case FN_ATANH:
      return Map1<AtanhFn, T>;
    case FN_ERF:
      return Map1<ErfFn, T>;
    case FN_ERFC:
      return Map1<ErfcFn, T>;
    case FN_ERFINV:
      return Map1<ErfInvFn, T>;
    case FN_LGAMMA:
      return Map1<LgammaFn, T>;
    case FN_DIGAMMA:
      return Map1<DigammaFn, T>;
    case FN_LOGISTIC:
      return Map1<LogisticFn, T>;
    case FN_ISNAN:
      return Map1<IsNanFn, T>;
    case FN_ISINF:
      return Map1<IsInfFn, T>;
    case FN_RELU:
      return Map1<ReluFn, T>;
    default:
      return nullptr;
  }
}

template <typename T>
TileFn FindFloat2(ScalarFn fn, int scalars) {
  switch (fn) {
    case FN_ADD:
      return Find2<AddFn, T>(scalars);
    case FN_SUB:
      return Find2<SubFn, T>(scalars);
    case FN_MUL:
      return Find2<MulFn, T>(scalars);
    case FN_DIV:
      return Find2<DivFn, T>(scalars);
    default:
      break;
  }
  if (TileFn order = FindOrder<T>(fn, scalars)) return order;
  if (scalars != 0) return nullptr;
  switch (fn) {
    case FN_FLOOR_DIV:
      return Map2<FloorDivFn, T, 0>;
    case FN_TRUNC_DIV:
      return Map2<TruncDivFn, T, 0>;
    case FN_REMAINDER:
      return Map2<RemainderFn, T, 0>;
    case FN_FMOD:
      return Map2<FmodFn, T, 0>;
    case FN_POW:
      return Map2<PowFn, T, 0>;
    case FN_FMAX:
      return Map2<FmaxFn, T, 0>;
    case FN_FMIN:
      return Map2<FminFn, T, 0>;
    case FN_ATAN2:
      return Map2<Atan2Fn, T, 0>;
    case FN_HYPOT:
      return Map2<HypotFn, T, 0>;
    case FN_COPYSIGN:
      return Map2<CopySignFn, T, 0>;
    default:
      return nullptr;
  }
}

template <typename T>
TileFn FindInteger(ScalarFn fn, int scalars) {
  if (scalars != 0) return nullptr;
  switch (fn) {
    case FN_NEG:
      return Map1<NegFn, T>;
    case FN_ABS:
      return Map1<AbsFn, T>;
    case FN_SIGN:
      return Map1<SignFn, T>;
    case FN_RELU:
      return Map1<ReluFn, T>;
    case FN_BITWISE_NOT:
      return Map1<BitwiseNotFn, T>;
    case FN_ADD:
      return Map2<AddFn, T, 0>;
    case FN_SUB:
      return Map2<SubFn, T, 0>;
    case FN_MUL:
      return Map2<MulFn, T, 0>;
    case FN_FLOOR_DIV:
      return Map2<FloorDivFn, T, 0>;
    case FN_TRUNC_DIV:
      return Map2<TruncDivFn, T, 0>;
    case FN_REMAINDER:
      return Map2<RemainderFn, T, 0>;
    case FN_FMOD:
      return Map2<FmodFn, T, 0>;
    case FN_POW:
      return Map2<PowFn, T, 0>;
    case FN_AND:
      return Map2<AndFn, T, 0>;
    case FN_OR:
      return Map2<OrFn, T, 0>;
    case FN_XOR:
      return Map2<XorFn, T, 0>;
    case FN_SHIFT_LEFT:
      return Map2<ShiftLeftFn, T, 0>;
    case FN_SHIFT_RIGHT:
      return Map2<ShiftRightFn, T, 0>;
    default:
      return FindOrder<T>(fn, scalars);
  }
}

TileFn FindSelect(DType dtype, int scalars) {
  const bool f32 = dtype == DType::kFloat32;
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return scalars == 0 ? Select<uint8_t, 0> : nullptr;
    case DType::kInt16:
      return scalars == 0 ? Select<uint16_t, 0> : nullptr;
    case DType::kInt32:
    case DType::kFloat32:
      if (f32 && scalars == 2) return Select<uint32_t, 2>;
      if (f32 && scalars == 4) return Select<uint32_t, 4>;
      return scalars == 0 ? Select<uint32_t, 0> : nullptr;
    default:
      return scalars == 0 ? Select<uint64_t, 0> : nullptr;
  }
}

TileFn Find(ScalarFn fn, DType dtype, int scalars) {
  if (fn == FN_SELECT) return FindSelect(dtype, scalars);
  switch (dtype) {
    case DType::kBool:
      return FindBool(fn, scalars);
    case DType::kUInt8:
      return FindInteger<uint8_t>(fn, scalars);
    case DType::kInt8:
      return FindInteger<int8_t>(fn, scalars);
    case DType::kInt16:
      return FindInteger<int16_t>(fn, scalars);
    case DType::kInt32:
      return FindInteger<int32_t>(fn, scalars);
    case DType::kInt64:
      return FindInteger<int64_t>(fn, scalars);
    case DType::kFloat32:
      if (fn == FN_SIN) return scalars == 0 ? Trig<SinFn, ::sinf> : nullptr;
      if (fn == FN_COS) return scalars == 0 ? Trig<CosFn, ::cosf> : nullptr;
      if (fn < FN_ADD) return scalars == 0 ? FindFloat1<float>(fn) : nullptr;
      return FindFloat2<float>(fn, scalars);
    case DType::kFloat64:
      if (fn == FN_SIN) return scalars == 0 ? Map1<FloatFn<::sinf, ::sin>, double> : nullptr;
      if (fn == FN_COS) return scalars == 0 ? Map1<FloatFn<::cosf, ::cos>, double> : nullptr;
      if (fn < FN_ADD) return scalars == 0 ? FindFloat1<double>(fn) : nullptr;
      return FindFloat2<double>(fn, scalars);
    default:
      return nullptr;
  }
}

// --- Casts -----------------------------------------------------------------

template <typename To, typename From>
To Convert(From x) {
  if constexpr (kIsBool<To>) {
    return static_cast<Bool>(x != From{0});
  } else if constexpr (kIsFloat<From> && !kIsFloat<To> && sizeof(To) < 4) {
    // Through int64, so that values wrap around as in ATen.
    return static_cast<To>(static_cast<int64_t>(x));
  } else {
    return static_cast<To>(x);
  }
}

template <typename To, typename From>
void CastLoop(void* out, const void* a, const void*, const void*, int64_t n) {
  auto* o = static_cast<To*>(out);
  const auto* x = static_cast<const From*>(a);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = Convert<To, From>(x[i]);
}

template <typename From>
TileFn FindCastFrom(DType to) {
  switch (to) {
    case DType::kBool:
      return CastLoop<Bool, From>;
    case DType::kUInt8:
      return CastLoop<uint8_t, From>;
    case DType::kInt8:
      return CastLoop<int8_t, From>;
    case DType::kInt16:
      return CastLoop<int16_t, From>;
    case DType::kInt32:
      return CastLoop<int32_t, From>;
    case DType::kInt64:
      return CastLoop<int64_t, From>;
    case DType::kFloat32:
      return CastLoop<float, From>;
    case DType::kFloat64:
      return CastLoop<double, From>;
    default:
      return nullptr;
  }
}

TileFn FindCast(DType from, DType to) {
  switch (from) {
    case DType::kBool:
    case DType::kUInt8:
      return FindCastFrom<uint8_t>(to);
    case DType::kInt8:
      return FindCastFrom<int8_t>(to);
    case DType::kInt16:
      return FindCastFrom<int16_t>(to);
    case DType::kInt32:
      return FindCastFrom<int32_t>(to);
    case DType::kInt64:
      return FindCastFrom<int64_t>(to);
    case DType::kFloat32:
      return FindCastFrom<float>(to);
    case DType::kFloat64:
      return FindCastFrom<double>(to);
    default:
      return nullptr;
  }
}

// --- Memory ----------------------------------------------------------------

struct SameBits {
  template <typename T>
  static T Do(T x) {
    return x;
  }
};
struct BFloat16Load {
  static float Do(uint16_t x) { return BFloat16BitsToFloat(x); }
};
struct BFloat16Store {
  static uint16_t Do(float x) { return FloatToBFloat16Bits(x); }
};
struct Float16Load {
  static float Do(uint16_t x) { return Float16BitsToFloat(x); }
};
struct Float16Store {
  static uint16_t Do(float x) { return FloatToFloat16Bits(x); }
};

template <typename Fn, typename From>
void Load(void* to, const void* from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  auto* out = static_cast<decltype(Fn::Do(From{}))*>(to);
  const auto* in = static_cast<const From*>(from);
  for (int64_t r = 0; r < rows; ++r, out += cols, in += row_stride) {
    if (col_stride == 1) {
#pragma GCC ivdep
      for (int64_t c = 0; c < cols; ++c) out[c] = Fn::Do(in[c]);
    } else if (col_stride == 0) {
      const auto value = Fn::Do(in[0]);
      for (int64_t c = 0; c < cols; ++c) out[c] = value;
    } else {
      for (int64_t c = 0; c < cols; ++c) out[c] = Fn::Do(in[c * col_stride]);
    }
  }
}

template <typename Fn, typename From>
void Store(void* to, const void* from, int64_t rows, int64_t cols, int64_t row_stride, int64_t col_stride) {
  auto* out = static_cast<decltype(Fn::Do(From{}))*>(to);
  const auto* in = static_cast<const From*>(from);
  for (int64_t r = 0; r < rows; ++r, out += row_stride, in += cols) {
    if (col_stride == 1) {
#pragma GCC ivdep
      for (int64_t c = 0; c < cols; ++c) out[c] = Fn::Do(in[c]);
    } else {
      for (int64_t c = 0; c < cols; ++c) out[c * col_stride] = Fn::Do(in[c]);
    }
  }
}

CopyFn FindLoad(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return Load<BFloat16Load, uint16_t>;
    case DType::kFloat16:
      return Load<Float16Load, uint16_t>;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return Load<SameBits, uint8_t>;
    case DType::kInt16:
      return Load<SameBits, uint16_t>;
    case DType::kInt32:
    case DType::kFloat32:
      return Load<SameBits, uint32_t>;
    default:
      return Load<SameBits, uint64_t>;
  }
}

CopyFn FindStore(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return Store<BFloat16Store, float>;
    case DType::kFloat16:
      return Store<Float16Store, float>;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
      return Store<SameBits, uint8_t>;
    case DType::kInt16:
      return Store<SameBits, uint16_t>;
    case DType::kInt32:
    case DType::kFloat32:
      return Store<SameBits, uint32_t>;
    default:
      return Store<SameBits, uint64_t>;
  }
}

// --- Reductions ------------------------------------------------------------

// The type of a total: double for f32.
template <typename T>
struct TotalOf {
  using Type = T;
};
template <>
struct TotalOf<float> {
  using Type = double;
};

template <typename T>
struct SumOf {
  using Value = T;
  using Total = typename TotalOf<T>::Type;
  static constexpr Total kStart = 0;
  template <typename V>
  static V Step(V a, V b) {
    return a + b;
  }
};
template <typename T>
struct ProdOf {
  using Value = T;
  using Total = typename TotalOf<T>::Type;
  static constexpr Total kStart = 1;
  template <typename V>
  static V Step(V a, V b) {
    return a * b;
  }
};

template <typename T>
inline constexpr T kLowest = static_cast<T>(-1) < 0 ? static_cast<T>(T{1} << (kBits<T> - 1)) : T{0};
template <>
inline constexpr float kLowest<float> = -__builtin_inff();
template <>
inline constexpr double kLowest<double> = -__builtin_inf();
template <typename T>
inline constexpr T kHighest = static_cast<T>(~kLowest<T>);
template <>
inline constexpr float kHighest<float> = __builtin_inff();
template <>
inline constexpr double kHighest<double> = __builtin_inf();

template <typename T>
struct MaxOf {
  using Value = T;
  using Total = T;
  static constexpr Total kStart = kLowest<T>;
  template <typename V>
  static V Step(V a, V b) {
    return (b > a) | (b != b) ? b : a;
  }
};
template <typename T>
struct MinOf {
  using Value = T;
  using Total = T;
  static constexpr Total kStart = kHighest<T>;
  template <typename V>
  static V Step(V a, V b) {
    return (b < a) | (b != b) ? b : a;
  }
};
// any and all: bools are 0 and 1 in u8.
struct AnyOf : MaxOf<uint8_t> {
  static constexpr Total kStart = 0;
};
struct AllOf : MinOf<uint8_t> {
  static constexpr Total kStart = 1;
};

// Reduces a run of n elements. Sums and products of f32 within a tile stay in f32: a tile has at most
// kMaxTile elements, spread over many partial results.
template <typename Op>
typename Op::Value ReduceRun(const typename Op::Value* x, int64_t n) {
  using T = typename Op::Value;
  typedef T Vector __attribute__((vector_size(64)));
  constexpr int64_t kLanes = static_cast<int64_t>(64 / sizeof(T));
  const auto load = [](const T* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof(v));
    return v;
  };
  int64_t i = 0;
  T result = static_cast<T>(Op::kStart);
  if (n >= kLanes) {
    Vector total = load(x);
    i = kLanes;
    if (n >= 4 * kLanes) {
      Vector t1 = load(x + kLanes);
      Vector t2 = load(x + 2 * kLanes);
      Vector t3 = load(x + 3 * kLanes);
      for (i = 4 * kLanes; i + 4 * kLanes <= n; i += 4 * kLanes) {
        total = Op::Step(total, load(x + i));
        t1 = Op::Step(t1, load(x + i + kLanes));
        t2 = Op::Step(t2, load(x + i + 2 * kLanes));
        t3 = Op::Step(t3, load(x + i + 3 * kLanes));
      }
      total = Op::Step(Op::Step(total, t1), Op::Step(t2, t3));
    }
    for (; i + kLanes <= n; i += kLanes) total = Op::Step(total, load(x + i));
    T lanes[kLanes];
    __builtin_memcpy(lanes, &total, sizeof(lanes));
    for (int64_t width = kLanes / 2; width > 0; width /= 2) {
      for (int64_t k = 0; k < width; ++k) lanes[k] = static_cast<T>(Op::Step(lanes[k], lanes[k + width]));
    }
    result = lanes[0];
  }
  for (; i < n; ++i) result = static_cast<T>(Op::Step(result, x[i]));
  return result;
}

template <typename Op>
void ReduceInit(void* total, int64_t width) {
  auto* t = static_cast<typename Op::Total*>(total);
  for (int64_t i = 0; i < width; ++i) t[i] = Op::kStart;
}

template <typename Op>
void ReduceRows(void* total, const void* tile, int64_t rows, int64_t cols) {
  using Total = typename Op::Total;
  auto* t = static_cast<Total*>(total);
  const auto* x = static_cast<const typename Op::Value*>(tile);
  for (int64_t r = 0; r < rows; ++r, x += cols) {
    t[r] = static_cast<Total>(Op::Step(t[r], static_cast<Total>(ReduceRun<Op>(x, cols))));
  }
}

template <typename Op>
void ReduceCols(void* total, const void* tile, int64_t rows, int64_t cols) {
  using T = typename Op::Value;
  using Total = typename Op::Total;
  auto* t = static_cast<Total*>(total);
  const auto* x = static_cast<const T*>(tile);
  // With few columns, several rows are processed at once as one longer row.
  int64_t stacked = cols < 64 ? 64 / cols + 1 : 1;
  if (stacked > rows) stacked = rows;
  const int64_t width = stacked * cols;
  T partial[kMaxTile];
  for (int64_t c = 0; c < width; ++c) partial[c] = x[c];
  int64_t r = stacked;
  for (; r + stacked <= rows; r += stacked) {
    const T* row = x + r * cols;
#pragma GCC ivdep
    for (int64_t c = 0; c < width; ++c) partial[c] = static_cast<T>(Op::Step(partial[c], row[c]));
  }
  for (int64_t c = cols; c < width; ++c) {
    partial[c % cols] = static_cast<T>(Op::Step(partial[c % cols], partial[c]));
  }
  for (; r < rows; ++r) {
    const T* row = x + r * cols;
    for (int64_t c = 0; c < cols; ++c) partial[c] = static_cast<T>(Op::Step(partial[c], row[c]));
  }
#pragma GCC ivdep
  for (int64_t c = 0; c < cols; ++c) t[c] = static_cast<Total>(Op::Step(t[c], static_cast<Total>(partial[c])));
}

template <typename Op>
void ReduceCombine(void* total, const void* other, int64_t width) {
  using Total = typename Op::Total;
  auto* t = static_cast<Total*>(total);
  const auto* o = static_cast<const Total*>(other);
  for (int64_t i = 0; i < width; ++i) t[i] = static_cast<Total>(Op::Step(t[i], o[i]));
}

template <typename Op>
void ReduceFinish(void* out, const void* total, int64_t width) {
  auto* o = static_cast<typename Op::Value*>(out);
  const auto* t = static_cast<const typename Op::Total*>(total);
  for (int64_t i = 0; i < width; ++i) o[i] = static_cast<typename Op::Value>(t[i]);
}

template <typename Op>
ReduceFns MakeReduce() {
  return {sizeof(typename Op::Total), ReduceInit<Op>,  ReduceRows<Op>, ReduceCols<Op>,
          ReduceCombine<Op>,          ReduceFinish<Op>};
}

template <typename T>
ReduceFns FindReduceOf(ScalarFn fn) {
  switch (fn) {
    case FN_REDUCE_PROD:
      return MakeReduce<ProdOf<T>>();
    case FN_REDUCE_MAX:
      return MakeReduce<MaxOf<T>>();
    case FN_REDUCE_MIN:
      return MakeReduce<MinOf<T>>();
    default:
      return MakeReduce<SumOf<T>>();
  }
}

ReduceFns FindReduce(ScalarFn fn, DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return fn == FN_REDUCE_SUM || fn == FN_REDUCE_MAX ? MakeReduce<AnyOf>() : MakeReduce<AllOf>();
    case DType::kUInt8:
      return FindReduceOf<uint8_t>(fn);
    case DType::kInt8:
      return FindReduceOf<int8_t>(fn);
    case DType::kInt16:
      return FindReduceOf<int16_t>(fn);
    case DType::kInt32:
      return FindReduceOf<int32_t>(fn);
    case DType::kInt64:
      return FindReduceOf<int64_t>(fn);
    case DType::kFloat32:
      return FindReduceOf<float>(fn);
    default:
      return FindReduceOf<double>(fn);
  }
}

// --- Random numbers (see base/philox.h) -------------------------------------

// Computes 16 blocks at once: lane k of block first + i is written to out[4 * i + k].
inline void Philox16(uint64_t seed, uint64_t first, float* out) {
  uint32_t c0[16], c1[16], c2[16], c3[16];
  for (uint32_t i = 0; i < 16; ++i) {
    c0[i] = static_cast<uint32_t>(first + i);
    c1[i] = static_cast<uint32_t>((first + i) >> 32);
    c2[i] = 0;
    c3[i] = 0;
  }
  auto k0 = static_cast<uint32_t>(seed);
  auto k1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 16; ++i) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c0[i];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c2[i];
      c0[i] = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = static_cast<uint32_t>(p1);
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  const auto uniform = [](uint32_t bits) { return static_cast<float>(static_cast<int32_t>(bits >> 8)) * 0x1p-24f; };
  for (int i = 0; i < 16; ++i) {
    out[4 * i] = uniform(c0[i]);
    out[4 * i + 1] = uniform(c1[i]);
    out[4 * i + 2] = uniform(c2[i]);
    out[4 * i + 3] = uniform(c3[i]);
  }
}

void RandomRun(float* out, uint64_t seed, uint64_t first_block, int64_t index, int64_t n) {
  float draws[64];
  uint64_t block = first_block + static_cast<uint64_t>(index / 4);
  int64_t skip = index % 4;
  while (n > 0) {
    if (skip == 0 && n >= 64) {
      Philox16(seed, block, out);
      out += 64;
      n -= 64;
    } else {
      Philox16(seed, block, draws);
      const int64_t count = n < 64 - skip ? n : 64 - skip;
      for (int64_t i = 0; i < count; ++i) out[i] = draws[skip + i];
      out += count;
      n -= count;
      skip = 0;
    }
    block += 16;
  }
}

void Random(float* out, const RandomRequest& request) {
  for (int64_t r = 0; r < request.rows; ++r, out += request.cols) {
    const int64_t start = request.index + r * request.row_stride;
    if (request.col_stride == 1) {
      RandomRun(out, request.seed, request.first_block, start, request.cols);
      continue;
    }
    for (int64_t c = 0; c < request.cols; ++c) {
      RandomRun(out + c, request.seed, request.first_block, start + c * request.col_stride, 1);
    }
  }
}

TileOps MakeTileOps(const char* name) {
  return {name, Find, FindContraction, FindCast, FindRound, FindLoad, FindStore, FindReduce, Random};
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_OPS_IMPL_H_
