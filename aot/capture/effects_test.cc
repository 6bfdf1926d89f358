// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/effects.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "aot/aotautograd/tracer.h"
#include "aot/ir/text.h"
#include "aot/transforms/common_subexpressions.h"
#include "aot/transforms/dead_code.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Tensors = std::vector<at::Tensor>;

TracedProgram TraceOf(const TensorFunction& function, const Tensors& inputs,
                      TraceOptions::Backward backward = TraceOptions::Backward::kNone) {
  auto traced = Trace(function, {}, inputs, {.name = "f", .backward = backward});
  EXPECT_TRUE(traced.ok()) << traced.status();
  return traced.ok() ? *std::move(traced) : TracedProgram();
}

// Returns effects such as "print a", in the order of the graph's nodes.
std::vector<std::string> EffectsOf(const Graph& graph) {
  std::vector<std::string> effects;
  for (const Node& node : graph.nodes()) {
    if (node.op != "cotan.effect.default") continue;
    effects.push_back(std::get<std::string>(node.arguments[2]) + " " + std::get<std::string>(node.arguments[3]));
  }
  return effects;
}

TEST(EffectsTest, ATokenGoesThroughAllEffects) {
  const TracedProgram traced = TraceOf(
      [](const Tensors& in) -> Tensors {
        Print(in[0], "a", "first");
        const at::Tensor sum = in[0].sum();
        Metric(sum, "b");
        return {sum};
      },
      {at::ones({2})});
  EXPECT_EQ(PrintGraph(traced.graph), R"(graph @f {
  %0: f32[2] = user_input 0 "input.0"
  %1: bool[0] = token 0 "token"
  %2: bool[0] = cotan.effect.default(%1, %0, "print", "a", "first")
  %3: f32[] = aten.sum.default(%0, none)
  %4: bool[0] = cotan.effect.default(%2, %3, "metric", "b", "")
  token_output 0 "token" = %4
  user_output 0 "output.0" = %3
}
)");
  EXPECT_THAT(traced.metadata.tokens(), ElementsAre("ordered"));
  EXPECT_EQ(traced.metadata.num_backward_tokens(), 0u);
  EXPECT_THAT(traced.signature.input_tokens(), ElementsAre("token"));
  EXPECT_THAT(traced.signature.output_tokens(), ElementsAre("token"));
}

TEST(EffectsTest, AFunctionWithoutEffectsHasNoToken) {
  const TracedProgram traced = TraceOf([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {at::ones({2})});
  EXPECT_THAT(PrintGraph(traced.graph), ::testing::Not(HasSubstr("token")));
  EXPECT_THAT(traced.metadata.tokens(), IsEmpty());
  EXPECT_THAT(traced.signature.input_tokens(), IsEmpty());
}

TEST(EffectsTest, EqualEffectsAndThoseWithoutAUseStay) {
  TracedProgram traced = TraceOf(
      [](const Tensors& in) -> Tensors {
        Print(in[0].exp(), "a");
        Print(in[0].exp(), "a");
        return {in[0] * 2};
      },
      {at::ones({2})});
  ASSERT_TRUE(EliminateCommonSubexpressions(traced.graph).ok());
  ASSERT_TRUE(EliminateDeadCode(traced.graph).ok());
  EXPECT_THAT(EffectsOf(traced.graph), ElementsAre("print a", "print a"));
}

TEST(EffectsTest, EffectsOfGradientsHaveATokenOfTheirOwn) {
  const TracedProgram traced = TraceOf(
      [](const Tensors& in) -> Tensors {
        const at::Tensor y = in[0] * in[0];
        PrintGradient(y, "dy");
        PrintGradient(in[0], "dx");
        Assert(at::gt(y, 0), "positive");
        return {y.exp()};
      },
      {at::ones({2}).requires_grad_(true)}, TraceOptions::Backward::kOutputs);
  EXPECT_THAT(EffectsOf(traced.graph), ElementsAre("assert positive", "print dy", "print dx"));
  const std::string text = PrintGraph(traced.graph);
  EXPECT_THAT(text, HasSubstr("token 0 \"token\""));
  EXPECT_THAT(text, HasSubstr("token 1 \"backward_token\""));
  EXPECT_THAT(text, HasSubstr("token_output 1 \"backward_token\""));
  EXPECT_THAT(traced.metadata.tokens(), ElementsAre("ordered"));
  EXPECT_EQ(traced.metadata.num_backward_tokens(), 1u);
}

TEST(EffectsTest, AnEffectInTheBackwardAloneNeedsNoForwardToken) {
  const TracedProgram traced = TraceOf(
      [](const Tensors& in) -> Tensors {
        const at::Tensor y = in[0].sin();
        MetricGradient(y, "dy");
        return {y};
      },
      {at::ones({}).requires_grad_(true)}, TraceOptions::Backward::kOutputs);
  EXPECT_THAT(traced.metadata.tokens(), IsEmpty());
  EXPECT_EQ(traced.metadata.num_backward_tokens(), 1u);
  EXPECT_THAT(PrintGraph(traced.graph), ::testing::Not(HasSubstr("token 0")));
}

TEST(EffectsTest, NothingHappensWhileTracing) {
  std::vector<std::string> happened;
  const EagerEffects handler([&](const EagerEffect& effect) { happened.push_back(effect.name); });
  TraceOf(
      [](const Tensors& in) -> Tensors {
        Assert(at::lt(in[0], 0), "negative");
        Print(in[0], "a");
        return {in[0] * 2};
      },
      {at::ones({2})});
  EXPECT_THAT(happened, IsEmpty());
}

TEST(EffectsTest, EagerlyTheyHappenInOrder) {
  std::vector<std::string> happened;
  const EagerEffects handler([&](const EagerEffect& effect) {
    EXPECT_FALSE(effect.value.requires_grad());
    happened.push_back(effect.kind + " " + effect.name + " " + std::to_string(effect.value.sum().item<double>()));
  });
  const at::Tensor x = at::ones({2}).requires_grad_(true);
  const at::Tensor y = x * 3;
  PrintGradient(y, "dy");
  Print(y, "y");
  Metric(y.sum(), "sum");
  y.backward(at::ones({2}));
  EXPECT_THAT(happened, ElementsAre("print y 6.000000", "metric sum 6.000000", "print dy 2.000000"));
}

TEST(EffectsTest, AFailedAssertionThrowsEagerly) {
  EXPECT_NO_THROW(Assert(at::ones({2}, at::kBool), "fine"));
  try {
    Assert(at::zeros({2}, at::kBool), "finite", "it has diverged");
    FAIL() << "did not throw";
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("assertion 'finite' failed: it has diverged"));
  }
}

TEST(EffectsTest, ArgumentsAreChecked) {
  const auto message_of = [](const TensorFunction& function) {
    return std::string(Trace(function, {}, {at::ones({2})}, {}).status().message());
  };
  EXPECT_THAT(message_of([](const Tensors& in) -> Tensors {
                Metric(in[0], "m");
                return {};
              }),
              HasSubstr("metric 'm': not one number, but a tensor [2]"));
  EXPECT_THAT(message_of([](const Tensors& in) -> Tensors {
                Assert(in[0], "a");
                return {};
              }),
              HasSubstr("assert 'a': the condition is not a bool tensor"));
  EXPECT_THAT(message_of([](const Tensors& in) -> Tensors {
                Print(in[0], "");
                return {};
              }),
              HasSubstr("print: an effect needs a name"));
  EXPECT_THAT(message_of([](const Tensors& in) -> Tensors {
                Print(at::complex(in[0], in[0]), "c");
                return {};
              }),
              HasSubstr("print 'c': the tensor is complex"));
}

TEST(EffectsTest, NothingHappensToWhatRequiresNoGrad) {
  const EagerEffects handler([](const EagerEffect& effect) { FAIL() << effect.name; });
  PrintGradient(at::ones({2}), "d");
  MetricGradient(at::ones({2}), "d");
}

}  // namespace
}  // namespace cotan::aot
