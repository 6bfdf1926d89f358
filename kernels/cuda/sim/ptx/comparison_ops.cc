// SPDX-License-Identifier: Apache-2.0

// setp and set.
#include <cmath>
#include <cstdint>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/ptx/float_rounding.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

template <typename T>
bool Compare(Comparison comparison, T a, T b) {
  switch (comparison) {
    case Comparison::kEqual:
      return a == b;
    case Comparison::kNotEqual:
      return a != b;
    case Comparison::kLess:
      return a < b;
    case Comparison::kLessEqual:
      return a <= b;
    case Comparison::kGreater:
      return a > b;
    case Comparison::kGreaterEqual:
      return a >= b;
    case Comparison::kNumber:
      return true;
    case Comparison::kNan:
      return false;
  }
  return false;
}

bool CompareSources(const ScalarOp& op, const uint64_t* v) {
  const int bits = op.type.bits;
  if (op.type.IsFloat()) {
    const double a = FloatSource(op, op.type, v[0]), b = FloatSource(op, op.type, v[1]);
    if (std::isnan(a) || std::isnan(b)) return op.flag || op.comparison == Comparison::kNan;
    return Compare(op.comparison, a, b);
  }
  if (op.type.IsSigned()) return Compare(op.comparison, SignExtend(v[0], bits), SignExtend(v[1], bits));
  return Compare(op.comparison, v[0] & LowBits(bits), v[1] & LowBits(bits));
}

uint64_t EvaluateComparison(const ScalarOp& op, const uint64_t* v) {
  bool result = CompareSources(op, v);
  const bool other = (v[2] & 1) != 0;
  switch (op.bool_op) {
    case BoolOp::kNone:
      break;
    case BoolOp::kAnd:
      result = result && other;
      break;
    case BoolOp::kOr:
      result = result || other;
      break;
    case BoolOp::kXor:
      result = result != other;
      break;
  }
  if (!result || op.result_type.type_class == TypeClass::kPredicate) return result;
  if (op.result_type.IsFloat()) return EncodeFloat(1.0, op.result_type, Rounding::kNearestEven);
  return LowBits(op.result_type.bits);
}

struct Meaning {
  Comparison comparison;
  bool unordered;
};

const absl::flat_hash_map<absl::string_view, Meaning>& Meanings() {
  static const auto& meanings = *new absl::flat_hash_map<absl::string_view, Meaning>({
      {"eq", {Comparison::kEqual, false}},
      {"ne", {Comparison::kNotEqual, false}},
      {"lt", {Comparison::kLess, false}},
      {"le", {Comparison::kLessEqual, false}},
      {"gt", {Comparison::kGreater, false}},
      {"ge", {Comparison::kGreaterEqual, false}},
      {"lo", {Comparison::kLess, false}},
      {"ls", {Comparison::kLessEqual, false}},
      {"hi", {Comparison::kGreater, false}},
      {"hs", {Comparison::kGreaterEqual, false}},
      {"equ", {Comparison::kEqual, true}},
      {"neu", {Comparison::kNotEqual, true}},
      {"ltu", {Comparison::kLess, true}},
      {"leu", {Comparison::kLessEqual, true}},
      {"gtu", {Comparison::kGreater, true}},
      {"geu", {Comparison::kGreaterEqual, true}},
      {"num", {Comparison::kNumber, false}},
      {"nan", {Comparison::kNan, false}},
  });
  return meanings;
}

}  // namespace

std::optional<ScalarOp> FindComparison(const OpcodeName& name) {
  const bool set = name.opcode == "set";
  if (!set && name.opcode != "setp") return std::nullopt;
  if (name.types.size() != (set ? 2 : 1) || name.words.empty()) return std::nullopt;
  BoolOp bool_op = BoolOp::kNone;
  if (name.words.size() == 2) {
    if (name.words[1] == "and") bool_op = BoolOp::kAnd;
    if (name.words[1] == "or") bool_op = BoolOp::kOr;
    if (name.words[1] == "xor") bool_op = BoolOp::kXor;
    if (bool_op == BoolOp::kNone) return std::nullopt;
  } else if (name.words.size() > 2) {
    return std::nullopt;
  }
  const auto found = Meanings().find(name.words[0]);
  if (found == Meanings().end()) return std::nullopt;
  if (name.types.back().packed && !set) return std::nullopt;  // Two predicates.
  ScalarOp op = MakeScalarOp(name, name.types.back(), bool_op == BoolOp::kNone ? 2 : 3, EvaluateComparison);
  op.result_type = set ? name.types[0] : ScalarType{TypeClass::kPredicate, 1};
  op.comparison = found->second.comparison;
  op.flag = found->second.unordered;
  op.bool_op = bool_op;
  return op;
}

}  // namespace cotan::cuda::ptx
