// Matmul ops with an epilogue.
#ifndef COTAN_KERNELS_CPU_MATMUL_MATMUL_EPILOGUE_H_
#define COTAN_KERNELS_CPU_MATMUL_MATMUL_EPILOGUE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// One pass where matmul_update.h covers the op; otherwise the whole product, by
// a kernel of `product`, in scratch and then the expression.
//
// InvalidArgument: from CheckOp(). Unimplemented: from `product`.
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulEpilogue(const KernelRequest& request, KernelFactory product);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_MATMUL_EPILOGUE_H_
