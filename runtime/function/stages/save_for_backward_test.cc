// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/save_for_backward.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Leaf;
using testing::LoadedFunction;
using testing::Square;
using testing::Values;

TEST(SaveForBackwardTest, ArgumentsAreSavedWithoutACopy) {
  LoadedFunction program(Square());
  const Variable x = Leaf({3, 4});
  const auto results = program.Call({x});
  EXPECT_EQ(program.f.stats().saved_without_copy, 1);
  ASSERT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(6, 8));
}

TEST(SaveForBackwardTest, MethodsWithoutABackwardSaveNothing) {
  const std::shared_ptr<const Program> program = Square().Load();
  FunctionMetadata function = *FunctionMetadata::Create(*program, 0);
  EXPECT_EQ(SaveForBackwardStage::Create(function)->ToString(), "1 values, 1 with their versions, 0 donated, 0 states");
  function.backward = {};
  EXPECT_EQ(SaveForBackwardStage::Create(function), nullptr);
}

}  // namespace
}  // namespace cotan
