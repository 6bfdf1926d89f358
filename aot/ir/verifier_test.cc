// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/verifier.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Returns the verifier's error message; "" if the graph is valid.
std::string Refusal(absl::string_view text) {
  const absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return absl::StrCat("parse: ", graph.status().message());
  return std::string(VerifyGraph(*graph).message());
}

std::string RefusalOfExpr(absl::string_view outputs, absl::string_view body) {
  return Refusal(absl::StrCat("graph @g {\n %0: f32[4,8] = user_input 0 \"x\"\n %1: f32[4,1] = user_input 1 \"m\"\n ",
                              outputs, " = cotan.expr(%0, %1) {\n", body, "}\n}\n"));
}

void ExpectRefused(absl::string_view message, const std::string& refusal) {
  EXPECT_TRUE(absl::StrContains(refusal, message)) << refusal;
}

TEST(VerifierTest, AcceptsARowwiseProgram) {
  EXPECT_EQ(RefusalOfExpr("%2: f32[4,8], %3: f32[4,1]",
                          "domain [4,8] reduce [1]\n0: f32 = input 0\n1: f32 = input 1\n2: f32 = sub 0 1\n"
                          "3: f32 = reduce_sum 2\nstore 2 3\n"),
            "");
}

TEST(VerifierTest, RefusesAnOperandThatComesLater) {
  ExpectRefused("earlier instruction",
                RefusalOfExpr("%2: f32[4,8]", "domain [4,8]\n0: f32 = neg 1\n1: f32 = input 0\nstore 0\n"));
}

TEST(VerifierTest, RefusesAMixOfDTypes) {
  ExpectRefused("dtype",
                RefusalOfExpr("%2: f32[4,8]",
                              "domain [4,8]\n0: f32 = input 0\n1: f64 = constant 1.0\n2: f32 = add 0 1\nstore 2\n"));
}

TEST(VerifierTest, RefusesAnInputThatDoesNotBroadcast) {
  ExpectRefused("broadcast", RefusalOfExpr("%2: f32[4,4]", "domain [4,4]\n0: f32 = input 0\nstore 0\n"));
}

TEST(VerifierTest, RefusesAnOutputOfTheWrongLevel) {
  ExpectRefused("expected sizes",
                RefusalOfExpr("%2: f32[4,8]", "domain [4,8] reduce [1]\n0: f32 = input 1\nstore 0\n"));
}

TEST(VerifierTest, RefusesAReductionWithoutDims) {
  ExpectRefused("without reduce dims",
                RefusalOfExpr("%2: f32[4,8]", "domain [4,8]\n0: f32 = input 0\n1: f32 = reduce_sum 0\nstore 1\n"));
}

TEST(VerifierTest, RefusesAnUnknownDialect) {
  ExpectRefused("dialect", Refusal("graph @g {\n %0: f32[2] = user_input 0 \"x\"\n %1: f32[2] = other.op(%0)\n}\n"));
}

TEST(VerifierTest, RefusesAUseBeforeItsDefinition) {
  Graph graph = *ParseGraph("graph @g {\n %0: f32[2] = user_input 0 \"x\"\n %1: f32[2] = aten.exp.default(%0)\n}\n");
  std::get<Use>(graph.nodes().front().arguments[0]).value = 1;
  ExpectRefused("not defined before", std::string(VerifyGraph(graph).message()));
}

TEST(VerifierTest, RefusesABadDimOrder) {
  ExpectRefused("permutation", Refusal("graph @g {\n %0: f32[2,3]{0,0} = user_input 0 \"x\"\n}\n"));
}

}  // namespace
}  // namespace cotan::aot
