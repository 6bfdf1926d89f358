// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/wrap_results.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using testing::Leaf;
using testing::LeafInput;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::Times;
using testing::Values;
using testing::Vector;

// o = 2 x; return o[1], as a view of o, which is not returned
ProgramBuilder ViewOfHidden(NonAliasViewInfo::Creation creation) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.proto().add_outputs(Times(f, f.Input("x", DType::kFloat32, {"2"}), 2.0));
  MethodBuilder b = builder.AddMethod("b");
  b.proto().add_outputs(Times(b, b.Input("tangent", DType::kFloat32, {"2"}), 2.0));
  Pair(f, b, 0, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput()};
  facts.output_info = {Fresh(true)};
  facts.output_info[0].geometry = TensorGeometry{DType::kFloat32, {2}, {1}, 2};
  facts.output_info[0].non_alias_view =
      NonAliasViewInfo{creation, /*is_hidden=*/true, 0, TensorGeometry{DType::kFloat32, {2, 2}, {2, 1}, 0}};
  SetMetadata(f, facts);
  return builder;
}

TEST(WrapResultsTest, ViewOfAHiddenBaseIsWrittenAndKeepsItsGradient) {
  LoadedFunction program(ViewOfHidden(NonAliasViewInfo::Creation::kRecorded));
  const Variable x = Leaf({1, 2});
  const auto results = program.Call({x});
  Variable view = At(results, 0);
  EXPECT_TRUE(view.is_view());
  EXPECT_THAT(view.base().sizes(), ElementsAre(2, 2));
  EXPECT_THAT(Values(view), ElementsAre(2, 4));
  Variable first = *view.View({view::Slice{.dim = 0, .start = 0, .end = 1, .step = 1}});
  ASSERT_TRUE(first.CopyInPlace(Variable(Vector({7})), program.session.ops()).ok());
  EXPECT_THAT(Values(view), ElementsAre(7, 4));
  ASSERT_TRUE(program.Backward(view, {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(0, 2)) << "overwritten elements have no gradient";
}

TEST(WrapResultsTest, OneOfSeveralViewsOfAHiddenBaseIsNotWritten) {
  LoadedFunction program(ViewOfHidden(NonAliasViewInfo::Creation::kMultiOutput));
  const auto results = program.Call({Leaf({1, 2})});
  Variable view = At(results, 0);
  EXPECT_TRUE(view.is_view());
  EXPECT_EQ(view.CopyInPlace(Variable(Vector({7, 7})), program.session.ops()).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(program.Backward(view, {1, 1}).ok());
}

}  // namespace
}  // namespace cotan
