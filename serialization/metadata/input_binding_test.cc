// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/input_binding.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TensorGeometry Vector(int64_t size, int64_t offset) {
  return {DType::kFloat32, {SymInt(size)}, {SymInt(1)}, SymInt(offset)};
}

// f(a, b, a, c): a and c are views of one base.
InputBinding Example() {
  InputBinding binding;
  binding.add_dupe_map = {0, 1, 0, 2};
  binding.inner_inputs = {InputBinding::BaseView{0, Vector(4, 0)}, InputBinding::Argument{1},
                          InputBinding::BaseView{0, Vector(4, 2), true}};
  binding.bases = {{Vector(6, 0), true, false}};
  binding.aliased_inputs_with_metadata_mutations = {2};
  return binding;
}

TEST(InputBinding, DefaultIsTheIdentity) {
  const InputBinding binding;
  EXPECT_TRUE(binding.is_identity());
  EXPECT_TRUE(binding.Validate("binding", 3).ok());
  EXPECT_EQ(binding.NumArguments(3), 3);
  EXPECT_THAT(binding.KeepArgMask(2), ElementsAre(true, true));
  EXPECT_EQ(binding.ToString(), "arguments as they are");
}

TEST(InputBinding, CountsUniqueInputsAndArguments) {
  const InputBinding binding = Example();
  EXPECT_TRUE(binding.Validate("binding", 4).ok()) << binding.Validate("binding", 4);
  EXPECT_EQ(binding.NumUniqueInputs(4), 3);
  EXPECT_EQ(binding.NumArguments(4), 2);
  EXPECT_THAT(binding.KeepArgMask(4), ElementsAre(true, true, false, true));
  EXPECT_THAT(binding.KeptInputs(4), ElementsAre(0, 1, 3));
}

TEST(InputBinding, SurvivesTheProto) {
  const auto read = InputBinding::FromProto(Example().ToProto(), "binding");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, Example());
}

TEST(InputBinding, TellsWhatEachInputIs) {
  EXPECT_EQ(Example().ToString(),
            "input 2 is input 0; unique input 0 is f32[4]{1} of base 0 (f32[6]{1}); unique input 1 is argument 1; "
            "unique input 2 is f32[4]{1}+2 of base 0 (f32[6]{1}), detached; metadata of unique inputs 2 is set by the "
            "runtime");
}

TEST(InputBinding, RefusesAMapOutOfOrder) {
  InputBinding binding;
  binding.add_dupe_map = {0, 2, 0};
  EXPECT_THAT(binding.Validate("b", 3).message(), HasSubstr("b.add_dupe_map[1]: 2 is out of order"));
}

TEST(InputBinding, RefusesAMapWithoutDuplicates) {
  InputBinding binding;
  binding.add_dupe_map = {0, 1};
  EXPECT_THAT(binding.Validate("b", 2).message(), HasSubstr("there are no duplicates"));
}

TEST(InputBinding, RefusesABaseWithoutViews) {
  InputBinding binding = Example();
  binding.aliased_inputs_with_metadata_mutations.clear();
  binding.inner_inputs[2] = InputBinding::Argument{2};
  EXPECT_TRUE(binding.Validate("b", 4).ok()) << binding.Validate("b", 4);
  binding.inner_inputs[0] = InputBinding::Argument{3};
  EXPECT_THAT(binding.Validate("b", 4).message(), HasSubstr("b.bases[0]: no input is a view of it"));
}

TEST(InputBinding, RefusesAnArgumentThatIsNoInput) {
  InputBinding binding = Example();
  binding.inner_inputs[1] = InputBinding::Argument{2};
  EXPECT_THAT(binding.Validate("b", 4).message(), HasSubstr("program argument 1 is used by no input"));
}

TEST(InputBinding, RefusesMetadataMutationOfAnArgument) {
  InputBinding binding = Example();
  binding.aliased_inputs_with_metadata_mutations = {1};
  EXPECT_THAT(binding.Validate("b", 4).message(), HasSubstr("unique input 1 is not a view of a base"));
}

TEST(InputBinding, RefusesAnotherNumberOfInputs) {
  EXPECT_THAT(Example().Validate("b", 5).message(), HasSubstr("4 entries for 5 inputs"));
}

TEST(InputBinding, RefusesAnInnerInputWithoutKind) {
  serialization::InputBinding proto = Example().ToProto();
  proto.mutable_inner_inputs(1)->clear_kind();
  EXPECT_THAT(InputBinding::FromProto(proto, "b").status().message(), HasSubstr("b.inner_inputs[1]: is not set"));
}

TEST(InputBinding, RefusesBasesThatAreNotDescribed) {
  serialization::InputBinding proto = Example().ToProto();
  proto.set_num_bases(2);
  EXPECT_THAT(InputBinding::FromProto(proto, "b").status().message(), HasSubstr("b.num_bases: 2"));
}

}  // namespace
}  // namespace cotan
