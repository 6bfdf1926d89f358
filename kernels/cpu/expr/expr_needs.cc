// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/expr_needs.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/api/expr_program.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

DType DTypeOf(const ExprInstruction& instruction) { return static_cast<DType>(instruction.dtype()); }

bool IsNarrow(DType dtype) { return RegisterDType(dtype) != dtype; }

// Adds a function and those that plan_analysis.cc replaces it by.
void AddFunction(ScalarFn fn, DType dtype, ExprNeeds& needs) {
  const bool is_float = IsFloatingPoint(dtype);
  if (fn == FN_SIGN && dtype == DType::kBool) return;  // the operand itself
  if (fn == FN_GT) fn = FN_LT;
  if (fn == FN_GE) fn = FN_LE;
  if (fn == FN_FMAX && !is_float) fn = FN_MAXIMUM;
  if (fn == FN_FMIN && !is_float) fn = FN_MINIMUM;
  needs.functions.emplace(fn, dtype);
  if (fn == FN_POW && is_float) needs.functions.emplace(FN_MUL, dtype);
  const bool contracts = fn == FN_ADD || fn == FN_SUB;
  if (contracts && (dtype == DType::kFloat32 || dtype == DType::kFloat64)) needs.contractions.insert(dtype);
}

// The message is the name of what is missing.
absl::Status Missing(absl::string_view what) { return absl::FailedPreconditionError(absl::StrCat("expr: ", what)); }

std::string NameOf(const FnOfDType& function) {
  return absl::StrCat("function ", ExprFnName(function.first), " of ", DTypeName(function.second));
}

absl::Status CheckCopies(const ExprNeeds& needs, const TileOps& ops) {
  for (const DType dtype : needs.loads) {
    if (ops.find_load(dtype) == nullptr) return Missing(absl::StrCat("the load of ", DTypeName(dtype)));
  }
  for (const DType dtype : needs.stores) {
    if (ops.find_store(dtype) == nullptr) return Missing(absl::StrCat("the store of ", DTypeName(dtype)));
  }
  for (const DType dtype : needs.rounds) {
    if (ops.find_round(dtype) == nullptr) return Missing(absl::StrCat("the rounding to ", DTypeName(dtype)));
  }
  return absl::OkStatus();
}

}  // namespace

void AddNeeds(const Expr& expr, ExprNeeds& needs) {
  for (const ExprInstruction& instruction : expr.instructions()) {
    const ScalarFn fn = instruction.fn();
    const DType dtype = DTypeOf(instruction);
    // Values are stored by outputs and spread over tiles.
    for (const DType form : {dtype, RegisterDType(dtype)}) {
      needs.loads.insert(form);
      needs.stores.insert(form);
    }
    if (IsNarrow(dtype)) needs.rounds.insert(dtype);
    if (fn == FN_RANDOM_UNIFORM) needs.random = true;
    if (instruction.operands().empty()) continue;
    const int last = instruction.operands_size() - 1;
    const DType work = RegisterDType(DTypeOf(expr.instructions(static_cast<int>(instruction.operands(last)))));
    if (fn == FN_CAST) {
      if (work != RegisterDType(dtype)) needs.casts.emplace(work, RegisterDType(dtype));
    } else if (IsExprReduction(fn)) {
      needs.reductions.emplace(fn, RegisterDType(dtype));
    } else {
      AddFunction(fn, work, needs);
    }
  }
}

absl::Status CheckNeeds(const ExprNeeds& needs, const TileOps& ops) {
  for (const FnOfDType& function : needs.functions) {
    if (ops.find(function.first, function.second, 0) == nullptr) return Missing(NameOf(function));
  }
  for (const FnOfDType& function : needs.reductions) {
    if (ops.find_reduce(function.first, function.second).rows == nullptr) return Missing(NameOf(function));
  }
  for (const auto& [from, to] : needs.casts) {
    if (ops.find_cast(from, to) == nullptr) {
      return Missing(absl::StrCat("the cast from ", DTypeName(from), " to ", DTypeName(to)));
    }
  }
  for (const DType dtype : needs.contractions) {
    if (ops.find_contraction(Contraction::kMulAdd, dtype, 0) == nullptr) {
      return Missing(absl::StrCat("the product and sum of ", DTypeName(dtype)));
    }
  }
  if (needs.random && ops.random == nullptr) return Missing("function random_uniform of f32");
  return CheckCopies(needs, ops);
}

}  // namespace cotan::cpu::expr
