// SPDX-License-Identifier: Apache-2.0

// The CPU kernel for expressions of any shape and dtype.
#ifndef COTAN_KERNELS_CPU_EXPR_EXPR_KERNEL_H_
#define COTAN_KERNELS_CPU_EXPR_EXPR_KERNEL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu {

// Factory of expr. Results are bitwise equal for any thread count. An output may share the memory of an input
// where InPlaceSafe() allows it.
// Errors: from ResolveExpr() and CompilePlan().
absl::StatusOr<std::unique_ptr<Kernel>> MakeExpr(const KernelRequest& request);

// Options of MakeExprWith(), for tests and benchmarks.
struct ExprOptions {
  // Inner loops; null selects the best ones for the processor. They outlive the kernel.
  const expr::TileOps* ops = nullptr;
  // Estimated work per thread, in nanoseconds: a kernel with less work uses fewer threads.
  double ns_per_thread = 20'000;
};

// Makes the kernel of MakeExpr() with other inner loops or another threading threshold, and without special cases
// (dequantize.h).
absl::StatusOr<std::unique_ptr<Kernel>> MakeExprWith(const KernelRequest& request, const ExprOptions& options);

// Makes the kernel of MakeExprWith() with the inner loops `ops`, which outlive it. References no others, so that a
// binary need not link them. Each loop that ExprNeeds (expr_needs.h) has for the op is in `ops`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeExprOn(const KernelRequest& request, const expr::TileOps& ops,
                                                   double ns_per_thread = ExprOptions{}.ns_per_thread);

// Registers MakeExpr() for every dtype that expressions support.
// AlreadyExists: `registry` already has a CPU kernel for expr.
absl::Status RegisterExprKernels(KernelRegistry& registry);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_EXPR_EXPR_KERNEL_H_
