// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/warp_ops.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace cotan::cuda::ptx {
namespace {

constexpr int kLanes = 32;

// Returns a source as T: an integer, float or double.
template <typename T>
T From(uint64_t bits) {
  if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(bits));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(bits);
  } else {
    return static_cast<T>(bits);
  }
}

// Return the bits of a result. Every NaN of f32 becomes the canonical one.
uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }
uint64_t Bits(float value) { return value != value ? 0x7fffffff : std::bit_cast<uint32_t>(value); }
uint64_t Bits(bool value) { return value ? 1 : 0; }
template <typename T>
uint64_t Bits(T value) requires std::is_integral_v<T> {
  return static_cast<std::make_unsigned_t<T>>(value);
}

// Apply F to the sources as T.
template <typename T, auto F>
void Unary(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  for (int i = 0; i < kLanes; ++i) out[i] = Bits(F(From<T>(a[i])));
}
template <typename T, auto F>
void Binary(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  const uint64_t* b = v[1];
  for (int i = 0; i < kLanes; ++i) out[i] = Bits(F(From<T>(a[i]), From<T>(b[i])));
}
template <typename T, auto F>
void Ternary(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  const uint64_t* b = v[1];
  const uint64_t* c = v[2];
  for (int i = 0; i < kLanes; ++i) out[i] = Bits(F(From<T>(a[i]), From<T>(b[i]), From<T>(c[i])));
}
#ifdef __x86_64__
// As Ternary() with std::fma, which calls a function for each lane.
__attribute__((target("avx2,fma"))) void FusedByInstruction(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  const uint64_t* b = v[1];
  const uint64_t* c = v[2];
  for (int i = 0; i < kLanes; ++i) {
    out[i] = Bits(__builtin_fmaf(From<float>(a[i]), From<float>(b[i]), From<float>(c[i])));
  }
}
#endif
// The third source is wider.
template <typename T, typename Wide>
void MadWide(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  const uint64_t* b = v[1];
  const uint64_t* c = v[2];
  for (int i = 0; i < kLanes; ++i) {
    const auto product = static_cast<std::make_unsigned_t<Wide>>(Wide{From<T>(a[i])} * Wide{From<T>(b[i])});
    out[i] = Bits(static_cast<std::make_unsigned_t<Wide>>(product + static_cast<std::make_unsigned_t<Wide>>(c[i])));
  }
}
template <typename T>
void Select(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  const uint64_t* b = v[1];
  const uint64_t* c = v[2];
  for (int i = 0; i < kLanes; ++i) out[i] = Bits(static_cast<T>((c[i] & 1) != 0 ? a[i] : b[i]));
}
// The distance is a 32-bit number.
template <typename T, auto F>
void Shift(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  const uint64_t* b = v[1];
  for (int i = 0; i < kLanes; ++i) out[i] = Bits(F(From<T>(a[i]), static_cast<uint32_t>(b[i])));
}

// Extremum of PTX: a NaN is ignored unless both are; -0 is less than +0.
template <typename T>
T Minimum(T a, T b) {
  if (a != a) return b != b ? std::numeric_limits<T>::quiet_NaN() : b;
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? a : b;
}
template <typename T>
T Maximum(T a, T b) {
  if (a != a) return b != b ? std::numeric_limits<T>::quiet_NaN() : b;
  if (b != b) return a;
  return a < b || (a == b && std::signbit(a)) ? b : a;
}

uint64_t RoundToBfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return value != value ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

uint64_t RoundToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return 0x7fff;
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 2^16 and more.
  if (magnitude < 0x38800000) {
    // Below 2^-14, the smallest normal number: the addition rounds to multiples of 2^-24.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | (std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f));
  }
  const uint32_t shifted = magnitude - (uint32_t{127 - 15} << 23);
  return sign | (shifted + 0xfff + (shifted >> 13 & 1)) >> 13;
}

// From one type to another, by the conversion of C++ where that is what PTX says.
template <typename From_, typename To>
void Convert(const uint64_t* const* v, uint64_t* __restrict out) {
  const uint64_t* a = v[0];
  for (int i = 0; i < kLanes; ++i) out[i] = Bits(static_cast<To>(From<From_>(a[i])));
}

float HalfToFloat(uint16_t bits) { return static_cast<float>(DecodeFloat(bits, {TypeClass::kFloat, 16})); }
float BfloatToFloat(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

std::string NameOf(ScalarType type) {
  static constexpr const char* kClasses[] = {"b", "u", "s", "f", "bf", "pred"};
  const char* name = kClasses[static_cast<int>(type.type_class)];
  if (type.type_class == TypeClass::kPredicate) return name;
  return absl::StrCat(name, static_cast<int>(type.bits), type.packed ? "x2" : "");
}

// By opcode, words and types, joined by dots.
using Table = absl::flat_hash_map<std::string, WarpFn>;

template <typename T>
void AddIntegers(const std::string& suffix, Table& t) {
  using U = std::make_unsigned_t<T>;
  t["add" + suffix] = Binary<U, [](U a, U b) { return static_cast<U>(a + b); }>;
  t["sub" + suffix] = Binary<U, [](U a, U b) { return static_cast<U>(a - b); }>;
  t["mul.lo" + suffix] = Binary<U, [](U a, U b) { return static_cast<U>(uint64_t{a} * b); }>;
  t["mad.lo" + suffix] = Ternary<U, [](U a, U b, U c) { return static_cast<U>(uint64_t{a} * b + c); }>;
  t["min" + suffix] = Binary<T, [](T a, T b) { return a < b ? a : b; }>;
  t["max" + suffix] = Binary<T, [](T a, T b) { return (a > b) ? a : b; }>;
  t["neg" + suffix] = Unary<U, [](U a) { return static_cast<U>(0 - a); }>;
  t["shr" + suffix] = Shift<T, [](T a, uint32_t by) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    return static_cast<T>(by >= kBits ? (a < 0 ? -1 : 0) : a >> by);
  }>;
  t["setp.eq" + suffix] = Binary<T, [](T a, T b) { return a == b; }>;
  t["setp.ne" + suffix] = Binary<T, [](T a, T b) { return a != b; }>;
  t["setp.lt" + suffix] = Binary<T, [](T a, T b) { return a < b; }>;
  t["setp.le" + suffix] = Binary<T, [](T a, T b) { return a <= b; }>;
  t["setp.gt" + suffix] = Binary<T, [](T a, T b) { return (a > b); }>;
  t["setp.ge" + suffix] = Binary<T, [](T a, T b) { return a >= b; }>;
}

template <typename T>
void AddBits(const std::string& bits, Table& t) {
  t["and.b" + bits] = Binary<T, [](T a, T b) { return static_cast<T>(a & b); }>;
  t["or.b" + bits] = Binary<T, [](T a, T b) { return static_cast<T>(a | b); }>;
  t["xor.b" + bits] = Binary<T, [](T a, T b) { return static_cast<T>(a ^ b); }>;
  t["not.b" + bits] = Unary<T, [](T a) { return static_cast<T>(~a); }>;
  t["shl.b" + bits] =
      Shift<T, [](T a, uint32_t by) { return static_cast<T>(by >= 8 * sizeof(T) ? 0 : uint64_t{a} << by); }>;
  t["setp.eq.b" + bits] = Binary<T, [](T a, T b) { return a == b; }>;
  t["setp.ne.b" + bits] = Binary<T, [](T a, T b) { return a != b; }>;
  for (const char* kind : {".b", ".u", ".s", ".f"}) t["selp" + (kind + bits)] = Select<T>;
}

template <typename T>
void AddFloats(const std::string& suffix, Table& t) {
  t["add" + suffix] = Binary<T, [](T a, T b) { return a + b; }>;
  t["sub" + suffix] = Binary<T, [](T a, T b) { return a - b; }>;
  t["mul" + suffix] = Binary<T, [](T a, T b) { return a * b; }>;
  t["div" + suffix] = Binary<T, [](T a, T b) { return a / b; }>;
  t["rcp" + suffix] = Unary<T, [](T a) { return T{1} / a; }>;
  t["sqrt" + suffix] = Unary<T, [](T a) { return std::sqrt(a); }>;
  t["fma" + suffix] = Ternary<T, [](T a, T b, T c) { return std::fma(a, b, c); }>;
#ifdef __x86_64__
  if (std::is_same_v<T, float> && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    t["fma" + suffix] = FusedByInstruction;
  }
#endif
  t["min" + suffix] = Binary<T, Minimum<T>>;
  t["max" + suffix] = Binary<T, Maximum<T>>;
  t["setp.eq" + suffix] = Binary<T, [](T a, T b) { return a == b; }>;
  t["setp.ne" + suffix] = Binary<T, [](T a, T b) { return (a < b || a > b); }>;
  t["setp.lt" + suffix] = Binary<T, [](T a, T b) { return a < b; }>;
  t["setp.le" + suffix] = Binary<T, [](T a, T b) { return a <= b; }>;
  t["setp.gt" + suffix] = Binary<T, [](T a, T b) { return (a > b); }>;
  t["setp.ge" + suffix] = Binary<T, [](T a, T b) { return a >= b; }>;
  t["setp.equ" + suffix] = Binary<T, [](T a, T b) { return !(a < b || a > b); }>;
  t["setp.neu" + suffix] = Binary<T, [](T a, T b) { return a != b; }>;
  t["setp.ltu" + suffix] = Binary<T, [](T a, T b) { return !(a >= b); }>;
  t["setp.leu" + suffix] = Binary<T, [](T a, T b) { return !(a > b); }>;
  t["setp.gtu" + suffix] = Binary<T, [](T a, T b) { return !(a <= b); }>;
  t["setp.geu" + suffix] = Binary<T, [](T a, T b) { return !(a < b); }>;
  t["setp.num" + suffix] = Binary<T, [](T a, T b) { return a == a && b == b; }>;
  t["setp.nan" + suffix] = Binary<T, [](T a, T b) { return a != a || b != b; }>;
}

// Conversions between `T` and the types except half precision. From and to an integer, all values fit, or wrap.
template <typename T>
void AddConversions(const std::string& from, Table& t) {
  if constexpr (std::is_integral_v<T>) {
    t["cvt.s8." + from] = Convert<T, int8_t>;
    t["cvt.u8." + from] = Convert<T, uint8_t>;
    t["cvt.s16." + from] = Convert<T, int16_t>;
    t["cvt.u16." + from] = Convert<T, uint16_t>;
    t["cvt.s32." + from] = Convert<T, int32_t>;
    t["cvt.u32." + from] = Convert<T, uint32_t>;
    t["cvt.s64." + from] = Convert<T, int64_t>;
    t["cvt.u64." + from] = Convert<T, uint64_t>;
  }
  t["cvt.f32." + from] = Convert<T, float>;
  t["cvt.f64." + from] = Convert<T, double>;
}

Table MakeTable() {
  Table t;
  AddIntegers<int16_t>(".s16", t);
  AddIntegers<uint16_t>(".u16", t);
  AddIntegers<int32_t>(".s32", t);
  AddIntegers<uint32_t>(".u32", t);
  AddIntegers<int64_t>(".s64", t);
  AddIntegers<uint64_t>(".u64", t);
  AddBits<uint16_t>("16", t);
  AddBits<uint32_t>("32", t);
  AddBits<uint64_t>("64", t);
  AddFloats<float>(".f32", t);
  AddFloats<double>(".f64", t);
  AddConversions<int8_t>("s8", t);
  AddConversions<uint8_t>("u8", t);
  AddConversions<int16_t>("s16", t);
  AddConversions<uint16_t>("u16", t);
  AddConversions<int32_t>("s32", t);
  AddConversions<uint32_t>("u32", t);
  AddConversions<int64_t>("s64", t);
  AddConversions<uint64_t>("u64", t);
  AddConversions<float>("f32", t);
  AddConversions<double>("f64", t);
  t["and.pred"] = Binary<uint64_t, [](uint64_t a, uint64_t b) { return a & b & 1; }>;
  t["or.pred"] = Binary<uint64_t, [](uint64_t a, uint64_t b) { return (a | b) & 1; }>;
  t["xor.pred"] = Binary<uint64_t, [](uint64_t a, uint64_t b) { return (a ^ b) & 1; }>;
  t["not.pred"] = Unary<uint64_t, [](uint64_t a) { return ~a & 1; }>;
  t["mul.wide.s16"] = Binary<int16_t, [](int16_t a, int16_t b) { return int32_t{a} * b; }>;
  t["mul.wide.u16"] = Binary<uint16_t, [](uint16_t a, uint16_t b) { return uint32_t{a} * b; }>;
  t["mul.wide.s32"] = Binary<int32_t, [](int32_t a, int32_t b) { return int64_t{a} * b; }>;
  t["mul.wide.u32"] = Binary<uint32_t, [](uint32_t a, uint32_t b) { return uint64_t{a} * b; }>;
  t["mad.wide.s32"] = MadWide<int32_t, int64_t>;
  t["mad.wide.u32"] = MadWide<uint32_t, uint64_t>;
  t["mul.hi.u32"] =
      Binary<uint32_t, [](uint32_t a, uint32_t b) { return static_cast<uint32_t>(uint64_t{a} * b >> 32); }>;
  t["mul.hi.s32"] = Binary<int32_t, [](int32_t a, int32_t b) { return static_cast<int32_t>(int64_t{a} * b >> 32); }>;
  t["neg.f32"] = Unary<uint32_t, [](uint32_t a) { return a ^ uint32_t { 1 } << 31; }>;
  t["abs.f32"] = Unary<uint32_t, [](uint32_t a) { return a & ~(uint32_t{1} << 31); }>;
  t["neg.f64"] = Unary<uint64_t, [](uint64_t a) { return a ^ uint64_t { 1 } << 63; }>;
  t["abs.f64"] = Unary<uint64_t, [](uint64_t a) { return a & ~(uint64_t{1} << 63); }>;
  t["cvt.f32.f16"] = Unary<uint16_t, HalfToFloat>;
  t["cvt.f32.bf16"] = Unary<uint16_t, BfloatToFloat>;
  t["cvt.f16.f32"] = Unary<float, RoundToHalf>;
  t["cvt.bf16.f32"] = Unary<float, RoundToBfloat>;
  return t;
}

}  // namespace

WarpFn FindWarpFn(const OpcodeName& name, const ScalarOp& op) {
  static const Table& table = *new Table(MakeTable());
  // Anything that changes what the plain opcode does.
  if (op.rounding != Rounding::kNearestEven || op.to_integer || op.ftz || op.sat || op.relu || op.nan || op.each_half ||
      op.bool_op != BoolOp::kNone || name.approx) {
    return nullptr;
  }
  std::string key = name.opcode;
  for (const std::string& word : name.words) absl::StrAppend(&key, ".", word);
  for (const ScalarType& type : name.types) absl::StrAppend(&key, ".", NameOf(type));
  const auto found = table.find(key);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace cotan::cuda::ptx
