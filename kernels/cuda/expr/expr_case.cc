// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/expr_case.h"

#include <algorithm>
#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/api/in_place.h"
#include "kernels/cuda/expr/expr_plan.h"
#include "kernels/reference/expr.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda::testing {

using cotan::testing::ErrorInUnits;
using cotan::testing::HostTensor;

std::vector<HostTensor*> Pointers(const Tensors& tensors) {
  std::vector<HostTensor*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

Tensors Copies(const Tensors& tensors) {
  Tensors copies;
  for (const auto& tensor : tensors) copies.push_back(std::make_unique<HostTensor>(*tensor));
  return copies;
}

Tensors ExprCase::Reference() const {
  Tensors result = Copies(outputs);
  const absl::Status status = cotan::testing::RunOp(reference::MakeExpr, op, Pointers(inputs), Pointers(result));
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

Tensors ExprCase::Run(const RunOptions& options, RunResult* result) const {
  Tensors written = Copies(outputs);
  const auto plan = [&](const KernelRequest& request) { return PlanExprWith(request, schedule); };
  const absl::StatusOr<RunResult> run = RunPlan(plan, op, Pointers(inputs), Pointers(written), options);
  EXPECT_TRUE(run.ok()) << run.status();
  if (run.ok() && result != nullptr) *result = *run;
  return written;
}

Tensors ExprCase::RunInPlace(size_t input, size_t output, const RunOptions& options) const {
  const Tensors shared = Copies(inputs);
  Tensors written = Copies(outputs);
  std::vector<HostTensor*> pointers = Pointers(written);
  pointers[output] = shared[input].get();
  const auto plan = [&](const KernelRequest& request) { return PlanExprWith(request, schedule); };
  const absl::StatusOr<RunResult> run = RunPlan(plan, op, Pointers(shared), pointers, options);
  EXPECT_TRUE(run.ok()) << run.status();
  *written[output] = *shared[input];
  return written;
}

bool ExprCase::AllowsInPlace(size_t input, size_t output) const {
  if (inputs[input]->dtype() != outputs[output]->dtype()) return false;
  std::vector<TensorSpec> input_specs;
  std::vector<TensorSpec> output_specs;
  for (const auto& tensor : inputs) input_specs.push_back(tensor->spec());
  for (const auto& tensor : outputs) output_specs.push_back(tensor->spec());
  return InPlaceSafe({.op = op, .inputs = input_specs, .outputs = output_specs, .symbols = {}}, static_cast<int>(input),
                     static_cast<int>(output));
}

std::string Difference(const Tensors& expected, const Tensors& actual) {
  for (size_t k = 0; k < expected.size(); ++k) {
    const std::vector<double> a = expected[k]->Values();
    const std::vector<double> b = actual[k]->Values();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
      return absl::StrCat("output ", k, " element ", i, ": expected ", a[i], ", found ", b[i]);
    }
  }
  return "";
}

double LargestError(const Tensors& expected, const Tensors& actual) {
  double error = 0;
  for (size_t k = 0; k < expected.size(); ++k) error = std::max(error, ErrorInUnits(*actual[k], expected[k]->Values()));
  return error;
}

}  // namespace cotan::cuda::testing
