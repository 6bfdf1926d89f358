// SPDX-License-Identifier: Apache-2.0

// A kernel's source text with its launch.
#ifndef COTAN_KERNELS_CUDA_COPY_KERNEL_TEXT_H_
#define COTAN_KERNELS_CUDA_COPY_KERNEL_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/rounding.h"
#include "kernels/cuda/launch/kernel_plan.h"

namespace cotan::cuda {

struct KernelParameter {
  std::string declaration;  // "const float* input"
  KernelArgument argument;
};

struct KernelText {
  std::string entry;
  std::string header;            // file of the device library: "copy.cuh"
  std::string definitions = {};  // in front of the kernel
  std::vector<KernelParameter> parameters = {};
  // The kernel writes outputs that are guarded: it ends at once after an earlier error.
  bool guarded = false;
  std::string body = {};  // statements
  int64_t blocks = 1;
  int threads = 256;
  // Registers of a thread that ptxas may use, at least; 0 = it chooses. It prefers many blocks per processor, to the
  // point of spilling some values.
  int registers = 0;
};

// Returns the launch of the kernel.
// Unimplemented: more blocks than CUDA allows.
absl::StatusOr<KernelLaunch> MakeLaunch(const KernelText& kernel);

// Returns the element type of `dtype` in device code: "float", "cotan::bfloat16"; for bool, u8. Complex types: "void".
absl::string_view ElementTypeName(DType dtype);

// Returns the type of device code that holds `bytes` (1, 2, 4, 8 or 16) bytes and is aligned to as many.
absl::string_view WordTypeName(size_t bytes);

// Returns a / b, rounded up; a >= 0, b > 0.

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COPY_KERNEL_TEXT_H_
