// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/simplify_cross_entropy.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// The log_softmax of y, and what its gradient needs of it.
constexpr char kSoftmax[] = R"(graph @g {
  %0: f32[6,4] = user_input 0 "y"
  %1: f32[6,4] = cotan.expr(%0) {
    domain [6,4]
    0: f32 = input 0
    1: f32 = exp 0
    store 1
  }
  %2: f32[6,1] = cotan.expr(%1) {
    domain [6,4] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1
  }
  %3: f32[6,1] = cotan.expr(%2) {
    domain [6,1]
    0: f32 = input 0
    1: f32 = log 0
    store 1
  }
  %4: f32[6,4] = cotan.expr(%0, %3) {
    domain [6,4]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = sub 0 1
    store 2
  }
  %5: f32[6,4] = cotan.expr(%4) {
    domain [6,4]
    0: f32 = input 0
    1: f32 = exp 0
    store 1
  }
  user_output 0 "log_softmax" = %4
  user_output 1 "softmax" = %5
}
)";

// The sum of rows that are v at the index and 0 elsewhere.
constexpr char kOneHot[] = R"(graph @g {
  %0: i32[6,1] = user_input 0 "index"
  %1: f32[6,1] = user_input 1 "v"
  %2: i32[6,4] = cotan.expr() {
    domain [6,4]
    0: i32 = iota 1
    store 0
  }
  %3: bool[6,4] = cotan.expr(%2, %0) {
    domain [6,4]
    0: i32 = input 0
    1: i32 = input 1
    2: bool = eq 0 1
    store 2
  }
  %4: f32[6,4] = cotan.expr(%3, %1) {
    domain [6,4]
    0: bool = input 0
    1: f32 = input 1
    2: f32 = constant 0.0
    3: f32 = select 0 1 2
    store 3
  }
  %5: f32[6,1] = cotan.expr(%4) {
    domain [6,4] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1
  }
  user_output 0 "sum" = %5
}
)";

TEST(SimplifyCrossEntropyTest, SoftmaxUsesTheExponentialsOfLogSoftmax) {
  const std::string after = After(SimplifyCrossEntropy, kSoftmax);
  EXPECT_EQ(after, absl::StrReplaceAll(kSoftmax, {{R"(  %5: f32[6,4] = cotan.expr(%4) {
    domain [6,4]
    0: f32 = input 0
    1: f32 = exp 0
    store 1
  }
)",
                                                   R"(  %5: f32[6,1] = cotan.expr(%2) {
    domain [6,1]
    0: f32 = constant 1.0
    1: f32 = input 0
    2: f32 = div 0 1
    store 2
  }
  %6: f32[6,4] = cotan.expr(%1, %5) {
    domain [6,4]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = mul 0 1
    store 2
  }
)"},
                                                  {R"("softmax" = %5)", R"("softmax" = %6)"}}));
}

TEST(SimplifyCrossEntropyTest, OtherDifferencesAndDTypesStay) {
  const std::string other = absl::StrReplaceAll(kSoftmax, {{"sub 0 1", "sub 1 0"}});
  EXPECT_EQ(After(SimplifyCrossEntropy, other), other);
  const std::string half = absl::StrReplaceAll(kSoftmax, {{"f32", "bf16"}});
  EXPECT_EQ(After(SimplifyCrossEntropy, half), half);
}

TEST(SimplifyCrossEntropyTest, SumsOfOneHotRowsAreTheirNumbers) {
  EXPECT_EQ(After(SimplifyCrossEntropy, kOneHot), R"(graph @g {
  %0: i32[6,1] = user_input 0 "index"
  %1: f32[6,1] = user_input 1 "v"
  %2: bool[6,1] = cotan.expr(%0) {
    domain [6,1]
    0: i32 = input 0
    1: i32 = constant 0
    2: bool = ge 0 1
    store 2
  }
  %3: bool[6,1] = cotan.expr(%0) {
    domain [6,1]
    0: i32 = input 0
    1: i32 = constant 4
    2: bool = lt 0 1
    store 2
  }
  %4: bool[6,1] = cotan.expr(%2, %3) {
    domain [6,1]
    0: bool = input 0
    1: bool = input 1
    2: bool = and 0 1
    store 2
  }
  %5: f32[6,1] = cotan.expr(%4, %1) {
    domain [6,1]
    0: bool = input 0
    1: f32 = input 1
    2: f32 = constant 0.0
    3: f32 = select 0 1 2
    store 3
  }
  user_output 0 "sum" = %5
}
)");
}

TEST(SimplifyCrossEntropyTest, SumsAlongAnotherDimensionStay) {
  const std::string text =
      absl::StrReplaceAll(kOneHot, {{"reduce [1]", "reduce [0]"}, {"%5: f32[6,1]", "%5: f32[1,4]"}});
  EXPECT_EQ(After(SimplifyCrossEntropy, text), text);
}

TEST(SimplifyCrossEntropyTest, RowsThatAreNotZeroElsewhereStay) {
  const std::string text = absl::StrReplaceAll(kOneHot, {{"constant 0.0", "constant 1.0"}});
  EXPECT_EQ(After(SimplifyCrossEntropy, text), text);
}

TEST(SimplifyCrossEntropyTest, GraphsWithSavedValuesStay) {
  const std::string text =
      absl::StrReplaceAll(kSoftmax, {{R"(user_output 0 "log_softmax")", R"(saved_output 0 "log_softmax")"},
                                     {R"(user_output 1 "softmax")", R"(user_output 0 "softmax")"}});
  EXPECT_EQ(After(SimplifyCrossEntropy, text), text);
}

}  // namespace
}  // namespace cotan::aot
