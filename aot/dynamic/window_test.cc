// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/window.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(WindowTest, CountsWindows) {
  const SymInt n = SymInt::Symbol(0);
  const SymInt strided = WindowCount(n, {.kernel = 3, .stride = 2, .padding = 1});
  const SymInt dilated = WindowCount(n, {.kernel = 3, .dilation = 2});
  const SymInt up = WindowCount(n, {.kernel = 2, .stride = 2, .ceil_mode = true});
  for (int64_t size = 5; size < 20; ++size) {
    EXPECT_EQ(*strided.Evaluate({size}), (size - 1) / 2 + 1);
    EXPECT_EQ(*dilated.Evaluate({size}), size - 4);
    EXPECT_EQ(*up.Evaluate({size}), (size + 1) / 2);
  }
}

}  // namespace
}  // namespace cotan::aot
