// SPDX-License-Identifier: Apache-2.0

#include "serialization/text/text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Expr;
using serialization::ExprInstruction;
using serialization::Method;
using serialization::Op;
using ::testing::HasSubstr;

void AddValue(Method& method, std::initializer_list<const char*> sizes) {
  auto& type = *method.add_values()->mutable_type();
  type.set_dtype(serialization::DTYPE_F32);
  for (const char* size : sizes) type.add_sizes(size);
}

ExprInstruction& AddInstruction(Expr& expr, serialization::ScalarFn fn,
                                serialization::DTypeProto dtype = serialization::DTYPE_F32) {
  ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_fn(fn);
  instruction.set_dtype(dtype);
  return instruction;
}

TEST(TextTest, AMethodReadsTopToBottom) {
  Artifact artifact;
  artifact.add_states()->set_name("weight");
  Method& method = *artifact.add_methods();
  method.set_name("step");
  AddValue(method, {"s0", "3"});
  AddValue(method, {"2", "3"});
  AddValue(method, {"3", "2"});
  AddValue(method, {"s0", "2"});
  AddValue(method, {"s0", "1"});
  method.add_inputs(0);
  method.add_input_names("x");
  method.add_state_reads()->set_value(1);
  Op& view = *method.add_ops();
  view.add_inputs(1);
  view.add_outputs(2);
  view.mutable_view()->add_steps()->mutable_permute()->add_dims(1);
  view.mutable_view()->mutable_steps(0)->mutable_permute()->add_dims(0);
  Op& matmul = *method.add_ops();
  matmul.mutable_matmul();
  matmul.add_inputs(0);
  matmul.add_inputs(2);
  matmul.add_outputs(3);
  matmul.set_source("aten.linear fc1");
  Op& sum = *method.add_ops();
  sum.add_inputs(3);
  sum.add_outputs(4);
  sum.mutable_expr()->add_domain_sizes("s0");
  sum.mutable_expr()->add_domain_sizes("2");
  sum.mutable_expr()->add_reduce_dims(1);
  AddInstruction(*sum.mutable_expr(), serialization::FN_INPUT);
  AddInstruction(*sum.mutable_expr(), serialization::FN_REDUCE_SUM).add_operands(0);
  sum.mutable_expr()->add_outputs(1);
  method.add_state_updates()->set_value(1);
  method.add_outputs(4);
  method.add_outputs(0);
  method.add_output_names("y");
  method.set_num_saved(1);
  EXPECT_EQ(MethodText(artifact, method),
            "method @step(%0: f32[s0,3] \"x\") {\n"
            "  %1: f32[2,3] = state \"weight\"\n"
            "  %2: f32[3,2] = view(%1) permute(1, 0)\n"
            "  %3: f32[s0,2] = matmul(%0, %2)  // aten.linear fc1\n"
            "  %4: f32[s0,1] = expr(%3) over [s0,2] reduce {1}\n"
            "    0: f32 = input 0\n"
            "    1: f32 = reduce_sum 0\n"
            "    store 1\n"
            "  state \"weight\" = %1\n"
            "  return %4 \"y\", %0 saved\n"
            "}\n");
}

TEST(TextTest, AValueOnTheHostIsNamedWhereItIsMade) {
  Artifact artifact;
  Method& method = *artifact.add_methods();
  method.set_name("backward");
  for (int i = 0; i < 2; ++i) AddValue(method, {"2", "2"});
  method.mutable_values(0)->set_on_host(true);
  method.add_inputs(0);
  Op& op = *method.add_ops();
  op.add_inputs(0);
  op.add_outputs(1);
  op.mutable_copy();
  method.add_outputs(1);
  EXPECT_EQ(MethodText(artifact, method),
            "method @backward(%0: f32[2,2] on host) {\n"
            "  %1: f32[2,2] = copy(%0)\n"
            "  return %1\n"
            "}\n");
}

TEST(TextTest, AnEpilogueStandsUnderItsProduct) {
  Artifact artifact;
  Method& method = *artifact.add_methods();
  method.set_name("step");
  for (int i = 0; i < 3; ++i) AddValue(method, {"2", "2"});
  method.add_inputs(0);
  method.add_inputs(1);
  Op& op = *method.add_ops();
  op.add_inputs(0);
  op.add_inputs(1);
  op.add_outputs(2);
  Expr& epilogue = *op.mutable_matmul()->mutable_epilogue();
  AddInstruction(epilogue, serialization::FN_INPUT);
  AddInstruction(epilogue, serialization::FN_RELU).add_operands(0);
  epilogue.add_outputs(1);
  method.add_outputs(2);
  EXPECT_EQ(MethodText(artifact, method),
            "method @step(%0: f32[2,2], %1: f32[2,2]) {\n"
            "  %2: f32[2,2] = matmul(%0, %1) with epilogue\n"
            "    0: f32 = input 0\n"
            "    1: f32 = relu 0\n"
            "    store 1\n"
            "  return %2\n"
            "}\n");
}

TEST(TextTest, InstructionsShowTheirAttributes) {
  Expr expr;
  AddInstruction(expr, serialization::FN_CONSTANT).set_float_value(0.5);
  AddInstruction(expr, serialization::FN_CONSTANT, serialization::DTYPE_I64).set_int_value(-3);
  AddInstruction(expr, serialization::FN_SIZE, serialization::DTYPE_I64).set_size("(s0 * 2)");
  AddInstruction(expr, serialization::FN_IOTA, serialization::DTYPE_I64).set_index(1);
  ExprInstruction& random = AddInstruction(expr, serialization::FN_RANDOM_UNIFORM);
  random.set_index(2);
  random.set_slice("128");
  expr.add_outputs(0);
  expr.add_outputs(4);
  EXPECT_EQ(ExprText(expr, ""),
            "0: f32 = constant 0.5\n"
            "1: i64 = constant -3\n"
            "2: i64 = size (s0 * 2)\n"
            "3: i64 = iota 1\n"
            "4: f32 = random_uniform 2 slice 128\n"
            "store 0, 4\n");
}

TEST(TextTest, AttributesOfOpsAreShown) {
  Artifact artifact;
  Method method;
  AddValue(method, {"1"});
  const auto text = [&](const Op& op) {
    method.clear_ops();
    *method.add_ops() = op;
    return MethodText(artifact, method);
  };
  Op convolution;
  for (int64_t value : {1, 2}) convolution.mutable_convolution()->add_stride(value);
  convolution.mutable_convolution()->set_groups(3);
  EXPECT_THAT(text(convolution), HasSubstr("convolution() stride=[1,2] padding=[] dilation=[] groups=3\n"));
  Op pool;
  pool.mutable_avg_pool()->add_kernel(2);
  pool.mutable_avg_pool()->set_count_include_pad(true);
  EXPECT_THAT(text(pool), HasSubstr("avg_pool() kernel=[2] stride=[] padding=[] dilation=[] count_include_pad\n"));
  Op scatter;
  scatter.mutable_scatter_add()->set_padding_index(-1);
  EXPECT_THAT(text(scatter), HasSubstr("scatter_add() dim=0 padding_index=-1\n"));
  Op index;
  index.mutable_checked_index()->set_size("s0");
  EXPECT_THAT(text(index), HasSubstr("checked_index() below s0\n"));
  index.mutable_checked_index()->set_from_end(true);
  index.mutable_checked_index()->set_ignored(-100);
  EXPECT_THAT(text(index), HasSubstr("checked_index() below s0 from_end or -100\n"));
  Op attention;
  attention.mutable_attention()->set_is_causal(true);
  attention.mutable_attention()->set_scale(0.25);
  EXPECT_THAT(text(attention), HasSubstr("attention() scale=0.25 causal\n"));
  Op recurrent;
  recurrent.mutable_recurrent()->set_cell(serialization::Recurrent::LSTM);
  EXPECT_THAT(text(recurrent), HasSubstr("recurrent() lstm\n"));
  recurrent.mutable_recurrent_backward()->set_cell(serialization::Recurrent::RNN_TANH);
  recurrent.mutable_recurrent_backward()->set_reverse(true);
  EXPECT_THAT(text(recurrent), HasSubstr("recurrent_backward() rnn_tanh reverse\n"));
}

}  // namespace
}  // namespace cotan
