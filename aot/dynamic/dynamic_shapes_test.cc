// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/dynamic_shapes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

const std::vector<DimVector> kExamples = {{8, 3, 16}, {8}};

std::string MessageFor(std::vector<DynamicDim> dims) {
  return std::string(ResolveDynamicDims(dims, kExamples).status().message());
}

TEST(DynamicShapesTest, DeclaredDimensionsBecomeSymbols) {
  const auto shapes = ResolveDynamicDims({{0, 0, "batch", 1, 64}, {1, 0, "batch"}, {0, -1, "width"}}, kExamples);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  ASSERT_EQ(shapes->symbols.size(), 2u);
  EXPECT_EQ(shapes->symbols[0].name, "batch");
  EXPECT_EQ(shapes->symbols[0].max, 64);
  EXPECT_EQ(shapes->symbols[0].example, 8);
  EXPECT_EQ(shapes->symbols[1].max, kNoMaximum);
  EXPECT_EQ(shapes->symbols[1].example, 16);
  EXPECT_EQ(shapes->sizes[0], (SymIntVector{SymInt::Symbol(0), 3, SymInt::Symbol(1)}));
  EXPECT_EQ(shapes->sizes[1], (SymIntVector{SymInt::Symbol(0)}));
  EXPECT_EQ(shapes->ToString({7, 12}), "batch=7, width=12");
}

TEST(DynamicShapesTest, TheRangeOfASymbolIsWhatAllItsUsesAllow) {
  const auto shapes = ResolveDynamicDims({{0, 0, "batch", 2, 64}, {1, 0, "batch", 1, 32}}, kExamples);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_EQ(shapes->symbols[0].min, 2);
  EXPECT_EQ(shapes->symbols[0].max, 32);
}

TEST(DynamicShapesTest, SizesMayBeExpressionsOfSymbols) {
  const auto shapes = ResolveDynamicDims({{1, 0, "2 * n + 2"}, {0, 1, "n"}}, kExamples);
  ASSERT_TRUE(shapes.ok()) << shapes.status();
  EXPECT_EQ(*shapes->sizes[1][0].Evaluate({10}), 22);
  EXPECT_THAT(MessageFor({{1, 0, "2*m"}, {0, 1, "n"}}), HasSubstr("no dimension is 'm' as such"));
  EXPECT_THAT(MessageFor({{1, 0, "2*n"}, {0, 1, "n"}}), HasSubstr("'n' is 4, and it is 3 elsewhere"));
}

TEST(DynamicShapesTest, WrongDeclarationsAreNamed) {
  EXPECT_THAT(MessageFor({{2, 0, "batch"}}), HasSubstr("'batch' is one of argument 2, and there are 2"));
  EXPECT_THAT(MessageFor({{1, 1, "batch"}}), HasSubstr("'batch' is dimension 1 of argument 1, which has 1"));
  EXPECT_THAT(MessageFor({{0, 0, "a"}, {0, 0, "b"}}), HasSubstr("declared dynamic twice, again as 'b'"));
  EXPECT_THAT(MessageFor({{0, 0, "2x"}}), HasSubstr("'2x' is not a name"));
  EXPECT_THAT(MessageFor({{0, 0, "batch", 0, 4}}), HasSubstr("'batch' has the range [0, 4]"));
  EXPECT_THAT(MessageFor({{0, 0, "batch", 9, 8}}), HasSubstr("'batch' has the range"));
  EXPECT_THAT(MessageFor({{0, 0, "batch", 1, 4}}), HasSubstr("'batch' is 8, and not in [1, 4]"));
  EXPECT_THAT(MessageFor({{0, 0, "n"}, {0, 1, "n"}}), HasSubstr("'n' is 3, and it is 8 elsewhere"));
}

TEST(DynamicShapesTest, ExamplesMustFitExpressions) {
  DynamicShapes shapes{{{.name = "n"}}, {{SymInt::Symbol(0)}, {SymInt::Symbol(0) * SymInt(2)}}};
  EXPECT_TRUE(SolveExamples({{3}, {6}}, shapes).ok());
  EXPECT_EQ(shapes.symbols[0].example, 3);
  EXPECT_THAT(SolveExamples({{3}, {7}}, shapes).message(), HasSubstr("has 7 elements"));
}

}  // namespace
}  // namespace cotan::aot
