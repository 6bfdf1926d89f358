// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/emit_op.h"

#include "absl/strings/str_cat.h"
#include "aot/ir/prim_node.h"
#include "aot/ir/prim_verifier.h"
#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Returns the only node of a graph with input %0.
Node Parse(absl::string_view line) {
  const Graph graph = *ParseGraph(absl::StrCat("graph @g {\n%0: f32[4,6,8,8] = user_input 0 \"x\"\n", line, "\n}"));
  return graph.nodes().front();
}

TEST(EmitKernelOpTest, ConvolutionBackwardKeepsTheAttributesOfTheForward) {
  serialization::Op op;
  ASSERT_TRUE(
      EmitKernelOp(
          Graph(),
          Parse("%1: f32[4,6,8,8] = prim.convolution_backward_input(%0, %0, [1, 2], [3, 4], [5, 6], true, [7, 8], 9)"),
          op)
          .ok());
  const serialization::Convolution& convolution = op.convolution_backward_input().forward();
  EXPECT_EQ(convolution.stride(1), 2);
  EXPECT_EQ(convolution.padding(0), 3);
  EXPECT_EQ(convolution.dilation(1), 6);
  EXPECT_TRUE(convolution.transposed());
  EXPECT_EQ(convolution.output_padding(0), 7);
  EXPECT_EQ(convolution.groups(), 9);
}

TEST(EmitKernelOpTest, AvgPoolKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(
      EmitKernelOp(Graph(),
                   Parse("%1: f32[4,6,8,8] = prim.avg_pool(%0, [2, 3], [4, 5], [6, 7], [1, 1], true, false, 8)"), op)
          .ok());
  EXPECT_EQ(op.avg_pool().kernel(1), 3);
  EXPECT_EQ(op.avg_pool().padding(0), 6);
  EXPECT_TRUE(op.avg_pool().ceil_mode());
  EXPECT_FALSE(op.avg_pool().count_include_pad());
  EXPECT_EQ(op.avg_pool().divisor_override(), 8);
}

TEST(EmitKernelOpTest, ScatterAddKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(EmitKernelOp(Graph(), Parse("%1: f32[4,6,8,8] = prim.scatter_add(%0, %0, none, 2, -1)"), op).ok());
  EXPECT_EQ(op.scatter_add().dim(), 2);
  EXPECT_EQ(op.scatter_add().padding_index(), -1);
}

TEST(EmitKernelOpTest, CheckedIndexKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(EmitKernelOp(Graph(), Parse("%1: f32[4,6,8,8] = prim.checked_index(%0, (s0 * 2), true, none)"), op).ok());
  EXPECT_EQ(op.checked_index().size(), "(s0 * 2)");
  EXPECT_TRUE(op.checked_index().from_end());
  EXPECT_FALSE(op.checked_index().has_ignored());
  ASSERT_TRUE(EmitKernelOp(Graph(), Parse("%1: f32[4,6,8,8] = prim.checked_index(%0, 7, false, -100)"), op).ok());
  EXPECT_FALSE(op.checked_index().from_end());
  EXPECT_EQ(op.checked_index().ignored(), -100);
}

TEST(EmitKernelOpTest, ScanKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(EmitKernelOp(Graph(), Parse("%1: f32[4,6,8,8] = prim.scan(%0, 5, 2, true)"), op).ok());
  EXPECT_EQ(op.scan().function(), serialization::Scan::LOGSUMEXP);
  EXPECT_EQ(op.scan().dim(), 2);
  EXPECT_TRUE(op.scan().reverse());
}

TEST(EmitKernelOpTest, RecurrentKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(
      EmitKernelOp(Graph(), Parse("%1: f32[4,6,8,8] = prim.recurrent(%0, %0, %0, none, \"gru\", true)"), op).ok());
  EXPECT_EQ(op.recurrent().cell(), serialization::Recurrent::GRU);
  EXPECT_TRUE(op.recurrent().reverse());
}

TEST(EmitKernelOpTest, RecurrentBackwardKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(EmitKernelOp(Graph(),
                           Parse("%1: f32[4,6,8,8] = prim.recurrent_backward(%0, %0, %0, %0, none, none, none, none, "
                                 "\"rnn_relu\", false)"),
                           op)
                  .ok());
  EXPECT_EQ(op.recurrent_backward().cell(), serialization::Recurrent::RNN_RELU);
  EXPECT_FALSE(op.recurrent_backward().reverse());
}

TEST(EmitKernelOpTest, SortKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(EmitKernelOp(Graph(), Parse("%1: f32[4,6,8,3], %2: i64[4,6,8,3] = prim.sort(%0, 3, true)"), op).ok());
  EXPECT_EQ(op.sort().dim(), 3);
  EXPECT_TRUE(op.sort().descending());
}

TEST(EmitKernelOpTest, AttentionKeepsItsAttributes) {
  serialization::Op op;
  ASSERT_TRUE(EmitKernelOp(Graph(),
                           Parse("%1: f32[4,6,8,8], %2: f32[4,6,8] = prim.attention(%0, %0, %0, none, true, 0.25)"), op)
                  .ok());
  EXPECT_TRUE(op.attention().is_causal());
  EXPECT_EQ(op.attention().scale(), 0.25);
}

TEST(EmitKernelOpTest, RejectsUnknownCellsAndEffects) {
  serialization::Op op;
  EXPECT_EQ(
      EmitKernelOp(Graph(), Parse("%1: f32[4,6,8,8] = prim.recurrent(%0, %0, %0, none, \"mgu\", true)"), op),
      absl::InternalError("argument 'cell' of prim.recurrent is 'mgu'; known are: lstm, gru, rnn_relu, rnn_tanh"));
  EXPECT_EQ(EmitKernelOp(Graph(), Parse("%1: bool[0] = prim.effect(%0, %0, \"beep\", \"\", \"\")"), op),
            absl::InternalError("argument 'kind' of prim.effect is 'beep'; known are: print, metric, assert"));
}

TEST(EmitKernelOpTest, AnEpilogueGoesIntoItsMatmul) {
  const absl::StatusOr<Graph> graph = ParseGraph(R"(graph @g {
  %0: f32[4,4] = user_input 0 "x"
  %1: f32[4,4] = prim.matmul_epilogue(%0, %0, %0) {
    domain [4,4]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = add 0 1
    store 2
  }
  user_output 0 "y" = %1
})");
  ASSERT_TRUE(graph.ok()) << graph.status();
  serialization::Op op;
  ASSERT_TRUE(EmitKernelOp(*graph, graph->nodes().front(), op).ok());
  EXPECT_EQ(op.matmul().epilogue().instructions_size(), 3);
  EXPECT_EQ(op.matmul().epilogue().domain_sizes(0), "4");
}

TEST(EmitViewStepTest, EveryViewHasItsStep) {
  const struct {
    const char* line;
    serialization::ViewStep::KindCase kind;
  } kCases[] = {
      {"%1: f32[24,64] = prim.view(%0, [24, 64])", serialization::ViewStep::kView},
      {"%1: f32[6,4,8,8] = prim.permute(%0, [1, 0, 2, 3])", serialization::ViewStep::kPermute},
      {"%1: f32[4,6,8,8] = prim.expand(%0, [4, 6, 8, 8])", serialization::ViewStep::kExpand},
      {"%1: f32[4,2,8,8] = prim.slice(%0, 1, 0, (s0 * 2), 3)", serialization::ViewStep::kSlice},
      {"%1: f32[4,8,8] = prim.select(%0, 1, 2)", serialization::ViewStep::kSelect},
      {"%1: f32[2] = prim.as_strided(%0, [2], [3], 1)", serialization::ViewStep::kAsStrided},
      {"%1: f32[4,6,8] = prim.diagonal(%0, 0, 2, 3)", serialization::ViewStep::kDiagonal},
      {"%1: f32[4,6,8,3,4] = prim.unfold(%0, 3, 4, 2)", serialization::ViewStep::kUnfold},
      {"%1: f32[4,6,8,8,2] = prim.view_as_real(%0)", serialization::ViewStep::kViewAsReal},
      {"%1: c64[4,6,8] = prim.view_as_complex(%0)", serialization::ViewStep::kViewAsComplex},
      {"%1: i32[4,6,8,8] = prim.view_dtype(%0, 5)", serialization::ViewStep::kDtypeView},
  };
  for (const auto& c : kCases) {
    const Node node = Parse(c.line);
    serialization::ViewStep step;
    EXPECT_TRUE(IsView(node)) << c.line;
    ASSERT_TRUE(EmitViewStep(node, step).ok()) << c.line;
    EXPECT_EQ(step.kind_case(), c.kind) << c.line;
  }
}

// Returns a valid argument.
Argument ExampleOf(const PrimParameter& parameter) {
  switch (parameter.kind) {
    case PrimParameterKind::kTensor:
    case PrimParameterKind::kTensors:
      return Use{0};
    case PrimParameterKind::kOptionalTensor:
      return None{};
    case PrimParameterKind::kTensorList:
      return std::vector<Use>{Use{0}, Use{0}};
    case PrimParameterKind::kInt:
    case PrimParameterKind::kOptionalInt:
    case PrimParameterKind::kSymInt:
      return SymInt(1);
    case PrimParameterKind::kIntList:
    case PrimParameterKind::kSymIntList:
      return std::vector<SymInt>{1, 2};
    case PrimParameterKind::kFloat:
      return 0.5;
    case PrimParameterKind::kBool:
      return true;
    case PrimParameterKind::kString:
      return std::string(parameter.name == "cell" ? "gru" : "print");
  }
  return None{};
}

TEST(EmitKernelOpTest, EveryPrimOpIsEmittedAsAKernelOrAView) {
  for (const PrimOpInfo& info : AllPrimOps()) {
    Node node{std::string(info.name), {}, {}, "", std::make_shared<const serialization::Expr>()};
    for (const PrimParameter& parameter : info.Parameters()) node.arguments.push_back(ExampleOf(parameter));
    node.outputs.resize(info.min_results, 1);
    ASSERT_TRUE(VerifyPrim(info.op, node).ok()) << info.name;
    serialization::Op op;
    serialization::ViewStep step;
    const bool has_kernel = EmitKernelOp(Graph(), node, op).ok();
    const bool has_step = EmitViewStep(node, step).ok();
    EXPECT_EQ(has_kernel, !IsView(node)) << info.name;
    EXPECT_EQ(has_step, IsView(node)) << info.name;
    EXPECT_EQ(op.kind_case() != serialization::Op::KIND_NOT_SET, has_kernel) << info.name;
    EXPECT_EQ(step.kind_case() != serialization::ViewStep::KIND_NOT_SET, has_step) << info.name;
  }
}

TEST(EmitViewStepTest, SizesStaySymbolic) {
  serialization::ViewStep step;
  ASSERT_TRUE(EmitViewStep(Parse("%1: f32[4,2,8,8] = prim.slice(%0, 1, 0, (s0 * 2), 3)"), step).ok());
  EXPECT_EQ(step.slice().end(), "(s0 * 2)");
  EXPECT_EQ(step.slice().step(), "3");
}

TEST(EmitKernelOpTest, ATracedOpIsAnInternalError) {
  serialization::Op op;
  EXPECT_EQ(EmitKernelOp(Graph(), {"aten.exp.default", {}, {}, "", nullptr}, op).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace cotan::aot
