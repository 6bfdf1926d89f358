// SPDX-License-Identifier: Apache-2.0

#include "aot/transforms/layout_assignment.h"

#include <string>

#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "aot/ir/pass_testutil.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

absl::StatusOr<bool> ForCpu(Graph& graph) { return AssignLayouts(graph, {}); }

absl::StatusOr<bool> ForCuda(Graph& graph) { return AssignLayouts(graph, {.half_kernels_channels_last = true}); }

TEST(AssignLayoutsTest, WhatFollowsAConvolutionHasItsChannelsLast) {
  EXPECT_EQ(After(ForCpu, R"(graph @g {
  %0: f32[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: f32[2,4,8,8] = prim.convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f32[2,4,8,8], %4: f32[1,4,1,1] = cotan.expr(%2) {
    domain [2,4,8,8] reduce [0,2,3]
    0: f32 = input 0
    1: f32 = relu 0
    2: f32 = reduce_sum 1
    store 1 2
  }
  %5: f32[2,4,4,4], %6: i64[2,4,4,4] = prim.max_pool(%3, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %7: f32[2,64] = prim.view(%5, [2, 64])
  user_output 0 "y" = %7
  user_output 1 "sum" = %4
})"),
            R"(graph @g {
  %0: f32[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: f32[2,4,8,8]{0,2,3,1} = prim.convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f32[2,4,8,8]{0,2,3,1}, %4: f32[1,4,1,1] = cotan.expr(%2) {
    domain [2,4,8,8] reduce [0,2,3]
    0: f32 = input 0
    1: f32 = relu 0
    2: f32 = reduce_sum 1
    store 1 2
  }
  %5: f32[2,4,4,4]{0,2,3,1}, %6: i64[2,4,4,4]{0,2,3,1} = prim.max_pool(%3, [2, 2], [2, 2], [0, 0], [1, 1], false, true, 0)
  %7: f32[2,64] = prim.view(%5, [2, 64])
  user_output 0 "y" = %7
  user_output 1 "sum" = %4
}
)");
}

TEST(AssignLayoutsTest, ACopyOnTheHostHasTheLayoutOfItsSource) {
  EXPECT_EQ(After(ForCpu, R"(graph @g {
  %0: f32[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: f32[2,4,8,8] = prim.convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f32[2,4,8,8] = prim.to_host(%2)
  %4: f32[2,4,8,8] = prim.from_host(%3)
  %5: f32[2,4,8,8] = prim.copy(%4)
  user_output 0 "y" = %5
})"),
            R"(graph @g {
  %0: f32[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: f32[2,4,8,8]{0,2,3,1} = prim.convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: f32[2,4,8,8]{0,2,3,1} = prim.to_host(%2)
  %4: f32[2,4,8,8]{0,2,3,1} = prim.from_host(%3)
  %5: f32[2,4,8,8] = prim.copy(%4)
  user_output 0 "y" = %5
}
)");
}

TEST(AssignLayoutsTest, ResizedImagesHaveTheirChannelsLast) {
  EXPECT_EQ(After(ForCpu, R"(graph @g {
  %0: f32[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: i64[16] = user_input 1 "rows"
  %3: f32[2,4,8,8] = prim.convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %4: f32[2,4,16,8] = prim.gather(%3, %2, 2)
  %5: f32[2,4,8,8] = prim.scatter_add(%4, %2, none, 2, -1)
  %6: f32[2,4,8,8] = prim.copy(%5)
  user_output 0 "y" = %6
})"),
            R"(graph @g {
  %0: f32[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: i64[16] = user_input 1 "rows"
  %3: f32[2,4,8,8]{0,2,3,1} = prim.convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %4: f32[2,4,16,8]{0,2,3,1} = prim.gather(%3, %2, 2)
  %5: f32[2,4,8,8]{0,2,3,1} = prim.scatter_add(%4, %2, none, 2, -1)
  %6: f32[2,4,8,8] = prim.copy(%5)
  user_output 0 "y" = %6
}
)");
}

TEST(AssignLayoutsTest, WhatTheCallerSeesIsRowMajor) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: f32[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: f32[2,4,8,8] = prim.convolution(%0, %1, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  user_output 0 "y" = %2
}
)";
  EXPECT_EQ(After(ForCpu, kText), kText);
}

constexpr char kHalfKernels[] = R"(graph @g {
  %0: bf16[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: bf16[4,3,3,3] = cotan.expr(%1) {
    domain [4,3,3,3]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %3: bf16[2,4,8,8] = prim.convolution(%0, %2, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %4: bf16[4,3,3,3] = prim.convolution_backward_weight(%3, %0, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %5: f32[4,3,3,3] = cotan.expr(%1, %4) {
    domain [4,3,3,3]
    0: f32 = input 0
    1: bf16 = input 1
    2: f32 = cast 1
    3: f32 = add 0 2
    store 3
  }
  user_output 0 "y" = %5
})";

// Returns the graph of kHalfKernels after the pass, with `order` as the order of both kernels.
std::string WithKernelsIn(absl::string_view order) {
  return absl::Substitute(R"(graph @g {
  %0: bf16[2,3,8,8] = user_input 0 "x"
  %1: f32[4,3,3,3] = parameter 0 "w"
  %2: bf16[4,3,3,3]$0 = cotan.expr(%1) {
    domain [4,3,3,3]
    0: f32 = input 0
    1: bf16 = cast 0
    store 1
  }
  %3: bf16[2,4,8,8]{0,2,3,1} = prim.convolution(%0, %2, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %4: bf16[4,3,3,3]$0 = prim.convolution_backward_weight(%3, %0, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %5: f32[4,3,3,3] = cotan.expr(%1, %4) {
    domain [4,3,3,3]
    0: f32 = input 0
    1: bf16 = input 1
    2: f32 = cast 1
    3: f32 = add 0 2
    store 3
  }
  user_output 0 "y" = %5
}
)",
                          order);
}

TEST(AssignLayoutsTest, KernelsInHalfPrecisionAreChannelsLastWhereThatIsPreferred) {
  EXPECT_EQ(After(ForCuda, kHalfKernels), WithKernelsIn("{0,2,3,1}"));
}

TEST(AssignLayoutsTest, KernelsInHalfPrecisionAreRowMajorOtherwise) {
  EXPECT_EQ(After(ForCpu, kHalfKernels), WithKernelsIn(""));
}

TEST(AssignLayoutsTest, AKernelThatIsViewedStaysRowMajor) {
  constexpr absl::string_view kText = R"(graph @g {
  %0: bf16[2,3,8,8] = user_input 0 "x"
  %1: bf16[2,4,8,8] = user_input 1 "grad"
  %2: bf16[4,3,3,3] = prim.convolution_backward_weight(%1, %0, [1, 1], [1, 1], [1, 1], false, [0, 0], 1)
  %3: bf16[108] = prim.view(%2, [108])
  user_output 0 "y" = %3
}
)";
  EXPECT_EQ(After(ForCuda, kText), kText);
}

TEST(AssignLayoutsTest, AProductThatIsOnlyReadPermutedIsWrittenSo) {
  EXPECT_EQ(After(ForCpu, R"(graph @g {
  %0: f32[2,3,7,7] = user_input 0 "p"
  %1: f32[2,3,7,4] = user_input 1 "v"
  %2: f32[2,3,7,4] = prim.matmul(%0, %1, none)
  %3: f32[2,7,3,4] = prim.permute(%2, [0, 2, 1, 3])
  %4: f32[2,7,12] = prim.view(%3, [2, 7, 12])
  user_output 0 "y" = %4
})"),
            R"(graph @g {
  %0: f32[2,3,7,7] = user_input 0 "p"
  %1: f32[2,3,7,4] = user_input 1 "v"
  %2: f32[2,3,7,4]{0,2,1,3} = prim.matmul(%0, %1, none)
  %3: f32[2,7,3,4] = prim.permute(%2, [0, 2, 1, 3])
  %4: f32[2,7,12] = prim.view(%3, [2, 7, 12])
  user_output 0 "y" = %4
}
)");
}

}  // namespace
}  // namespace cotan::aot
