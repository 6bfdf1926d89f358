// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/synthetic_bases.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using testing::Copy;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Mutated;
using testing::NonLeafInput;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::RowMajor;
using testing::Times;
using testing::Values;
using testing::Vector;

// x and y are views of all elements of one base; x.mul_(2); return y + 1
ProgramBuilder MergesToBase(bool requires_grad) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t written = Times(f, f.Input("base", DType::kFloat32, {"4"}), 2.0);
  f.proto().add_outputs(written);
  f.proto().add_outputs(Plus(f, written, 1.0));
  serialization::InputBinding& binding = *f.proto().mutable_input_binding();
  binding.set_num_bases(1);
  *binding.add_bases()->mutable_geometry() = RowMajor({4}).ToProto();
  binding.mutable_bases(0)->set_requires_grad(requires_grad);
  for (const auto& sizes : {std::vector<int64_t>{4}, std::vector<int64_t>{2, 2}}) {
    *binding.add_inner_inputs()->mutable_base_view()->mutable_geometry() = RowMajor(sizes).ToProto();
  }
  ViewAndMutationMetaFields facts;
  facts.is_train = requires_grad;
  facts.input_info = {Mutated(requires_grad ? NonLeafInput() : Plain()), requires_grad ? NonLeafInput() : Plain()};
  facts.output_info = {Fresh(requires_grad)};
  SetMetadata(f, facts);
  facts.input_info.pop_back();
  SetProgramMetadata(f, facts);
  if (!requires_grad) return builder;
  MethodBuilder b = builder.AddMethod("b");
  const uint32_t of_base = b.Input("tangent.base", DType::kFloat32, {"4"});
  const uint32_t of_output = b.Input("tangent.output", DType::kFloat32, {"4"});
  b.proto().add_outputs(Times(b, Plus(b, of_base, of_output), 2.0));
  Pair(f, b, 0, {0});
  return builder;
}

TEST(SyntheticBasesTest, ArgumentsThatShareMemoryAreOneBase) {
  LoadedFunction program(MergesToBase(/*requires_grad=*/true));
  const Variable leaf = Leaf({1, 2, 3, 4});
  const Variable base = Copy(program, leaf);
  const Variable x = *base.View({});
  const Variable y = *base.View({view::View{{2, 2}}});
  const auto results = program.Call({x, y});
  EXPECT_THAT(Values(y), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(3, 5, 7, 9));
  ASSERT_TRUE(autograd::Backward({At(results, 0), y},
                                 {Vector({1, 1, 1, 1}), *Tensor::From<float>({1, 0, 0, 0}, {2, 2})},
                                 program.session.ops())
                  .ok());
  EXPECT_THAT(Values(leaf.grad()), ElementsAre(4, 2, 2, 2));
}

TEST(SyntheticBasesTest, BaseIsMadeWhereAutogradKnowsNone) {
  LoadedFunction program(MergesToBase(/*requires_grad=*/false));
  const Variable all(Vector({9, 1, 2, 3, 4}));
  const auto part = [&all](StridedLayout layout) {
    Variable made = all.Detach();
    EXPECT_TRUE(made.AsStridedInPlace(layout).ok());
    return made;
  };
  const Variable x = part({.sizes = {4}, .strides = {1}, .offset = 1});
  const auto results = program.Call({x, part({.sizes = {2, 2}, .strides = {2, 1}, .offset = 1})});
  EXPECT_THAT(Values(all), ElementsAre(9, 2, 4, 6, 8));
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(3, 5, 7, 9));
  EXPECT_THAT(program.f.Call({x, part({.sizes = {2, 2}, .strides = {2, 1}, .offset = 0})}).status().message(),
              HasSubstr("shared memory with"));
  EXPECT_THAT(program.f.Call({x, Variable(*Tensor::Zeros(DType::kFloat32, {2, 2}))}).status().message(),
              HasSubstr("does not"));
}

TEST(SyntheticBasesTest, RefusedCallLeavesVersions) {
  LoadedFunction program(MergesToBase(/*requires_grad=*/false));
  const Variable all(Vector({9, 1, 2, 3, 4}));
  const Variable x = all.DetachAs(*Tensor::InStorage(all.tensor().storage(), DType::kFloat32, {{4}, {1}, 1}));
  EXPECT_FALSE(program.f.Call({x, Variable(*Tensor::Zeros(DType::kFloat32, {2, 2}))}).ok());
  EXPECT_EQ(all.version(), 0);
}

TEST(SyntheticBasesTest, ViewsWithoutGradientAreThoseOfTheTrace) {
  LoadedFunction all_have_one(MergesToBase(/*requires_grad=*/true));
  ProgramBuilder builder = MergesToBase(/*requires_grad=*/true);
  serialization::InputBinding& binding = *builder.artifact().mutable_methods(0)->mutable_input_binding();
  binding.mutable_inner_inputs(1)->mutable_base_view()->set_detached(true);
  LoadedFunction second_has_none(std::move(builder));

  const Variable base = Copy(all_have_one, Leaf({1, 2, 3, 4}));
  const Variable x = *base.View({});
  const Variable with_gradient = *base.View({view::View{{2, 2}}});
  const Variable without_gradient = [&base] {
    const GradModeGuard no_grad(false);
    return *base.View({view::View{{2, 2}}});
  }();
  EXPECT_THAT(all_have_one.f.Call({x, without_gradient}).status().message(), HasSubstr("made under no_grad; when"));
  EXPECT_THAT(second_has_none.f.Call({x, with_gradient}).status().message(),
              HasSubstr("made with gradients enabled; when"));
  EXPECT_TRUE(second_has_none.f.Call({x, without_gradient}).ok());
}

TEST(SyntheticBasesTest, DescribesBasesByTheirViews) {
  FunctionMetadata function;
  function.inputs = {{.name = "x"}, {.name = "y"}, {.name = "z"}};
  SyntheticBasesStage::Base base;
  base.geometry = RowMajor({6});
  base.views.resize(2);
  base.views[1].input = 1;
  EXPECT_EQ(SyntheticBasesStage(function, {base}, {}).ToString(), "f32[6]{1} is the base of x, y");
}

}  // namespace
}  // namespace cotan
