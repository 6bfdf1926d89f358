// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/text.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kEverything = R"(graph @step {
  %0: f32[32,784] = user_input 0 "input.0"
  %1: f32[10,784]{1,0} = parameter 3 "0.we\"ight"
  %2: i64[(s0 * 2),max(s1, 1)] = constant 0 "" without_version_check
  %3: f32[784,10] "a name" = aten.t.default(%1) from "0, the first"
  %4: f32[], _ = aten.many.Overload(%0, none, {%1, none}, {}, true, false, -3, (s0 // 2), 1.5, inf, "te\"xt", f32, [1, s0, max(s0, 1)], [], floats[1.0, 2.5], floats[], bools[true, false], bools[])
  %5: f32[32,1], %6: f32[32,784] = cotan.expr(%0) {
    domain [32,784] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1 0
  }
  aten.effect.default()
  user_output 0 "output.0" = %3
  user_output 1 "output.1" = %0 without_version_check
  gradient 1 "x" = none
  state_update 0 "rng" = %4
}
)";

TEST(TextTest, EveryFormRoundTrips) {
  const absl::StatusOr<Graph> graph = ParseGraph(kEverything);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(PrintGraph(*graph), kEverything);
}

TEST(TextTest, ArgumentsHaveTheirTypes) {
  const absl::StatusOr<Graph> graph = ParseGraph(kEverything);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const std::vector<Argument>& arguments = std::next(graph->nodes().begin())->arguments;
  EXPECT_TRUE(std::holds_alternative<None>(arguments[1]));
  EXPECT_EQ(std::get<std::vector<Use>>(arguments[2])[1].value, kNoValue);
  EXPECT_TRUE(std::get<bool>(arguments[4]));
  EXPECT_EQ(std::get<SymInt>(arguments[6]), SymInt(-3));
  EXPECT_EQ(std::get<double>(arguments[8]), 1.5);
  EXPECT_EQ(std::get<std::string>(arguments[10]), "te\"xt");
  EXPECT_EQ(std::get<DType>(arguments[11]), DType::kFloat32);
  EXPECT_EQ(std::get<std::vector<SymInt>>(arguments[12]).size(), 3u);
}

TEST(TextTest, PrintingRenumbersValues) {
  Graph graph;
  graph.name = "g";
  graph.AddValue({DType::kFloat32, {}, {}});  // never defined
  const ValueId x = graph.AddInput({DType::kFloat32, {SymInt(2)}, {}}, InputKind::kUserInput, 0, "x");
  graph.AddOutput(x, OutputKind::kUserOutput, 0, "y");
  EXPECT_EQ(PrintGraph(graph), "graph @g {\n  %0: f32[2] = user_input 0 \"x\"\n  user_output 0 \"y\" = %0\n}\n");
}

TEST(TextTest, ErrorsNameTheLine) {
  const absl::StatusOr<Graph> undefined = ParseGraph("graph @g {\n  user_output 0 \"y\" = %7\n}\n");
  EXPECT_EQ(undefined.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(undefined.status().message().find("line 2"), std::string::npos) << undefined.status();
  EXPECT_FALSE(ParseGraph("").ok());
  EXPECT_FALSE(ParseGraph("graph @g {\n").ok());
  EXPECT_FALSE(ParseGraph("graph @g {\n %0: f99[2] = user_input 0 \"x\"\n}").ok());
  EXPECT_FALSE(ParseGraph("graph @g {\n %0: f32[2] = user_input 0 \"x\"\n %0: f32[2] = user_input 1 \"x\"\n}").ok());
  EXPECT_FALSE(ParseGraph("graph @g {\n %0: f32[2] = aten.x(?)\n}").ok());
}

}  // namespace
}  // namespace cotan::aot
