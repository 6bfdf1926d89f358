// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/input_mutations.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/autograd/engine.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::AliasOf;
using testing::At;
using testing::Copy;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Mutated;
using testing::MutatesNonLeaf;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::RowMajor;
using testing::Values;
using testing::Vector;

TEST(InputMutationsTest, WrittenArgumentGetsContentAndHistory) {
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

TEST(InputMutationsTest, WrittenViewChangesItsBase) {
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

// b.add_(1), by the program itself; return b, b.view(2, 1)
TEST(InputMutationsTest, ProgramWritesArgumentsThatAutogradDoesNotFollow) {
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

// x.t_(); return x
TEST(InputMutationsTest, GeometryOfAnArgumentChanges) {
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
TEST(InputMutationsTest, ArgumentThatGrowsGetsALargerStorage) {
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

// a.set_(b + 1)
TEST(InputMutationsTest, StorageOfAnArgumentChanges) {
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
TEST(InputMutationsTest, StorageOfAnArgumentBecomesThatOfAnother) {
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

// The metadata of f(x, y, z), where x and y are views of a base.
FunctionMetadata WithBase() {
  FunctionMetadata function;
  function.inputs = {{.name = "x"}, {.name = "y"}, {.name = "z"}};
  function.binding.bases.push_back({.geometry = RowMajor({6})});
  const InputBinding::BaseView view = {.base = 0, .geometry = RowMajor({6})};
  function.binding.inner_inputs = {view, view, InputBinding::Argument{1}};
  function.argument_inputs = {-1, 2};
  return function;
}

TEST(InputMutationsTest, DescribesWhatAutogradKnowsOfWrites) {
  FunctionMetadata function = WithBase();
  function.mutations.data = {{.argument = 1, .tangent = 0}, {.bumps_version = false}};
  EXPECT_EQ(InputMutationsStage(function, {}, {2}, {}).ToString(),
            "content of z with grad_fn, content of base of x, y hidden from autograd, detached z");
}

}  // namespace
}  // namespace cotan
