// SPDX-License-Identifier: Apache-2.0

#include "linking/linked_artifact.h"

#include <gtest/gtest.h>

#include <vector>

namespace cotan {
namespace {

TEST(LinkedArtifactTest, HasTheSymbolsOfTheMethodWithMost) {
  std::vector<serialization::Method> methods(2);
  methods[0].mutable_linked()->set_num_symbols(3);
  methods[1].mutable_linked()->set_num_symbols(1);
  const serialization::Artifact artifact = LinkedArtifact(methods);
  EXPECT_EQ(artifact.methods_size(), 2);
  EXPECT_EQ(artifact.symbols_size(), 3);
  EXPECT_EQ(artifact.symbols(2).name(), "size.2");
}

}  // namespace
}  // namespace cotan
