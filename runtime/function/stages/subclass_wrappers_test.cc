// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/subclass_wrappers.h"

#include <string>

#include "gtest/gtest.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::Leaf;

TEST(SubclassWrappersTest, PlainFunctionsNeedNoStages) {
  const FunctionMetadata function;
  EXPECT_EQ(FlattenStage::Create(function), nullptr);
  EXPECT_EQ(RewrapStage::Create(function), nullptr);
}

TEST(SubclassWrappersTest, PlainArgumentsAndOutputsAreNotDescribed) {
  FunctionMetadata function;
  function.wrappers =
      WrapperTypes{.arguments = {{.name = "x", .meta = PlainTensorMeta()}}, .outputs = {PlainTensorMeta()}};
  EXPECT_EQ(FlattenStage::Create(function)->ToString(), "");
  EXPECT_EQ(RewrapStage::Create(function)->ToString(), "");
}

TEST(SubclassWrappersTest, ResultsThatAreNoTensorsStayWhatTheyAre) {
  EXPECT_EQ(std::get<int64_t>(PlainResult(int64_t{7})), 7);
  EXPECT_EQ(std::get<bool>(PlainResult(true)), true);
  EXPECT_EQ(std::get<double>(PlainResult(0.5)), 0.5);
  EXPECT_EQ(std::get<std::string>(PlainResult(std::string("mean"))), "mean");
  EXPECT_TRUE(std::holds_alternative<NoneValue>(PlainResult(NoneValue())));
  EXPECT_TRUE(std::holds_alternative<WrappedVariable>(PlainResult(Leaf({1}))));
}

}  // namespace
}  // namespace cotan
