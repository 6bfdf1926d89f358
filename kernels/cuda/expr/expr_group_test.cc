// SPDX-License-Identifier: Apache-2.0

// Several expressions in one plan.
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/expr/expr_case.h"
#include "kernels/cuda/expr/expr_plan.h"
#include "kernels/cuda/expr/model_exprs.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/random_expr.h"

namespace cotan::cuda::testing {
namespace {

using cotan::testing::HostTensor;
using cotan::testing::TestSeed;

constexpr DType kF32 = DType::kFloat32;

// Independent expressions.
struct Group {
  std::vector<ExprCase> members;

  absl::StatusOr<KernelPlan> Plan(absl::Span<const TensorSpec> inputs, absl::Span<const TensorSpec> outputs,
                                  bool guarded) const {
    std::vector<KernelRequest> requests;
    for (const ExprCase& member : members) {
      requests.push_back({.op = member.op,
                          .inputs = inputs.subspan(0, member.inputs.size()),
                          .outputs = outputs.subspan(0, member.outputs.size()),
                          .symbols = {},
                          .guarded_outputs = guarded});
      inputs.remove_prefix(member.inputs.size());
      outputs.remove_prefix(member.outputs.size());
    }
    return PlanExprGroup(requests);
  }

  // Runs all in one plan, the first outputs of each in place of the inputs if `in_place`. Returns all outputs.
  Tensors Run(const RunOptions& options, bool in_place, RunResult* result) const {
    Tensors inputs;
    Tensors outputs;
    std::vector<HostTensor*> stored;
    std::vector<std::pair<size_t, size_t>> shared;
    for (const ExprCase& member : members) {
      const size_t first = inputs.size();
      for (auto& tensor : Copies(member.inputs)) inputs.push_back(std::move(tensor));
      for (size_t k = 0; k < member.outputs.size(); ++k) {
        const bool shares = in_place && k < member.inputs.size() && member.AllowsInPlace(k, k);
        if (shares) shared.emplace_back(outputs.size(), first + k);
        outputs.push_back(std::make_unique<HostTensor>(*member.outputs[k]));
        stored.push_back(shares ? inputs[first + k].get() : outputs.back().get());
      }
    }
    const auto plan = [&](const KernelRequest& request) {
      return Plan(request.inputs, request.outputs, request.guarded_outputs);
    };
    const absl::StatusOr<RunResult> run = RunPlan(plan, members[0].op, Pointers(inputs), stored, options);
    EXPECT_TRUE(run.ok()) << run.status();
    if (run.ok()) *result = *run;
    for (const auto& [output, input] : shared) *outputs[output] = *inputs[input];
    return outputs;
  }

  // Returns the outputs of the members, each run on its own.
  Tensors RunOneByOne() const {
    Tensors outputs;
    for (const ExprCase& member : members) {
      for (auto& tensor : member.Run()) outputs.push_back(std::move(tensor));
    }
    return outputs;
  }
};

Group Updates(int count, std::mt19937_64& random) {
  Group group;
  for (int i = 0; i < count; ++i)
    group.members.push_back(Adam(kF32, 4 * (1 + static_cast<int64_t>(random() % 600)), random));
  return group;
}

TEST(ExprGroupTest, UpdatesOfManyParametersAreOneLaunchOfOneFunction) {
  std::mt19937_64 random(TestSeed());
  const Group group = Updates(50, random);
  RunResult result;
  const Tensors expected = group.RunOneByOne();
  EXPECT_EQ(Difference(expected, group.Run({.seed = 3}, false, &result)), "");
  EXPECT_EQ(result.launches, 1);
  EXPECT_EQ(Difference(expected, group.Run({.seed = 4}, true, &result)), "");
}

TEST(ExprGroupTest, LaunchesHaveAtMostAsManyParametersAsCudaAllows) {
  std::mt19937_64 random(TestSeed());
  const Group group = Updates(100, random);  // 700 pointers
  RunResult result;
  EXPECT_EQ(Difference(group.RunOneByOne(), group.Run({.guarded_outputs = true}, false, &result)), "");
  EXPECT_EQ(result.launches, 2);
}

TEST(ExprGroupTest, ExpressionsOfAnyKindHaveTheBitsOfTheirOwnPlans) {
  std::mt19937_64 random(TestSeed());
  Group group;
  group.members.push_back(Adam(kF32, 1000, random));
  group.members.push_back(Softmax(kF32, 30, 70, random));
  group.members.push_back(BiasUpdate(9000, 40, random));
  group.members.push_back(Softmax(DType::kBFloat16, 3, 700, random));
  group.members.push_back(BatchNorm({4, 2, 128, 130}, false, random));
  group.members.push_back(Dropout({77}, random));
  group.members.push_back(BiasUpdate(9000, 40, random));
  group.members.push_back(Adam(kF32, 1001, random));
  group.members.push_back(Adam(kF32, 0, random));
  RunResult result;
  const Tensors expected = group.RunOneByOne();
  EXPECT_EQ(Difference(expected, group.Run({.seed = 7}, false, &result)), "");
  EXPECT_EQ(result.launches, 2);  // of 256 and of 1,024 threads
  EXPECT_EQ(Difference(expected, group.Run({.guarded_outputs = true, .seed = 7}, true, &result)), "");
}

TEST(ExprGroupTest, RandomExpressionsHaveTheBitsOfTheirOwnPlans) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 20; ++i) {
    Group group;
    for (int n = 0; n < 5; ++n) {
      cotan::testing::RandomExpr expr = cotan::testing::MakeRandomExpr(random, 2000);
      ExprCase member;
      member.op = std::move(expr.op);
      member.inputs = std::move(expr.inputs);
      for (size_t k = 0; k < expr.output_layouts.size(); ++k) {
        member.outputs.push_back(std::make_unique<HostTensor>(expr.output_dtypes[k], expr.output_layouts[k]));
      }
      group.members.push_back(std::move(member));
    }
    RunResult result;
    ASSERT_EQ(Difference(group.RunOneByOne(), group.Run({.seed = random()}, i % 2 == 1, &result)), "") << i;
  }
}

TEST(ExprGroupTest, GuardedOutputsAreKeptAfterAnError) {
  std::mt19937_64 random(TestSeed());
  const Group group = Updates(3, random);
  RunResult result;
  for (const auto& tensor : group.Run({.guarded_outputs = true, .failed_before = true}, false, &result)) {
    EXPECT_EQ(tensor->bytes()[0], '\xa5');
  }
}

TEST(ExprGroupTest, AnEmptyGroupAndErrors) {
  EXPECT_TRUE(PlanExprGroup({})->steps.empty());
  const serialization::Op op;
  const KernelRequest request = {.op = op, .inputs = {}, .outputs = {}, .symbols = {}};
  EXPECT_EQ(PlanExprGroup({request}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda::testing
