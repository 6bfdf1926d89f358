// SPDX-License-Identifier: Apache-2.0

// Copies of a convolution's weights between their row-major layout and one with the input channels innermost.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WEIGHT_TAPS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WEIGHT_TAPS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/api/kernel.h"

namespace cotan::cpu {

// f32 weights [out, in, num_taps], and a matrix that has the weight of output channel o, input channel i and tap
// taps[t] at o * out_stride + t * tap_stride + i.
struct WeightTaps {
  int64_t out = 0;
  int64_t in = 0;
  int64_t num_taps = 1;
  std::vector<int64_t> taps;
  int64_t out_stride = 0;
  int64_t tap_stride = 0;
};

// Returns a kernel that copies weights, input 0, to the matrix, output 0.
std::unique_ptr<Kernel> MakeTapGather(WeightTaps layout, int threads);

// Returns a kernel that copies the matrix, input 0, to weights, output 0. Weights of other taps are left as they are.
std::unique_ptr<Kernel> MakeTapScatter(WeightTaps layout, int threads);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WEIGHT_TAPS_H_
