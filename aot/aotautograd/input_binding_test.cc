// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/input_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <variant>

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A vector in a storage of 8 elements; `identity` is that of the tensor.
InputDescription Vector(uintptr_t identity, uintptr_t storage, int64_t offset, int64_t size) {
  InputDescription input;
  input.identity = identity;
  input.storage = storage;
  input.dtype = DType::kFloat32;
  input.layout = {{size}, {1}, offset};
  input.storage_elements = 8;
  return input;
}

// Returns a vector that is a view of tensor `base`, which requires grad.
InputDescription View(uintptr_t identity, uintptr_t storage, int64_t offset, int64_t size, uintptr_t base) {
  InputDescription input = Vector(identity, storage, offset, size);
  input.requires_grad = true;
  input.is_leaf = false;
  input.base = InputDescription::Base{base, DType::kFloat32, {{8}, {1}, 0}, /*requires_grad=*/true, /*is_leaf=*/false};
  return input;
}

// Returns the metadata of a function that writes to input `mutated` (-1: none).
ViewAndMutationMetaFields Facts(const std::vector<InputDescription>& inputs, int mutated) {
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  for (const InputDescription& input : inputs) {
    InputAliasInfo info;
    info.is_leaf = input.is_leaf;
    info.requires_grad = input.requires_grad;
    info.keep_input_mutations = true;
    facts.input_info.push_back(info);
  }
  if (mutated < 0) return facts;
  InputAliasInfo& info = facts.input_info[static_cast<size_t>(mutated)];
  info.mutates_data = true;
  info.mutations_hidden_from_autograd = false;
  return facts;
}

void AddOutput(ViewAndMutationMetaFields& facts, OutputType type, int base) {
  OutputAliasInfo info;
  info.output_type = type;
  info.base_index = base;
  facts.output_info.push_back(info);
}

int BaseOf(const InputBinding& binding, size_t input) {
  const auto* view = std::get_if<InputBinding::BaseView>(&binding.inner_inputs[input]);
  return view == nullptr ? -1 : view->base;
}

TEST(BindInputsTest, UnmutatedDuplicatesStay) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(1, 1, 0, 4)};
  const auto bound = BindInputs(Facts(inputs, -1), inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_TRUE(bound->binding.is_identity());
}

TEST(BindInputsTest, RemovesDuplicatesWithRestoredMetadata) {
  std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(1, 1, 0, 4)};
  for (InputDescription& input : inputs) input.has_metadata_mutation = true;
  const auto bound = BindInputs(Facts(inputs, -1), inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_THAT(bound->binding.add_dupe_map, ElementsAre(0, 0));
}

TEST(BindInputsTest, ALeafWithAMetadataMutationIsTheBaseOfItsViews) {
  std::vector<InputDescription> inputs = {Vector(1, 1, 0, 8), View(2, 1, 2, 4, /*base=*/1)};
  inputs[0].requires_grad = true;
  EXPECT_TRUE(BindInputs(Facts(inputs, -1), inputs)->binding.is_identity());
  inputs[0].has_metadata_mutation = true;
  const auto bound = BindInputs(Facts(inputs, -1), inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->binding.num_bases(), 1);
  EXPECT_FALSE(bound->program_facts.input_info[0].mutates_data);
  inputs[1].made_under_no_grad = true;
  EXPECT_TRUE(BindInputs(Facts(inputs, -1), inputs)->binding.is_identity());
}

TEST(BindInputsTest, RemovesMutatedDuplicates) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 2, 0, 4), Vector(1, 1, 0, 4)};
  ViewAndMutationMetaFields facts = Facts(inputs, 0);
  facts.input_info[2] = facts.input_info[0];
  AddOutput(facts, OutputType::kIsInput, 2);
  facts.static_input_indices = {1};
  const auto bound = BindInputs(facts, inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_THAT(bound->binding.add_dupe_map, ElementsAre(0, 1, 0));
  EXPECT_EQ(bound->program_facts.input_info.size(), 2u);
  EXPECT_EQ(bound->program_facts.output_info[0].base_index, 0);
  EXPECT_EQ(bound->program_facts.output_info[0].output_type, OutputType::kIsInput);
  EXPECT_THAT(bound->program_facts.static_input_indices, ElementsAre(1));
}

TEST(BindInputsTest, BasesComeFirstThenTheOthersByStorage) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 2, 0, 4), Vector(3, 3, 0, 4),
                                                Vector(4, 2, 2, 4), Vector(5, 1, 4, 4)};
  const auto bound = BindInputs(Facts(inputs, 3), inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  const InputBinding& binding = bound->binding;
  ASSERT_EQ(binding.num_bases(), 1);
  EXPECT_EQ(BaseOf(binding, 1), 0);
  EXPECT_EQ(BaseOf(binding, 3), 0);
  EXPECT_EQ(std::get<InputBinding::Argument>(binding.inner_inputs[0]).index, 1);
  EXPECT_EQ(std::get<InputBinding::Argument>(binding.inner_inputs[4]).index, 2);
  EXPECT_EQ(std::get<InputBinding::Argument>(binding.inner_inputs[2]).index, 3);
  EXPECT_EQ(binding.bases[0].geometry, (TensorGeometry{DType::kFloat32, {8}, {1}, 0}));
  EXPECT_TRUE(bound->program_facts.input_info[0].mutates_data);
}

TEST(BindInputsTest, InputsThatDoNotOverlapStay) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 1, 4, 4)};
  const auto bound = BindInputs(Facts(inputs, 0), inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_TRUE(bound->binding.is_identity());
}

TEST(BindInputsTest, PrefersTheBaseInAutograd) {
  const std::vector<InputDescription> inputs = {View(1, 1, 0, 4, 9), View(2, 1, 2, 4, 9)};
  ViewAndMutationMetaFields facts = Facts(inputs, 0);
  facts.tangents.push_back({{ForwardTensor::Kind::kMutatedInput, 0}, {DType::kFloat32, {4}, {1}, 0}});
  const auto bound = BindInputs(facts, inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_TRUE(bound->binding.bases[0].requires_grad);
  EXPECT_FALSE(bound->binding.bases[0].is_leaf);
  ASSERT_EQ(bound->program_facts.tangents.size(), 1u);
  EXPECT_EQ(bound->program_facts.tangents[0].expected, (TensorGeometry{DType::kFloat32, {8}, {1}, 0}));
}

TEST(BindInputsTest, AnInputWithoutGradIsDetachedFromTheBase) {
  const std::vector<InputDescription> inputs = {View(1, 1, 0, 4, 9), Vector(2, 1, 2, 4)};
  const auto bound = BindInputs(Facts(inputs, 1), inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_FALSE(std::get<InputBinding::BaseView>(bound->binding.inner_inputs[0]).detached);
  EXPECT_TRUE(std::get<InputBinding::BaseView>(bound->binding.inner_inputs[1]).detached);
  EXPECT_TRUE(bound->program_facts.input_info[0].mutations_under_no_grad_or_inference_mode);
}

TEST(BindInputsTest, ViewsOfDifferentTensorsThatRequireGradAreInvalidArgument) {
  const std::vector<InputDescription> inputs = {View(1, 1, 0, 4, 9), View(2, 1, 2, 4, 8)};
  const auto bound = BindInputs(Facts(inputs, 1), inputs);
  EXPECT_THAT(bound.status().message(), HasSubstr("non-differentiable view input mutations are not supported"));
}

TEST(BindInputsTest, ViewsOfDifferentDTypesHaveABaseOfTheSmallestElements) {
  std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 1, 1, 3)};
  inputs[0].dtype = DType::kFloat64;
  inputs[0].storage_elements /= 2;
  inputs[1].dtype = DType::kInt32;
  const auto bound = BindInputs(Facts(inputs, 1), inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  ASSERT_EQ(bound->binding.num_bases(), 1);
  EXPECT_EQ(bound->binding.bases[0].geometry.dtype, DType::kInt32);
}

TEST(BindInputsTest, ComplexViewsOfDifferentDTypesAreInvalidArgument) {
  std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 1, 0, 2)};
  inputs[1].dtype = DType::kComplex64;
  const auto bound = BindInputs(Facts(inputs, 1), inputs);
  EXPECT_THAT(bound.status().message(), HasSubstr("views with different dtypes are not supported"));
}

TEST(BindInputsTest, DTypesShareMemoryByBytes) {
  std::vector<InputDescription> inputs = {Vector(1, 1, 0, 2), Vector(2, 1, 2, 2)};
  EXPECT_TRUE(BindInputs(Facts(inputs, 0), inputs).ok());
  inputs[0].dtype = DType::kInt64;  // elements 0 and 1 have the bytes of elements 0 to 3 of half the size
  const auto shared = BindInputs(Facts(inputs, 0), inputs);
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_EQ(shared->binding.num_bases(), 1);
}

TEST(BindInputsTest, RemovesTheDuplicateOfANewLeaf) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(1, 1, 0, 4)};
  ViewAndMutationMetaFields facts = Facts(inputs, -1);
  for (InputAliasInfo& info : facts.input_info) {
    info.requires_grad_at_entry = false;
    info.requires_grad = true;
    info.history = GradFnChange::kNewLeaf;
  }
  const auto bound = BindInputs(facts, inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_THAT(bound->binding.add_dupe_map, ElementsAre(0, 0));
}

TEST(BindInputsTest, DifferentiableWriteWithoutACommonBaseIsInvalidArgument) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 1, 2, 4)};
  ViewAndMutationMetaFields facts = Facts(inputs, 0);
  facts.input_info[0].requires_grad_at_entry = false;
  facts.input_info[0].requires_grad = true;
  facts.input_info[0].history = GradFnChange::kNew;
  EXPECT_THAT(BindInputs(facts, inputs).status().message(),
              HasSubstr("is written with what requires grad, and shares memory with input 1"));
}

TEST(BindInputsTest, OutputsBecomeViewsOfTheBase) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 1, 2, 4)};
  ViewAndMutationMetaFields facts = Facts(inputs, 0);
  AddOutput(facts, OutputType::kIsInput, 1);
  AddOutput(facts, OutputType::kAliasOfInput, 0);
  facts.output_info[1].view_steps = {view::Select{0, 3}};
  facts.output_info[1].geometry = TensorGeometry{DType::kFloat32, {}, {}, 3};
  AddOutput(facts, OutputType::kAliasOfInput, 1);
  facts.output_info[2].view_steps = {view::Select{0, 3}};
  facts.output_info[2].geometry = TensorGeometry{DType::kFloat32, {}, {}, 5};
  const auto bound = BindInputs(facts, inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  const std::vector<OutputAliasInfo>& outputs = bound->program_facts.output_info;
  EXPECT_EQ(outputs[0].output_type, OutputType::kAliasOfInput);
  EXPECT_EQ(outputs[0].view_steps, (std::vector<ViewStep>{view::AsStrided{{4}, {1}, 2}}));
  EXPECT_EQ(outputs[1].base_index, 0);
  EXPECT_EQ(outputs[1].view_steps, (std::vector<ViewStep>{view::Select{0, 3}})) << "leads there from the base, too";
  EXPECT_EQ(outputs[2].base_index, 0);
  EXPECT_EQ(outputs[2].view_steps, (std::vector<ViewStep>{view::AsStrided{{}, {}, 5}}));
}

TEST(BindInputsTest, ProgramMetadataHasNoSharedStorage) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 1, 2, 4)};
  ViewAndMutationMetaFields facts = Facts(inputs, 0);
  AddOutput(facts, OutputType::kNonAlias, 1);
  facts.output_info[0].view_steps = {view::Select{0, 3}};
  facts.output_info[0].shared_storage = SharedStorage{SharedStorage::Owner::kInput, 1, false};
  const auto bound = BindInputs(facts, inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_FALSE(bound->program_facts.output_info[0].shared_storage.has_value());
  EXPECT_THAT(bound->program_facts.output_info[0].view_steps, IsEmpty());
}

TEST(BindInputsTest, AnInputWithHiddenWritesIsAViewOfABase) {
  std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 2, 0, 4)};
  ViewAndMutationMetaFields facts = Facts(inputs, 0);
  facts.input_info[0].mutates_metadata = true;
  facts.input_info[0].geometry_after = TensorGeometry{DType::kFloat32, {2}, {1}, 0};
  EXPECT_TRUE(BindInputs(facts, inputs)->binding.is_identity());
  inputs[0].has_hidden_writes = true;
  const auto bound = BindInputs(facts, inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(BaseOf(bound->binding, 0), 0);
  EXPECT_EQ(BaseOf(bound->binding, 1), -1);
  EXPECT_THAT(bound->binding.aliased_inputs_with_metadata_mutations, ElementsAre(0));
}

TEST(BindInputsTest, ViewOutsideTheFinalViewOfItsBaseIsInvalidArgument) {
  std::vector<InputDescription> inputs = {Vector(1, 1, 0, 8), View(2, 1, 2, 4, /*base=*/1)};
  inputs[0].requires_grad = true;
  ViewAndMutationMetaFields facts = Facts(inputs, -1);
  facts.is_train = true;
  facts.input_info[0].mutates_metadata = true;
  facts.input_info[0].history = GradFnChange::kNew;
  for (const int64_t size : {6, 5}) {
    facts.input_info[0].geometry_after = TensorGeometry{DType::kFloat32, {SymInt(size)}, {1}, 0};
    const auto bound = BindInputs(facts, inputs);
    EXPECT_EQ(bound.ok(), size == 6) << bound.status();
    if (size == 6) continue;
    EXPECT_THAT(bound.status().message(), HasSubstr("final view (as_strided_) does not contain elements of input 1"));
  }
}

TEST(BindInputsTest, ResultOutsideTheFinalViewOfAWrittenViewIsInvalidArgument) {
  std::vector<InputDescription> inputs = {View(2, 1, 2, 4, /*base=*/1)};
  inputs[0].requires_grad = true;
  for (const bool is_written : {false, true}) {
    ViewAndMutationMetaFields facts = Facts(inputs, is_written ? 0 : -1);
    facts.is_train = true;
    facts.input_info[0].mutates_metadata = true;
    facts.input_info[0].geometry_after = TensorGeometry{DType::kFloat32, {3}, {1}, 2};
    OutputAliasInfo& output = facts.output_info.emplace_back();
    output.output_type = OutputType::kAliasOfInput;
    output.base_index = 0;
    output.requires_grad = true;
    output.geometry = TensorGeometry{DType::kFloat32, {4}, {1}, 2};
    const auto bound = BindInputs(facts, inputs);
    EXPECT_EQ(bound.ok(), !is_written) << bound.status();
    if (!is_written) continue;
    EXPECT_THAT(bound.status().message(), HasSubstr("final view does not contain elements of a result"));
  }
}

TEST(BindInputsTest, MetadataMutationOfAMergedInputIsAnOutput) {
  const std::vector<InputDescription> inputs = {Vector(1, 1, 0, 4), Vector(2, 1, 2, 4)};
  ViewAndMutationMetaFields facts = Facts(inputs, 0);
  facts.input_info[1].mutates_metadata = true;
  facts.input_info[1].geometry_after = TensorGeometry{DType::kFloat32, {1, 4}, {4, 1}, 2};
  const auto bound = BindInputs(facts, inputs);
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_THAT(bound->binding.aliased_inputs_with_metadata_mutations, ElementsAre(1));
  ASSERT_EQ(bound->program_facts.output_info.size(), 1u);
  EXPECT_EQ(bound->program_facts.output_info[0].geometry, facts.input_info[1].geometry_after);
  EXPECT_FALSE(bound->program_facts.input_info[0].mutates_metadata);
}

}  // namespace
}  // namespace cotan::aot
