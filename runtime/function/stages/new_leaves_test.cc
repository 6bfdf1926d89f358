// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/new_leaves.h"

#include <utility>

#include "gtest/gtest.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::Copy;
using testing::Leaf;
using testing::LeafInput;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::NonLeafInput;
using testing::ProgramBuilder;
using testing::Vector;

// x.requires_grad_(); y.detach_()
TEST(NewLeavesTest, RequiresGradChangesAsTheFunctionChangedIt) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Input("x", DType::kFloat32, {"2"});
  f.Input("y", DType::kFloat32, {"2"});
  ViewAndMutationMetaFields facts;
  facts.input_info = {LeafInput(), NonLeafInput()};
  facts.input_info[0].requires_grad_at_entry = false;
  facts.input_info[0].history = GradFnChange::kNewLeaf;
  facts.input_info[1].requires_grad = false;
  facts.input_info[1].requires_grad_at_entry = true;
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x(Vector({1, 2}));
  const Variable y = Copy(program, Leaf({3, 4}));
  program.Call({x, y});
  EXPECT_TRUE(x.requires_grad());
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.is_leaf());
}

}  // namespace
}  // namespace cotan
