// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

namespace nn = torch::nn;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<TraceableModule> MakeLinear(const ModuleOptions& options) {
  return TraceableModule::Create(AdaptFactory([] { return nn::Linear(4, 3); }), options);
}

std::vector<std::string> Names(const TraceableModule& module) {
  std::vector<std::string> names;
  for (const ModuleState& state : module.states()) names.push_back(state.name);
  return names;
}

TEST(TraceableModuleTest, StartsFromTheWeightsThatEagerHasForTheSeed) {
  const auto module = MakeLinear({.seed = 7});
  ASSERT_TRUE(module.ok()) << module.status();
  torch::manual_seed(7);
  const nn::Linear eager(4, 3);
  ASSERT_THAT(Names(*module), ElementsAre("weight", "bias"));
  EXPECT_TRUE(module->states()[0].initial.equal(eager->weight));
  EXPECT_TRUE(module->states()[1].initial.equal(eager->bias));
}

TEST(TraceableModuleTest, ListsParametersBeforeBuffers) {
  const auto module =
      TraceableModule::Create(AdaptFactory([] { return nn::Sequential(nn::BatchNorm1d(3), nn::Linear(3, 2)); }), {});
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_THAT(Names(*module), ElementsAre("0.weight", "0.bias", "1.weight", "1.bias", "0.running_mean", "0.running_var",
                                          "0.num_batches_tracked"));
}

struct SharedLayer : nn::Module {
  SharedLayer() : inner(register_module("first", nn::Linear(4, 4))) { register_module("second", inner); }
  at::Tensor forward(at::Tensor x) { return inner(torch::relu(inner(x))); }
  nn::Linear inner;
};

TEST(TraceableModuleTest, FindsTiedParameters) {
  const auto module = TraceableModule::Create(AdaptFactory([] { return std::make_shared<SharedLayer>(); }), {});
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_THAT(Names(*module), ElementsAre("first.weight", "first.bias"));
  EXPECT_THAT(module->states()[0].aliases, ElementsAre("second.weight"));
}

TEST(TraceableModuleTest, FreezesByPattern) {
  const auto module = MakeLinear({.frozen = {"w*"}});
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_FALSE(module->states()[0].requires_grad);
  EXPECT_TRUE(module->states()[1].requires_grad);
}

TEST(TraceableModuleTest, FreezesATiedParameterByAnyOfItsNames) {
  const auto module =
      TraceableModule::Create(AdaptFactory([] { return std::make_shared<SharedLayer>(); }), {.frozen = {"second.w*"}});
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_THAT(Names(*module), ElementsAre("first.weight", "first.bias"));
  EXPECT_FALSE(module->states()[0].requires_grad);
  EXPECT_TRUE(module->states()[1].requires_grad);
}

TEST(TraceableModuleTest, RefusesAPatternWithoutMatch) {
  EXPECT_THAT(MakeLinear({.frozen = {"encoder.*"}}).status().message(),
              HasSubstr("'encoder.*' matches no parameter; there are weight, bias"));
}

TEST(TraceableModuleTest, TakesInitialValues) {
  const at::Tensor bias = torch::arange(3, torch::kFloat);
  const auto module = MakeLinear({.initial_values = {{"bias", bias}}});
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_TRUE(module->states()[1].initial.equal(bias));
}

TEST(TraceableModuleTest, RefusesInitialValuesThatDoNotFit) {
  EXPECT_THAT(MakeLinear({.initial_values = {{"gain", torch::ones(3)}}}).status().message(),
              HasSubstr("'gain' names no parameter or buffer"));
  EXPECT_THAT(MakeLinear({.initial_values = {{"bias", torch::ones(2)}}}).status().message(),
              HasSubstr("'bias' is Float[2], but the module has Float[3]"));
}

TEST(TraceableModuleTest, RefusesTensorsMadeOutsideTheFactory) {
  const at::Tensor table = torch::ones(3);
  struct Holder : nn::Module {
    explicit Holder(const at::Tensor& t) { register_buffer("table", t); }
    at::Tensor forward(at::Tensor x) { return x; }
  };
  const auto module = TraceableModule::Create(AdaptFactory([table] { return std::make_shared<Holder>(table); }), {});
  EXPECT_THAT(module.status().message(), HasSubstr("'table' was not created by an op inside"));
}

TEST(TraceableModuleTest, ReportsAFactoryThatThrows) {
  const auto module =
      TraceableModule::Create(AdaptFactory([]() -> nn::Linear { throw std::runtime_error("no such file"); }), {});
  EXPECT_THAT(module.status().message(), HasSubstr("constructing the module: no such file"));
}

TEST(TraceableModuleTest, TracesALinearLayerWithItsLoss) {
  const auto module = MakeLinear({});
  ASSERT_TRUE(module.ok()) << module.status();
  const auto traced = Trace(
      [&](const std::vector<at::Tensor>& inputs) -> std::vector<at::Tensor> {
        return {torch::sum(module->forward()(inputs)[0])};
      },
      module->states(), {torch::ones({2, 4})},
      {.name = "step", .backward = TraceOptions::Backward::kLoss, .output_names = {"loss"}});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_EQ(PrintGraph(traced->graph), R"(graph @step {
  %0: f32[3,4] = parameter 0 "weight"
  %1: f32[3] = parameter 1 "bias"
  %2: f32[2,4] = user_input 0 "input.0"
  %3: f32[] = tangent 0 "tangent.loss"
  %4: f32[4,3] = aten.t.default(%0)
  %5: f32[2,3] = aten.addmm.default(%1, %2, %4, 1, 1)
  %6: f32[] = aten.sum.default(%5, none)
  %7: f32[2,3] = aten.expand.default(%3, [2, 3], false) from "backward of aten.sum.default"
  %8: f32[3,2] = aten.t.default(%7) from "backward of aten.addmm.default"
  %9: f32[3,4] = aten.mm.default(%8, %2) from "backward of aten.addmm.default"
  %10: f32[4,3] = aten.t.default(%9) from "backward of aten.addmm.default"
  %11: f32[1,3] = aten.sum.dim_IntList(%7, [0], true, none) from "backward of aten.addmm.default"
  %12: f32[3] = aten.view.default(%11, [3]) from "backward of aten.addmm.default"
  %13: f32[3,4] = aten.t.default(%10) from "backward of aten.t.default"
  user_output 0 "loss" = %6
  gradient 0 "weight" = %13
  gradient 1 "bias" = %12
}
)");
}

}  // namespace
}  // namespace cotan::aot
