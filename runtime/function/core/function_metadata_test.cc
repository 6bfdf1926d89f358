// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/function_metadata.h"

#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MethodBuilder;
using testing::MutatesNonLeaf;
using testing::ProgramBuilder;
using testing::RowMajor;
using testing::Square;
using testing::TwoParts;

TEST(FunctionMetadataTest, GradientsDependOnTheTangentsThatReachThem) {
  const std::shared_ptr<const Program> program = TwoParts().Load();
  const absl::StatusOr<FunctionMetadata> function = FunctionMetadata::Create(*program, 0);
  ASSERT_TRUE(function.ok()) << function.status();
  EXPECT_THAT(function->backward.depends_on, ElementsAre(ElementsAre(true, false), ElementsAre(false, true)));
  EXPECT_THAT(function->backward.gradient_inputs, ElementsAre(0, 1));
  EXPECT_EQ(function->backward.GradientOf(1), 1);
  EXPECT_EQ(function->backward.GradientOf(2), -1);
}

// f(x, y, z), where x and y are views of a base
TEST(FunctionMetadataTest, NamesInputsAndBases) {
  FunctionMetadata function;
  function.inputs = {{.name = "x"}, {.name = "y"}, {.name = "z"}};
  function.binding.bases.push_back({.geometry = RowMajor({6})});
  const InputBinding::BaseView view = {.base = 0, .geometry = RowMajor({6})};
  function.binding.inner_inputs = {view, view, InputBinding::Argument{1}};
  function.argument_inputs = {-1, 2};
  EXPECT_EQ(function.input(2).name, "z");
  EXPECT_EQ(function.InputNames({0, 2}), "x, z");
  EXPECT_EQ(function.ArgumentName(0), "base of x, y");
  EXPECT_EQ(function.ArgumentName(1), "z");
}

TEST(FunctionMetadataTest, ResultsAreRequestedAsTheyAreUsed) {
  const std::shared_ptr<const Program> saves = Square().Load();
  const FunctionMetadata square = *FunctionMetadata::Create(*saves, 0);
  ASSERT_EQ(square.requests.size(), 2u);
  EXPECT_EQ(square.requests[1].use, ResultUse::kSave);
  const std::shared_ptr<const Program> writes = MutatesNonLeaf().Load();
  const FunctionMetadata mutates = *FunctionMetadata::Create(*writes, 0);
  ASSERT_EQ(mutates.mutations.data.size(), 1u);
  EXPECT_EQ(mutates.mutations.data[0].tangent, 0);
  EXPECT_EQ(mutates.requests[0].use, ResultUse::kWriteBack);
  EXPECT_EQ(mutates.requests[0].input, 0);
}

// A method that computes gradients itself is not the forward of a function of Variables.
TEST(FunctionMetadataTest, RejectsMethodsThatReturnGradients) {
  ProgramBuilder builder = Square();
  MethodBuilder f(*builder.artifact().mutable_methods(0));
  f.proto().clear_backward_method();
  f.proto().clear_num_saved();
  f.proto().mutable_metadata()->clear_saved();
  serialization::GraphSignature& signature = *f.proto().mutable_signature();
  signature.add_user_inputs("x");
  signature.add_user_outputs("y");
  serialization::GraphSignature::Gradient& gradient = *signature.add_gradients_to_user_inputs();
  gradient.set_output("gradient.x");
  gradient.set_target("x");
  const absl::Status status = FunctionMetadata::Create(*builder.Load(), 0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("returns 2 values, but its metadata describes 1"));
}

}  // namespace
}  // namespace cotan
