// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/number_expr.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;

// Relative tolerance of numbers that the compiler computed in f32, and of all others.
constexpr double kRoundedTolerance = 2.5e-7;
constexpr double kTolerance = 1e-14;

bool IsFloat(const ExprInstruction& instruction) { return IsFloatingPoint(static_cast<DType>(instruction.dtype())); }

// Returns the program without the constants that NumberWriter unifies.
Expr WithoutNumbers(const Expr& expr) {
  Expr result = expr;
  for (ExprInstruction& instruction : *result.mutable_instructions()) {
    instruction.clear_float_value();
    instruction.clear_int_value();
  }
  return result;
}

// Returns whether instruction `i` is a product with a power of two that nothing else uses: fusion writes a quotient
// with such a divisor like this.
bool IsWrittenQuotient(const Expr& expr, int i) {
  const ExprInstruction& product = expr.instructions(i);
  if (product.fn() != serialization::FN_MUL || !IsFloat(product)) return false;
  const uint32_t factor = product.operands(1);
  const ExprInstruction& constant = expr.instructions(static_cast<int>(factor));
  int exponent = 0;
  if (constant.fn() != serialization::FN_CONSTANT || std::frexp(constant.float_value(), &exponent) != 0.5) return false;
  int64_t uses = 0;
  for (const ExprInstruction& user : expr.instructions()) {
    uses += std::count(user.operands().begin(), user.operands().end(), factor);
  }
  return uses == 1 && std::count(expr.outputs().begin(), expr.outputs().end(), factor) == 0;
}

// Writes products with powers of two as quotients again where another program has a quotient: the divisor is a size,
// which is a power of two at some points only.
void DivideAlike(absl::Span<Expr* const> exprs) {
  for (int i = 0; i < exprs[0]->instructions_size(); ++i) {
    const bool any_quotient = std::any_of(exprs.begin(), exprs.end(), [i](const Expr* expr) {
      return i < expr->instructions_size() && expr->instructions(i).fn() == serialization::FN_DIV;
    });
    for (Expr* expr : exprs) {
      if (!any_quotient || i >= expr->instructions_size() || !IsWrittenQuotient(*expr, i)) continue;
      ExprInstruction& product = *expr->mutable_instructions(i);
      ExprInstruction& constant = *expr->mutable_instructions(static_cast<int>(product.operands(1)));
      product.set_fn(serialization::FN_DIV);
      constant.set_float_value(1 / constant.float_value());
    }
  }
}

bool IsWhole(double value) { return value == std::rint(value) && std::abs(value) < 9e15; }

// Writes a new version of the first program, with constants computed from sizes.
class NumberWriter {
 public:
  NumberWriter(absl::Span<Expr* const> exprs, SizeFitter& fitter) : exprs_(exprs), fitter_(fitter) {}

  absl::StatusOr<Expr> Write() {
    const Expr& first = *exprs_[0];
    std::vector<uint32_t> place;  // of each instruction in the new program
    for (int i = 0; i < first.instructions_size(); ++i) {
      if (Differs(i)) {
        COTAN_RETURN_IF_ERROR(WriteNumber(i));
      } else {
        ExprInstruction& instruction = *result_.add_instructions();
        instruction = first.instructions(i);
        for (uint32_t& operand : *instruction.mutable_operands()) operand = place[operand];
      }
      place.push_back(static_cast<uint32_t>(result_.instructions_size()) - 1);
    }
    for (const uint32_t output : first.outputs()) result_.add_outputs(place[output]);
    *result_.mutable_domain_sizes() = first.domain_sizes();
    *result_.mutable_reduce_dims() = first.reduce_dims();
    return std::move(result_);
  }

 private:
  bool Differs(int i) const {
    const ExprInstruction& first = exprs_[0]->instructions(i);
    return std::any_of(exprs_.begin(), exprs_.end(), [&](const Expr* expr) {
      const ExprInstruction& other = expr->instructions(i);
      return other.int_value() != first.int_value() || other.float_value() != first.float_value();
    });
  }

  absl::Status WriteNumber(int i) {
    const ExprInstruction& first = exprs_[0]->instructions(i);
    std::vector<double> values;
    std::vector<int64_t> integers;
    for (const Expr* expr : exprs_) {
      const ExprInstruction& instruction = expr->instructions(i);
      values.push_back(IsFloat(first) ? instruction.float_value() : static_cast<double>(instruction.int_value()));
      integers.push_back(IsFloat(first) ? static_cast<int64_t>(instruction.float_value()) : instruction.int_value());
    }
    if (!IsFloat(first) || std::all_of(values.begin(), values.end(), IsWhole)) {
      if (const std::optional<SymInt> size = fitter_.Fit(integers)) {
        AddSize(*size, first.dtype());
        return absl::OkStatus();
      }
    } else {
      for (const double tolerance : {kTolerance, kRoundedTolerance}) {
        const std::optional<NumberFit> fit = fitter_.FitNumber(values, tolerance);
        if (!fit.has_value()) continue;
        WriteFit(*fit, first.dtype());
        return absl::OkStatus();
      }
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "it computes with a number that is not a known function of the sizes: ", absl::StrJoin(values, ", ")));
  }

  uint32_t Add(serialization::ScalarFn fn, serialization::DTypeProto dtype, std::vector<uint32_t> operands) {
    ExprInstruction& instruction = *result_.add_instructions();
    instruction.set_fn(fn);
    instruction.set_dtype(dtype);
    for (const uint32_t operand : operands) instruction.add_operands(operand);
    return static_cast<uint32_t>(result_.instructions_size()) - 1;
  }
  uint32_t AddSize(const SymInt& size, serialization::DTypeProto dtype) {
    const uint32_t position = Add(serialization::FN_SIZE, dtype, {});
    result_.mutable_instructions(static_cast<int>(position))->set_size(size.ToString());
    return position;
  }
  uint32_t AddConstant(double value) {
    const uint32_t position = Add(serialization::FN_CONSTANT, serialization::DTYPE_F64, {});
    result_.mutable_instructions(static_cast<int>(position))->set_float_value(value);
    return position;
  }
  uint32_t AddWide(serialization::ScalarFn fn, std::vector<uint32_t> operands) {
    return Add(fn, serialization::DTYPE_F64, std::move(operands));
  }

  void WriteFit(const NumberFit& fit, serialization::DTypeProto dtype) {
    uint32_t x = AddSize(fit.size, serialization::DTYPE_F64);
    if (fit.of_root) x = AddWide(serialization::FN_SQRT, {x});
    double factor = fit.factor;
    bool is_reciprocal = fit.is_reciprocal;
    if (fit.of_reciprocal) {
      x = AddWide(serialization::FN_DIV, {AddConstant(factor), x});
      factor = 1;
    } else if (is_reciprocal && fit.offset == 0) {
      x = AddWide(serialization::FN_DIV, {AddConstant(Snapped(1 / factor)), x});
      factor = 1;
      is_reciprocal = false;
    }
    if (factor != 1) x = AddWide(serialization::FN_MUL, {x, AddConstant(factor)});
    if (fit.offset != 0) x = AddWide(serialization::FN_ADD, {x, AddConstant(fit.offset)});
    if (is_reciprocal) x = AddWide(serialization::FN_DIV, {AddConstant(1), x});
    if (dtype != serialization::DTYPE_F64) Add(serialization::FN_CAST, dtype, {x});
  }

  // Rounds a number that is an integer up to rounding errors: 1 / (1 / 3) is 3.
  static double Snapped(double value) {
    const double whole = std::rint(value);
    return whole != 0 && std::abs(value - whole) <= 4 * kTolerance * std::abs(whole) ? whole : value;
  }

  const absl::Span<Expr* const> exprs_;
  SizeFitter& fitter_;
  Expr result_;
};

}  // namespace

absl::Status UnifyExprs(absl::Span<Expr* const> exprs, SizeFitter& fitter) {
  DivideAlike(exprs);
  const std::string expected = WithoutNumbers(*exprs[0]).SerializeAsString();
  bool equal = true;
  for (const Expr* expr : exprs) {
    if (WithoutNumbers(*expr).SerializeAsString() != expected) {
      return absl::InvalidArgumentError("it computes something else at other sizes");
    }
    equal = equal && expr->SerializeAsString() == exprs[0]->SerializeAsString();
  }
  if (equal) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const Expr unified, NumberWriter(exprs, fitter).Write());
  for (Expr* expr : exprs) *expr = unified;
  return absl::OkStatus();
}

}  // namespace cotan::aot
