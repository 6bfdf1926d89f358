// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/import_method.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "aot/emit/emit.h"
#include "aot/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

class ImportedNodeTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ImportedNodeTest, IsEmittedAsItWas) {
  const auto graph = ParseGraph(absl::StrCat("graph @g {\n  %0: f32[4,6,8,8] = user_input 0 \"x\"\n  ", GetParam(),
                                             "\n  user_output 0 \"y\" = %1\n}\n"));
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto method = Emit(*graph, {});
  ASSERT_TRUE(method.ok()) << method.status();
  const auto imported = ImportMethod(*method);
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto again = Emit(*imported, {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), method->SerializeAsString()) << PrintGraph(*imported);
}

INSTANTIATE_TEST_SUITE_P(
    Prims, ImportedNodeTest,
    ::testing::Values(
        "%1: f32[4,6,8,8]{0,2,3,1} = prim.copy(%0)", "%1: f32[4,6,8,8] = prim.to_host(%0)",
        "%1: f32[4,6,8,8]{0,2,3,1} = prim.from_host(%0)", "%1: f32[8,6,8,8] = prim.concat({%0, %0}, 0)",
        "%1: f32[4,6,8,8] = prim.matmul(%0, %0, none)", "%1: f32[4,6,8,8] = prim.matmul(%0, %0, %0)",
        "%1: f32[4,6,8,8] = prim.convolution(%0, %0, none, [1, 2], [3, 4], [5, 6], true, [7, 8], 9)",
        "%1: f32[4,6,8,8] = prim.convolution(%0, %0, %0, [1, 2], [3, 4], [5, 6], false, [0, 0], 1)",
        "%1: f32[4,6,8,8] = prim.convolution_backward_input(%0, %0, [1, 2], [3, 4], [5, 6], true, [7, 8], 9)",
        "%1: f32[4,6,8,8] = prim.convolution_backward_weight(%0, %0, [1, 2], [3, 4], [5, 6], true, [7, 8], 9)",
        "%1: f32[4,6,8,8] = prim.max_pool_backward(%0, %0, [2, 3], [4, 5], [6, 7], [1, 1], true, false, 0)",
        "%1: f32[4,6,8,8] = prim.avg_pool(%0, [2, 3], [4, 5], [6, 7], [1, 1], true, false, 8)",
        "%1: f32[4,6,8,8] = prim.avg_pool_backward(%0, [2, 3], [4, 5], [6, 7], [1, 1], true, true, 0)",
        "%1: f32[4,6,8,8] = prim.gather(%0, %0, 1)", "%1: f32[4,6,8,8] = prim.scatter_add(%0, %0, none, 2, -1)",
        "%1: f32[4,6,8,8] = prim.scatter_add(%0, %0, %0, 2, 5)",
        "%1: f32[4,6,8,8] = prim.checked_index(%0, (s0 * 2), true, none)",
        "%1: f32[4,6,8,8] = prim.checked_index(%0, 7, false, -100)", "%1: f32[4,6,8,8] = prim.scan(%0, 5, 2, true)",
        "%1: f32[4,6,8,3], %2: i64[4,6,8,3] = prim.sort(%0, 3, true)",
        "%1: f32[4,6,8,8], %2: f32[4,6,8] = prim.attention(%0, %0, %0, none, true, 0.25)",
        "%1: f32[4,6,8,8], %2: f32[4,6,8,8], %3: f32[4,6,8,8] = "
        "prim.attention_backward(%0, %0, %0, %0, %0, %0, %0, false, 0.5)",
        "%1: f32[4,6,8,8] = prim.recurrent(%0, %0, %0, none, \"rnn_relu\", true)",
        "%1: f32[4,6,8,8] = prim.recurrent(%0, %0, %0, %0, \"gru\", false)",
        "%1: f32[4,6,8,8], %2: f32[4,6,8,8] = "
        "prim.recurrent_backward(%0, %0, %0, %0, none, none, none, none, \"rnn_tanh\", true)",
        "%1: f32[4,6,8,8], %2: f32[4,6,8,8], %3: f32[4,6,8,8] = "
        "prim.recurrent_backward(%0, %0, %0, %0, %0, none, none, none, \"gru\", true)",
        "%1: f32[4,6,8,8], %2: f32[4,6,8,8], %3: f32[4,6,8,8] = "
        "prim.recurrent_backward(%0, %0, %0, %0, %0, %0, %0, %0, \"lstm\", false)",
        "%1: f32[24,64] = prim.view(%0, [24, 64])", "%1: f32[6,4,8,8] = prim.permute(%0, [1, 0, 2, 3])",
        "%1: f32[4,2,8,8] = prim.slice(%0, 1, 0, (s0 * 2), 3)", "%1: f32[4,8,8] = prim.select(%0, 1, 2)",
        "%1: f32[2] = prim.as_strided(%0, [2], [3], 1)", "%1: f32[4,6,8] = prim.diagonal(%0, 0, 2, 3)",
        "%1: f32[4,6,8,3,4] = prim.unfold(%0, 3, 4, 2)"));

TEST(ImportMethodTest, ExpressionsEpiloguesAndUpdatesAreKept) {
  const auto graph = ParseGraph(R"(graph @g {
  %0: f32[4,4] = user_input 0 "x"
  %1: f32[4,4] = user_input 1 "grad"
  %2: f32[4,4] = prim.matmul_epilogue(%0, %0, %1) from "layer" {
    domain [4,4]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = add 0 1
    store 2
  }
  %3: f32[4,1] = cotan.expr(%2) {
    domain [4,4] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1
  }
  %4: f32[4,4], %5: i64[4,4] = prim.max_pool(%0, [2, 3], [4, 5], [6, 7], [1, 1], true, false, 0)
  user_output 0 "y" = %3
  user_output 1 "pooled" = %4
  user_output 2 "indices" = %5
  input_update 1 "" = %2
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto method = Emit(*graph, {});
  ASSERT_TRUE(method.ok()) << method.status();
  const auto imported = ImportMethod(*method);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Emit(*imported, {})->SerializeAsString(), method->SerializeAsString());
}

TEST(ImportMethodTest, StatesAndEffectsAreRefused) {
  serialization::Method method;
  method.set_name("step");
  method.add_state_reads();
  EXPECT_THAT(ImportMethod(method).status().message(), HasSubstr("'step' has states"));
  method.clear_state_reads();
  method.add_ops()->mutable_effect();
  EXPECT_EQ(ImportMethod(method).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace cotan::aot
