// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_and_mutation_facts.h"

#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan {
namespace {

using Kind = ForwardTensor::Kind;

OutputAliasInfo Output(OutputType type, std::optional<int> base = std::nullopt) {
  OutputAliasInfo info;
  info.output_type = type;
  info.base_index = base;
  info.requires_grad = info.requires_grad_for_backward = true;
  return info;
}

TensorGeometry Vector() { return {DType::kFloat32, {3}, {1}, 0}; }

// Input 0 is a leaf, input 1 comes from a computation; both require grad.
// Output 0 is fresh, outputs 1 and 2 are views of one intermediate.
ViewAndMutationMetaFields Example() {
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info.resize(2);
  facts.input_info[0].is_leaf = true;
  facts.input_info[0].requires_grad = facts.input_info[1].requires_grad = true;
  facts.output_info = {Output(OutputType::kNonAlias), Output(OutputType::kAliasOfIntermediateSaveAsOutput, 0),
                       Output(OutputType::kAliasOfIntermediate, 0)};
  facts.num_intermediate_bases = 1;
  facts.tangents = {{{Kind::kOutput, 0}, Vector()}, {{Kind::kIntermediateBase, 0}, Vector()}};
  return facts;
}

// As above, input 0 being a wrapper of two plain tensors.
ViewAndMutationMetaFields ExampleWithWrapper() {
  ViewAndMutationMetaFields facts = Example();
  WrapperMeta wrapper;
  wrapper.type_name = "pair";
  wrapper.flat_count = 2;
  wrapper.attributes = {{"a", PlainTensorMeta{0, {}}}, {"b", PlainTensorMeta{1, {}}}};
  facts.input_wrappers = {wrapper, PlainTensorMeta{2, {}}};

  ViewAndMutationMetaFields dense = Example();
  dense.input_info.push_back(dense.input_info[1]);
  facts.subclass_meta = SubclassMeta{std::make_shared<const ViewAndMutationMeta>(*ViewAndMutationMeta::Create(dense)),
                                     facts.input_wrappers};
  return facts;
}

std::string RefusalOf(const ViewAndMutationMetaFields& facts) {
  const absl::Status status = facts.Validate();
  EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ViewAndMutationMetaFields, ConsistentFactsAreAccepted) {
  EXPECT_EQ(RefusalOf(ViewAndMutationMetaFields()), "");
  EXPECT_EQ(RefusalOf(Example()), "");
  EXPECT_EQ(RefusalOf(ExampleWithWrapper()), "");
}

TEST(ViewAndMutationMetaFields, RefusesInputsThatKeepMutationsOnTheirOwn) {
  ViewAndMutationMetaFields facts = Example();
  facts.input_info[1].keep_input_mutations = true;
  EXPECT_EQ(RefusalOf(facts), "input_info[1].keep_input_mutations: differs from that of the function");
}

TEST(ViewAndMutationMetaFields, NamesTheInputThatContradictsItself) {
  ViewAndMutationMetaFields facts = Example();
  facts.input_info[1].mutations_under_no_grad_or_inference_mode = true;
  EXPECT_EQ(RefusalOf(facts),
            "input_info[1].mutations_under_no_grad_or_inference_mode: must be false, as the input "
            "is not mutated");
}

TEST(ViewAndMutationMetaFields, RefusesStoragesOfInputsThatDoNotExistOrComeLater) {
  ViewAndMutationMetaFields facts = Example();
  facts.is_train = false;
  facts.keep_input_mutations = true;
  for (InputAliasInfo& info : facts.input_info) {
    info = InputAliasInfo();
    info.keep_input_mutations = info.mutates_metadata = info.mutates_storage_metadata = true;
  }
  facts.output_info.clear();
  facts.tangents.clear();
  facts.num_intermediate_bases = 0;
  facts.input_info[0].new_storage = {NewStorage::Owner::kInput, 1, Vector()};
  facts.input_info[1].new_storage = {NewStorage::Owner::kUpdatedInput, 0, {}};
  EXPECT_EQ(RefusalOf(facts), "");
  facts.input_info[0].new_storage->input = 2;
  EXPECT_THAT(RefusalOf(facts), ::testing::HasSubstr("input_info[0].new_storage.input: 2"));
  facts.input_info[0].new_storage = {NewStorage::Owner::kUpdatedInput, 0, {}};
  EXPECT_THAT(RefusalOf(facts), ::testing::HasSubstr("input_info[0].new_storage.updated_input: 0"));
  facts.input_info[0] = InputAliasInfo();
  facts.input_info[0].keep_input_mutations = true;
  EXPECT_EQ(RefusalOf(facts), "input_info[1].new_storage.updated_input: input 0 keeps its storage");
}

TEST(ViewAndMutationMetaFields, RefusesBasesThatDoNotExist) {
  ViewAndMutationMetaFields facts = Example();
  facts.output_info[2].base_index = 1;
  EXPECT_EQ(RefusalOf(facts), "output_info[2].base_index: 1 is out of range: there are 1 intermediate bases");
  facts.output_info[2] = Output(OutputType::kAliasOfInput, 2);
  EXPECT_EQ(RefusalOf(facts), "output_info[2].base_index: 2 is out of range: there are 2 inputs");
  facts.output_info[2] = Output(OutputType::kAliasOfIntermediateBaseIsUserOutput, 3);
  EXPECT_EQ(RefusalOf(facts), "output_info[2].base_index: 3 is out of range: there are 3 outputs");
}

TEST(ViewAndMutationMetaFields, RefusesOutputsThatAreEachOthersBases) {
  ViewAndMutationMetaFields facts = Example();
  facts.output_info[2] = Output(OutputType::kAliasOfIntermediateBaseIsUserOutput, 2);
  EXPECT_EQ(RefusalOf(facts),
            "output_info[2].base_index: output 2 cannot be a base: it is "
            "alias_of_intermediate_base_is_user_output 2, requires grad");
  facts.output_info[2].base_index = 0;
  facts.output_info[0] = OutputAliasInfo();
  facts.output_info[0].scalar = int64_t{7};
  EXPECT_EQ(RefusalOf(facts), "output_info[2].base_index: output 0 cannot be a base: it is the value 7");
}

TEST(ViewAndMutationMetaFields, ABaseMayBeMadeFromAnotherOutputButNotFromItself) {
  ViewAndMutationMetaFields facts = Example();
  facts.output_info.push_back(Output(OutputType::kAliasOfIntermediateBaseIsUserOutput, 0));
  facts.output_info.push_back(Output(OutputType::kAliasOfIntermediateBaseIsUserOutput, 3));
  EXPECT_TRUE(facts.Validate().ok()) << facts.Validate();
  facts.output_info[3].base_index = 4;
  EXPECT_EQ(RefusalOf(facts),
            "output_info[3].base_index: output 4 cannot be a base: it is "
            "alias_of_intermediate_base_is_user_output 3, requires grad");
}

TEST(ViewAndMutationMetaFields, RefusesIntermediateBasesThatNoOutputIntroduces) {
  ViewAndMutationMetaFields facts = Example();
  facts.num_intermediate_bases = 2;
  EXPECT_EQ(RefusalOf(facts),
            "num_intermediate_bases: 2, but 1 outputs are of type "
            "alias_of_intermediate_save_as_output");
  facts.output_info[1].base_index = 1;
  EXPECT_EQ(RefusalOf(facts), "output_info[1].base_index: 1 is out of order: intermediate base 0 comes next");
}

TEST(ViewAndMutationMetaFields, RefusesTangentsOfOtherTensors) {
  ViewAndMutationMetaFields facts = Example();
  facts.tangents.pop_back();
  EXPECT_EQ(RefusalOf(facts), "tangents: 1, but the inputs and outputs have 2");
  facts = Example();
  std::swap(facts.tangents[0], facts.tangents[1]);
  EXPECT_EQ(RefusalOf(facts), "tangents[0].source: is intermediate base 0, but the tangent of output 0 comes here");
}

TEST(ViewAndMutationMetaFields, RefusesTangentsThatAreNoGradients) {
  ViewAndMutationMetaFields facts = Example();
  facts.tangents[1].expected.dtype = DType::kInt64;
  EXPECT_EQ(RefusalOf(facts), "tangents[1].expected.dtype: i64 has no gradient");
  facts = Example();
  facts.tangents[0].expected.offset = 4;
  EXPECT_EQ(RefusalOf(facts), "tangents[0].expected.offset: must be 0");
  facts = Example();
  facts.tangents[0].expected.strides.clear();
  EXPECT_EQ(RefusalOf(facts), "tangents[0].expected.strides: 0 strides for 1 sizes");
}

TEST(ViewAndMutationMetaFields, RefusesIndexesOfNoInput) {
  ViewAndMutationMetaFields facts = Example();
  facts.static_input_indices = {0, 2};
  EXPECT_EQ(RefusalOf(facts), "static_input_indices[1]: 2 is out of range: there are 2 inputs");
  facts = Example();
  facts.backward_mutated_inputs = {1, 0};
  EXPECT_EQ(RefusalOf(facts), "backward_mutated_inputs[1]: 0 follows 1, but the indexes must ascend");
}

TEST(ViewAndMutationMetaFields, RefusesToDetachWhatHasNoHistory) {
  ViewAndMutationMetaFields facts = Example();
  facts.indices_of_inputs_to_detach = {1};
  EXPECT_EQ(RefusalOf(facts), "");
  facts.indices_of_inputs_to_detach = {0};
  EXPECT_EQ(RefusalOf(facts),
            "indices_of_inputs_to_detach[0]: input 0 is a leaf, so there is nothing to detach it "
            "from");
  facts.indices_of_inputs_to_detach = {1};
  facts.input_info[1].requires_grad = false;
  EXPECT_EQ(RefusalOf(facts),
            "indices_of_inputs_to_detach[0]: input 1 does not require grad, so there is nothing to "
            "detach it from");
}

TEST(ViewAndMutationMetaFields, RefusesSavedValuesOfInference) {
  ViewAndMutationMetaFields facts = Example();
  facts.saved.emplace();
  EXPECT_EQ(RefusalOf(facts), "");
  facts.is_train = false;
  EXPECT_EQ(RefusalOf(facts), "saved: must not be set: the function was not traced for training");
}

TEST(ViewAndMutationMetaFields, RefusesEffectsWithoutNameOrTwice) {
  ViewAndMutationMetaFields facts = Example();
  facts.tokens = {"ordered", "ordered"};
  EXPECT_EQ(RefusalOf(facts), "tokens[1]: \"ordered\" occurs twice");
  facts.tokens = {""};
  EXPECT_EQ(RefusalOf(facts), "tokens[0]: is empty");
  facts.tokens.clear();
  facts.num_backward_tokens = -1;
  EXPECT_EQ(RefusalOf(facts), "num_backward_tokens: -1 is outside [0, 16777216]");
}

TEST(ViewAndMutationMetaFields, RefusesWrappersWithoutTheProgramOnFlatValues) {
  ViewAndMutationMetaFields facts = ExampleWithWrapper();
  facts.subclass_meta.reset();
  EXPECT_EQ(RefusalOf(facts), "subclass_meta: is missing, though some tensors are wrappers");
  facts = ExampleWithWrapper();
  facts.subclass_meta->fw_metadata = nullptr;
  EXPECT_EQ(RefusalOf(facts), "subclass_meta.fw_metadata: is missing");
}

TEST(ViewAndMutationMetaFields, RefusesTheProgramOnFlatValuesWithoutWrappers) {
  ViewAndMutationMetaFields facts = ExampleWithWrapper();
  facts.input_wrappers.clear();
  EXPECT_EQ(RefusalOf(facts), "subclass_meta: must not be set, as no tensor is a wrapper");
  facts.subclass_meta.reset();
  facts.input_wrappers = {PlainTensorMeta{0, {}}, PlainTensorMeta{1, {}}};
  EXPECT_EQ(RefusalOf(facts), "input_wrappers: lists of wrappers must be empty, as no tensor is one");
}

TEST(ViewAndMutationMetaFields, RefusesAProgramOnOtherFlatValues) {
  ViewAndMutationMetaFields facts = ExampleWithWrapper();
  facts.subclass_meta->fw_metadata =
      std::make_shared<const ViewAndMutationMeta>(*ViewAndMutationMeta::Create(Example()));
  EXPECT_EQ(RefusalOf(facts), "subclass_meta.fw_metadata.input_info: 2 entries for 3 flat inputs");

  facts = ExampleWithWrapper();
  ViewAndMutationMetaFields dense = facts.subclass_meta->fw_metadata->facts();
  dense.output_info.emplace_back();
  facts.subclass_meta->fw_metadata = std::make_shared<const ViewAndMutationMeta>(*ViewAndMutationMeta::Create(dense));
  EXPECT_EQ(RefusalOf(facts), "subclass_meta.fw_metadata.output_info: 4 entries for 3 flat outputs");
}

TEST(ViewAndMutationMetaFields, RefusesAWrapperInsideTheProgramOnFlatValues) {
  ViewAndMutationMetaFields facts = ExampleWithWrapper();
  facts.subclass_meta->fw_metadata =
      std::make_shared<const ViewAndMutationMeta>(*ViewAndMutationMeta::Create(ExampleWithWrapper()));
  EXPECT_EQ(RefusalOf(facts),
            "subclass_meta.fw_metadata.subclass_meta: must not be set: flat values cannot be wrappers");
}

TEST(ViewAndMutationMetaFields, RefusesListsOfWrappersOfAnotherLength) {
  ViewAndMutationMetaFields facts = ExampleWithWrapper();
  facts.tangent_wrappers = {PlainTensorMeta{0, {}}};
  EXPECT_EQ(RefusalOf(facts), "tangent_wrappers: 1 entries for 2 tangents");
  facts = ExampleWithWrapper();
  facts.forward_return_wrappers = {PlainTensorMeta{0, {}}};
  EXPECT_EQ(RefusalOf(facts), "forward_return_wrappers: 1 entries for 4 forward returns");
  facts = ExampleWithWrapper();
  facts.subclass_meta->grad_inputs.pop_back();
  EXPECT_EQ(RefusalOf(facts), "subclass_meta.grad_inputs: 1 entries for 2 inputs");
}

TEST(ViewAndMutationMetaFields, RefusesSharedStorageOfNothing) {
  ViewAndMutationMetaFields facts;
  facts.output_info.resize(2);
  facts.output_info[1].geometry = TensorGeometry{DType::kFloat32, {2}, {1}, 0};
  facts.output_info[1].shared_storage = SharedStorage{SharedStorage::Owner::kOutput, 0, false};
  EXPECT_EQ(RefusalOf(facts), "");
  facts.output_info[1].shared_storage->index = 1;
  EXPECT_EQ(RefusalOf(facts), "output_info[1].shared_storage.owner: 1 is out of range: there are 1 earlier outputs");
  facts.output_info[1].shared_storage->owner = SharedStorage::Owner::kInput;
  EXPECT_EQ(RefusalOf(facts), "output_info[1].shared_storage.owner: 1 is out of range: there are 0 inputs");
  facts.output_info[1].shared_storage = SharedStorage{SharedStorage::Owner::kOutput, 0, false};
  facts.output_info[0].scalar = int64_t{7};
  EXPECT_EQ(RefusalOf(facts),
            "output_info[1].shared_storage.owner: output 0 has no storage of its own: it is the value 7");
}

}  // namespace
}  // namespace cotan
