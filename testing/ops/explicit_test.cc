// SPDX-License-Identifier: Apache-2.0

// Compares the rows of the op table that are not pointwise with LibTorch: one or more cases each, in f32
// and, where the CPU has kernels, f64.
#include <ATen/ATen.h>

#include <cstdlib>
#include <set>

#include "aot/lowering/op_table.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/reference/register_reference.h"
#include "testing/ops/op_cases.h"
#include "testing/ops/op_runner.h"
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

// The dtypes for which the CPU has kernels may depend on attributes of the op; the reference kernels
// support all dtypes.
void Check(const OpCase& c, double tolerance) {
  SCOPED_TRACE(c.op);
  if (const char* only = std::getenv("COTAN_TEST_OP"); only != nullptr && c.op != only) return;
  at::manual_seed(3);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    OpArguments arguments;
    for (const Arg& arg : c.arguments) arguments.push_back(arg(dtype));
    for (const KernelRegistry* kernels : {&CpuKernels(), &ReferenceKernels()}) {
      const bool cpu = kernels == &CpuKernels();
      const OpOutcome outcome = RunOpBothWays("aten." + c.op, arguments, *kernels);
      if (cpu && dtype == at::kDouble && outcome.kind == OpOutcome::Kind::kUnsupported) continue;
      EXPECT_EQ(outcome.kind, OpOutcome::Kind::kCompared)
          << at::toString(dtype) << (cpu ? " cpu: " : " reference: ") << outcome.message;
      EXPECT_LE(outcome.error, tolerance)
          << at::toString(dtype) << (cpu ? " cpu: " : " reference: ") << outcome.message;
    }
  }
}

// pointwise_test runs all rows of pointwise ops. The other exceptions have nothing to compare: random
// draws, empty tensors, and the results of embedding_bag that only its backward reads (the model dlrm
// runs both). The backward of attention has a test of its own.
TEST(ExplicitOpTest, EveryOtherRowHasACase) {
  std::set<std::string> covered = {
      "cotan.random_uniform.default",
      "cotan.effect.default",        // testing/e2e/effects_test
      "cotan.leading_rows.default",  // data_sizes_test
      // testing/distributed/train_step_test
      "cotan.sync__native_batch_norm_legit.default", "cotan.sync__native_batch_norm_legit.no_stats",
      "cotan.sync__native_batch_norm_legit_functional.default", "cotan.sync_native_batch_norm.default",
      "cotan.sync_native_batch_norm_backward.default", "cotan.recurrent.default",
      "cotan.recurrent_backward.default",  // recurrent_test
      "aten.empty.memory_format", "aten.empty_like.default", "aten.new_empty.default", "aten.empty_strided.default",
      "aten.empty_permuted.default", "aten.new_empty_strided.default",
      // aot/lowering/complex_test and the conformance cases.
      "aten.view_as_real.default", "aten.view_as_complex.default",
      "aten._scaled_dot_product_flash_attention_for_cpu_backward.default", "aten._embedding_bag.default",
      "aten._embedding_bag_forward_only.default"};
  for (const OpCaseGroup& group : OpCases()) {
    for (const OpCase& c : group.cases) covered.insert("aten." + c.op);
  }
  for (const aot::OpRow& row : aot::OpTable()) {
    if (row.family == aot::OpFamily::kPointwise) continue;
    EXPECT_TRUE(covered.contains(std::string(row.op))) << row.op;
  }
}

class ExplicitOpsTest : public ::testing::TestWithParam<OpCaseGroup> {};

TEST_P(ExplicitOpsTest, AgreeWithLibTorch) {
  for (const OpCase& c : GetParam().cases) Check(c, GetParam().tolerance);
}

INSTANTIATE_TEST_SUITE_P(OpCases, ExplicitOpsTest, ::testing::ValuesIn(OpCases()),
                         [](const auto& info) { return info.param.name; });

// The operands must be consistent: the result and the logsumexp are those of the forward.
TEST(ExplicitOpTest, AttentionBackward) {
  at::manual_seed(3);
  for (const bool is_causal : {false, true}) {
    std::vector<at::Tensor> qkv;
    for (int i = 0; i < 3; ++i) qkv.push_back(at::rand({2, 3, 10, 8}) * 2 - 1);
    const auto [result, logsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(qkv[0], qkv[1], qkv[2], 0.0, is_causal);
    const OpArguments arguments = {
        at::rand({2, 3, 10, 8}), qkv[0], qkv[1], qkv[2], result, logsumexp, 0.0, is_causal, {}, {}};
    for (const KernelRegistry* kernels : {&CpuKernels(), &ReferenceKernels()}) {
      const OpOutcome outcome =
          RunOpBothWays("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", arguments, *kernels);
      EXPECT_EQ(outcome.kind, OpOutcome::Kind::kCompared) << outcome.message;
      EXPECT_LE(outcome.error, kMatmul) << outcome.message;
    }
  }
}

}  // namespace
}  // namespace cotan::testing
