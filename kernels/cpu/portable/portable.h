// Matrix products and convolutions without a library: for element types that
// oneDNN lacks, and for binaries that must be small.
#ifndef COTAN_KERNELS_CPU_PORTABLE_PORTABLE_H_
#define COTAN_KERNELS_CPU_PORTABLE_PORTABLE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Factories of matmul (f32, f64, i32, i64) and of the convolutions (f32, f64),
// any strides. Convolutions gather each image's windows into a matrix and work
// on row-major copies of operands that are not row-major. Bitwise equal for
// any thread count.
//
// InvalidArgument: from CheckOp(). Unimplemented: another dtype.
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableMatmul(const KernelRequest& request);
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableConvolution(const KernelRequest& request);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_PORTABLE_PORTABLE_H_
