// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/in_place_checks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using testing::Leaf;
using testing::LoadedFunction;
using testing::MutatesNonLeaf;
using testing::Values;

TEST(InPlaceChecksTest, ViewsOfALeafMustNotBeWrittenAndNothingIs) {
  LoadedFunction program(MutatesNonLeaf());
  const Variable leaf = Leaf({3, 4});
  const Variable view = *leaf.View({});
  EXPECT_EQ(program.f.Call({view}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Values(leaf), ElementsAre(3, 4));
}

TEST(InPlaceChecksTest, DescribesTrackedWritesOnly) {
  FunctionMetadata function;
  function.inputs = {{.name = "x"}, {.name = "y"}};
  function.argument_inputs = {0, 1};
  function.mutations.data = {{.argument = 0, .bumps_version = false}};
  EXPECT_EQ(InPlaceChecksStage::Create(function), nullptr);
  function.mutations.data.push_back({.argument = 1, .tangent = 0});
  EXPECT_EQ(InPlaceChecksStage::Create(function)->ToString(), "content of y with grad_fn");
}

}  // namespace
}  // namespace cotan
