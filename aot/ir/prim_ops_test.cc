// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_ops.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

TEST(PrimOpsTest, ViewsMoveNoElements) {
  EXPECT_TRUE(IsViewOp("prim.permute"));
  EXPECT_TRUE(IsViewOp("prim.view_as_complex"));
  EXPECT_FALSE(IsViewOp("prim.concat"));
  EXPECT_FALSE(IsViewOp("cotan.expr"));
}

TEST(PrimOpsTest, KindsAreByWholeNames) {
  EXPECT_TRUE(IsPoolOp("prim.max_pool_backward"));
  EXPECT_FALSE(IsPoolOp("prim.max_pool_of_another_kind"));
  EXPECT_TRUE(IsRecurrentOp("prim.recurrent"));
  EXPECT_FALSE(IsRecurrentOp("prim.recurrent_of_another_kind"));
}

}  // namespace
}  // namespace cotan::aot
