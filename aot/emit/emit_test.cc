// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/emit.h"

#include "aot/ir/expr_text.h"
#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using serialization::State;

State MakeState(std::string name, State::Role role, std::vector<std::string> sizes) {
  State state;
  state.set_name(std::move(name));
  state.set_role(role);
  state.mutable_type()->set_dtype(serialization::DTYPE_F32);
  for (std::string& size : sizes) state.mutable_type()->add_sizes(std::move(size));
  return state;
}

constexpr absl::string_view kStep = R"(graph @train_step {
  %0: f32[10,4] = parameter 0 "w"
  %1: f32[8,4] = user_input 0 "x"
  %2: f32[4] = buffer 0 "unused"
  %3: f32[4,10] = prim.permute(%0, [1, 0])
  %4: f32[8,10]{1,0} = prim.matmul(%1, %3, none) from "layer"
  %5: f32[80] = prim.view(%4, [80])
  %6: f32[8,2,5] = prim.view(%5, [8, 2, 5])
  %7: f32[10,4] = cotan.expr(%0) {
    domain [10,4]
    0: f32 = input 0
    1: f32 = neg 0
    store 1
  }
  user_output 0 "y" = %6
  saved_output 0 "saved.0" = %4
  state_update 0 "w" = %7
}
)";

TEST(EmitTest, CopiesToAndFromTheHostMarkTheValueThere) {
  const Graph graph = *ParseGraph(R"(graph @step {
  %0: f32[8,4] = user_input 0 "x"
  %1: f32[8,4] = prim.to_host(%0)
  %2: f32[8,4] = prim.from_host(%1)
  user_output 0 "y" = %2
}
)");
  const absl::StatusOr<serialization::Method> method = Emit(graph, {});
  ASSERT_TRUE(method.ok()) << method.status();
  ASSERT_EQ(method->ops_size(), 2);
  for (const serialization::Op& op : method->ops()) EXPECT_TRUE(op.has_copy());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(method->values(i).on_host(), i == 1);
}

TEST(EmitTest, GraphsBecomeMethods) {
  const Graph graph = *ParseGraph(kStep);
  const std::vector<State> states = {MakeState("other", State::BUFFER, {}),
                                     MakeState("w", State::PARAMETER, {"10", "4"})};
  const absl::StatusOr<serialization::Method> method = Emit(graph, states);
  ASSERT_TRUE(method.ok()) << method.status();
  EXPECT_EQ(method->name(), "train_step");
  ASSERT_EQ(method->ops_size(), 4);  // two consecutive views are merged
  EXPECT_TRUE(method->ops(0).has_view());
  EXPECT_TRUE(method->ops(1).has_matmul());
  EXPECT_EQ(method->ops(1).source(), "layer");
  EXPECT_EQ(method->ops(2).view().steps_size(), 2);
  EXPECT_TRUE(method->ops(3).has_expr());
  EXPECT_EQ(method->inputs_size(), 1);
  EXPECT_EQ(method->input_names(0), "x");
  ASSERT_EQ(method->outputs_size(), 2);
  EXPECT_EQ(method->num_saved(), 1u);
  EXPECT_EQ(method->output_names_size(), 1);
  ASSERT_EQ(method->state_reads_size(), 1);  // the unused buffer is not read
  EXPECT_EQ(method->state_reads(0).state(), 1u);
  ASSERT_EQ(method->state_updates_size(), 1);
  EXPECT_EQ(method->state_updates(0).state(), 1u);
  EXPECT_EQ(method->values(static_cast<int>(method->ops(1).outputs(0))).type().dim_order_size(), 2);
}

TEST(EmitTest, EqualGraphsGiveEqualBytes) {
  const std::vector<State> states = {MakeState("w", State::PARAMETER, {"10", "4"})};
  EXPECT_EQ(Emit(*ParseGraph(kStep), states)->SerializeAsString(),
            Emit(*ParseGraph(kStep), states)->SerializeAsString());
}

TEST(EmitTest, AMissingOrDifferentStateIsNamed) {
  const Graph graph = *ParseGraph(kStep);
  const absl::Status missing = Emit(graph, {}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(missing.message().find("'w'"), std::string::npos) << missing;
  const std::vector<State> wrong = {MakeState("w", State::PARAMETER, {"10", "5"})};
  EXPECT_EQ(Emit(graph, wrong).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(EmitTest, WrittenBackInputsComeFirstAndBasesAfterOutputs) {
  const Graph graph = *ParseGraph(R"(graph @g {
  %0: f32[2] = user_input 0 "x"
  %1: f32[2] = user_input 1 "y"
  %2: f32[2] = cotan.expr(%0) {
    domain [2]
    0: f32 = input 0
    1: f32 = neg 0
    store 1
  }
  intermediate_base 0 "base.0" = %1
  user_output 0 "z" = %0
  mutated_input 1 "y" = %2
})");
  const absl::StatusOr<serialization::Method> method = Emit(graph, {});
  ASSERT_TRUE(method.ok()) << method.status();
  ASSERT_EQ(method->output_names_size(), 3);
  EXPECT_EQ(method->output_names(0), "y");
  EXPECT_EQ(method->output_names(1), "z");
  EXPECT_EQ(method->output_names(2), "base.0");
  EXPECT_EQ(method->outputs(0), method->ops(0).outputs(0));
  EXPECT_EQ(method->outputs(2), method->inputs(1));
  EXPECT_EQ(method->input_updates_size(), 0);
}

TEST(EmitTest, InputsThatTheProgramWritesAreUpdates) {
  const Graph graph = *ParseGraph(R"(graph @g {
  %0: f32[2] = buffer 0 "b"
  %1: f32[2] = user_input 0 "x"
  %2: f32[2] = user_input 1 "y"
  %3: f32[2] = user_input 2 "z"
  input_update 1 "x" = %2
  input_storage 2 "y" = %1
  shared_storage 3 "z" = %3
  input_update 0 "b" = %1
})");
  const absl::StatusOr<serialization::Method> method =
      Emit(graph, std::vector<State>{MakeState("b", State::BUFFER, {"2"})});
  ASSERT_TRUE(method.ok()) << method.status();
  EXPECT_EQ(method->outputs_size(), 0);
  ASSERT_EQ(method->input_updates_size(), 3);
  EXPECT_EQ(method->input_updates(0).input(), 0u);
  EXPECT_EQ(method->input_updates(0).value(), method->inputs(1));
  EXPECT_FALSE(method->input_updates(0).sets_storage());
  EXPECT_EQ(method->input_updates(1).input(), 1u);
  EXPECT_TRUE(method->input_updates(1).sets_storage());
  EXPECT_FALSE(method->input_updates(1).shares_storage());
  EXPECT_TRUE(method->input_updates(2).sets_storage());
  EXPECT_TRUE(method->input_updates(2).shares_storage());
  EXPECT_EQ(method->state_updates_size(), 1);
}

TEST(EmitTest, AnUnusedPoolIndexIsNotComputed) {
  const Graph graph = *ParseGraph(R"(graph @g {
  %0: f32[1,2,4,4] = user_input 0 "x"
  %1: f32[1,2,2,2], %2: i64[1,2,2,2] = prim.max_pool(%0, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  user_output 0 "y" = %1
})");
  const absl::StatusOr<serialization::Method> method = Emit(graph, {});
  ASSERT_TRUE(method.ok()) << method.status();
  EXPECT_EQ(method->ops(0).outputs_size(), 1);
}

TEST(EmitTest, UnusedGatesOfARecurrentLayerAreNotComputed) {
  const Graph graph = *ParseGraph(R"(graph @g {
  %0: f32[5,2,12] = user_input 0 "x"
  %1: f32[12,3] = user_input 1 "w"
  %2: f32[2,3] = user_input 2 "h"
  %3: f32[5,2,3], %4: f32[5,2,3], %5: f32[5,2,12] = prim.recurrent(%0, %1, %2, %2, "lstm", false)
  %6: f32[5,2,3] = prim.recurrent(%0, %1, %2, none, "rnn_tanh", false)
  user_output 0 "y" = %3
})");
  const absl::StatusOr<serialization::Method> method = Emit(graph, {});
  ASSERT_TRUE(method.ok()) << method.status();
  EXPECT_EQ(method->ops(0).outputs_size(), 2);
  EXPECT_EQ(method->ops(1).outputs_size(), 1);
}

}  // namespace
}  // namespace cotan::aot
