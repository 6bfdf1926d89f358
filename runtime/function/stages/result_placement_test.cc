// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/result_placement.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::Times;
using testing::Values;

// return (2 x).expand(2, 2), windows [0, 2) and [1, 3) of y + 1
TEST(ResultPlacementTest, ElementsThatShareMemoryAreFolded) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t x = f.Input("x", DType::kFloat32, {"2", "2"});
  f.Output("expanded", Times(f, x, 2.0));
  f.Output("windows", Plus(f, f.Input("y", DType::kFloat32, {"2", "2"}), 1.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain(), Plain()};
  facts.output_info = {Fresh(false), Fresh(false)};
  facts.output_info[0].geometry = TensorGeometry{DType::kFloat32, {2, 2}, {0, 1}, 0};
  facts.output_info[1].geometry = TensorGeometry{DType::kFloat32, {2, 2}, {1, 1}, 0};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const auto results = program.Call(
      {Variable(*Tensor::From<float>({1, 2, 1, 2}, {2, 2})), Variable(*Tensor::From<float>({1, 2, 2, 3}, {2, 2}))});
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(2, 4, 2, 4));
  EXPECT_EQ(At(results, 0).tensor().storage()->bytes(), 2 * sizeof(float));
  EXPECT_THAT(Values(At(results, 1)), ElementsAre(2, 3, 3, 4));
  EXPECT_EQ(At(results, 1).tensor().storage()->bytes(), 3 * sizeof(float));
}

// An output has the strides of eager mode, not the dense ones of the program's result.
TEST(ResultPlacementTest, OutputsHaveTheStridesThatWereTraced) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Output("y", Plus(f, f.Input("x", DType::kFloat32, {"2", "2"}), 1.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(false)};
  facts.output_info[0].geometry = TensorGeometry{DType::kFloat32, {2, 2}, {1, 3}, 1};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const auto results = program.Call({Variable(*Tensor::From<float>({1, 2, 3, 4}, {2, 2}))});
  EXPECT_EQ(ToString(At(results, 0).layout()), "[2,2]{1,3}+1");
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(2, 3, 4, 5));
}

}  // namespace
}  // namespace cotan
