// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/attention/cudnn_attention.h"

#include <memory>
#include <random>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_case.h"
#include "kernels/cuda/convolution/sim_plan_runner.h"
#include "kernels/cuda/cudnn/execution_plan.h"
#include "kernels/cuda/sim/cudnn/no_device_driver.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::ErrorInUnits;
using cotan::testing::HostTensor;
using cotan::testing::TestSeed;
using testing::SimPlanRunner;
using Bias = AttentionCase::Bias;
using Layout = AttentionCase::Layout;

// The op of one case with the geometry of its operands.
struct Call {
  serialization::Op op;
  std::vector<HostTensor*> inputs;
  std::vector<HostTensor*> expected;
  std::vector<TensorSpec> input_specs;
  std::vector<TensorSpec> output_specs;

  Call(AttentionOperands& operands, bool is_backward)
      : op(is_backward ? operands.BackwardOp() : operands.ForwardOp()),
        inputs(is_backward ? operands.BackwardInputs() : operands.ForwardInputs()) {
    expected = is_backward ? std::vector<HostTensor*>{&operands.grad_q, &operands.grad_k, &operands.grad_v}
                           : std::vector<HostTensor*>{&operands.result, &operands.logsumexp};
    for (const HostTensor* tensor : inputs) input_specs.push_back(tensor->spec());
    for (const HostTensor* tensor : expected) output_specs.push_back(tensor->spec());
  }

  KernelRequest Request(bool guarded_outputs = false) const {
    return {
        .op = op, .inputs = input_specs, .outputs = output_specs, .symbols = {}, .guarded_outputs = guarded_outputs};
  }
  absl::StatusOr<KernelPlan> Plan(bool guarded_outputs = false) const {
    const KernelRequest request = Request(guarded_outputs);
    return op.has_attention() ? PlanAttention(request) : PlanAttentionBackward(request);
  }
};

bool IsOneLibraryCall(const absl::StatusOr<KernelPlan>& plan) {
  return plan.ok() && plan->steps.size() == 1 && std::holds_alternative<LibraryCall>(plan->steps[0]);
}

class CudnnAttentionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const absl::Status status = sim::LoadNoDeviceDriver();
    ASSERT_TRUE(status.ok()) << status;
  }

  void ExpectReference(const AttentionCase& c, bool is_backward) {
    SCOPED_TRACE(c.ToString() + (is_backward ? " backward" : ""));
    AttentionOperands operands(c, random_);
    ASSERT_TRUE(operands.MakeExpected().ok());
    const Call call(operands, is_backward);
    const absl::StatusOr<KernelPlan> plan = call.Plan();
    ASSERT_TRUE(IsOneLibraryCall(plan)) << plan.status();
    std::vector<HostTensor> actual;
    std::vector<HostTensor*> outputs;
    for (const HostTensor* tensor : call.expected) actual.emplace_back(tensor->dtype(), tensor->layout());
    for (HostTensor& tensor : actual) outputs.push_back(&tensor);
    const absl::Status status = runner_.Run(*plan, call.inputs, outputs, {});
    ASSERT_TRUE(status.ok()) << status;
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_LE(ErrorInUnits(actual[i], call.expected[i]->Values()), cotan::testing::kMatmul) << "output " << i;
    }
  }

  std::mt19937_64 random_{TestSeed()};
  SimPlanRunner runner_;
};

TEST_F(CudnnAttentionTest, EachDTypeMaskAndLayoutIsSupportedByCudnn) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const bool is_causal : {false, true}) {
      const AttentionCase c = {.dtype = dtype,
                               .batch = 2,
                               .queries = 33,
                               .keys = is_causal ? 17 : 40,
                               .size = 32,
                               .value_size = 32,
                               .is_causal = is_causal,
                               .layout = dtype == DType::kFloat16 ? Layout::kRowMajor : Layout::kHeadsInside};
      ExpectReference(c, /*is_backward=*/false);
      ExpectReference(c, /*is_backward=*/true);
    }
  }
  EXPECT_EQ(runner_.sim_cudnn().num_executions(), 2 * 2 * 2);
}

TEST_F(CudnnAttentionTest, RowSizesAndSingleRowsAreSupportedByCudnn) {
  for (const bool is_backward : {false, true}) {
    ExpectReference({.dtype = DType::kBFloat16, .heads = 1, .queries = 1, .size = 8, .value_size = 8}, is_backward);
    ExpectReference({.dtype = DType::kFloat16, .heads = 1, .keys = 1, .size = 128, .value_size = 128}, is_backward);
  }
}

TEST_F(CudnnAttentionTest, EnginesAreDeterministic) {
  AttentionOperands operands(
      {.dtype = DType::kBFloat16, .queries = 64, .keys = 64, .size = 32, .value_size = 32, .is_causal = true}, random_);
  for (const bool is_backward : {false, true}) {
    const Call call(operands, is_backward);
    const absl::StatusOr<ExecutionPlan> plan = CudnnAttention(call.Request()).MakePlan(**runner_.cudnn());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(IsEngineAllowed(plan->notes(), {.keep_input_precision = false}));
  }
}

TEST_F(CudnnAttentionTest, ForwardThatDoesNotReturnLogsumexpWritesItToTheScratch) {
  AttentionOperands operands({.dtype = DType::kBFloat16, .size = 16, .value_size = 16}, random_);
  ASSERT_TRUE(operands.MakeExpected().ok());
  Call call(operands, /*is_backward=*/false);
  call.output_specs.pop_back();
  const absl::StatusOr<KernelPlan> plan = call.Plan();
  ASSERT_TRUE(IsOneLibraryCall(plan)) << plan.status();
  HostTensor result(DType::kBFloat16, operands.result.layout());
  const absl::Status status = runner_.Run(*plan, call.inputs, result);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_LE(ErrorInUnits(result, operands.result.Values()), cotan::testing::kMatmul);
}

TEST_F(CudnnAttentionTest, OtherOpsKeepTheKernelsOfThisProject) {
  const AttentionCase supported = {.dtype = DType::kBFloat16, .size = 16, .value_size = 16};
  const auto variant = [&](auto change) {
    AttentionCase c = supported;
    change(c);
    return c;
  };
  const AttentionCase cases[] = {
      variant([](AttentionCase& c) { c.dtype = DType::kFloat32; }),
      variant([](AttentionCase& c) { c.dtype = DType::kFloat64; }),
      variant([](AttentionCase& c) { c.bias = Bias::kFull; }),
      variant([](AttentionCase& c) { c.size = c.value_size = 20; }),
      variant([](AttentionCase& c) { c.size = c.value_size = 136; }),
      variant([](AttentionCase& c) { c.value_size = 8; }),
      variant([](AttentionCase& c) { c.queries = c.keys = 1; }),
  };
  for (const bool is_backward : {false, true}) {
    AttentionOperands taken(supported, random_);
    EXPECT_TRUE(IsOneLibraryCall(Call(taken, is_backward).Plan()));
    EXPECT_FALSE(IsOneLibraryCall(Call(taken, is_backward).Plan(/*guarded_outputs=*/true)));
    for (const AttentionCase& c : cases) {
      SCOPED_TRACE(c.ToString());
      AttentionOperands operands(c, random_);
      const absl::StatusOr<KernelPlan> plan = Call(operands, is_backward).Plan();
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_FALSE(IsOneLibraryCall(plan));
    }
  }
}

TEST_F(CudnnAttentionTest, RowsThatAreNotAlignedKeepTheKernelsOfThisProject) {
  AttentionOperands operands({.dtype = DType::kBFloat16, .size = 16, .value_size = 16}, random_);
  for (const int64_t gap : {1, 4, 8}) {
    Call call(operands, /*is_backward=*/false);
    DimVector& strides = call.input_specs[0].layout.strides;
    strides[2] = 16 + gap;
    strides[1] = strides[0] = strides[2] * 32;
    EXPECT_EQ(IsOneLibraryCall(call.Plan()), gap == 8) << gap;
  }
}

TEST_F(CudnnAttentionTest, MisalignedOperandIsAnError) {
  AttentionOperands operands({.dtype = DType::kBFloat16, .size = 16, .value_size = 16}, random_);
  const Call call(operands, /*is_backward=*/false);
  const absl::StatusOr<KernelPlan> plan = call.Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  const absl::Status status = runner_.Run(*plan, call.inputs, call.expected, {.shift_bytes = 2});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "not aligned to 16 bytes")) << status;
}

// Layers of a model have equal attentions.
TEST_F(CudnnAttentionTest, EqualOpsShareAPlanWhileOneIsInUse) {
  const AttentionCase layer = {.dtype = DType::kBFloat16, .size = 16, .value_size = 16};
  AttentionCase causal = layer;
  causal.is_causal = true;
  AttentionOperands operands(layer, random_);
  AttentionOperands others(causal, random_);
  for (const bool is_backward : {false, true}) {
    const auto prepare = [&](AttentionOperands& of) {
      return CudnnAttention(Call(of, is_backward).Request()).Prepare(runner_);
    };
    absl::StatusOr<std::unique_ptr<LibraryOperation>> first = prepare(operands);
    ASSERT_TRUE(first.ok()) << first.status();
    runner_.sim_cudnn().RefusePlans(true);
    absl::StatusOr<std::unique_ptr<LibraryOperation>> second = prepare(operands);
    EXPECT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(prepare(others).status().code(), absl::StatusCode::kUnimplemented);
    first->reset();
    EXPECT_TRUE(prepare(operands).ok());
    second->reset();
    EXPECT_EQ(prepare(operands).status().code(), absl::StatusCode::kUnimplemented);
    runner_.sim_cudnn().RefusePlans(false);
  }
}

TEST_F(CudnnAttentionTest, RefusedPlansAreUnimplemented) {
  AttentionOperands operands({.dtype = DType::kBFloat16, .size = 16, .value_size = 16}, random_);
  const Call call(operands, /*is_backward=*/true);
  const absl::StatusOr<KernelPlan> plan = call.Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  runner_.sim_cudnn().RefusePlans(true);
  const absl::Status status = runner_.Run(*plan, call.inputs, call.expected, {});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
}

}  // namespace
}  // namespace cotan::cuda
