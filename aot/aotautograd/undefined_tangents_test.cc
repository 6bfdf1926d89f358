// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/undefined_tangents.h"

#include <string>

#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

std::string Guarded(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return std::string(graph.status().message());
  const absl::Status status = GuardUndefinedTangents(*graph);
  return status.ok() ? PrintGraph(*graph) : std::string(status.message());
}

TEST(GuardUndefinedTangentsTest, ASumIsTheGradientThatExists) {
  EXPECT_EQ(Guarded(R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = tangent 0 "tangent.a"
  %2: f32[4] = tangent 1 "tangent.b"
  %3: f32[4] = aten.div.Tensor(%1, %0)
  %4: f32[4] = aten.mul.Tensor(%2, 2)
  %5: f32[4] = aten.add.Tensor(%3, %4, 1)
  gradient 0 "x" = %5
})"),
            R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = tangent 0 "tangent.a"
  %2: f32[4] = tangent 1 "tangent.b"
  %3: bool[] = tangent 2 "tangent.a.is_defined"
  %4: bool[] = tangent 3 "tangent.b.is_defined"
  %5: f32[4] = aten.div.Tensor(%1, %0)
  %6: f32[4] = aten.mul.Tensor(%2, 2)
  %7: f32[4] = aten.add.Tensor(%5, %6, 1)
  %8: f32[4] = aten.where.self(%4, %7, %5)
  %9: f32[4] = aten.where.self(%3, %8, %6)
  gradient 0 "x" = %9
}
)");
}

// Values that are always defined together need no flag.
TEST(GuardUndefinedTangentsTest, OneConditionIsEnoughIfOneContainsTheOther) {
  EXPECT_EQ(Guarded(R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = tangent 1 "b"
  %2: f32[4] = tangent 2 "c"
  %3: f32[4] = aten.add.Tensor(%0, %1, 1)
  %4: f32[4] = aten.neg.default(%1)
  %5: f32[4] = aten.add.Tensor(%4, %3, 1)
  %6: f32[4] = aten.add.Tensor(%3, %2, 1)
  gradient 0 "x" = %5
  gradient 1 "y" = %6
})"),
            R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = tangent 1 "b"
  %2: f32[4] = tangent 2 "c"
  %3: bool[] = tangent 3 "a.is_defined"
  %4: bool[] = tangent 4 "b.is_defined"
  %5: bool[] = tangent 5 "c.is_defined"
  %6: bool[] = aten.logical_or.default(%3, %4)
  %7: f32[4] = aten.add.Tensor(%0, %1, 1)
  %8: f32[4] = aten.where.self(%4, %7, %0)
  %9: f32[4] = aten.where.self(%3, %8, %1)
  %10: f32[4] = aten.neg.default(%1)
  %11: f32[4] = aten.add.Tensor(%10, %9, 1)
  %12: f32[4] = aten.where.self(%4, %11, %9)
  %13: f32[4] = aten.add.Tensor(%9, %2, 1)
  %14: f32[4] = aten.where.self(%5, %13, %9)
  %15: f32[4] = aten.where.self(%6, %14, %2)
  gradient 0 "x" = %12
  gradient 1 "y" = %15
}
)");
}

TEST(GuardUndefinedTangentsTest, OtherOpsReadZeros) {
  EXPECT_EQ(Guarded(R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = tangent 1 "b"
  %2: f32[4] = aten.log.default(%0)
  %3: f32[2,4] = aten.stack.default({%2, %1}, 0)
  %4: f32[4] = aten.sub.Tensor(%2, %1, 1)
  gradient 0 "x" = %3
  gradient 1 "y" = %4
})"),
            R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = tangent 1 "b"
  %2: bool[] = tangent 2 "a.is_defined"
  %3: bool[] = tangent 3 "b.is_defined"
  %4: f32[4] = aten.log.default(%0)
  %5: f32[4] = aten.where.ScalarOther(%2, %4, 0)
  %6: f32[4] = aten.where.ScalarOther(%3, %1, 0)
  %7: f32[2,4] = aten.stack.default({%5, %6}, 0)
  %8: f32[4] = aten.sub.Tensor(%5, %6, 1)
  gradient 0 "x" = %7
  gradient 1 "y" = %8
}
)");
}

// All gradients that enter such a node are defined together from there on.
TEST(GuardUndefinedTangentsTest, MaterializedGradientsAreZerosOfTheirOwn) {
  EXPECT_EQ(Guarded(R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = tangent 1 "b"
  %2: f32[4], %3: f32[4] = cotan.materialize_grads.default(%0, %1)
  %4: f32[4] = aten.neg.default(%3)
  %5: f32[4] = aten.add.Tensor(%2, %4, 1)
  gradient 0 "x" = %5
})"),
            R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = tangent 1 "b"
  %2: bool[] = tangent 2 "a.is_defined"
  %3: bool[] = tangent 3 "b.is_defined"
  %4: f32[4] = aten.where.ScalarOther(%2, %0, 0)
  %5: f32[4] = aten.where.ScalarOther(%3, %1, 0)
  %6: f32[4] = aten.neg.default(%5)
  %7: f32[4] = aten.add.Tensor(%4, %6, 1)
  gradient 0 "x" = %7
}
)");
}

// The derivative of a vector-Jacobian product: eager mode has no node for a gradient that was undefined. The gradient
// of "a", which a tangent reaches in any case, is zeros then.
TEST(GuardUndefinedTangentsTest, DerivativesOfUndefinedGradientsAreUndefined) {
  EXPECT_EQ(Guarded(R"(graph @backward.forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = user_input 1 "a"
  %2: f32[4] = user_input 2 "b"
  %3: bool[] = user_input 3 "a.is_defined"
  %4: bool[] = user_input 4 "b.is_defined"
  %5: f32[4] = tangent 0 "tangent.gradient.x"
  %6: f32[4] = cotan.tangent.default(%1, {%3, %4}, 0, 1)
  %7: f32[4] = cotan.tangent.default(%2, {%3, %4}, 1, 1)
  %8: f32[4] = aten.div.Tensor(%6, %0)
  %9: f32[4] = cotan.gate.default(%8)
  %10: f32[4] = cotan.gate.default(%7)
  %11: f32[4] = aten.add.Tensor(%9, %10, 1)
  %12: f32[4] = cotan.gate.default(%5, %9)
  %13: f32[4] = aten.div.Tensor(%12, %0)
  %14: f32[4] = aten.mul.Tensor(%12, %8)
  %15: f32[4] = cotan.gate.default(%5, %10)
  %16: f32[4] = aten.add.Tensor(%14, %15, 1)
  user_output 0 "gradient.x" = %11
  gradient 0 "x" = %16
  gradient 1 "a" = %13
})"),
            R"(graph @backward.forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = user_input 1 "a"
  %2: f32[4] = user_input 2 "b"
  %3: bool[] = user_input 3 "a.is_defined"
  %4: bool[] = user_input 4 "b.is_defined"
  %5: f32[4] = tangent 0 "tangent.gradient.x"
  %6: f32[4] = aten.div.Tensor(%1, %0)
  %7: f32[4] = aten.add.Tensor(%6, %2, 1)
  %8: f32[4] = aten.where.self(%4, %7, %6)
  %9: f32[4] = aten.where.self(%3, %8, %2)
  %10: f32[4] = aten.div.Tensor(%5, %0)
  %11: f32[4] = aten.mul.Tensor(%5, %6)
  %12: f32[4] = aten.add.Tensor(%11, %5, 1)
  %13: f32[4] = aten.where.self(%4, %12, %11)
  %14: f32[4] = aten.where.self(%3, %13, %5)
  %15: f32[4] = aten.where.ScalarOther(%3, %10, 0)
  user_output 0 "gradient.x" = %9
  gradient 0 "x" = %14
  gradient 1 "a" = %15
}
)");
}

// A node reads a gradient of the first order that it has saved: it does not make the result defined, and is zeros where
// eager mode has none.
TEST(GuardUndefinedTangentsTest, SavedGradientsAreZerosIfTheyAreUndefined) {
  EXPECT_EQ(Guarded(R"(graph @backward.forward {
  %0: f32[4] = user_input 0 "a"
  %1: f32[4] = user_input 1 "b"
  %2: bool[] = user_input 2 "a.is_defined"
  %3: bool[] = user_input 3 "b.is_defined"
  %4: f32[4] = tangent 0 "u"
  %5: f32[4] = tangent 1 "v"
  %6: f32[4] = cotan.tangent.default(%0, {%2, %3}, 0, 1)
  %7: f32[4] = cotan.tangent.default(%1, {%2, %3}, 1, 1)
  %8: f32[4] = aten.log.default(%6)
  %9: f32[4] = cotan.gate.default(%8)
  %10: f32[4] = aten.mul.Tensor(%4, %8)
  %11: f32[4] = cotan.gate.default(%5, %9)
  %12: f32[4] = aten.mul.Tensor(%11, %8)
  %13: f32[4] = aten.add.Tensor(%10, %12, 1)
  user_output 0 "gradient.x" = %9
  user_output 1 "gradient.y" = %7
  gradient 0 "x" = %13
})"),
            R"(graph @backward.forward {
  %0: f32[4] = user_input 0 "a"
  %1: f32[4] = user_input 1 "b"
  %2: bool[] = user_input 2 "a.is_defined"
  %3: bool[] = user_input 3 "b.is_defined"
  %4: f32[4] = tangent 0 "u"
  %5: f32[4] = tangent 1 "v"
  %6: bool[] = tangent 2 "u.is_defined"
  %7: bool[] = tangent 3 "v.is_defined"
  %8: bool[] = aten.logical_and.default(%2, %7)
  %9: bool[] = aten.logical_or.default(%2, %6)
  %10: f32[4] = aten.log.default(%0)
  %11: f32[4] = aten.where.ScalarOther(%2, %10, 0)
  %12: f32[4] = aten.mul.Tensor(%4, %11)
  %13: f32[4] = aten.mul.Tensor(%5, %10)
  %14: f32[4] = aten.add.Tensor(%12, %13, 1)
  %15: f32[4] = aten.where.self(%8, %14, %12)
  %16: f32[4] = aten.where.self(%6, %15, %13)
  %17: f32[4] = aten.where.ScalarOther(%9, %16, 0)
  user_output 0 "gradient.x" = %10
  user_output 1 "gradient.y" = %1
  gradient 0 "x" = %17
}
)");
}

TEST(GuardUndefinedTangentsTest, NothingChangesWhereContributionsDoNotMeet) {
  const std::string apart = R"(graph @forward {
  %0: f32[4] = user_input 0 "x"
  %1: f32[4] = tangent 0 "a"
  %2: f32[4] = tangent 1 "b"
  %3: f32[4] = aten.mul.Tensor(%1, %0)
  %4: f32[4] = aten.add.Tensor(%3, %1, 1)
  %5: f32[4] = aten.add.Tensor(%2, %0, 1)
  gradient 0 "x" = %4
  gradient 1 "y" = %5
}
)";
  EXPECT_EQ(Guarded(apart), apart);
  const std::string single = R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = aten.neg.default(%0)
  %2: f32[4] = aten.add.Tensor(%1, %0, 1)
  gradient 0 "x" = %2
}
)";
  EXPECT_EQ(Guarded(single), single);
}

// Effect tokens are not gradients.
TEST(GuardUndefinedTangentsTest, TokensAreLeftAsTheyAre) {
  const std::string text = R"(graph @forward {
  %0: f32[4] = tangent 0 "a"
  %1: f32[4] = tangent 1 "b"
  %2: bool[0] = token 1 "backward_token"
  %3: bool[0] = cotan.effect.default(%2, %0, "print", "g", "")
  %4: bool[0] = cotan.effect.default(%3, %1, "print", "h", "")
  token_output 1 "backward_token" = %4
  gradient 0 "x" = %0
  gradient 1 "y" = %1
}
)";
  EXPECT_EQ(Guarded(text), text);
}

}  // namespace
}  // namespace cotan::aot
