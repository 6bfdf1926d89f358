// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/rewrites.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/aotautograd/tracer.h"
#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Tensors = std::vector<at::Tensor>;

absl::StatusOr<TracedProgram> TraceFunction(const TensorFunction& function, const Tensors& inputs) {
  return Trace(function, {}, inputs, {.name = "f"});
}

void ExpectSameAsEager(const std::function<at::Tensor(const Tensors&)>& function, const Tensors& inputs,
                       const std::string& what) {
  const auto traced = TraceFunction([&](const Tensors& in) -> Tensors { return {function(in)}; }, inputs);
  ASSERT_TRUE(traced.ok()) << what << ": " << traced.status();
  const at::Tensor actual = FromTensorData(traced->reference.outputs[0]);
  EXPECT_TRUE(at::allclose(actual, function(inputs), 1e-5, 1e-6)) << what;
}

TEST(RewritesTest, BatchNormWritesItsStatisticsInTraining) {
  const auto traced = TraceFunction(
      [](const Tensors& in) -> Tensors {
        return {at::batch_norm(in[0], {}, {}, in[1], in[2], true, 0.1, 1e-5, false)};
      },
      {at::rand({4, 3}), at::zeros({3}), at::ones({3})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), HasSubstr("aten._native_batch_norm_legit_functional.default"));
  EXPECT_TRUE(traced->metadata.input_info(1).mutates_data());
  EXPECT_TRUE(traced->metadata.input_info(2).mutates_data());
}

TEST(RewritesTest, BatchNormReadsItsStatisticsInEvaluation) {
  const auto batch_norm = [](const Tensors& in) {
    return at::batch_norm(in[0], {}, {}, in[1], in[2], false, 0.1, 1e-5, false);
  };
  const Tensors inputs = {at::rand({4, 3}), at::rand({3}), at::rand({3})};
  ExpectSameAsEager(batch_norm, inputs, "evaluation");
  const auto traced = TraceFunction([&](const Tensors& in) -> Tensors { return {batch_norm(in)}; }, inputs);
  ASSERT_TRUE(traced.ok()) << traced.status();
  for (const auto& info : traced->metadata.input_info()) EXPECT_FALSE(info.mutates_data());
}

TEST(RewritesTest, VdotIsAProductWithTheConjugate) {
  const auto vdot = [](const Tensors& in) { return at::vdot(in[0], in[1]); };
  ExpectSameAsEager(vdot, {at::rand({5}), at::rand({5})}, "real");
}

TEST(RewritesTest, BatchNormWithoutStatistics) {
  ExpectSameAsEager(
      [](const Tensors& in) { return at::batch_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5, false); },
      {at::rand({4, 3, 2}), at::rand({3}), at::rand({3})}, "no statistics");
}

TEST(RewritesTest, AttentionEqualsLibTorchs) {
  const at::Tensor q = at::rand({2, 4, 5, 8}), k = at::rand({2, 4, 7, 8}), v = at::rand({2, 4, 7, 6});
  const auto attend = [](const std::optional<at::Tensor>& mask, bool causal, std::optional<double> scale) {
    return [=](const Tensors& in) {
      return at::scaled_dot_product_attention(in[0], in[1], in[2], mask, 0.0, causal, scale);
    };
  };
  ExpectSameAsEager(attend({}, false, {}), {q, k, v}, "plain");
  ExpectSameAsEager(attend({}, true, {}), {q, k, v}, "causal");
  ExpectSameAsEager(attend({}, false, 0.25), {q, k, v}, "scale");
  ExpectSameAsEager(attend(at::randn({5, 7}), false, {}), {q, k, v}, "additive mask");
  ExpectSameAsEager(attend(at::rand({2, 1, 5, 7}) > 0.3, false, {}), {q, k, v}, "bool mask");
}

TEST(RewritesTest, AttentionGivesZerosToARowThatSeesNothing) {
  at::Tensor mask = at::ones({3, 3}, at::kBool);
  mask.select(0, 1).fill_(false);
  const Tensors inputs = {at::rand({1, 3, 4}), at::rand({1, 3, 4}), at::rand({1, 3, 4})};
  ExpectSameAsEager([&](const Tensors& in) { return at::scaled_dot_product_attention(in[0], in[1], in[2], mask); },
                    inputs, "empty row");
}

TEST(RewritesTest, AttentionSharesHeads) {
  ExpectSameAsEager(
      [](const Tensors& in) { return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, false, {}, true); },
      {at::rand({2, 6, 5, 4}), at::rand({2, 2, 5, 4}), at::rand({2, 2, 5, 4})}, "grouped");
}

TEST(RewritesTest, EqualNeedsNoDataIfSizesDifferOrTensorsAreTheSame) {
  const auto traced = TraceFunction(
      [](const Tensors& in) -> Tensors {
        return {at::equal(in[0], in[0]) && !at::equal(in[0], in[1]) ? in[0] * 2 : in[0]};
      },
      {at::ones({2}), at::ones({3})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), HasSubstr("aten.mul.Scalar(%0, 2)"));
}

TEST(RewritesTest, EqualThatNeedsDataIsUnimplemented) {
  const auto traced =
      TraceFunction([](const Tensors& in) -> Tensors { return {at::equal(in[0], in[1]) ? in[0] * 2 : in[0]}; },
                    {at::ones({2}), at::ones({2})});
  EXPECT_THAT(std::string(traced.status().message()),
              HasSubstr("aten.equal.default: it reads the content of a tensor"));
}

TEST(RewritesTest, EqualOfTensorsWhoseExamplesDifferIsAnAssertion) {
  const auto traced =
      TraceFunction([](const Tensors& in) -> Tensors { return {at::equal(in[0], in[1]) ? in[0] * 2 : in[0] + 3}; },
                    {at::ones({2}), at::zeros({2})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  const std::string graph = PrintGraph(traced->graph);
  EXPECT_THAT(graph, HasSubstr("cotan.effect.default"));
  EXPECT_THAT(graph, HasSubstr("aten.add.Scalar"));
  EXPECT_THAT(graph, Not(HasSubstr("aten.mul")));
}

TEST(RewritesTest, EqualOfCapturedTensorsIsNoAssertion) {
  const at::Tensor ones = at::ones({2}), zeros = at::zeros({2});
  const auto traced = TraceFunction(
      [&](const Tensors& in) -> Tensors { return {at::equal(ones, zeros) ? in[0] * 2 : in[0] + 3}; }, {at::ones({2})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  const std::string graph = PrintGraph(traced->graph);
  EXPECT_THAT(graph, Not(HasSubstr("cotan.effect")));
  EXPECT_THAT(graph, HasSubstr("aten.add.Scalar"));
}

}  // namespace
}  // namespace cotan::aot
