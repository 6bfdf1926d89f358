// SPDX-License-Identifier: Apache-2.0

// Matrix products that a version of oneDNN computes wrongly.
#ifndef COTAN_KERNELS_CPU_MATMUL_ONEDNN_BLOCKLIST_H_
#define COTAN_KERNELS_CPU_MATMUL_ONEDNN_BLOCKLIST_H_

#include "absl/strings/string_view.h"
#include "kernels/cpu/matmul/matmul_geometry.h"

namespace cotan::cpu {

// Returns true if oneDNN's implementation of this name gives wrong results for `geometry`, or may. Measured with 3.7.2
// of Debian 13; 2.6.3 of Debian 12 has none. MatmulTest compares products of random strides with reference values.
bool IsMiscomputedByOneDnn(const MatmulGeometry& geometry, absl::string_view implementation);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_MATMUL_ONEDNN_BLOCKLIST_H_
