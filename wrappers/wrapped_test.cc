// SPDX-License-Identifier: Apache-2.0

#include "wrappers/wrapped.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;

// Wrapped accepts any type as a tensor.
using Text = Wrapped<std::string>;

Text Nested() {
  const Text inner("inner", {{"x", Text("a")}, {"y", Text("b")}}, "meta", {2});
  return Text("outer", {{"first", inner}, {"second", Text("c")}}, "", {2, 3});
}

TEST(WrappedTest, TensorsAreThoseOfAllPartsInOrder) {
  EXPECT_THAT(Nested().Tensors(), ElementsAre("a", "b", "c"));
  EXPECT_THAT(Text("t").Tensors(), ElementsAre("t"));
}

TEST(WrappedTest, StructureIsTold) {
  EXPECT_EQ(Nested().StructureText(), "outer{first: inner{x: plain, y: plain}, second: plain}");
  EXPECT_EQ(Text("t").StructureText(), "plain");
}

TEST(WrappedTest, MapKeepsAllButTheTensors) {
  const Wrapped<size_t> lengths = Nested().Map([](const std::string& text) { return text.size() + 1; });
  EXPECT_THAT(lengths.Tensors(), ElementsAre(2, 2, 2));
  EXPECT_EQ(lengths.StructureText(), Nested().StructureText());
  EXPECT_EQ(lengths.parts()[0].value.metadata(), "meta");
  EXPECT_THAT(lengths.outer_sizes(), ElementsAre(2, 3));
}

}  // namespace
}  // namespace cotan
