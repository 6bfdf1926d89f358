// Expressions, one element at a time.
#ifndef COTAN_KERNELS_REFERENCE_EXPR_H_
#define COTAN_KERNELS_REFERENCE_EXPR_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::reference {

// Each instruction's results are computed for the whole domain, in double or
// int64, rounded to the instruction's dtype, before the next instruction.
// A KernelFactory; errors as ResolveExpr().
absl::StatusOr<std::unique_ptr<Kernel>> MakeExpr(const KernelRequest& request);

}  // namespace cotan::reference

#endif  // COTAN_KERNELS_REFERENCE_EXPR_H_
