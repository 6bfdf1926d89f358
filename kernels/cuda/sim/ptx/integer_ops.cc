// SPDX-License-Identifier: Apache-2.0

// Integers, bits and predicates.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

// Results may have set bits above the width of the type; the interpreter clears them.
uint64_t Unsigned(const ScalarOp& op, uint64_t value) { return value & LowBits(op.type.bits); }
int64_t Signed(const ScalarOp& op, uint64_t value) { return SignExtend(value, op.type.bits); }

__int128 Wide(const ScalarOp& op, uint64_t value) {
  return op.type.IsSigned() ? static_cast<__int128>(Signed(op, value)) : static_cast<__int128>(Unsigned(op, value));
}

unsigned __int128 Product(const ScalarOp& op, const uint64_t* v) {
  return static_cast<unsigned __int128>(Wide(op, v[0])) * static_cast<unsigned __int128>(Wide(op, v[1]));
}

uint64_t Saturate(const ScalarOp& op, __int128 value) {
  const __int128 limit = static_cast<__int128>(1) << (op.type.bits - 1);
  return static_cast<uint64_t>(std::clamp<__int128>(value, -limit, limit - 1));
}

uint64_t Add(const ScalarOp& op, const uint64_t* v) {
  return op.sat ? Saturate(op, Wide(op, v[0]) + Wide(op, v[1])) : v[0] + v[1];
}
uint64_t Subtract(const ScalarOp& op, const uint64_t* v) {
  return op.sat ? Saturate(op, Wide(op, v[0]) - Wide(op, v[1])) : v[0] - v[1];
}
uint64_t MultiplyLow(const ScalarOp& op, const uint64_t* v) { return v[0] * v[1]; }
uint64_t MultiplyHigh(const ScalarOp& op, const uint64_t* v) {
  return static_cast<uint64_t>(Product(op, v) >> op.type.bits);
}
uint64_t MultiplyWide(const ScalarOp& op, const uint64_t* v) { return static_cast<uint64_t>(Product(op, v)); }
uint64_t MadLow(const ScalarOp& op, const uint64_t* v) { return v[0] * v[1] + v[2]; }
uint64_t MadHigh(const ScalarOp& op, const uint64_t* v) {
  const uint64_t high = MultiplyHigh(op, v);
  return op.sat ? Saturate(op, static_cast<__int128>(Signed(op, high)) + Signed(op, v[2])) : high + v[2];
}
uint64_t MadWide(const ScalarOp& op, const uint64_t* v) { return MultiplyWide(op, v) + v[2]; }

// Division by zero gives all ones, as the hardware does.
uint64_t Divide(const ScalarOp& op, const uint64_t* v) {
  const __int128 divisor = Wide(op, v[1]);
  return divisor == 0 ? ~uint64_t{0} : static_cast<uint64_t>(Wide(op, v[0]) / divisor);
}
uint64_t Remainder(const ScalarOp& op, const uint64_t* v) {
  const __int128 divisor = Wide(op, v[1]);
  return divisor == 0 ? v[0] : static_cast<uint64_t>(Wide(op, v[0]) % divisor);
}

uint64_t Absolute(const ScalarOp& op, const uint64_t* v) { return Wide(op, v[0]) < 0 ? 0 - v[0] : v[0]; }
uint64_t Negate(const ScalarOp& op, const uint64_t* v) { return 0 - v[0]; }
uint64_t Minimum(const ScalarOp& op, const uint64_t* v) { return Wide(op, v[0]) < Wide(op, v[1]) ? v[0] : v[1]; }
uint64_t Maximum(const ScalarOp& op, const uint64_t* v) { return Wide(op, v[0]) > Wide(op, v[1]) ? v[0] : v[1]; }
uint64_t AbsoluteDifference(const ScalarOp& op, const uint64_t* v) {
  const __int128 difference = Wide(op, v[0]) - Wide(op, v[1]);
  return static_cast<uint64_t>(difference < 0 ? -difference : difference) + v[2];
}

uint64_t And(const ScalarOp& op, const uint64_t* v) { return v[0] & v[1]; }
uint64_t Or(const ScalarOp& op, const uint64_t* v) { return v[0] | v[1]; }
uint64_t Xor(const ScalarOp& op, const uint64_t* v) { return v[0] ^ v[1]; }
uint64_t Not(const ScalarOp& op, const uint64_t* v) { return ~v[0]; }
uint64_t LogicalNot(const ScalarOp& op, const uint64_t* v) { return Unsigned(op, v[0]) == 0; }
uint64_t Lookup3(const ScalarOp& op, const uint64_t* v) {
  uint64_t result = 0;
  for (int i = 0; i < 8; ++i) {
    if ((v[3] >> i & 1) == 0) continue;
    result |= ((i & 4) != 0 ? v[0] : ~v[0]) & ((i & 2) != 0 ? v[1] : ~v[1]) & ((i & 1) != 0 ? v[2] : ~v[2]);
  }
  return result;
}

// Shift distances are 32-bit numbers; larger ones than the width are clamped to it.
uint64_t ShiftLeft(const ScalarOp& op, const uint64_t* v) {
  const uint64_t distance = v[1] & LowBits(32);
  return distance >= op.type.bits ? 0 : v[0] << distance;
}
uint64_t ShiftRight(const ScalarOp& op, const uint64_t* v) {
  const auto distance = static_cast<int>(std::min<uint64_t>(v[1] & LowBits(32), op.type.bits));
  return static_cast<uint64_t>(Wide(op, v[0]) >> distance);
}
int FunnelDistance(const ScalarOp& op, uint64_t value) {
  return static_cast<int>(op.flag ? value & 31 : std::min<uint64_t>(value & LowBits(32), 32));
}
uint64_t Funnel(const uint64_t* v) { return (v[1] & LowBits(32)) << 32 | (v[0] & LowBits(32)); }
uint64_t FunnelLeft(const ScalarOp& op, const uint64_t* v) { return Funnel(v) << FunnelDistance(op, v[2]) >> 32; }
uint64_t FunnelRight(const ScalarOp& op, const uint64_t* v) { return Funnel(v) >> FunnelDistance(op, v[2]); }

uint64_t ExtractBits(const ScalarOp& op, const uint64_t* v) {
  const int position = static_cast<int>(v[1] & 255), length = static_cast<int>(v[2] & 255), width = op.type.bits;
  if (length == 0) return 0;
  const uint64_t value = Unsigned(op, v[0]);
  const uint64_t field = position >= width ? 0 : value >> position & LowBits(std::min(length, 64));
  if (!op.type.IsSigned()) return field;
  const bool sign = (value >> std::min(position + length - 1, width - 1) & 1) != 0;
  const int kept = std::max(0, std::min(length, width - position));
  return sign ? field | ~LowBits(kept) : field;
}
uint64_t InsertBits(const ScalarOp& op, const uint64_t* v) {
  const int position = static_cast<int>(v[2] & 255), length = static_cast<int>(v[3] & 255);
  if (position >= op.type.bits) return v[1];
  const uint64_t mask = LowBits(std::min(length, 64)) << position;
  return (v[1] & ~mask) | (v[0] << position & mask);
}
uint64_t CountOnes(const ScalarOp& op, const uint64_t* v) { return std::popcount(Unsigned(op, v[0])); }
uint64_t CountLeadingZeros(const ScalarOp& op, const uint64_t* v) {
  return std::countl_zero(Unsigned(op, v[0])) - (64 - op.type.bits);
}
uint64_t ReverseBits(const ScalarOp& op, const uint64_t* v) {
  uint64_t result = 0;
  for (int i = 0; i < op.type.bits; ++i) result = result << 1 | (v[0] >> i & 1);
  return result;
}
uint64_t FindLeadingBit(const ScalarOp& op, const uint64_t* v) {
  uint64_t value = Unsigned(op, v[0]);
  if (op.type.IsSigned() && Signed(op, v[0]) < 0) value = Unsigned(op, ~v[0]);
  if (value == 0) return LowBits(32);
  const int position = 63 - std::countl_zero(value);
  return op.flag ? op.type.bits - 1 - position : position;
}
uint64_t PermuteBytes(const ScalarOp& op, const uint64_t* v) {
  const uint64_t bytes = Funnel(v);
  uint64_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t selector = v[2] >> (4 * i) & 15;
    uint64_t byte = bytes >> (8 * (selector & 7)) & 255;
    if ((selector & 8) != 0) byte = (byte & 128) != 0 ? 255 : 0;
    result |= byte << (8 * i);
  }
  return result;
}
uint64_t MaskBits(const ScalarOp& op, const uint64_t* v) {
  const uint64_t position = v[0] & LowBits(32), length = v[1] & LowBits(32);
  if (position >= 32) return 0;
  return LowBits(static_cast<int>(std::min<uint64_t>(length, 32))) << position;
}
uint64_t Select(const ScalarOp& op, const uint64_t* v) { return (v[2] & 1) != 0 ? v[0] : v[1]; }

struct Entry {
  ScalarFn fn;
  int num_sources;
};

// Returns the opcodes with the word that selects between them: "mul.wide".
const absl::flat_hash_map<absl::string_view, Entry>& Entries() {
  static const auto& entries = *new absl::flat_hash_map<absl::string_view, Entry>({
      {"add", {Add, 2}},
      {"sub", {Subtract, 2}},
      {"mul.lo", {MultiplyLow, 2}},
      {"mul.hi", {MultiplyHigh, 2}},
      {"mul.wide", {MultiplyWide, 2}},
      {"mad.lo", {MadLow, 3}},
      {"mad.hi", {MadHigh, 3}},
      {"mad.wide", {MadWide, 3}},
      {"div", {Divide, 2}},
      {"rem", {Remainder, 2}},
      {"abs", {Absolute, 1}},
      {"neg", {Negate, 1}},
      {"min", {Minimum, 2}},
      {"max", {Maximum, 2}},
      {"sad", {AbsoluteDifference, 3}},
      {"and", {And, 2}},
      {"or", {Or, 2}},
      {"xor", {Xor, 2}},
      {"not", {Not, 1}},
      {"cnot", {LogicalNot, 1}},
      {"lop3", {Lookup3, 4}},
      {"shl", {ShiftLeft, 2}},
      {"shr", {ShiftRight, 2}},
      {"shf.l.clamp", {FunnelLeft, 3}},
      {"shf.l.wrap", {FunnelLeft, 3}},
      {"shf.r.clamp", {FunnelRight, 3}},
      {"shf.r.wrap", {FunnelRight, 3}},
      {"bfe", {ExtractBits, 3}},
      {"bfi", {InsertBits, 4}},
      {"popc", {CountOnes, 1}},
      {"clz", {CountLeadingZeros, 1}},
      {"brev", {ReverseBits, 1}},
      {"bfind", {FindLeadingBit, 1}},
      {"bfind.shiftamt", {FindLeadingBit, 1}},
      {"prmt", {PermuteBytes, 3}},
      {"bmsk.clamp", {MaskBits, 2}},
  });
  return entries;
}

// Returns part `index` of `width` bits of a word, as a number.
int64_t PartOf(uint64_t word, int index, int width, bool is_signed) {
  const uint64_t bits = word >> (index * width) & ((uint64_t{1} << width) - 1);
  const bool negative = is_signed && (bits >> (width - 1)) != 0;
  return static_cast<int64_t>(bits) - (negative ? int64_t{1} << width : 0);
}

// Adds to source 2 the products of parts of source 0 (halves of dp2a, bytes of dp4a) and bytes of source 1, from byte
// `first` on.
template <bool kSignedA, bool kSignedB, int kParts, int kFirst>
uint64_t DotProduct(const ScalarOp&, const uint64_t* sources) {
  int64_t sum = static_cast<int64_t>(sources[2]);
  for (int i = 0; i < kParts; ++i) {
    sum += PartOf(sources[0], i, 32 / kParts, kSignedA) * PartOf(sources[1], kFirst + i, 8, kSignedB);
  }
  return static_cast<uint32_t>(sum);
}

template <int kParts, int kFirst>
ScalarFn DotProductOf(bool signed_a, bool signed_b) {
  if (signed_a) return signed_b ? DotProduct<true, true, kParts, kFirst> : DotProduct<true, false, kParts, kFirst>;
  return signed_b ? DotProduct<false, true, kParts, kFirst> : DotProduct<false, false, kParts, kFirst>;
}

// dp4a.atype.btype and dp2a.{lo,hi}.atype.btype.
std::optional<ScalarOp> FindDotProduct(const OpcodeName& name) {
  for (const ScalarType& type : name.types) {
    if (type.IsFloat() || type.bits != 32) return std::nullopt;
  }
  const bool signed_a = name.types[0].IsSigned();
  const bool signed_b = name.types[1].IsSigned();
  ScalarFn fn = nullptr;
  if (name.opcode == "dp4a" && name.words.empty()) fn = DotProductOf<4, 0>(signed_a, signed_b);
  if (name.opcode == "dp2a" && name.Has("lo")) fn = DotProductOf<2, 0>(signed_a, signed_b);
  if (name.opcode == "dp2a" && name.Has("hi")) fn = DotProductOf<2, 2>(signed_a, signed_b);
  if (fn == nullptr) return std::nullopt;
  return MakeScalarOp(name, name.types[0], 3, fn);
}

}  // namespace

std::optional<ScalarOp> FindIntegerOp(const OpcodeName& name) {
  if (name.types.size() == 2) return FindDotProduct(name);
  if (name.types.size() != 1 || name.types[0].bits > 64) return std::nullopt;
  const ScalarType type = name.types[0];
  if (name.opcode == "selp" && name.words.empty()) {
    ScalarOp op = MakeScalarOp(name, type, 3, Select);
    op.each_half = false;
    return op;
  }
  if (type.IsFloat()) return std::nullopt;
  const auto found =
      Entries().find(absl::StrCat(name.opcode, name.words.empty() ? "" : ".", absl::StrJoin(name.words, ".")));
  if (found == Entries().end()) return std::nullopt;
  ScalarOp op = MakeScalarOp(name, type, found->second.num_sources, found->second.fn);
  op.flag = name.Has("wrap") || name.Has("shiftamt");
  if (name.Has("wide")) op.result_type.bits *= 2;
  if (name.opcode == "popc" || name.opcode == "clz" || name.opcode == "bfind") {
    op.result_type = {TypeClass::kUnsigned, 32};
  }
  return op;
}

}  // namespace cotan::cuda::ptx
