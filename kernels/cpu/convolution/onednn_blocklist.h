// SPDX-License-Identifier: Apache-2.0

// Convolutions that oneDNN 2.6.3 (Debian 12) computes wrongly; 3.2 and 3.7.2 (Debian 13) most kinds of them, too.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_ONEDNN_BLOCKLIST_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_ONEDNN_BLOCKLIST_H_

#include "absl/strings/string_view.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Returns true if oneDNN's `implementation` (a name such as "jit_1x1:avx2") of this major version may compute wrong
// values for `problem` or write outside its scratchpad. The conditions come from a comparison of some 400,000 random
// convolutions with sums in double; they cover a few problems more than those that failed.
bool IsMiscomputedByOneDnn(const ConvolutionProblem& problem, absl::string_view implementation, int version);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_ONEDNN_BLOCKLIST_H_
