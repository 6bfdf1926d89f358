// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/save_primals.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::Square;
using testing::SquareOfOrderTwo;

TEST(SavePrimalsTest, IsAStageOfFunctionsWithADifferentiableBackward) {
  LoadedFunction program(SquareOfOrderTwo());
  EXPECT_THAT(program.f.ToString(), HasSubstr("  primals     1 arguments for 'g'\n"));
  const std::shared_ptr<const Program> plain = Square().Load();
  EXPECT_EQ(SavePrimalsStage::Create(*FunctionMetadata::Create(*plain, 0)), nullptr);
}

TEST(SavePrimalsTest, NothingIsKeptOfACallThatIsNotRecorded) {
  LoadedFunction program(SquareOfOrderTwo());
  const Variable x = Leaf({3, 4});
  const long before = x.tensor().storage().use_count();
  {
    const GradModeGuard no_grad(false);
    const auto results = program.Call({x});
    EXPECT_EQ(x.tensor().storage().use_count(), before);
  }
  const auto results = program.Call({x});
  EXPECT_GT(x.tensor().storage().use_count(), before);
}

}  // namespace
}  // namespace cotan
