// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/pool_offsets.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/partitioner/test_cuts.h"

namespace cotan::aot {
namespace {

using Texts = std::vector<std::string>;

std::string Pool(int kernel, int pooled) {
  const std::string result = absl::StrCat("[2,3,", pooled, ",", pooled, "]");
  const std::string window = absl::StrCat("[", kernel, ", ", kernel, "]");
  return absl::StrCat("graph @joint {\n  %0: f32[2,3,40,40] = user_input 0 \"x\"\n  %1: f32", result,
                      " = tangent 0 \"t\"\n  %2: f32", result, ", %3: i64", result,
                      " = aten.max_pool2d_with_indices.default(%0, ", window, ", ", window,
                      ", [0, 0], [1, 1], false)\n  %4: f32[2,3,40,40] = "
                      "aten.max_pool2d_with_indices_backward.default(%1, %0, ",
                      window, ", ", window, ", [0, 0], [1, 1], false, %3)\n  user_output 0 \"y\" = %2\n",
                      "  gradient 0 \"x\" = %4\n}\n");
}

// Values are compared in //testing/e2e:partition_test.
TEST(PoolOffsetsTest, APoolSavesAByteForEachMaximum) {
  const Partitioned cut = Cut(Pool(2, 20));
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"u8[2,3,20,20]"});
}

TEST(PoolOffsetsTest, WindowsWithMorePositionsThanAByteSaveTheIndices) {
  const Partitioned cut = Cut(Pool(20, 2));
  EXPECT_EQ(SavedTypes(cut.forward), Texts{"i64[2,3,2,2]"});
}

}  // namespace
}  // namespace cotan::aot
