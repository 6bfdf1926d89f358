// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr_launch.h"

#include <algorithm>
#include <limits>

namespace cotan::cuda {
namespace {

constexpr int kThreadsPerBlock = 256;
// The largest number of blocks, enough to fill any GPU; each thread then computes several elements.
constexpr int64_t kMaxBlocks = 1 << 14;

template <typename Index>
__global__ void __launch_bounds__(kThreadsPerBlock)
    ExprKernel(const __grid_constant__ DeviceExpr program, const __grid_constant__ ExprPointers pointers) {
  const Index count = static_cast<Index>(program.num_elements);
  const Index step = static_cast<Index>(gridDim.x) * kThreadsPerBlock;
  for (Index i = static_cast<Index>(blockIdx.x) * kThreadsPerBlock + threadIdx.x; i < count; i += step) {
    EvaluateExpr<Index>(program, pointers, i);
  }
}

}  // namespace

cudaError_t LaunchExpr(const DeviceExpr& program, const ExprPointers& pointers, cudaStream_t stream) {
  const int64_t blocks = std::min((program.num_elements + kThreadsPerBlock - 1) / kThreadsPerBlock, kMaxBlocks);
  // Half the range of uint32_t, so that `i += step` cannot wrap around.
  if (program.num_elements <= std::numeric_limits<int32_t>::max()) {
    ExprKernel<uint32_t><<<blocks, kThreadsPerBlock, 0, stream>>>(program, pointers);
  } else {
    ExprKernel<uint64_t><<<blocks, kThreadsPerBlock, 0, stream>>>(program, pointers);
  }
  return cudaGetLastError();
}

}  // namespace cotan::cuda
