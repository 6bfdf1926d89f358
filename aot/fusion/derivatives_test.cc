// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/derivatives.h"

#include "absl/strings/str_cat.h"
#include "aot/fusion/fusion.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "aot/lowering/lower.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// A linear layer, `forward` of its result %2, and a backward of it at %4.
std::string Text(absl::string_view forward, absl::string_view backward, absl::string_view more = "") {
  return absl::StrCat(R"(graph @g {
  %0: f32[64,128] = user_input 0 "x"
  %1: f32[128,128] = parameter 0 "w"
  %2: f32[64,128] = aten.mm.default(%0, %1)
  %3: f32[64,128] = )",
                      forward, R"(
  %4: f32[64,128] = aten.mm.default(%3, %1)
  %5: f32[64,128] = )",
                      backward, R"(
  user_output 0 "y" = %4
  user_output 1 "dx" = %5
)",
                      more, "}\n");
}

constexpr absl::string_view kGelu = R"(aten.gelu.default(%2, "none"))";
constexpr absl::string_view kGeluBackward = R"(aten.gelu_backward.default(%4, %2, "none"))";

Graph Fused(const std::string& text) {
  absl::StatusOr<Graph> parsed = ParseGraph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  absl::StatusOr<Graph> graph = LowerToPrims(*parsed);
  EXPECT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(FuseExpressions(*graph).ok());
  EXPECT_TRUE(VerifyGraph(*graph).ok()) << VerifyGraph(*graph) << PrintGraph(*graph);
  return *std::move(graph);
}

// Results of each program, in order.
std::vector<size_t> Results(const Graph& graph) {
  std::vector<size_t> results;
  for (const Node& node : graph.nodes()) {
    if (node.expr != nullptr) results.push_back(node.outputs.size());
  }
  return results;
}

using Counts = std::vector<size_t>;

TEST(EarlyDerivativesTest, TheDerivativeIsMadeWithTheFunction) {
  for (const auto& [forward, backward] : std::vector<std::pair<absl::string_view, absl::string_view>>{
           {kGelu, kGeluBackward},
           {R"(aten.gelu.default(%2, "tanh"))", R"(aten.gelu_backward.default(%4, %2, "tanh"))"},
           {"aten.silu.default(%2)", "aten.silu_backward.default(%4, %2)"},
       }) {
    const Graph graph = Fused(Text(forward, backward));
    EXPECT_EQ(Results(graph), (Counts{2, 1})) << PrintGraph(graph);
    EXPECT_EQ(graph.nodes().back().expr->instructions_size(), 3) << PrintGraph(graph);
  }
}

TEST(EarlyDerivativesTest, NotIfTheArgumentIsKeptAnyway) {
  const Graph graph = Fused(Text(kGelu, kGeluBackward, "  user_output 2 \"hidden\" = %2\n"));
  EXPECT_EQ(Results(graph), (Counts{1, 1})) << PrintGraph(graph);
}

TEST(EarlyDerivativesTest, NotIfItSharesNothingDear) {
  const Graph graph = Fused(Text("aten.relu.default(%2)", kGeluBackward));
  EXPECT_EQ(Results(graph), (Counts{1, 1})) << PrintGraph(graph);
}

}  // namespace
}  // namespace cotan::aot
