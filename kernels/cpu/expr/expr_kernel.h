// The CPU's kernel for expressions of any shape and dtype.
#ifndef COTAN_KERNELS_CPU_EXPR_EXPR_KERNEL_H_
#define COTAN_KERNELS_CPU_EXPR_EXPR_KERNEL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu {

// A KernelFactory; errors as ResolveExpr(). Results are the same bits for any
// number of threads. Outputs may lie in the memory of inputs where
// InPlaceSafe() says so.
absl::StatusOr<std::unique_ptr<Kernel>> MakeExpr(const KernelRequest& request);

struct ExprOptions {
  // Inner loops; null = the processor's best. Outlives the kernel.
  const expr::TileOps* ops = nullptr;
  // Estimated work, in nanoseconds, for which one more thread is woken.
  double ns_per_thread = 20'000;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeExprWith(const KernelRequest& request, const ExprOptions& options);

// Registers MakeExpr for every dtype that expressions have.
absl::Status RegisterExprKernels(KernelRegistry& registry);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_EXPR_EXPR_KERNEL_H_
