// SPDX-License-Identifier: Apache-2.0

// The bodies of TileOps: plain loops that the compiler vectorizes for the instruction set of the including
// file. Each of tile_ops_{generic,avx2,avx512}.cc includes this file once. This file has the loops of pointwise
// functions and their lookup; tile_chain.h, tile_copy.h, tile_reduce.h and tile_random.h have the other loops.
// Everything in these files, tile_functions.h, tile_math.h and tile_vector_math.h has internal linkage, and no
// inline function of another header is called, except intrinsics, which are always inlined: otherwise the
// linker could select a copy compiled for a newer processor for the rest of the program.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_OPS_IMPL_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_OPS_IMPL_H_

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/expr/tile_chain.h"
#include "kernels/cpu/expr/tile_copy.h"
#include "kernels/cpu/expr/tile_functions.h"
#include "kernels/cpu/expr/tile_ops.h"
#include "kernels/cpu/expr/tile_random.h"
#include "kernels/cpu/expr/tile_reduce.h"

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

// Rounds the product before the sum, as two passes over the tile would: the bits of a value must not depend on whether
// a program stores the product. GCC would use fused instructions; clang does so only within one expression.
template <Contraction kContraction, typename T, bool kScalarA, bool kScalarC>
__attribute__((optimize("fp-contract=off"))) void Contract(void* out, const void* a, const void* b, const void* c,
                                                           int64_t n) {
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

struct RoundToFloat8E4m3fnFn {
  static float Do(float x) { return RoundToFloat8E4m3fn(x); }
};
struct RoundToFloat8E5m2Fn {
  static float Do(float x) { return RoundToFloat8E5m2(x); }
};

constexpr TileFn FindRound(DType dtype) {
  if (dtype == DType::kBFloat16) return Map1<RoundToBFloat16Fn, float>;
  if (dtype == DType::kFloat16) return Map1<RoundToFloat16Fn, float>;
  if (dtype == DType::kFloat8E4m3fn) return Map1<RoundToFloat8E4m3fnFn, float>;
  if (dtype == DType::kFloat8E5m2) return Map1<RoundToFloat8E5m2Fn, float>;
  return nullptr;
}

// --- Lookup ----------------------------------------------------------------
// Lookups are constexpr so that selected_tile_ops.h can link single loops.

// Forms with one scalar operand exist for the common float functions.
template <typename Fn, typename T>
constexpr TileFn Find2(int scalars) {
  if (scalars == 0) return Map2<Fn, T, 0>;
  if constexpr (kIsFloat<T>) {
    if (scalars == 1) return Map2<Fn, T, 1>;
    if (scalars == 2) return Map2<Fn, T, 2>;
  }
  return nullptr;
}

template <Contraction kContraction, typename T>
constexpr TileFn FindContraction(int scalars) {
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
constexpr TileFn FindContraction(Contraction contraction, int scalars) {
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

constexpr TileFn FindContraction(Contraction contraction, DType dtype, int scalars) {
  if (dtype == DType::kFloat32) return FindContraction<float>(contraction, scalars);
  if (dtype == DType::kFloat64) return FindContraction<double>(contraction, scalars);
  return nullptr;
}

// Comparisons and min/max of any type.
template <typename T>
constexpr TileFn FindOrder(ScalarFn fn, int scalars) {
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

constexpr TileFn FindBool(ScalarFn fn, int scalars) {
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

// Functions of f32 on vectors, and those of f64 from libm.
template <FloatVector (*kF32)(FloatVector), typename F64, typename T>
constexpr TileFn FindOfVectors() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return MapVectors<kF32>;
  } else {
    return Map1<F64, T>;
  }
}

template <typename T>
constexpr TileFn FindTranscendental(ScalarFn fn) {
  switch (fn) {
    case FN_EXP:
      return FindOfVectors<Exp, ExpFn, T>();
    case FN_EXPM1:
      return FindOfVectors<Expm1, Expm1Fn, T>();
    case FN_LOG:
      return FindOfVectors<Log, LogFn, T>();
    case FN_LOG1P:
      return FindOfVectors<Log1p, Log1pFn, T>();
    case FN_TANH:
      return FindOfVectors<Tanh, TanhFn, T>();
    case FN_ERF:
      return FindOfVectors<Erf, ErfFn, T>();
    case FN_LOGISTIC:
      return FindOfVectors<Logistic, LogisticFn, T>();
    case FN_EXP2:
      return Map1<Exp2Fn, T>;
    case FN_LOG2:
      return Map1<Log2Fn, T>;
    case FN_LOG10:
      return Map1<Log10Fn, T>;
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
    case FN_ASINH:
      return Map1<AsinhFn, T>;
    case FN_ACOSH:
      return Map1<AcoshFn, T>;
    case FN_ATANH:
      return Map1<AtanhFn, T>;
    case FN_ERFC:
      return Map1<ErfcFn, T>;
    case FN_ERFINV:
      return Map1<ErfInvFn, T>;
    case FN_LGAMMA:
      return Map1<LgammaFn, T>;
    case FN_DIGAMMA:
      return Map1<DigammaFn, T>;
    default:
      return nullptr;
  }
}

template <typename T>
constexpr TileFn FindFloat1(ScalarFn fn) {
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
    case FN_ISNAN:
      return Map1<IsNanFn, T>;
    case FN_ISINF:
      return Map1<IsInfFn, T>;
    case FN_RELU:
      return Map1<ReluFn, T>;
    default:
      return FindTranscendental<T>(fn);
  }
}

template <typename T>
constexpr TileFn FindFloat2(ScalarFn fn, int scalars) {
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
constexpr TileFn FindInteger(ScalarFn fn, int scalars) {
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

constexpr TileFn FindSelect(DType dtype, int scalars) {
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

constexpr TileFn Find(ScalarFn fn, DType dtype, int scalars) {
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

[[maybe_unused]] TileOps MakeTileOps(const char* name) {
  return {name, Find, FindContraction, FindCast, FindRound, FindLoad, FindStore, FindReduce, Random, Chain, nullptr};
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_OPS_IMPL_H_
