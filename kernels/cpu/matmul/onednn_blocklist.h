// SPDX-License-Identifier: Apache-2.0

// Matrix products that a version of oneDNN computes wrongly.
#ifndef COTAN_KERNELS_CPU_MATMUL_ONEDNN_BLOCKLIST_H_
#define COTAN_KERNELS_CPU_MATMUL_ONEDNN_BLOCKLIST_H_

#include "absl/strings/string_view.h"
#include "kernels/cpu/matmul/matmul_geometry.h"

namespace cotan::cpu {

// Returns true if oneDNN's implementation of this name gives wrong results for `geometry`: 3.7 of Debian 13 does for
// vectors with gaps. MatmulTest compares the products of random strides with reference values.
bool IsMiscomputedByOneDnn(const MatmulGeometry& geometry, absl::string_view implementation);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_ONEDNN_BLOCKLIST_H_
