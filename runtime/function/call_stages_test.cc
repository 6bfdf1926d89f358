// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/call_stages.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::AliasOf;
using testing::At;
using testing::Copy;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LeafInput;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Mutated;
using testing::NonLeafInput;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::RowMajor;
using testing::Square;
using testing::Times;
using testing::TwoParts;
using testing::Values;
using testing::Vector;

TEST(CallStagesTest, WithoutGradModeThereIsNoHistory) {
  LoadedFunction program(Square());
  const GradModeGuard no_grad(false);
  const auto results = program.Call({Leaf({3, 4})});
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(9, 16));
  EXPECT_FALSE(At(results, 0).requires_grad());
  EXPECT_EQ(program.f.stats().saved_without_copy, 0);
}

TEST(CallStagesTest, ArgumentsMustBeAsTraced) {
  LoadedFunction program(Square());
  EXPECT_THAT(program.f.Call({Variable(Vector({3, 4}))}).status().message(),
              HasSubstr("argument 'x' required grad when the program was traced, but the one given does not"));
  EXPECT_THAT(program.f.Call({}).status().message(), HasSubstr("takes 1 arguments (x), got 0"));
  EXPECT_THAT(program.f.Call({Variable()}).status().message(), HasSubstr("is undefined"));
  EXPECT_THAT(program.f.Call({Leaf({1, 2, 3})}).status().message(), HasSubstr("expected f32[2], got f32[3]"));
}

TEST(CallStagesTest, TheSameTensorTwiceIsHarmlessWhereNothingIsWritten) {
  LoadedFunction program(TwoParts());
  const Variable x = Leaf({1, 2});
  const auto results = program.Call({x, x});
  ASSERT_TRUE(
      autograd::Backward({At(results, 0), At(results, 1)}, {Vector({1, 1}), Vector({1, 1})}, program.session.ops())
          .ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(5, 5));
}

TEST(CallStagesTest, WhatNoGradientWentThroughMustNotHaveOne) {
  ProgramBuilder builder = TwoParts();
  builder.artifact().mutable_methods(0)->add_no_grad_view_inputs(1);
  LoadedFunction program(std::move(builder));
  const Variable leaf = Leaf({1, 2});
  Variable view;
  {
    const GradModeGuard no_grad(false);
    view = *leaf.View({});
  }
  EXPECT_THAT(Values(At(program.Call({Leaf({1, 2}), view}), 1)), ElementsAre(3, 6));
  EXPECT_THAT(
      program.f.Call({Leaf({1, 2}), leaf}).status().message(),
      HasSubstr("was a view made under no_grad when the program was traced, so that no gradient flows through it"));
}

// x.mul_(2); return x + 1, where x is computed from a leaf.
ProgramBuilder MutatesNonLeaf() {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  const uint32_t written = Times(f, f.Input("x", DType::kFloat32, {"2"}), 2.0);
  f.proto().add_outputs(written);
  f.proto().add_outputs(Plus(f, written, 1.0));
  MethodBuilder b = program.AddMethod("b");
  const uint32_t of_x = b.Input("tangent.x", DType::kFloat32, {"2"});
  const uint32_t of_output = b.Input("tangent.output", DType::kFloat32, {"2"});
  b.proto().add_outputs(Times(b, Plus(b, of_x, of_output), 2.0));
  Pair(f, b, 0, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {Mutated(NonLeafInput())};
  facts.output_info = {Fresh(true)};
  SetMetadata(f, facts);
  return program;
}

TEST(CallStagesTest, WrittenArgumentGetsContentAndHistory) {
  LoadedFunction program(MutatesNonLeaf());
  const Variable leaf = Leaf({3, 4});
  const Variable x = Copy(program, leaf);
  const void* const address = x.tensor().address();
  const uint32_t version = x.version();
  const auto results = program.Call({x});
  EXPECT_THAT(Values(x), ElementsAre(6, 8));
  EXPECT_EQ(x.tensor().address(), address);
  EXPECT_GT(x.version(), version);
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(7, 9));
  EXPECT_EQ(program.f.stats().write_backs, 1);
  EXPECT_EQ(program.f.stats().copies_elided, 1);

  ASSERT_TRUE(autograd::Backward({x, At(results, 0)}, {Vector({1, 1}), Vector({10, 10})}, program.session.ops()).ok());
  EXPECT_THAT(Values(leaf.grad()), ElementsAre(22, 22));
}

TEST(CallStagesTest, WrittenViewChangesItsBase) {
  LoadedFunction program(MutatesNonLeaf());
  const Variable leaf = Leaf({1, 2, 3, 4});
  const Variable base = Copy(program, leaf);
  const Variable odd = *base.View({view::Slice{.dim = 0, .start = 1, .end = 4, .step = 2}});
  const auto results = program.Call({odd});
  EXPECT_THAT(Values(base), ElementsAre(1, 4, 3, 8));
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(5, 9));
  ASSERT_TRUE(program.Backward(base, {1, 1, 1, 1}).ok());
  EXPECT_THAT(Values(leaf.grad()), ElementsAre(1, 2, 1, 2));
}

TEST(CallStagesTest, ViewsOfALeafMustNotBeWrittenAndNothingIs) {
  LoadedFunction program(MutatesNonLeaf());
  const Variable leaf = Leaf({3, 4});
  const Variable view = *leaf.View({});
  EXPECT_EQ(program.f.Call({view}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(Values(leaf), ElementsAre(3, 4));
}

// b.add_(1), by the program itself; return b, b.view(2, 1)
TEST(CallStagesTest, ProgramWritesArgumentsThatAutogradDoesNotFollow) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.proto().add_input_updates()->set_value(Plus(f, f.Input("b", DType::kFloat32, {"2"}), 1.0));
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  facts.input_info = {Mutated(Plain())};
  facts.input_info[0].keep_input_mutations = true;
  facts.output_info = {AliasOf(OutputType::kIsInput, 0, false),
                       AliasOf(OutputType::kAliasOfInput, 0, false, {view::View{{2, 1}}})};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable b(Vector({1, 2}));
  const auto results = program.Call({b});
  EXPECT_THAT(Values(b), ElementsAre(2, 3));
  EXPECT_EQ(b.version(), 1);
  EXPECT_TRUE(At(results, 0).is_same(b));
  EXPECT_TRUE(At(results, 1).is_view());
  EXPECT_TRUE(At(results, 1).base().is_same(b));
  EXPECT_THAT(At(results, 1).sizes(), ElementsAre(2, 1));
}

// o = 2 x; return o.view(4), o.t()
TEST(CallStagesTest, ViewsOfAnIntermediateShareItsStorageAndHistory) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.proto().add_outputs(Times(f, f.Input("x", DType::kFloat32, {"2", "2"}), 2.0));
  MethodBuilder b = builder.AddMethod("b");
  b.proto().add_outputs(Times(b, b.Input("tangent", DType::kFloat32, {"2", "2"}), 2.0));
  Pair(f, b, 0, {0});
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info = {LeafInput()};
  facts.output_info = {AliasOf(OutputType::kAliasOfIntermediateSaveAsOutput, 0, true, {view::View{{4}}}),
                       AliasOf(OutputType::kAliasOfIntermediate, 0, true, {view::Permute{{1, 0}}})};
  facts.num_intermediate_bases = 1;
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x = *Variable::Leaf(*Tensor::From<float>({1, 2, 3, 4}, {2, 2}));
  const auto results = program.Call({x});
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(Values(At(results, 1)), ElementsAre(2, 6, 4, 8));
  EXPECT_EQ(At(results, 0).tensor().storage(), At(results, 1).tensor().storage());
  ASSERT_TRUE(autograd::Backward({At(results, 0), At(results, 1)},
                                 {Vector({1, 0, 0, 0}), *Tensor::From<float>({0, 1, 0, 0}, {2, 2})},
                                 program.session.ops())
                  .ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(2, 0, 2, 0));
}

// o = x + 1; return o, o[1], o, None, 7
TEST(CallStagesTest, OutputsShareStorageAsTold) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t o = Plus(f, f.Input("x", DType::kFloat32, {"2", "2"}), 1.0);
  serialization::Op select;
  auto& step = *select.mutable_view()->add_steps()->mutable_select();
  step.set_index("1");
  const uint32_t row = f.AddValue(DType::kFloat32, {"2"});
  f.AddOp(std::move(select), {o}, {row});
  for (uint32_t value : {o, row, o}) f.proto().add_outputs(value);
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(false), Fresh(false), Fresh(false), {}, {}};
  facts.output_info[1].geometry = TensorGeometry{DType::kFloat32, {2}, {1}, 2};
  facts.output_info[1].shared_storage = SharedStorage{SharedStorage::Owner::kOutput, 0, false};
  facts.output_info[2].shared_storage = SharedStorage{SharedStorage::Owner::kOutput, 0, true};
  facts.output_info[3].scalar = NoneValue();
  facts.output_info[4].scalar = int64_t{7};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const auto results = program.Call({Variable(*Tensor::From<float>({1, 2, 3, 4}, {2, 2}))});
  EXPECT_THAT(Values(At(results, 1)), ElementsAre(4, 5));
  EXPECT_EQ(At(results, 1).tensor().storage(), At(results, 0).tensor().storage());
  EXPECT_EQ(At(results, 1).layout().offset, 2);
  EXPECT_TRUE(At(results, 2).is_same(At(results, 0)));
  EXPECT_TRUE(std::holds_alternative<NoneValue>(results[3]));
  EXPECT_EQ(std::get<int64_t>(results[4]), 7);
  Variable(At(results, 0)).BumpVersion();
  EXPECT_EQ(At(results, 1).version(), At(results, 0).version());
}

// return (2 x).expand(2, 2), windows [0, 2) and [1, 3) of y + 1
TEST(CallStagesTest, ElementsThatShareMemoryAreFolded) {
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

TEST(CallStagesTest, ViewOfAHiddenBaseIsWrittenAndKeepsItsGradient) {
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

TEST(CallStagesTest, OneOfSeveralViewsOfAHiddenBaseIsNotWritten) {
  LoadedFunction program(ViewOfHidden(NonAliasViewInfo::Creation::kMultiOutput));
  const auto results = program.Call({Leaf({1, 2})});
  Variable view = At(results, 0);
  EXPECT_TRUE(view.is_view());
  EXPECT_EQ(view.CopyInPlace(Variable(Vector({7, 7})), program.session.ops()).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(program.Backward(view, {1, 1}).ok());
}

// w = ones requires grad; return x * w, w
TEST(CallStagesTest, GradientsEndInAFunctionThatMadeTheLeaf) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t x = f.Input("x", DType::kFloat32, {"2"});
  f.Output("product", Times(f, x, 1.0));
  f.Output("w", Times(f, x, 0.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(true), Fresh(true)};
  facts.output_info[1].is_new_leaf = true;
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const auto results = program.Call({Variable(Vector({1, 2}))});
  EXPECT_TRUE(At(results, 0).requires_grad());
  EXPECT_FALSE(At(results, 0).is_leaf());
  EXPECT_TRUE(At(results, 1).requires_grad());
  EXPECT_TRUE(At(results, 1).is_leaf());
  EXPECT_TRUE(program.Backward(At(results, 0), {1, 1}).ok());
}

// An output has the strides of eager mode, not the dense ones of the program's result.
TEST(CallStagesTest, OutputsHaveTheStridesThatWereTraced) {
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

// x.t_(); return x
TEST(CallStagesTest, GeometryOfAnArgumentChanges) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Input("x", DType::kFloat32, {"2", "3"});
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.input_info[0].mutates_metadata = true;
  facts.input_info[0].geometry_after = TensorGeometry{DType::kFloat32, {3, 2}, {1, 3}, 0};
  facts.output_info = {AliasOf(OutputType::kIsInput, 0, false)};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x(*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  const auto results = program.Call({x});
  EXPECT_TRUE(At(results, 0).is_same(x));
  EXPECT_EQ(ToString(x.layout()), "[3,2]{1,3}");
  EXPECT_THAT(Values(x), ElementsAre(1, 4, 2, 5, 3, 6));
}

// x.resize_(4), which needs a larger storage; x.fill_(1)
TEST(CallStagesTest, ArgumentThatGrowsGetsALargerStorage) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Input("x", DType::kFloat32, {"2"});
  f.Output("x", f.Pointwise({"4"}, {}, [](testing::ExprBuilder& e) { return e.Constant(DType::kFloat32, 1); }));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Mutated(Plain())};
  facts.input_info[0].mutates_metadata = true;
  facts.input_info[0].geometry_after = RowMajor({4});
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x(Vector({5, 6}));
  program.Call({x});
  EXPECT_THAT(Values(x), ElementsAre(1, 1, 1, 1));
}

// x.t_(); x.mul_(2); return y + 1
ProgramBuilder MovesAndWrites(const std::vector<std::string>& sizes, const TensorGeometry& after) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Input("x", DType::kFloat32, sizes);
  const uint32_t y = f.Input("y", DType::kFloat32, {"4"});
  std::vector<std::string> new_sizes;
  for (const SymInt& size : after.sizes) new_sizes.push_back(size.ToString());
  f.Output("x", f.Pointwise(new_sizes, {}, [](testing::ExprBuilder& e) { return e.Constant(DType::kFloat32, 7); }));
  f.Output("y", Plus(f, y, 1.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Mutated(Plain()), Plain()};
  facts.input_info[0].mutates_metadata = true;
  facts.input_info[0].geometry_after = after;
  facts.output_info = {Fresh(false)};
  SetMetadata(f, facts);
  return builder;
}

Variable Part(const Variable& all, const DimVector& sizes, const DimVector& strides, int64_t offset) {
  return *all.AsStrided({.sizes = sizes, .strides = strides, .offset = offset});
}

TEST(CallStagesTest, MetadataMutatedAndWrittenArgumentDoesNotOverlapOthers) {
  const TensorGeometry transposed = {DType::kFloat32, {SymInt(2), SymInt(2)}, {SymInt(1), SymInt(2)}, SymInt(0)};
  LoadedFunction program(MovesAndWrites({"2", "2"}, transposed));
  const Variable all(Vector({1, 2, 3, 4, 5, 6, 7, 8}));
  const Variable x = Part(all, {2, 2}, {2, 1}, 0);
  const uint32_t version = all.version();
  const absl::Status refused = program.f.Call({x, Part(all, {4}, {1}, 3)}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("writes argument 0 'x', which shares memory with argument 1 'y'"));
  EXPECT_THAT(Values(all), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(ToString(x.layout()), "[2,2]{2,1}");
  EXPECT_EQ(all.version(), version);
  const auto results = program.Call({x, Part(all, {4}, {1}, 4)});
  EXPECT_THAT(Values(all), ElementsAre(7, 7, 7, 7, 5, 6, 7, 8));
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(6, 7, 8, 9));
}

TEST(CallStagesTest, ArgumentIsNotWrittenWhereItHasNoElements) {
  const TensorGeometry transposed = {DType::kFloat32, {SymInt(2), SymInt(2)}, {SymInt(1), SymInt(2)}, SymInt(0)};
  LoadedFunction program(MovesAndWrites({"2", "2"}, transposed));
  const Variable all(Vector({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THAT(program.f.Call({Part(all, {2, 2}, {2, 1}, 4), Variable(Vector({0, 0, 0, 0}))}).status().message(),
              HasSubstr("argument 'x' is written with the layout [2,2]{1,2} in its storage, some elements of which"));
  EXPECT_THAT(Values(all), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// x.resize_(6), in a storage with and without room for 6 elements; x.fill_(7)
TEST(CallStagesTest, ArgumentThatGrowsDoesNotOverlapOthers) {
  LoadedFunction program(MovesAndWrites({"2"}, RowMajor({6})));
  const Variable all(Vector({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_THAT(program.f.Call({Part(all, {2}, {1}, 0), Part(all, {4}, {1}, 4)}).status().message(),
              HasSubstr("writes argument 0 'x', which shares memory with argument 1 'y'"));
  EXPECT_EQ(At(program.Call({Part(all, {2}, {1}, 0), Part(all, {4}, {1}, 6)}), 0).sizes()[0], 4);
  EXPECT_THAT(Values(all), ElementsAre(7, 7, 7, 7, 7, 7, 7, 8, 9, 10));
  const Variable small(Vector({1, 2, 3, 4}));
  EXPECT_THAT(program.f.Call({Part(small, {2}, {1}, 0), Part(small, {4}, {1}, 0)}).status().message(),
              HasSubstr("writes argument 0 'x', which shares memory with argument 1 'y'"));
  EXPECT_THAT(Values(small), ElementsAre(1, 2, 3, 4));
}

// mean += x (a buffer); x.t_(); x.fill_(7)
TEST(CallStagesTest, ArgumentsDoNotOverlapStatesThatAreUpdated) {
  const TensorGeometry transposed = {DType::kFloat32, {SymInt(2), SymInt(2)}, {SymInt(1), SymInt(2)}, SymInt(0)};
  ProgramBuilder builder = MovesAndWrites({"2", "2"}, transposed);
  const uint32_t state = builder.AddState("mean", serialization::State::BUFFER, DType::kFloat32, {"4"}, 1);
  MethodBuilder f(*builder.artifact().mutable_methods(0));
  f.Update(state, Plus(f, 1, 1.0));
  LoadedFunction program(std::move(builder));
  const Variable mean(program.session.states().tensor(static_cast<int>(state)));
  const Variable x(*Tensor::From<float>({1, 2, 3, 4}, {2, 2}));
  EXPECT_THAT(program.f.Call({x, mean}).status().message(),
              HasSubstr("updates state 'mean', which shares memory with argument 1 'y'"));
  EXPECT_THAT(program.f.Call({Part(mean, {2, 2}, {2, 1}, 0), Variable(Vector({0, 0, 0, 0}))}).status().message(),
              HasSubstr("updates state 'mean', which shares memory with argument 0 'x'"));
  EXPECT_THAT(Values(mean), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4));
  program.Call({x, Variable(Vector({0, 1, 2, 3}))});
  EXPECT_THAT(Values(mean), ElementsAre(1, 2, 3, 4));
}

// x.requires_grad_(); y.detach_()
TEST(CallStagesTest, RequiresGradChangesAsTheFunctionChangedIt) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Input("x", DType::kFloat32, {"2"});
  f.Input("y", DType::kFloat32, {"2"});
  ViewAndMutationMetaFields facts;
  facts.input_info = {LeafInput(), NonLeafInput()};
  facts.input_info[0].requires_grad_at_entry = false;
  facts.input_info[0].history = GradFnChange::kNewLeaf;
  facts.input_info[1].requires_grad = false;
  facts.input_info[1].requires_grad_at_entry = true;
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x(Vector({1, 2}));
  const Variable y = Copy(program, Leaf({3, 4}));
  program.Call({x, y});
  EXPECT_TRUE(x.requires_grad());
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.is_leaf());
}

// a.set_(b + 1)
TEST(CallStagesTest, StorageOfAnArgumentChanges) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Input("a", DType::kFloat32, {"2"});
  const uint32_t b = f.Input("b", DType::kFloat32, {"2"});
  serialization::InputUpdate& update = *f.proto().add_input_updates();
  update.set_value(Plus(f, b, 1.0));
  update.set_sets_storage(true);
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  facts.input_info = {Plain(), Plain()};
  for (InputAliasInfo& info : facts.input_info) info.keep_input_mutations = true;
  facts.input_info[0].mutates_metadata = facts.input_info[0].mutates_storage_metadata = true;
  const TensorGeometry geometry = {DType::kFloat32, {SymInt(2)}, {SymInt(1)}, SymInt(0)};
  facts.input_info[0].geometry_after = geometry;
  facts.input_info[0].new_storage = {NewStorage::Owner::kProgram, -1, geometry};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable a(Vector({1, 2}));
  const Variable old = a.Detach();
  program.Call({a, Variable(Vector({5, 6}))});
  EXPECT_THAT(Values(a), ElementsAre(6, 7));
  EXPECT_THAT(Values(old), ElementsAre(1, 2));
}

// a.set_(c.slice(0, 1)); b.set_(c + 0): the copies have memory of their own, the slice is in the memory of c.
TEST(CallStagesTest, StorageOfAnArgumentBecomesThatOfAnother) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  std::vector<uint32_t> inputs;
  for (const char* name : {"a", "b", "c"}) inputs.push_back(f.Input(name, DType::kFloat32, {"3"}));
  for (uint32_t i : {0, 1}) {
    serialization::InputUpdate& update = *f.proto().add_input_updates();
    update.set_input(i);
    update.set_value(i == 0 ? inputs[0] : inputs[2]);
    update.set_sets_storage(true);
    update.set_shares_storage(i == 0);
  }
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  facts.input_info = {Plain(), Plain(), Plain()};
  for (InputAliasInfo& info : facts.input_info) info.keep_input_mutations = true;
  const TensorGeometry whole = {DType::kFloat32, {SymInt(3)}, {SymInt(1)}, SymInt(0)};
  const TensorGeometry part = {DType::kFloat32, {SymInt(2)}, {SymInt(1)}, SymInt(1)};
  for (size_t i : {0u, 1u}) {
    InputAliasInfo& info = facts.input_info[i];
    info.mutates_metadata = info.mutates_storage_metadata = true;
    info.geometry_after = i == 0 ? part : whole;
    info.new_storage = {i == 0 ? NewStorage::Owner::kInput : NewStorage::Owner::kProgram, i == 0 ? 2 : -1, whole};
  }
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable a(Vector({1, 2, 3}));
  const Variable b(Vector({4, 5, 6}));
  const Variable memory(Vector({0, 7, 8, 9}));
  const Variable c = *memory.View({view::Slice{.dim = 0, .start = 1, .end = 4}});
  program.Call({a, b, c});
  EXPECT_THAT(Values(a), ElementsAre(8, 9));
  EXPECT_THAT(Values(b), ElementsAre(7, 8, 9));
  EXPECT_EQ(a.tensor().storage(), memory.tensor().storage());
  EXPECT_NE(b.tensor().storage(), memory.tensor().storage());
  const Variable steps =
      *Variable(Vector({0, 1, 2, 3, 4, 5})).View({view::Slice{.dim = 0, .start = 0, .end = 6, .step = 2}});
  const Variable unchanged(Vector({1, 2, 3}));
  EXPECT_THAT(program.f.Call({unchanged, b, steps}).status().message(),
              HasSubstr("argument 'c', to whose storage argument 'a' is set (set_()), was f32[3]{1} when"));
  EXPECT_THAT(Values(unchanged), ElementsAre(1, 2, 3));
}

// f(x, y), traced with one tensor as x and y: y.mul_(2); return x + y
TEST(CallStagesTest, DuplicatesMustStayDuplicates) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t written = Times(f, f.Input("x", DType::kFloat32, {"2"}), 2.0);
  f.proto().add_outputs(written);
  f.proto().add_outputs(Plus(f, written, written));
  for (int i = 0; i < 2; ++i) f.proto().mutable_input_binding()->add_add_dupe_map(0);
  ViewAndMutationMetaFields facts;
  facts.input_info = {Mutated(Plain()), Mutated(Plain())};
  facts.output_info = {Fresh(false)};
  SetMetadata(f, facts);
  facts.input_info.pop_back();
  SetProgramMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const Variable x(Vector({1, 2}));
  const auto results = program.Call({x, x});
  EXPECT_THAT(Values(x), ElementsAre(2, 4));
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(4, 8));
  EXPECT_THAT(program.f.Call({x, Variable(Vector({1, 2}))}).status().message(),
              HasSubstr("argument 'input.1' was the same tensor as 'input.0' when the program was traced"));
  EXPECT_EQ(program.f.ToString(),
            "call of 'f'\n"
            "  check       2 arguments, 0 parameters and buffers\n"
            "  dedupe      input.1 is input.0\n"
            "  forward     2 ops, 2 results, 0 saved\n"
            "  wrap        2 tensors\n"
            "  write back  content of input.0\n"
            "  results     output 0 new\n");
}

// torch.set_grad_enabled(False); return x * x
TEST(CallStagesTest, GradModeIsAsTheFunctionLeftIt) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Output("y", Plus(f, f.Input("x", DType::kFloat32, {"2"}), 1.0));
  ViewAndMutationMetaFields facts;
  facts.grad_enabled_mutation = false;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(false)};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const GradModeGuard restore(true);
  program.Call({Variable(Vector({1, 2}))});
  EXPECT_FALSE(GradMode::enabled());
}

}  // namespace
}  // namespace cotan
