// SPDX-License-Identifier: Apache-2.0

// The part that one op, or one phase of it, has in a launch.
#ifndef COTAN_KERNELS_CUDA_EXPR_KERNEL_PART_H_
#define COTAN_KERNELS_CUDA_EXPR_KERNEL_PART_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda::expr {

struct KernelParameter {
  std::string type;  // "const float*"
  std::string name;  // "in0"
  KernelArgument argument;
};

// Statements that compute the part of block `block`, a variable that the kernel defines. Immutable after it is made.
struct KernelPart {
  std::string entry;  // name of a kernel that has this part only: "expr_rows"
  bool wide = false;  // Index is uint64
  // Headers of the device library, without ".cuh", in alphabetic order.
  std::vector<std::string> headers;
  std::vector<KernelParameter> parameters;
  // If not 0, the statements use a variable `elements` with this value, and are otherwise the same for all sizes.
  int64_t elements = 0;
  // If not 0, the statements use an array `words` of so many uint64 in device memory, which are zero before the first
  // launch, and which the launches leave to each other.
  int64_t words = 0;
  // It writes guarded outputs: ends at once after an earlier error.
  bool guarded = false;
  std::string body;
  int64_t blocks = 1;
  int threads = 256;
  // If not 0, blocks for which a multiprocessor needs registers at the same time.
  int resident = 0;
};

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_KERNEL_PART_H_
