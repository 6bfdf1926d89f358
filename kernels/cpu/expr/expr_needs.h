// SPDX-License-Identifier: Apache-2.0

// Which inner loops (tile_ops.h) expressions need.
#ifndef COTAN_KERNELS_CPU_EXPR_EXPR_NEEDS_H_
#define COTAN_KERNELS_CPU_EXPR_EXPR_NEEDS_H_

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "base/dtype.h"
#include "kernels/cpu/expr/tile_ops.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::cpu::expr {

// A scalar function with the register dtype that it works in.
using FnOfDType = std::pair<serialization::ScalarFn, DType>;

// The loops that kernels of some expressions may ask a TileOps for, whatever their sizes and layouts.
struct ExprNeeds {
  std::set<FnOfDType> functions;
  std::set<FnOfDType> reductions;
  std::set<std::pair<DType, DType>> casts;  // from, to
  std::set<DType> contractions;
  std::set<DType> rounds;
  std::set<DType> loads;
  std::set<DType> stores;
  bool random = false;
};

// Adds the loops that `expr`, which passed ResolveExpr() or VerifyArtifact(), needs.
void AddNeeds(const serialization::Expr& expr, ExprNeeds& needs);

// Returns OK if `ops` has all loops of `needs`.
// FailedPrecondition: it lacks one, whose name with its dtype is the message.
absl::Status CheckNeeds(const ExprNeeds& needs, const TileOps& ops);

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_EXPR_NEEDS_H_
