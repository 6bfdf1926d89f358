// SPDX-License-Identifier: Apache-2.0

// Compares every pointwise row of the op table with LibTorch, over dtypes, shapes (0-d, empty, broadcast)
// and strides. Arguments follow from the schema.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <set>

#include "absl/strings/str_split.h"
#include "aot/lowering/op_table.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/reference/register_reference.h"
#include "testing/ops/op_runner.h"
#include "testing/ops/schema_arguments.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

const KernelRegistry& ReferenceKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    EXPECT_TRUE(RegisterReferenceKernels(*kernels).ok());
    return kernels;
  }();
  return registry;
}

class PointwiseTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PointwiseTest, AgreesWithLibTorch) {
  const std::string& op = GetParam();
  const std::vector<std::string> parts = absl::StrSplit(op, '.');
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(("aten::" + parts[1]).c_str(),
                                                                     parts[2] == "default" ? "" : parts[2].c_str());
  constexpr uint64_t kSeed = 20;
  RecordProperty("seed", static_cast<int>(kSeed));
  at::manual_seed(kSeed);
  int compared = 0;
  for (const at::ScalarType dtype :
       {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    for (const Shape& shape : Shapes()) {
      const OpArguments arguments = MakeArguments(handle.schema(), shape, dtype);
      for (const KernelRegistry* kernels : {&CpuKernels(), &ReferenceKernels()}) {
        const OpOutcome outcome = RunOpBothWays(op, arguments, *kernels);
        if (outcome.kind == OpOutcome::Kind::kRefusedByLibTorch) break;
        EXPECT_EQ(outcome.kind, OpOutcome::Kind::kCompared)
            << at::toString(dtype) << ", " << shape.name << ": " << outcome.message;
        EXPECT_LE(outcome.error, kTranscendental)
            << at::toString(dtype) << ", " << shape.name << ": " << outcome.message
            << (kernels == &CpuKernels() ? " (cpu)" : " (reference)");
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0) << "LibTorch refused all arguments";
}

// Rows whose arguments cannot be guessed; explicit_test.cc has cases for them.
const std::set<std::string>& ExplicitOps() {
  static const std::set<std::string>& ops = *new std::set<std::string>{
      "aten.mvlgamma.default", "aten.clamp.Tensor", "aten.clamp.default", "aten.diagonal_backward.default",
      "aten.diagonal_scatter.default", "aten.glu_backward.default", "aten.select_backward.default",
      "aten.select_scatter.int", "aten.select_scatter.default",
      // The second result is a buffer that only LibTorch's own backward reads.
      "aten.log_sigmoid_forward.default", "aten.log_sigmoid_backward.default",
      // LibTorch is accurate to half the digits of f64.
      "aten.special_bessel_j0.default", "aten.special_bessel_j1.default", "aten.special_bessel_y0.default",
      "aten.special_bessel_y1.default",
      // LibTorch returns a lazy negation (neg bit): testing/conformance/regressions/eager_complex_cases.cc.
      "aten._neg_view.default",
      // LibTorch computes 1 / 6 in f32 even for f64.
      "aten.hardsigmoid_backward.default"};
  return ops;
}

std::vector<std::string> PointwiseOps() {
  std::vector<std::string> ops;
  for (const aot::OpRow& row : aot::OpTable()) {
    const std::string op(row.op);
    if (row.family == aot::OpFamily::kPointwise && row.op.substr(0, 5) == "aten." && ExplicitOps().count(op) == 0) {
      ops.push_back(op);
    }
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(OpTable, PointwiseTest, ::testing::ValuesIn(PointwiseOps()), [](const auto& info) {
  std::string name = info.param.substr(5);
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace cotan::testing
