// Convolutions that oneDNN (2.6.3, Debian 12's) gets wrong.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_ONEDNN_BLOCKLIST_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_ONEDNN_BLOCKLIST_H_

#include "absl/strings/string_view.h"
#include "kernels/cpu/convolution/convolution_problem.h"

namespace cotan::cpu {

// Whether oneDNN's `implementation` ("jit_1x1:avx2") would compute wrong numbers for `problem`, or write beyond its
// scratch memory. Found by comparing some 400,000 random convolutions with sums in double; true for a little more
// than what failed there.
bool IsMiscomputedByOneDnn(const ConvolutionProblem& problem, absl::string_view implementation);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_ONEDNN_BLOCKLIST_H_
