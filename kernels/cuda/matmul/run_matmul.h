// SPDX-License-Identifier: Apache-2.0

// Runs plans of matmul ops without a device: kernels on the PTX interpreter, calls of cuBLASLt on its simulator.
#ifndef COTAN_KERNELS_CUDA_MATMUL_RUN_MATMUL_H_
#define COTAN_KERNELS_CUDA_MATMUL_RUN_MATMUL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/cublaslt/cublaslt.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::testing {

struct MatmulRunOptions {
  F32Precision precision = F32Precision::kIeee;
  bool guarded_outputs = false;
  // The error record has an error of an earlier op at the start.
  bool failed_before = false;
  // Operands start this many elements behind an aligned address.
  int64_t misalignment = 0;
};

struct MatmulRunResult {
  int num_kernels = 0;
  int num_products = 0;  // calls of cublasLtMatmul
};

// Plans `op` and runs the plan, with all checks of the interpreter and the simulator. Outputs share memory with inputs
// that are the same tensor.
// Errors of `plan`, NVRTC, the interpreter and the simulator.
// Internal: an element of an output is not written, or a byte between elements is; the steps leak.
absl::StatusOr<MatmulRunResult> RunMatmul(absl::FunctionRef<absl::StatusOr<KernelPlan>(const KernelRequest&)> plan,
                                          const serialization::Op& op,
                                          absl::Span<cotan::testing::HostTensor* const> inputs,
                                          absl::Span<cotan::testing::HostTensor* const> outputs,
                                          const MatmulRunOptions& options = {});

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_MATMUL_RUN_MATMUL_H_
