// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/complex/complex_math.h"

#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Returns the nodes that compute both parts of a function of x + iy.
template <typename F>
std::string NodesOf(const F& function) {
  absl::StatusOr<Graph> graph = ParseGraph(R"(graph @g {
  %0: f32[3] = user_input 0 "x"
  %1: f32[3] = user_input 1 "y"
}
)");
  EXPECT_TRUE(graph.ok()) << graph.status();
  const Graph::NodeList::iterator end = graph->nodes().end();
  ComplexMath math(*graph, end);
  const ComplexValue result = function(math, ComplexValue{0, 1});
  graph->AddOutput(result.real, OutputKind::kUserOutput, 0, "real");
  graph->AddOutput(result.imaginary, OutputKind::kUserOutput, 1, "imaginary");
  const absl::Status verified = VerifyGraph(*graph);
  EXPECT_TRUE(verified.ok()) << verified;
  return PrintGraph(*graph);
}

TEST(ComplexMathTest, ExponentialIsAMagnitudeAndAnAngle) {
  EXPECT_EQ(NodesOf([](ComplexMath& math, ComplexValue z) { return math.Exp(z); }), R"(graph @g {
  %0: f32[3] = user_input 0 "x"
  %1: f32[3] = user_input 1 "y"
  %2: f32[3] = aten.exp.default(%0)
  %3: f32[3] = aten.cos.default(%1)
  %4: f32[3] = aten.mul.Tensor(%2, %3)
  %5: f32[3] = aten.sin.default(%1)
  %6: f32[3] = aten.mul.Tensor(%2, %5)
  user_output 0 "real" = %4
  user_output 1 "imaginary" = %6
}
)");
}

TEST(ComplexMathTest, SmallPowersAreProducts) {
  EXPECT_EQ(NodesOf([](ComplexMath& math, ComplexValue z) { return math.Power(z, 2); }),
            NodesOf([](ComplexMath& math, ComplexValue z) { return math.Multiply(z, z); }));
}

TEST(ComplexMathTest, NumbersBroadcast) {
  EXPECT_EQ(NodesOf([](ComplexMath& math, ComplexValue z) { return math.Add(math.Constant(1, 2, z.real), z); }),
            R"(graph @g {
  %0: f32[3] = user_input 0 "x"
  %1: f32[3] = user_input 1 "y"
  %2: f32[] = aten.full.default([], 1.0, f32, none, none, none)
  %3: f32[] = aten.full.default([], 2.0, f32, none, none, none)
  %4: f32[3] = aten.add.Tensor(%2, %0, 1)
  %5: f32[3] = aten.add.Tensor(%3, %1, 1)
  user_output 0 "real" = %4
  user_output 1 "imaginary" = %5
}
)");
}

}  // namespace
}  // namespace cotan::aot
