// SPDX-License-Identifier: Apache-2.0

// Copies of operands for kernels that need dense rows.
#ifndef COTAN_KERNELS_CPU_RECURRENT_DENSE_ROWS_H_
#define COTAN_KERNELS_CPU_RECURRENT_DENSE_ROWS_H_

#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"

namespace cotan::cpu {

// Returns the kernel of `make` for `request`, with copies of the operands whose rows (last dimensions) are not
// dense. The input number `weight` may have any strides. Errors are those of `make`.
absl::StatusOr<std::unique_ptr<Kernel>> WithDenseRows(const KernelRequest& request, size_t weight, KernelFactory make);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_RECURRENT_DENSE_ROWS_H_
