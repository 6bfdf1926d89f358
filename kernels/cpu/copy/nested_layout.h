// SPDX-License-Identifier: Apache-2.0

// Describes which layouts a kernel library can read in place; operands of others are copied.
#ifndef COTAN_KERNELS_CPU_COPY_NESTED_LAYOUT_H_
#define COTAN_KERNELS_CPU_COPY_NESTED_LAYOUT_H_

#include "base/layout.h"

namespace cotan::cpu {

// Returns true if each dimension steps over the whole of those with smaller strides, as oneDNN demands. Elements of
// sliding windows overlap, so that they do not. Dimensions of size 1 or stride 0 are not looked at.
bool IsNested(const StridedLayout& layout);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_COPY_NESTED_LAYOUT_H_
