// SPDX-License-Identifier: Apache-2.0

// Runs expressions on the PTX interpreter and on the reference kernel, for tests.
#ifndef COTAN_KERNELS_CUDA_EXPR_EXPR_CASE_H_
#define COTAN_KERNELS_CUDA_EXPR_EXPR_CASE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/expr/schedule.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::testing {

using Tensors = std::vector<std::unique_ptr<cotan::testing::HostTensor>>;

std::vector<cotan::testing::HostTensor*> Pointers(const Tensors& tensors);
Tensors Copies(const Tensors& tensors);

// An expression with its operands.
struct ExprCase {
  serialization::Op op;
  Tensors inputs;
  // Not written yet; copied for each run.
  Tensors outputs;
  expr::ScheduleOptions schedule;

  // Returns the outputs of the reference kernel. Fails the test on an error.
  Tensors Reference() const;
  // Returns the outputs of the planned kernels. Fails the test on an error. `result` may be null.
  Tensors Run(const RunOptions& options = {}, RunResult* result = nullptr) const;
  // As Run(), with output `output` in the memory of input `input`. Both have equal dtypes and layouts.
  Tensors RunInPlace(size_t input, size_t output, const RunOptions& options = {}) const;
  // Returns true if RunInPlace() is allowed.
  bool AllowsInPlace(size_t input, size_t output) const;
};

// Returns a description of the first elements that differ in a bit, NaNs and zeros being equal; "" if none.
std::string Difference(const Tensors& expected, const Tensors& actual);

// Returns the largest ErrorInUnits() of all outputs.
double LargestError(const Tensors& expected, const Tensors& actual);

}  // namespace cotan::cuda::testing

#endif  // COTAN_KERNELS_CUDA_EXPR_EXPR_CASE_H_
