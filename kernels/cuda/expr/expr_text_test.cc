// SPDX-License-Identifier: Apache-2.0

// The texts of kernels: some of them as they are, and what ptxas needs for a variety.
#include <algorithm>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/cuda/expr/expr_case.h"
#include "kernels/cuda/expr/expr_plan.h"
#include "kernels/cuda/expr/model_exprs.h"
#include "kernels/cuda/matmul/matmul.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cuda::testing {
namespace {

constexpr DType kF32 = DType::kFloat32;
constexpr DType kBf16 = DType::kBFloat16;

absl::StatusOr<KernelPlan> Plan(const std::vector<ExprCase>& members, const std::vector<KernelRequest>& requests) {
  if (members.size() > 1) return PlanExprGroup(requests);
  if (members[0].op.has_matmul()) return PlanMatmul(requests[0], PlanExpr);
  return PlanExprWith(requests[0], members[0].schedule);
}

KernelPlan PlanOf(const std::vector<ExprCase>& members) {
  std::vector<std::vector<TensorSpec>> specs;
  for (const ExprCase& expr : members) {
    for (const Tensors* tensors : {&expr.inputs, &expr.outputs}) {
      specs.emplace_back();
      for (const auto& tensor : *tensors) specs.back().push_back(tensor->spec());
    }
  }
  std::vector<KernelRequest> requests;
  for (size_t i = 0; i < members.size(); ++i) {
    requests.push_back({.op = members[i].op,
                        .inputs = specs[2 * i],
                        .outputs = specs[2 * i + 1],
                        .symbols = {},
                        .guarded_outputs = true});
  }
  absl::StatusOr<KernelPlan> plan = Plan(members, requests);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? *std::move(plan) : KernelPlan();
}

KernelPlan PlanOf(ExprCase expr) {
  std::vector<ExprCase> members;
  members.push_back(std::move(expr));
  return PlanOf(members);
}

std::string TextOf(const KernelPlan& plan) {
  std::string text;
  for (const PlanStep& step : plan.steps) text += std::get<KernelLaunch>(step).source.text;
  return text;
}

void ExpectText(const std::string& file, const std::string& text) {
  std::ifstream stream("kernels/cuda/expr/testdata/" + file);
  std::stringstream expected;
  expected << stream.rdbuf();
  EXPECT_TRUE(text == expected.str()) << "If the change is meant, " << file << " becomes:\n" << text << "// end";
}

// Groups have several rows.
ExprCase LayerNormOfSmallGpu(std::mt19937_64& random) {
  ExprCase expr = LayerNorm(kF32, 64, 768, random);
  expr.schedule.processors = 2;
  return expr;
}

// Two updates and a softmax.
std::vector<ExprCase> GroupOfThree(std::mt19937_64& random) {
  std::vector<ExprCase> group;
  for (const int64_t count : {1000, 1001}) group.push_back(Adam(kF32, count, random));
  group.push_back(Softmax(kF32, 100, 64, random));
  return group;
}

// relu(a * b + bias) as a matmul with an epilogue.
ExprCase ProductWithEpilogue() {
  const auto tensor = [](const std::vector<int64_t>& sizes) {
    return std::make_unique<cotan::testing::HostTensor>(kF32, sizes);
  };
  cotan::testing::ExprBuilder b({33, 47});
  b.Output(b.Apply(serialization::FN_RELU, {b.Add(b.Input(0, kF32), b.Input(1, kF32))}));
  ExprCase product;
  *product.op.mutable_matmul()->mutable_epilogue() = b.expr();
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{33, 17}, {17, 47}, {47}}) {
    product.inputs.push_back(tensor(sizes));
  }
  product.outputs.push_back(tensor({33, 47}));
  return product;
}

TEST(ExprTextTest, TextsAreStable) {
  std::mt19937_64 random(1);
  ExpectText("adam.cu", TextOf(PlanOf(Adam(kF32, 1001, random))));
  ExpectText("softmax.cu", TextOf(PlanOf(Softmax(kBf16, 100, 1000, random))));
  ExpectText("bias_update.cu", TextOf(PlanOf(BiasUpdate(9000, 40, random))));
  ExpectText("batch_norm.cu", TextOf(PlanOf(BatchNorm({4, 16, 32, 32}, true, random))));
  ExpectText("layer_norm.cu", TextOf(PlanOf(LayerNormOfSmallGpu(random))));
  ExpectText("mean_square.cu", TextOf(PlanOf(MeanSquare(262144, random))));
  ExpectText("dropout.cu", TextOf(PlanOf(Dropout({3, 1001}, random))));
  ExpectText("group.cu", TextOf(PlanOf(GroupOfThree(random))));
  ExpectText("matmul_epilogue.cu", TextOf(PlanOf(ProductWithEpilogue())));
}

void ExpectNoLocalMemory(const KernelPlan& plan) {
  for (const PlanStep& step : plan.steps) {
    const auto& launch = std::get<KernelLaunch>(step);
    const auto resources = CompileForArchitectures(launch.source);
    ASSERT_TRUE(resources.ok()) << resources.status();
    // As many registers as let a block start, and two of 256 threads.
    const int registers = static_cast<int>(std::min<unsigned>(65536 / launch.block[0], 128));
    const absl::Status status = CheckResources(*resources, registers);
    EXPECT_TRUE(status.ok()) << status << "\n" << launch.source.text;
  }
}

TEST(ExprTextTest, FunctionsOfF32NeedNoLocalMemory) {
  for (int fn = serialization::FN_NEG; fn <= serialization::FN_RELU; ++fn) {
    if (!serialization::ScalarFn_IsValid(fn) || fn == serialization::FN_LOGICAL_NOT ||
        fn == serialization::FN_BITWISE_NOT) {
      continue;
    }
    const std::vector<int64_t> sizes = {1000};
    ExprCase expr;
    cotan::testing::ExprBuilder b(sizes);
    const int node = b.Apply(static_cast<serialization::ScalarFn>(fn), {b.Input(0, kF32)});
    b.Output(node);
    expr.op = b.Build();
    expr.inputs.push_back(std::make_unique<cotan::testing::HostTensor>(kF32, sizes));
    expr.outputs.push_back(std::make_unique<cotan::testing::HostTensor>(b.dtype(node), sizes));
    ExpectNoLocalMemory(PlanOf(std::move(expr)));
  }
}

TEST(ExprTextTest, KernelsNeedNoLocalMemory) {
  std::mt19937_64 random(1);
  std::vector<KernelPlan> plans;
  plans.push_back(PlanOf(Adam(kF32, 4096, random)));
  plans.push_back(PlanOf(Adam(kBf16, 1001, random)));
  plans.push_back(PlanOf(Dropout({3, 1001}, random)));
  plans.push_back(PlanOf(Softmax(kF32, 1000, 10, random)));
  plans.push_back(PlanOf(Softmax(kBf16, 1000, 1000, random)));
  plans.push_back(PlanOf(Softmax(kF32, 8, 15000, random)));
  plans.push_back(PlanOf(Softmax(kF32, 8, 50257, random)));
  plans.push_back(PlanOf(LayerNorm(kBf16, 512, 768, random)));
  plans.push_back(PlanOf(BatchNorm({4, 2, 128, 130}, true, random)));
  plans.push_back(PlanOf(BatchNorm({16, 64, 7, 7}, false, random)));
  plans.push_back(PlanOf(CrossEntropy(512, 1000, random)));
  plans.push_back(PlanOf(BatchNorm({16, 64, 16, 16}, true, random)));  // as many values in registers as possible
  plans.push_back(PlanOf(LayerNormOfSmallGpu(random)));
  plans.push_back(PlanOf(BiasUpdate(3000, 40, random)));
  plans.push_back(PlanOf(BiasUpdate(9000, 40, random)));
  std::vector<ExprCase> group;
  for (const int64_t count : {1000, 1004, 1001}) group.push_back(Adam(kF32, count, random));
  group.push_back(Softmax(kF32, 100, 64, random));
  plans.push_back(PlanOf(group));
  for (const KernelPlan& plan : plans) ExpectNoLocalMemory(plan);
}

}  // namespace
}  // namespace cotan::cuda::testing
