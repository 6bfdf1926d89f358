// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/assert_ops.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "aot/aotautograd/tracer.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// Returns effects such as "assert assert: message", in the order of the graph's nodes.
std::vector<std::string> EffectsOf(const TensorFunction& function) {
  const auto traced = Trace(function, {}, {at::ones({2})}, {.name = "f", .backward = TraceOptions::Backward::kNone});
  EXPECT_TRUE(traced.ok()) << traced.status();
  std::vector<std::string> effects;
  for (const Node& node : traced->graph.nodes()) {
    if (node.op != "cotan.effect.default") continue;
    std::string effect = std::get<std::string>(node.arguments[2]);
    for (size_t i = 3; i < 5; ++i) effect += " " + std::get<std::string>(node.arguments[i]);
    effects.push_back(effect);
  }
  return effects;
}

TEST(AssertOpsTest, ChecksAndPrintsAreEffectsInTheirOrder) {
  const auto function = [](const Tensors& in) -> Tensors {
    at::_assert_async(in[0].sum(), "a sum");
    at::_print("between");
    at::_assert_async(at::gt(in[0].max(), 0));
    return {at::_functional_assert_async(in[0].min(), "a minimum", in[0])};
  };
  EXPECT_THAT(EffectsOf(function),
              ElementsAre("assert assert a sum", "print print between",
                          "assert assert Expected Tensor with single nonzero value", "assert assert a minimum"));
}

TEST(AssertOpsTest, NumbersAreCheckedWhileTracing) {
  const auto holds = [](const Tensors& in) -> Tensors {
    at::_assert_scalar(true, "it holds");
    return {at::_functional_assert_scalar(3, "it is not zero", in[0])};
  };
  EXPECT_THAT(EffectsOf(holds), ElementsAre());
  const auto fails = [](const Tensors& in) -> Tensors {
    at::_assert_scalar(0, "it is zero");
    return in;
  };
  const auto traced = Trace(fails, {}, {at::ones({2})}, {.name = "f", .backward = TraceOptions::Backward::kNone});
  EXPECT_THAT(std::string(traced.status().message()), HasSubstr("it is zero"));
}

TEST(AssertOpsTest, OneNumberIsChecked) {
  const auto many = [](const Tensors& in) -> Tensors {
    at::_assert_async(in[0]);
    return in;
  };
  const auto traced = Trace(many, {}, {at::ones({2})}, {.name = "f", .backward = TraceOptions::Backward::kNone});
  EXPECT_THAT(std::string(traced.status().message()), HasSubstr("the condition must have one element"));
}

}  // namespace
}  // namespace cotan::aot
