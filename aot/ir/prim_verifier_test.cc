// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_verifier.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// Returns the verifier's message for a node that reads %0; "" if it is valid.
std::string Refusal(absl::string_view node) {
  const absl::StatusOr<Graph> graph =
      ParseGraph(absl::StrCat("graph @g {\n%0: f32[4,6] = user_input 0 \"x\"\n", node, "\n}"));
  if (!graph.ok()) return absl::StrCat("parse: ", graph.status().message());
  return std::string(VerifyGraph(*graph).message());
}

void ExpectRefused(absl::string_view message, absl::string_view node) {
  const std::string refusal = Refusal(node);
  EXPECT_TRUE(absl::StrContains(refusal, message)) << refusal;
}

TEST(PrimVerifierTest, AcceptsNodesOfTheirSignatures) {
  EXPECT_EQ(Refusal("%1: f32[4,4] = prim.matmul(%0, %0, none)"), "");
  EXPECT_EQ(Refusal("%1: f32[4,4] = prim.matmul(%0, %0, %0)"), "");
  EXPECT_EQ(Refusal("%1: f32[8,6] = prim.concat({%0, %0}, 0)"), "");
  EXPECT_EQ(Refusal("%1: f32[4,3] = prim.slice(%0, 1, 0, (s0 * 3), 1)"), "");
  EXPECT_EQ(Refusal("%1: f32[4,6], %2: i64[4,6] = prim.scan(%0, 2, 0, false)"), "");
  EXPECT_EQ(Refusal("%1: f32[4,6] = prim.scan(%0, 0, 0, false)"), "");
}

TEST(PrimVerifierTest, RefusesWrongNumbersOfArguments) {
  ExpectRefused(
      "the number of arguments is 2, expected 3; the op is prim.matmul(Tensor a, Tensor b, Tensor? bias) -> Tensor",
      "%1: f32[4,4] = prim.matmul(%0, %0)");
  ExpectRefused("the number of arguments is 3, expected 2", "%1: f32[24] = prim.view(%0, [24], 1)");
  ExpectRefused("the number of arguments is 1, expected 2", "%1: f32[4,4] = prim.matmul_epilogue(%0)");
}

TEST(PrimVerifierTest, RefusesArgumentsOfOtherTypes) {
  ExpectRefused("argument 0 is not a valid 'a'", "%1: f32[4,4] = prim.matmul(none, %0, none)");
  ExpectRefused("argument 2 is not a valid 'bias'", "%1: f32[4,4] = prim.matmul(%0, %0, 1)");
  ExpectRefused("argument 0 is not a valid 'tensors'", "%1: f32[4,6] = prim.concat(%0, 0)");
  ExpectRefused("argument 0 is not a valid 'tensors'", "%1: f32[4,6] = prim.concat({%0, none}, 0)");
  ExpectRefused("argument 1 is not a valid 'sizes'", "%1: f32[24] = prim.view(%0, 24)");
  ExpectRefused("argument 2 is not a valid 'descending'", "%1: f32[4,6], %2: i64[4,6] = prim.sort(%0, 0, 1)");
  ExpectRefused("argument 2 is not a valid 'inputs'", "%1: f32[4,4] = prim.matmul_epilogue(%0, %0, 7)");
  ExpectRefused("argument 4 is not a valid 'cell'", "%1: f32[4,6] = prim.recurrent(%0, %0, %0, none, 1, true)");
  ExpectRefused("argument 5 is not a valid 'scale'",
                "%1: f32[4,6], %2: f32[4] = prim.attention(%0, %0, %0, none, true, 1)");
}

TEST(PrimVerifierTest, RefusesSymbolsWhereNumbersAreExpected) {
  ExpectRefused("argument 1 is not a valid 'dim'", "%1: f32[6] = prim.select(%0, s0, 0)");
  ExpectRefused("argument 1 is not a valid 'dims'", "%1: f32[6,4] = prim.permute(%0, [s0, 0])");
}

TEST(PrimVerifierTest, RefusesWrongNumbersOfResults) {
  ExpectRefused("the number of results is 2", "%1: f32[24], %2: f32[24] = prim.view(%0, [24])");
  ExpectRefused("the number of results is 1", "%1: f32[4,6] = prim.sort(%0, 0, true)");
}

TEST(PrimVerifierTest, RefusesPrimOpsThatAreNotRegistered) {
  ExpectRefused("op 'prim.softmax' is neither a prim op", "%1: f32[4,6] = prim.softmax(%0)");
}

}  // namespace
}  // namespace cotan::aot
