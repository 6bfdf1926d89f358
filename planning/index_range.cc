// SPDX-License-Identifier: Apache-2.0

#include "planning/index_range.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "base/rounding.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;

constexpr IndexRange kUnknown;

bool IsBounded(const IndexRange& range) { return range.min != kUnknown.min && range.max != kUnknown.max; }

// Returns the largest and smallest of a function at the corners of two ranges, or kUnknown if one of them overflows.
// `function` computes one value and returns whether it overflows.
template <typename Function>
IndexRange AtCorners(const IndexRange& a, const IndexRange& b, Function function) {
  if (!IsBounded(a) || !IsBounded(b)) return kUnknown;
  IndexRange result = {kUnknown.max, kUnknown.min};
  for (const int64_t x : {a.min, a.max}) {
    for (const int64_t y : {b.min, b.max}) {
      int64_t value = 0;
      if (function(x, y, &value)) return kUnknown;
      result = {std::min(result.min, value), std::max(result.max, value)};
    }
  }
  return result;
}

// Returns the range of quotients by a positive divisor.
IndexRange Quotients(const IndexRange& a, const IndexRange& b, bool rounds_down) {
  if (b.min <= 0) return kUnknown;
  return AtCorners(a, b, [&](int64_t x, int64_t y, int64_t* value) {
    *value = rounds_down ? FloorDiv(x, y) : x / y;
    return false;
  });
}

// Returns all values of a dtype.
IndexRange AllOf(DType dtype) {
  switch (dtype) {
    case DType::kInt32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DType::kInt16:
      return {std::numeric_limits<int16_t>::min(), std::numeric_limits<int16_t>::max()};
    case DType::kInt8:
      return {std::numeric_limits<int8_t>::min(), std::numeric_limits<int8_t>::max()};
    case DType::kUInt8:
      return {0, std::numeric_limits<uint8_t>::max()};
    case DType::kBool:
      return {0, 1};
    default:
      return kUnknown;
  }
}

// Returns the range of what `range` is when it is computed in `dtype`, which may wrap around.
IndexRange Stored(const IndexRange& range, DType dtype) {
  if (!IsInteger(dtype) && dtype != DType::kBool) return kUnknown;
  const IndexRange all = AllOf(dtype);
  return range.min >= all.min && range.max <= all.max ? range : all;
}

class Ranges {
 public:
  Ranges(const Expr& expr, absl::Span<const int64_t> symbols) : expr_(expr), symbols_(symbols) {}

  IndexRange Of(uint32_t instruction) {
    for (int i = 0; i <= static_cast<int>(instruction); ++i) {
      const ExprInstruction& in = expr_.instructions(i);
      ranges_.push_back(Stored(Compute(in), static_cast<DType>(in.dtype())));
    }
    return ranges_.back();
  }

 private:
  IndexRange Operand(const ExprInstruction& in, int operand) const { return ranges_[in.operands(operand)]; }

  IndexRange Size(const std::string& text) const {
    const absl::StatusOr<int64_t> size = EvaluateSize(text, symbols_);
    return size.ok() ? IndexRange{*size, *size} : kUnknown;
  }

  IndexRange Compute(const ExprInstruction& in) const {
    switch (in.fn()) {
      case serialization::FN_CONSTANT:
        return {in.int_value(), in.int_value()};
      case serialization::FN_SIZE:
        return Size(in.size());
      case serialization::FN_IOTA: {
        const IndexRange size = Size(expr_.domain_sizes(static_cast<int>(in.index())));
        return IsBounded(size) ? IndexRange{0, std::max<int64_t>(0, size.max - 1)} : kUnknown;
      }
      case serialization::FN_CAST:
        return Operand(in, 0);  // kUnknown if it is not an integer
      case serialization::FN_ADD:
        return AtCorners(Operand(in, 0), Operand(in, 1), AddOverflows);
      case serialization::FN_SUB:
        return AtCorners(Operand(in, 0), Operand(in, 1), SubtractOverflows);
      case serialization::FN_MUL:
        return AtCorners(Operand(in, 0), Operand(in, 1), MultiplyOverflows);
      case serialization::FN_FLOOR_DIV:
        return Quotients(Operand(in, 0), Operand(in, 1), /*rounds_down=*/true);
      case serialization::FN_TRUNC_DIV:
        return Quotients(Operand(in, 0), Operand(in, 1), /*rounds_down=*/false);
      case serialization::FN_REMAINDER: {
        const IndexRange divisor = Operand(in, 1);
        return IsBounded(divisor) && divisor.min > 0 ? IndexRange{0, divisor.max - 1} : kUnknown;
      }
      case serialization::FN_MINIMUM:
        return {std::min(Operand(in, 0).min, Operand(in, 1).min), std::min(Operand(in, 0).max, Operand(in, 1).max)};
      case serialization::FN_MAXIMUM:
        return {std::max(Operand(in, 0).min, Operand(in, 1).min), std::max(Operand(in, 0).max, Operand(in, 1).max)};
      case serialization::FN_SELECT:
        return {std::min(Operand(in, 1).min, Operand(in, 2).min), std::max(Operand(in, 1).max, Operand(in, 2).max)};
      default:
        return kUnknown;
    }
  }

  static bool AddOverflows(int64_t a, int64_t b, int64_t* sum) { return __builtin_add_overflow(a, b, sum); }
  static bool SubtractOverflows(int64_t a, int64_t b, int64_t* difference) {
    return __builtin_sub_overflow(a, b, difference);
  }
  static bool MultiplyOverflows(int64_t a, int64_t b, int64_t* product) {
    return __builtin_mul_overflow(a, b, product);
  }

  const Expr& expr_;
  const absl::Span<const int64_t> symbols_;
  std::vector<IndexRange> ranges_;  // by instruction
};

}  // namespace

IndexRange RangeOfOutput(const serialization::Op& op, int output, absl::Span<const int64_t> symbols) {
  return Ranges(op.expr(), symbols).Of(op.expr().outputs(output));
}

}  // namespace cotan
