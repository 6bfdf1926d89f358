// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/tracer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "aot/aotautograd/graph_interpreter.h"
#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"

namespace cotan::aot {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using Tensors = std::vector<at::Tensor>;
using Backward = TraceOptions::Backward;

absl::StatusOr<TracedProgram> TraceFunction(const TensorFunction& function, const Tensors& inputs,
                                            TraceOptions options = {.name = "f"}) {
  return Trace(function, {}, inputs, options);
}

std::string ErrorOf(const TensorFunction& function, const Tensors& inputs, TraceOptions options = {.name = "f"}) {
  const auto traced = TraceFunction(function, inputs, options);
  return traced.ok() ? "no error" : std::string(traced.status().message());
}

TEST(TracerTest, RecordsAFunction) {
  const auto traced = TraceFunction([](const Tensors& in) -> Tensors { return {(in[0] + 2) * in[1]}; },
                                    {at::ones({2, 3}), at::ones({3})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_EQ(PrintGraph(traced->graph), R"(graph @f {
  %0: f32[2,3] = user_input 0 "input.0"
  %1: f32[3] = user_input 1 "input.1"
  %2: f32[2,3] = aten.add.Scalar(%0, 2, 1)
  %3: f32[2,3] = aten.mul.Tensor(%2, %1)
  user_output 0 "output.0" = %3
}
)");
  EXPECT_TRUE(VerifyGraph(traced->graph).ok());
}

TEST(TracerTest, RemovesMutationAndViews) {
  const auto traced = TraceFunction(
      [](const Tensors& in) -> Tensors {
        at::Tensor x = in[0] * 2;
        x.select(0, 1).zero_();
        return {x};
      },
      {at::ones({2, 3})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  const auto outputs = InterpretGraph(traced->graph, {at::full({2, 3}, 5.0f)});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE((*outputs)[0].equal(at::tensor({10.f, 10.f, 10.f, 0.f, 0.f, 0.f}).view({2, 3})));
  EXPECT_EQ(traced->metadata.output_info(0).output_type(), serialization::NON_ALIAS);
}

TEST(TracerTest, ReturnsMutatedInputsOrWritesThem) {
  const TensorFunction function = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[1];
    x.add_(in[0]);
    return {in[0] * x};
  };
  const Tensors inputs = {at::ones({2}), at::ones({2})};
  const auto written = TraceFunction(function, inputs);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT(PrintGraph(written->graph), HasSubstr(R"(  input_update 1 "input.1" = %2)"));
  EXPECT_EQ(written->reference.outputs.size(), 1u);

  const auto traced = TraceFunction(function, inputs, {.name = "f", .keep_input_mutations = false});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), HasSubstr(R"(  mutated_input 1 "input.1" = %2
  user_output 0 "output.0" = %3
)"));
  EXPECT_EQ(traced->reference.outputs.size(), 2u);
  EXPECT_FALSE(traced->metadata.input_info(0).mutates_data());
  EXPECT_TRUE(traced->metadata.input_info(1).mutates_data());
  EXPECT_EQ(traced->reference.mutated.size(), 1u);
  EXPECT_EQ(traced->signature.user_inputs_to_mutate(0).target(), "input.1");
}

TEST(TracerTest, CapturesConstantsOnce) {
  const at::Tensor table = at::arange(3, at::kFloat);
  const auto traced = TraceFunction(
      [&](const Tensors& in) -> Tensors {
        return {in[0] + table, in[0] * table};
      },
      {at::ones({3})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), HasSubstr(R"(%1: f32[3] = constant 0 "f.constant.0")"));
  ASSERT_EQ(traced->states.size(), 1u);
  EXPECT_EQ(traced->states[0].role, serialization::State::CONSTANT);
  EXPECT_TRUE(FromTensorData(traced->states[0].initial).equal(table));
}

TEST(TracerTest, FindsTheInputThatAnOutputIs) {
  const auto traced = TraceFunction(
      [](const Tensors& in) -> Tensors {
        return {in[1], in[0].t(), in[0] + 1};
      },
      {at::ones({2, 3}), at::ones({3})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  const auto& outputs = traced->metadata.output_info();
  EXPECT_EQ(outputs[0].output_type(), serialization::IS_INPUT);
  EXPECT_EQ(outputs[0].base_index(), 1u);
  EXPECT_EQ(outputs[1].output_type(), serialization::ALIAS_OF_INPUT);
  EXPECT_EQ(outputs[1].base_index(), 0u);
  EXPECT_THAT(outputs[1].geometry().strides(), ElementsAre("1", "3"));
  EXPECT_EQ(outputs[2].output_type(), serialization::NON_ALIAS);
}

TEST(TracerTest, GivesEachDifferentiableOutputATangent) {
  at::Tensor x = at::rand({3}).requires_grad_(true);
  const auto traced = TraceFunction(
      [](const Tensors& in) -> Tensors {
        return {in[0].exp(), in[0].detach() * 2, in[0] * in[1]};
      },
      {x, at::rand({3})}, {.name = "f", .backward = Backward::kOutputs});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_TRUE(traced->metadata.is_train());
  ASSERT_EQ(traced->metadata.tangents_size(), 2);
  EXPECT_EQ(traced->metadata.tangents(1).output(), 2u);
  const std::string text = PrintGraph(traced->graph);
  EXPECT_THAT(text, AllOf(HasSubstr(R"(tangent 0 "tangent.output.0")"), HasSubstr(R"(tangent 1 "tangent.output.2")"),
                          HasSubstr(R"(gradient 0 "input.0" = %)"), Not(HasSubstr(R"(gradient 1)"))));

  const at::Tensor other = at::rand({3}), t0 = at::rand({3}), t2 = at::rand({3});
  const auto outputs = InterpretGraph(traced->graph, {x.detach(), other, t0, t2});
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_TRUE(at::allclose(outputs->back(), t0 * x.detach().exp() + t2 * other));
}

TEST(TracerTest, FallsBackToInferenceWithoutGradients) {
  const auto traced = TraceFunction([](const Tensors& in) -> Tensors { return {in[0].exp()}; }, {at::rand({3})},
                                    {.name = "f", .backward = Backward::kOutputs});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_FALSE(traced->metadata.is_train());
  EXPECT_EQ(traced->graph.inputs().size(), 1u);
}

TEST(TracerTest, UnusedInputHasNoGradient) {
  const auto traced = TraceFunction([](const Tensors& in) -> Tensors { return {in[1].sum()}; },
                                    {at::rand({2}).requires_grad_(true), at::rand({2}).requires_grad_(true)},
                                    {.name = "f", .backward = Backward::kLoss});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), HasSubstr(R"(gradient 0 "input.0" = none)"));
  EXPECT_EQ(traced->reference.gradients.size(), 1u);
}

TEST(TracerTest, NamesTheLoss) {
  const auto traced = TraceFunction(
      [](const Tensors& in) -> Tensors {
        return {in[0] * 2, in[0].sum()};
      },
      {at::rand({2}).requires_grad_(true)}, {.name = "f", .backward = Backward::kLoss, .loss_output = -1});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(traced->signature.user_outputs(), ElementsAre("output.0", "loss"));
  EXPECT_EQ(traced->signature.loss_output(), "loss");
}

TEST(TracerTest, SameFunctionGivesTheSameText) {
  const TensorFunction function = [](const Tensors& in) -> Tensors {
    return {at::dropout(in[0], 0.5, true).softmax(-1).sum()};
  };
  const at::Tensor x = at::rand({4, 5}).requires_grad_(true);
  const TraceOptions options = {.name = "f", .backward = Backward::kLoss};
  const auto first = TraceFunction(function, {x}, options);
  const auto second = TraceFunction(function, {x}, options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(PrintGraph(first->graph), PrintGraph(second->graph));
  EXPECT_EQ(first->reference.outputs[0].bytes, second->reference.outputs[0].bytes);
}

// Outputs that cannot be the loss.

TEST(TracerTest, LossThatIsNotAFloatingPointScalarIsInvalidArgument) {
  const at::Tensor x = at::rand({2}).requires_grad_(true);
  const TraceOptions options = {.name = "f", .backward = Backward::kLoss};
  EXPECT_THAT(ErrorOf([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {x}, options),
              HasSubstr("output 0 cannot be the loss: it has the sizes [2]; reduce it"));
  EXPECT_THAT(ErrorOf([](const Tensors& in) -> Tensors { return {in[0].argmax()}; }, {x}, options),
              HasSubstr("its dtype Long is not floating point"));
  EXPECT_THAT(ErrorOf([](const Tensors& in) -> Tensors { return {in[0].detach().sum()}; }, {x}, options),
              HasSubstr("it does not depend on any tensor that requires grad"));
  EXPECT_THAT(ErrorOf([](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {x},
                      {.name = "f", .backward = Backward::kLoss, .loss_output = 3}),
              HasSubstr("the loss is output 3, but the function returns 1 tensors"));
}

// Constructs that a graph cannot express.

TEST(TracerTest, DataDependentControlFlowIsUnimplemented) {
  const std::string error =
      ErrorOf([](const Tensors& in) -> Tensors { return {in[0].sum().item<float>() > 0 ? in[0] * 2 : in[0] * 3}; },
              {at::ones({2})});
  EXPECT_THAT(error, AllOf(HasSubstr("'f' cannot be compiled:\n  aten._local_scalar_dense"),
                           HasSubstr("it reads the content of a tensor")));
}

TEST(TracerTest, ReportsAllUnsupportedConstructsAtOnce) {
  const std::string error = ErrorOf(
      [](const Tensors& in) -> Tensors {
        if (at::is_nonzero(in[0].sum())) {
          return {at::nonzero(in[0]).sum(), at::masked_select(in[0], in[0] > 0).sum()};
        }
        return {};
      },
      {at::ones({2})},
      {.name = "f", .unsupported_ops = [](const Graph&) { return std::vector<std::string>{"aten.fancy.default"}; }});
  EXPECT_THAT(error, AllOf(HasSubstr("aten._local_scalar_dense.default: it reads"),
                           HasSubstr("aten.nonzero.default: the size of its result depends"),
                           HasSubstr("aten.masked_select.default: the size of its result depends"),
                           HasSubstr("aten.fancy.default: it is not supported")));
}

TEST(TracerTest, GradientOfTheStorageBeforeSetIsUnimplemented) {
  const auto take_storage = [](const Tensors& in) {
    const at::NoGradGuard no_grad;
    in[0].set_(in[1]);
  };
  const Tensors inputs = {at::ones({2}).requires_grad_(), at::ones({2})};
  const TraceOptions options = {.name = "f", .backward = Backward::kOutputs};
  EXPECT_THAT(ErrorOf(
                  [&](const Tensors& in) -> Tensors {
                    const at::Tensor before = in[0] * 2;
                    take_storage(in);
                    return {before, in[0] * 3};
                  },
                  inputs, options),
              HasSubstr("it has a gradient with respect to the storage that it had before set_"));
  const TensorFunction used_afterwards = [&](const Tensors& in) -> Tensors {
    take_storage(in);
    return {in[0] * 3};
  };
  EXPECT_TRUE(TraceFunction(used_afterwards, inputs, options).ok());
}

TEST(TracerTest, TensorKeptAfterTheCallIsUnimplemented) {
  at::Tensor kept;
  const std::string error = ErrorOf(
      [&](const Tensors& in) -> Tensors {
        kept = in[0] * 2;
        return {in[0] + 1};
      },
      {at::ones({2})});
  EXPECT_THAT(error, HasSubstr("a result of aten.mul.Scalar: it is kept after the call"));
}

TEST(TracerTest, TensorOfAnEarlierCallIsUnimplemented) {
  at::Tensor kept;
  const TensorFunction function = [&](const Tensors& in) -> Tensors {
    const at::Tensor result = kept.defined() ? in[0] + kept : in[0];
    kept = in[0] * 2;
    return {result};
  };
  ErrorOf(function, {at::ones({2})});
  EXPECT_THAT(ErrorOf(function, {at::ones({2})}), HasSubstr("it was computed in an earlier call of the function"));
}

TEST(TracerTest, WriteToACapturedTensorIsUnimplemented) {
  at::Tensor counter = at::zeros({});
  const std::string error = ErrorOf(
      [&](const Tensors& in) -> Tensors {
        counter.add_(1);
        return {in[0] + counter};
      },
      {at::ones({2})});
  EXPECT_THAT(error, HasSubstr("it writes to a tensor ([]) that is neither a registered"));
}

TEST(TracerTest, ReportsWhatTheFunctionThrows) {
  EXPECT_EQ(ErrorOf([](const Tensors&) -> Tensors { throw std::runtime_error("not today"); }, {}),
            "tracing 'f': analyzing the function: not today");
  EXPECT_THAT(ErrorOf([](const Tensors& in) -> Tensors { return {in[0].matmul(in[0])}; }, {at::ones({2, 3})}),
              AllOf(HasSubstr("tracing 'f': "), Not(HasSubstr("Exception raised from"))));
  EXPECT_THAT(ErrorOf([](const Tensors&) -> Tensors { return {at::Tensor()}; }, {}),
              HasSubstr("output 0 is an undefined tensor"));
}

TEST(TracerTest, CanTraceAgainAfterAnError) {
  ErrorOf([](const Tensors&) -> Tensors { throw std::runtime_error("not today"); }, {});
  EXPECT_TRUE(TraceFunction([](const Tensors& in) -> Tensors { return {in[0] + 1}; }, {at::ones({2})}).ok());
  // Outside a trace, LibTorch is unchanged.
  EXPECT_EQ(at::ones({2}).sum().item<float>(), 2);
}

}  // namespace
}  // namespace cotan::aot
