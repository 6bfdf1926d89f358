// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/reorder_gathers.h"

#include <string>

#include "absl/strings/str_replace.h"
#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

// A layer after an embedding of 8 rows that is read 16 times, and its gradients.
constexpr char kLayer[] = R"(graph @g {
  %0: f32[8,32] = parameter 0 "table"
  %1: f32[32,48] = user_input 0 "weight"
  %2: f32[48] = user_input 1 "bias"
  %3: i64[2,8] = user_input 2 "index"
  %4: f32[16,48] = user_input 3 "tangent"
  %5: i64[2,8] = prim.checked_index(%3, 8, false, none)
  %6: f32[2,8,32] = prim.gather(%0, %5, 0)
  %7: f32[16,32] = prim.view(%6, [16, 32])
  %8: f32[16,48] = prim.matmul(%7, %1, %2)
  %9: f32[48,16] = prim.permute(%4, [1, 0])
  %10: f32[48,32] = prim.matmul(%9, %7, none)
  %11: f32[32,48] = prim.permute(%10, [1, 0])
  %12: f32[48,32] = prim.permute(%1, [1, 0])
  %13: f32[16,32] = prim.matmul(%4, %12, none)
  %14: f32[2,8,32] = prim.view(%13, [2, 8, 32])
  %15: i64[2,8] = prim.checked_index(%3, 8, false, none)
  %16: f32[8,32] = prim.scatter_add(%14, %15, none, 0, -1)
  %17: f32[1,48] = cotan.expr(%4) {
    domain [16,48] reduce [0]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1
  }
  user_output 0 "output" = %8
  user_output 1 "weight gradient" = %11
  user_output 2 "table gradient" = %16
  user_output 3 "bias gradient" = %17
}
)";

TEST(ReorderGathersTest, ProductsAndTheirGradientsAreOfTheTable) {
  EXPECT_EQ(After(ReorderGathers, kLayer), R"(graph @g {
  %0: f32[8,32] = parameter 0 "table"
  %1: f32[32,48] = user_input 0 "weight"
  %2: f32[48] = user_input 1 "bias"
  %3: i64[2,8] = user_input 2 "index"
  %4: f32[16,48] = user_input 3 "tangent"
  %5: i64[2,8] = prim.checked_index(%3, 8, false, none)
  %6: i64[16] = prim.view(%5, [16])
  %7: f32[8,48] = prim.matmul(%0, %1, %2)
  %8: f32[16,48] = prim.gather(%7, %6, 0)
  %9: f32[8,48] = prim.scatter_add(%4, %6, none, 0, -1)
  %10: f32[48,8] = prim.permute(%9, [1, 0])
  %11: f32[48,32] = prim.matmul(%10, %0, none)
  %12: f32[32,48] = prim.permute(%11, [1, 0])
  %13: f32[48,32] = prim.permute(%1, [1, 0])
  %14: f32[8,32] = prim.matmul(%9, %13, none)
  %15: f32[1,48] = cotan.expr(%9) {
    domain [8,48] reduce [0]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1
  }
  user_output 0 "output" = %8
  user_output 1 "weight gradient" = %12
  user_output 2 "table gradient" = %14
  user_output 3 "bias gradient" = %15
}
)");
}

TEST(ReorderGathersTest, LargeTablesStay) {
  const std::string text = absl::StrReplaceAll(kLayer, {{"f32[8,32] = ", "f32[9,32] = "}, {"(%3, 8,", "(%3, 9,"}});
  EXPECT_EQ(After(ReorderGathers, text), text);
}

TEST(ReorderGathersTest, F16Stays) {
  const std::string text = absl::StrReplaceAll(kLayer, {{"f32", "f16"}});
  EXPECT_EQ(After(ReorderGathers, text), text);
}

TEST(ReorderGathersTest, SumsOfBFloat16AreComputedInF32) {
  EXPECT_EQ(After(ReorderGathers, R"(graph @g {
  %0: f32[8,32] = parameter 0 "table"
  %1: bf16[32,48] = user_input 0 "weight"
  %2: i64[16] = user_input 1 "index"
  %3: f32[16,48] = user_input 2 "tangent"
  %4: f32[16,32] = prim.gather(%0, %2, 0)
  %5: bf16[16,32] = cotan.expr(%4) {
    domain [16,32]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %6: bf16[16,48] = prim.matmul(%5, %1, none)
  %7: bf16[16,48] = cotan.expr(%3) {
    domain [16,48]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %8: bf16[48,16] = prim.permute(%7, [1, 0])
  %9: bf16[48,32] = prim.matmul(%8, %5, none)
  user_output 0 "output" = %6
  user_output 1 "weight gradient" = %9
})"),
            R"(graph @g {
  %0: f32[8,32] = parameter 0 "table"
  %1: bf16[32,48] = user_input 0 "weight"
  %2: i64[16] = user_input 1 "index"
  %3: f32[16,48] = user_input 2 "tangent"
  %4: bf16[8,32] = cotan.expr(%0) {
    domain [8,32]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %5: bf16[8,48] = prim.matmul(%4, %1, none)
  %6: bf16[16,48] = prim.gather(%5, %2, 0)
  %7: f32[8,48] = prim.scatter_add(%3, %2, none, 0, -1)
  %8: bf16[8,48] = cotan.expr(%7) {
    domain [8,48]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %9: bf16[8,32] = cotan.expr(%0) {
    domain [8,32]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %10: bf16[48,8] = prim.permute(%8, [1, 0])
  %11: bf16[48,32] = prim.matmul(%10, %9, none)
  user_output 0 "output" = %6
  user_output 1 "weight gradient" = %11
}
)");
}

TEST(ReorderGathersTest, NarrowTablesStay) {
  const std::string text = absl::StrReplaceAll(kLayer, {{",32]", ",31]"}, {"[32,", "[31,"}, {", 32]", ", 31]"}});
  EXPECT_EQ(After(ReorderGathers, text), text);
}

TEST(ReorderGathersTest, ThePaddingRowHasNoGradient) {
  EXPECT_EQ(After(ReorderGathers, R"(graph @g {
  %0: i64[16] = user_input 0 "index"
  %1: f32[16,48] = user_input 1 "tangent"
  %2: f32[48,32] = user_input 2 "weight"
  %3: f32[16,32] = prim.matmul(%1, %2, none)
  %4: f32[8,32] = prim.scatter_add(%3, %0, none, 0, 3)
  user_output 0 "gradient" = %4
})"),
            R"(graph @g {
  %0: i64[16] = user_input 0 "index"
  %1: f32[16,48] = user_input 1 "tangent"
  %2: f32[48,32] = user_input 2 "weight"
  %3: f32[8,48] = prim.scatter_add(%1, %0, none, 0, -1)
  %4: f32[8,32] = prim.matmul(%3, %2, none)
  %5: i64[8,1] = cotan.expr() {
    domain [8,1]
    0: i64 = iota 0
    store 0
  }
  %6: bool[8,1] = cotan.expr(%5) {
    domain [8,1]
    0: i64 = input 0
    1: i64 = constant 3
    2: bool = eq 0 1
    store 2
  }
  %7: f32[8,32] = cotan.expr(%6, %4) {
    domain [8,32]
    0: bool = input 0
    1: f32 = constant 0.0
    2: f32 = input 1
    3: f32 = select 0 1 2
    store 3
  }
  user_output 0 "gradient" = %7
}
)");
}

TEST(ReorderGathersTest, SumsOfProductsAreProductsOfSums) {
  EXPECT_EQ(After(ReorderGathers, R"(graph @g {
  %0: i64[4,4] = user_input 0 "index"
  %1: f32[16,48] = user_input 1 "a"
  %2: f32[48,32] = user_input 2 "weight a"
  %3: f32[16,40] = user_input 3 "b"
  %4: f32[40,32] = user_input 4 "weight b"
  %5: f32[16,32] = prim.matmul(%1, %2, none)
  %6: f32[16,32] = prim.matmul(%3, %4, none)
  %7: f32[4,4,32] = prim.view(%5, [4, 4, 32])
  %8: f32[4,4,32] = prim.view(%6, [4, 4, 32])
  %9: f32[4,4,32] = cotan.expr(%7, %8) {
    domain [4,4,32]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = add 0 1
    store 2
  }
  %10: f32[8,32] = prim.scatter_add(%9, %0, none, 0, -1)
  user_output 0 "gradient" = %10
})"),
            R"(graph @g {
  %0: i64[4,4] = user_input 0 "index"
  %1: f32[16,48] = user_input 1 "a"
  %2: f32[48,32] = user_input 2 "weight a"
  %3: f32[16,40] = user_input 3 "b"
  %4: f32[40,32] = user_input 4 "weight b"
  %5: i64[16] = prim.view(%0, [16])
  %6: f32[8,48] = prim.scatter_add(%1, %5, none, 0, -1)
  %7: f32[8,32] = prim.matmul(%6, %2, none)
  %8: f32[8,40] = prim.scatter_add(%3, %5, none, 0, -1)
  %9: f32[8,32] = prim.matmul(%8, %4, none)
  %10: f32[8,32] = cotan.expr(%7, %9) {
    domain [8,32]
    0: f32 = input 0
    1: f32 = input 1
    2: f32 = add 0 1
    store 2
  }
  user_output 0 "gradient" = %10
}
)");
}

TEST(ReorderGathersTest, AProductWithAnotherUseStays) {
  const std::string text = R"(graph @g {
  %0: i64[16] = user_input 0 "index"
  %1: f32[16,48] = user_input 1 "tangent"
  %2: f32[48,32] = user_input 2 "weight"
  %3: f32[16,32] = prim.matmul(%1, %2, none)
  %4: f32[8,32] = prim.scatter_add(%3, %0, none, 0, -1)
  user_output 0 "gradient" = %4
  user_output 1 "rows" = %3
}
)";
  EXPECT_EQ(After(ReorderGathers, text), text);
}

TEST(ReorderGathersTest, GradientsOfColumnsStay) {
  const std::string text = R"(graph @g {
  %0: i64[64] = user_input 0 "index"
  %1: f32[8,48] = user_input 1 "tangent"
  %2: f32[48,64] = user_input 2 "weight"
  %3: f32[8,64] = prim.matmul(%1, %2, none)
  %4: f32[8,32] = prim.scatter_add(%3, %0, none, 1, -1)
  user_output 0 "gradient" = %4
}
)";
  EXPECT_EQ(After(ReorderGathers, text), text);
}

TEST(ReorderGathersTest, TablesOfOtherSizesHaveOtherSums) {
  EXPECT_EQ(After(ReorderGathers, R"(graph @g {
  %0: i64[16] = user_input 0 "index"
  %1: f32[16,48] = user_input 1 "tangent"
  %2: f32[48,32] = user_input 2 "weight"
  %3: f32[16,32] = prim.matmul(%1, %2, none)
  %4: f32[8,32] = prim.scatter_add(%3, %0, none, 0, -1)
  %5: f32[16,32] = prim.matmul(%1, %2, none)
  %6: f32[7,32] = prim.scatter_add(%5, %0, none, 0, -1)
  user_output 0 "gradient" = %4
  user_output 1 "other" = %6
})"),
            R"(graph @g {
  %0: i64[16] = user_input 0 "index"
  %1: f32[16,48] = user_input 1 "tangent"
  %2: f32[48,32] = user_input 2 "weight"
  %3: f32[8,48] = prim.scatter_add(%1, %0, none, 0, -1)
  %4: f32[8,32] = prim.matmul(%3, %2, none)
  %5: f32[7,48] = prim.scatter_add(%1, %0, none, 0, -1)
  %6: f32[7,32] = prim.matmul(%5, %2, none)
  user_output 0 "gradient" = %4
  user_output 1 "other" = %6
}
)");
}

TEST(ReorderGathersTest, PermutedRowsAreAddedWhereTheyAreStored) {
  EXPECT_EQ(After(ReorderGathers, R"(graph @g {
  %0: i64[2,8] = user_input 0 "index"
  %1: f32[8,2,48] = user_input 1 "tangent"
  %2: f32[48,32] = user_input 2 "weight"
  %3: f32[2,8,48] = prim.permute(%1, [1, 0, 2])
  %4: f32[16,48] = prim.view(%3, [16, 48])
  %5: f32[16,32] = prim.matmul(%4, %2, none)
  %6: f32[2,8,32] = prim.view(%5, [2, 8, 32])
  %7: f32[8,32] = prim.scatter_add(%6, %0, none, 0, -1)
  user_output 0 "gradient" = %7
})"),
            R"(graph @g {
  %0: i64[2,8] = user_input 0 "index"
  %1: f32[8,2,48] = user_input 1 "tangent"
  %2: f32[48,32] = user_input 2 "weight"
  %3: i64[8,2] = prim.permute(%0, [1, 0])
  %4: f32[8,48] = prim.scatter_add(%1, %3, none, 0, -1)
  %5: f32[8,32] = prim.matmul(%4, %2, none)
  user_output 0 "gradient" = %5
}
)");
}

}  // namespace
}  // namespace cotan::aot
