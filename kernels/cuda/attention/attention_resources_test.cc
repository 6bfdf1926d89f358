// SPDX-License-Identifier: Apache-2.0

// What the kernels of attention need on each architecture: a change of the text that makes arrays spill is found here.

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cuda {
namespace {

struct Case {
  DType dtype;
  int64_t size;
  bool has_bias;
  int max_registers;
};

TensorSpec Spec(DType dtype, const DimVector& sizes) { return {dtype, {sizes, ContiguousStrides(sizes)}}; }

// Returns the plans of the forward and the backward: 8 x 16 heads, 512 queries and keys.
std::vector<KernelPlan> Plans(const Case& c) {
  const DType sum = c.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const TensorSpec q = Spec(c.dtype, {8, 16, 512, c.size});
  const TensorSpec logsumexp = Spec(sum, {8, 16, 512});
  std::vector<TensorSpec> forward = {q, q, q};
  std::vector<TensorSpec> backward = {q, q, q, q, q, logsumexp};
  if (c.has_bias) {
    forward.push_back(Spec(c.dtype, {512, 512}));
    backward.push_back(forward.back());
  }
  serialization::Op op, backward_op;
  op.mutable_attention()->set_is_causal(true);
  op.mutable_attention()->set_scale(0.125);
  *backward_op.mutable_attention_backward() = op.attention();
  const std::vector<TensorSpec> results = {q, logsumexp};
  const std::vector<TensorSpec> gradients = {q, q, q};
  return {
      PlanFlashAttention({.op = op, .inputs = forward, .outputs = results, .symbols = {}}).value(),
      PlanFlashAttentionBackward({.op = backward_op, .inputs = backward, .outputs = gradients, .symbols = {}}).value()};
}

TEST(AttentionResourcesTest, NoKernelSpillsOrIndexesLocalMemory) {
  for (const Case& c : {Case{DType::kFloat32, 64, false, 168}, Case{DType::kBFloat16, 64, true, 168},
                        Case{DType::kFloat16, 128, false, 168}, Case{DType::kFloat32, 256, false, 128},
                        Case{DType::kFloat64, 64, false, 168}}) {
    for (const KernelPlan& plan : Plans(c)) {
      for (const PlanStep& step : plan.steps) {
        const KernelLaunch& launch = std::get<KernelLaunch>(step);
        SCOPED_TRACE(absl::StrCat(launch.source.entry, " ", DTypeName(c.dtype), " E ", c.size));
        EXPECT_LE(launch.dynamic_shared_bytes, 99u * 1024u);
        const auto resources = CompileForArchitectures(launch.source);
        ASSERT_TRUE(resources.ok()) << resources.status();
        EXPECT_TRUE(CheckResources(*resources, c.max_registers).ok()) << CheckResources(*resources, c.max_registers);
        for (const KernelResources& kernel : *resources) {
          RecordProperty(
              absl::StrCat(launch.source.entry, "_", DTypeName(c.dtype), "_", c.size, "_sm", kernel.compute_capability),
              kernel.registers);
        }
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cuda
