// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/continuation.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Adds a method with inputs 0, 1, ..., continued by `next` unless that is empty.
void AddMethod(const std::string& name, uint32_t num_inputs, const std::string& next,
               serialization::Artifact& artifact) {
  serialization::Method& method = *artifact.add_methods();
  method.set_name(name);
  for (uint32_t i = 0; i < num_inputs; ++i) method.add_inputs(i);
  if (!next.empty()) method.mutable_continuation()->set_method(next);
}

TEST(ContinuationTest, AChainRunsFromItsFirstMethodToTheCalledOne) {
  serialization::Artifact artifact;
  AddMethod("step", 5, "", artifact);
  AddMethod("step.sizes.1", 4, "step", artifact);
  AddMethod("eval", 3, "", artifact);
  AddMethod("step.sizes", 2, "step.sizes.1", artifact);
  EXPECT_THAT(SizingMethodsOf(artifact, artifact.methods(0)), ElementsAre(3, 1));
  EXPECT_THAT(SizingMethodsOf(artifact, artifact.methods(1)), ElementsAre(3));
  EXPECT_THAT(SizingMethodsOf(artifact, artifact.methods(2)), IsEmpty());
  EXPECT_EQ(NumArguments(artifact, artifact.methods(0)), 2);
  EXPECT_EQ(NumArguments(artifact, artifact.methods(2)), 3);
  EXPECT_TRUE(IsCallable(artifact.methods(0)));
  EXPECT_FALSE(IsCallable(artifact.methods(1)));
}

TEST(ContinuationTest, ACircleEnds) {
  serialization::Artifact artifact;
  AddMethod("a", 1, "b", artifact);
  AddMethod("b", 1, "a", artifact);
  EXPECT_EQ(SizingMethodsOf(artifact, artifact.methods(0)).size(), 2);
}

}  // namespace
}  // namespace cotan
