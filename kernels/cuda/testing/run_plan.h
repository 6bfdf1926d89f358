// SPDX-License-Identifier: Apache-2.0

// Runs plans of ops on the PTX interpreter, without a device, for the tests of kernels.
#ifndef COTAN_KERNELS_CUDA_TESTING_RUN_PLAN_H_
#define COTAN_KERNELS_CUDA_TESTING_RUN_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "kernels/cuda/sim/ptx/counters.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::testing {

struct RunOptions {
  absl::Span<const int64_t> symbols = {};
  // Sets KernelRequest::guarded_outputs.
  bool guarded_outputs = false;
  // The error record has an error of an earlier op when the first launch begins.
  bool failed_before = false;
  // Draws the order of blocks and warps; 0: in order.
  uint64_t seed = 0;
  int compute_capability = 90;
  int multiprocessors = 132;
};

struct RunResult {
  int launches = 0;  // of kernels, copies and sets
  ptx::Counters counters;
};

// Plans `op`, compiles its kernels with NVRTC and interprets them, with all checks of the interpreter. `inputs` may
// contain a tensor more than once; an output that is also an input shares its memory. Elements of outputs count as
// never written before, unless they share memory with an input; a kernel must write each of them, and nothing between
// them. The scratch is never written before, and has exactly the planned size.
// Errors of `plan`, of NVRTC and of the interpreter; the error that the kernels recorded.
// Internal: an element of an output is not written, or a byte between elements is.
absl::StatusOr<RunResult> RunPlan(absl::FunctionRef<absl::StatusOr<KernelPlan>(const KernelRequest&)> plan,
                                  const serialization::Op& op, absl::Span<cotan::testing::HostTensor* const> inputs,
                                  absl::Span<cotan::testing::HostTensor* const> outputs,
                                  const RunOptions& options = {});

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_TESTING_RUN_PLAN_H_
