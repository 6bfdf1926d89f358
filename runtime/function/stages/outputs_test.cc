// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/outputs.h"

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
using ::testing::ElementsAre;
using testing::Fresh;
using testing::LeafInput;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::Times;
using testing::Values;
using testing::Vector;

// o = 2 x; return o.view(4), o.t()
TEST(OutputsTest, ViewsOfAnIntermediateShareItsStorageAndHistory) {
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
TEST(OutputsTest, OutputsShareStorageAsTold) {
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

TEST(OutputsTest, DescribesHowOutputsAreMade) {
  using Kind = OutputsStage::Output::Kind;
  FunctionMetadata function;
  function.inputs = {{.name = "x"}, {.name = "y"}};
  std::vector<OutputsStage::Output> outputs;
  for (const Kind kind : {Kind::kScalar, Kind::kReturned, Kind::kSameOutput, Kind::kIsInput, Kind::kViewOfInput,
                          Kind::kViewOfBase, Kind::kViewOfOutput, Kind::kSharesInputStorage}) {
    OutputsStage::Output& output = outputs.emplace_back();
    output.output = static_cast<int>(outputs.size()) - 1;
    output.kind = kind;
    output.index = 1;
  }
  EXPECT_EQ(
      OutputsStage(function, outputs).ToString(),
      "output 0 a value, output 1 new, output 2 is output 1, output 3 is y, output 4 a view of y, output 5 a view "
      "of an intermediate, output 6 a view of output 1, output 7 in the memory of y");
}

}  // namespace
}  // namespace cotan
