// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/canonicalize.h"

#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(CanonicalizeProductsTest, ATransposedProductIsComputedTransposed) {
  EXPECT_EQ(After(CanonicalizeProducts, R"(graph @g {
  %0: f32[32,784] = user_input 0 "x"
  %1: f32[32,10] = user_input 1 "g"
  %2: f32[784,32] = prim.permute(%0, [1, 0])
  %3: f32[784,10] = prim.matmul(%2, %1, none)
  %4: f32[10,784] = prim.permute(%3, [1, 0])
  gradient 0 "w" = %4
})"),
            R"(graph @g {
  %0: f32[32,784] = user_input 0 "x"
  %1: f32[32,10] = user_input 1 "g"
  %2: f32[10,32] = prim.permute(%1, [1, 0])
  %3: f32[10,784] = prim.matmul(%2, %0, none)
  gradient 0 "w" = %3
}
)");
}

TEST(CanonicalizeProductsTest, AConvertedAndTransposedProductIsComputedTransposed) {
  EXPECT_EQ(After(CanonicalizeProducts, R"(graph @g {
  %0: bf16[784,32] = user_input 0 "x"
  %1: bf16[32,10] = user_input 1 "g"
  %2: bf16[784,10] = prim.matmul(%0, %1, none)
  %3: f32[784,10] = cotan.expr(%2) {
    domain [784,10]
    0: bf16 = input 0
    1: f32 = cast 0
    store 1
  }
  %4: f32[10,784] = prim.permute(%3, [1, 0])
  gradient 0 "w" = %4
})"),
            R"(graph @g {
  %0: bf16[784,32] = user_input 0 "x"
  %1: bf16[32,10] = user_input 1 "g"
  %2: bf16[32,784] = prim.permute(%0, [1, 0])
  %3: bf16[10,32] = prim.permute(%1, [1, 0])
  %4: bf16[10,784] = prim.matmul(%3, %2, none)
  %5: f32[10,784] = cotan.expr(%4) {
    domain [10,784]
    0: bf16 = input 0
    1: f32 = cast 0
    store 1
  }
  gradient 0 "w" = %5
}
)");
}

TEST(CanonicalizeProductsTest, AProductThatIsTransposedTwiceAndConvertedStays) {
  EXPECT_EQ(After(CanonicalizeProducts, R"(graph @g {
  %0: bf16[10,32] = user_input 0 "g"
  %1: bf16[32,784] = user_input 1 "x"
  %2: bf16[10,784] = prim.matmul(%0, %1, none)
  %3: bf16[784,10] = prim.permute(%2, [1, 0])
  %4: f32[784,10] = cotan.expr(%3) {
    domain [784,10]
    0: bf16 = input 0
    1: f32 = cast 0
    store 1
  }
  %5: f32[10,784] = prim.permute(%4, [1, 0])
  gradient 0 "w" = %5
})"),
            R"(graph @g {
  %0: bf16[10,32] = user_input 0 "g"
  %1: bf16[32,784] = user_input 1 "x"
  %2: bf16[10,784] = prim.matmul(%0, %1, none)
  %3: f32[10,784] = cotan.expr(%2) {
    domain [10,784]
    0: bf16 = input 0
    1: f32 = cast 0
    store 1
  }
  gradient 0 "w" = %3
}
)");
}

TEST(CanonicalizeProductsTest, APermutedOperandIsConvertedInItsOrder) {
  EXPECT_EQ(After(CanonicalizeProducts, R"(graph @g {
  %0: bf16[32,784] = user_input 0 "x"
  %1: f32[10,784] = parameter 0 "w"
  %2: f32[784,10] = prim.permute(%1, [1, 0])
  %3: bf16[784,10] = cotan.expr(%2) {
    domain [784,10]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %4: bf16[32,10] = prim.matmul(%0, %3, none)
  user_output 0 "y" = %4
})"),
            R"(graph @g {
  %0: bf16[32,784] = user_input 0 "x"
  %1: f32[10,784] = parameter 0 "w"
  %2: bf16[10,784] = cotan.expr(%1) {
    domain [10,784]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %3: bf16[784,10] = prim.permute(%2, [1, 0])
  %4: bf16[32,10] = prim.matmul(%0, %3, none)
  user_output 0 "y" = %4
}
)");
}

TEST(CanonicalizeProductsTest, AConversionThatIsReadInItsOrderStays) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[4,5] = user_input 0 "x"
  %1: f32[5,4] = prim.permute(%0, [1, 0])
  %2: bf16[5,4] = cotan.expr(%1) {
    domain [5,4]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  user_output 0 "y" = %2
}
)";
  EXPECT_EQ(After(CanonicalizeProducts, kText), kText);
}

TEST(CanonicalizeProductsTest, AConversionThatBroadcastsStays) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[1,4,8] = user_input 0 "x"
  %1: f32[1,8,4] = prim.permute(%0, [0, 2, 1])
  %2: bf16[3,8,4] = cotan.expr(%1) {
    domain [3,8,4]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %3: bf16[3,4,8] = prim.permute(%2, [0, 2, 1])
  user_output 0 "y" = %3
}
)";
  EXPECT_EQ(After(CanonicalizeProducts, kText), kText);
}

TEST(CanonicalizeProductsTest, AProductThatIsUsedElsewhereStays) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[4,5] = user_input 0 "x"
  %1: f32[5,6] = user_input 1 "y"
  %2: f32[4,6] = prim.matmul(%0, %1, none)
  %3: f32[6,4] = prim.permute(%2, [1, 0])
  user_output 0 "a" = %2
  user_output 1 "b" = %3
}
)";
  EXPECT_EQ(After(CanonicalizeProducts, kText), kText);
}

TEST(CanonicalizeProductsTest, AVectorAddedToTheRowsBecomesTheBias) {
  EXPECT_EQ(After(CanonicalizeProducts, R"(graph @g {
  %0: f32[6,5] = user_input 0 "x"
  %1: f32[5,4] = parameter 0 "w"
  %2: f32[4] = parameter 1 "b"
  %3: f32[6,4] = prim.matmul(%0, %1, none)
  %4: f32[2,3,4] = prim.view(%3, [2, 3, 4])
  %5: f32[2,3,4] = cotan.expr(%4, %2) {
    domain [2,3,4]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = add 0 1
    store 2
  }
  user_output 0 "y" = %5
})"),
            R"(graph @g {
  %0: f32[6,5] = user_input 0 "x"
  %1: f32[5,4] = parameter 0 "w"
  %2: f32[4] = parameter 1 "b"
  %3: f32[6,4] = prim.matmul(%0, %1, %2)
  %4: f32[2,3,4] = prim.view(%3, [2, 3, 4])
  user_output 0 "y" = %4
}
)");
}

TEST(CanonicalizeProductsTest, HeadsStayApartInBatchedProducts) {
  EXPECT_EQ(After(CanonicalizeProducts, R"(graph @g {
  %0: f32[2,7,3,4] = user_input 0 "q"
  %1: f32[2,7,3,4] = user_input 1 "k"
  %2: f32[2,3,7,4] = prim.permute(%0, [0, 2, 1, 3])
  %3: f32[6,7,4] = prim.view(%2, [6, 7, 4])
  %4: f32[2,3,4,7] = prim.permute(%1, [0, 2, 3, 1])
  %5: f32[6,4,7] = prim.view(%4, [6, 4, 7])
  %6: f32[6,7,7] = prim.matmul(%3, %5, none)
  user_output 0 "scores" = %6
})"),
            R"(graph @g {
  %0: f32[2,7,3,4] = user_input 0 "q"
  %1: f32[2,7,3,4] = user_input 1 "k"
  %2: f32[2,3,7,4] = prim.permute(%0, [0, 2, 1, 3])
  %3: f32[2,3,4,7] = prim.permute(%1, [0, 2, 3, 1])
  %4: f32[2,3,7,7] = prim.matmul(%2, %3, none)
  %5: f32[6,7,7] = prim.view(%4, [6, 7, 7])
  user_output 0 "scores" = %5
}
)");
}

}  // namespace
}  // namespace cotan::aot
