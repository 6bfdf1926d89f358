#include "aot/partition/view_nodes.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

Node Named(const char* op) {
  Node node;
  node.op = op;
  return node;
}

TEST(ViewNodesTest, MoveNoElements) {
  EXPECT_TRUE(IsViewNode(Named("prim.permute")));
  EXPECT_TRUE(IsViewNode(Named("prim.view_as_real")));
  EXPECT_FALSE(IsViewNode(Named("prim.concat")));
  EXPECT_FALSE(IsViewNode(Named("cotan.expr")));
}

}  // namespace
}  // namespace cotan::aot
