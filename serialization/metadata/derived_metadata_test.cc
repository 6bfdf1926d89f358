// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/derived_metadata.h"

#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

using Kind = ForwardTensor::Kind;

InputAliasInfo Mutated(bool data, bool metadata, bool requires_grad) {
  InputAliasInfo info;
  info.mutates_data = data;
  info.mutates_metadata = metadata;
  info.mutations_hidden_from_autograd = !data;
  info.requires_grad = requires_grad;
  info.keep_input_mutations = true;
  return info;
}

OutputAliasInfo Output(OutputType type, std::optional<int> base, bool requires_grad) {
  OutputAliasInfo info;
  info.output_type = type;
  info.base_index = base;
  info.requires_grad = info.requires_grad_for_backward = requires_grad;
  return info;
}

// Inputs: 0 untouched, 1 written by the program (a buffer), 2 written back with
// data, 3 given new geometry.
// Outputs: 0 fresh, 1 a view of input 0, 2 and 3 views of intermediate base 0,
// 4 an integer, 5 the only view of an intermediate, 6 a view of output 0.
ViewAndMutationMetaFields Example() {
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  facts.is_train = true;
  facts.input_info = {Mutated(false, false, true), Mutated(true, false, false), Mutated(true, false, true),
                      Mutated(false, true, true)};
  OutputAliasInfo integer;
  integer.scalar = int64_t{3};
  facts.output_info = {Output(OutputType::kNonAlias, std::nullopt, true),
                       Output(OutputType::kAliasOfInput, 0, true),
                       Output(OutputType::kAliasOfIntermediateSaveAsOutput, 0, true),
                       Output(OutputType::kAliasOfIntermediate, 0, true),
                       integer,
                       Output(OutputType::kUnsafeViewAlias, std::nullopt, true),
                       Output(OutputType::kAliasOfIntermediateBaseIsUserOutput, 0, true)};
  facts.num_intermediate_bases = 1;
  return facts;
}

TEST(DerivedMetadata, InputsAreSortedByWhoMutatesThem) {
  const DerivedMetadata derived = DerivedMetadata::Of(Example());
  EXPECT_EQ(derived.mutated_inp_runtime_indices, (std::vector<int>{2, 3}));
  EXPECT_EQ(derived.mutated_graph_handled_indices, (std::vector<int>{1}));
  EXPECT_EQ(derived.mutated_graph_handled_indices_seen_by_autograd, (std::vector<int>{1}));
}

TEST(DerivedMetadata, MutationHiddenFromAutogradIsNotSeenByIt) {
  ViewAndMutationMetaFields facts = Example();
  facts.input_info[1].mutations_hidden_from_autograd = true;
  const DerivedMetadata derived = DerivedMetadata::Of(facts);
  EXPECT_EQ(derived.mutated_graph_handled_indices, (std::vector<int>{1}));
  EXPECT_TRUE(derived.mutated_graph_handled_indices_seen_by_autograd.empty());
}

TEST(DerivedMetadata, OutputsAreCountedByWhatTheyAlias) {
  const DerivedMetadata derived = DerivedMetadata::Of(Example());
  EXPECT_EQ(derived.num_outputs, 7);
  EXPECT_EQ(derived.num_outputs_non_aliased, 3);
  EXPECT_EQ(derived.num_outputs_aliased_to_inputs, 1);
  EXPECT_EQ(derived.num_outputs_aliased_to_intermediates, 3);
  EXPECT_EQ(derived.num_outputs_aliased, 4);
  EXPECT_EQ(derived.num_tensor_outputs, 6);
  EXPECT_EQ(derived.aliased_out_indices, (std::vector<int>{1, 2, 3, 6}));
  EXPECT_EQ(derived.unsafe_view_out_indices, (std::vector<int>{5}));
}

TEST(DerivedMetadata, TangentsComeFromWrittenBackDataFreshOutputsAndBases) {
  const std::vector<ForwardTensor> expected = {
      {Kind::kMutatedInput, 2}, {Kind::kOutput, 0}, {Kind::kOutput, 5}, {Kind::kIntermediateBase, 0}};
  EXPECT_EQ(DerivedMetadata::Of(Example()).tangent_sources, expected);
}

TEST(DerivedMetadata, AutogradDoesNotSeeAliasesAmongTheForwardReturns) {
  const std::vector<ForwardReturn> expected = {
      {{Kind::kMutatedInput, 2}, false},    {{Kind::kMutatedInput, 3}, true}, {{Kind::kOutput, 0}, false},
      {{Kind::kOutput, 1}, true},           {{Kind::kOutput, 2}, true},       {{Kind::kOutput, 3}, true},
      {{Kind::kOutput, 4}, false},          {{Kind::kOutput, 5}, false},      {{Kind::kOutput, 6}, true},
      {{Kind::kIntermediateBase, 0}, false}};
  const DerivedMetadata derived = DerivedMetadata::Of(Example());
  EXPECT_EQ(derived.forward_returns, expected);
  EXPECT_EQ(derived.num_forward_returns, 10);
}

TEST(DerivedMetadata, SavedValuesBeginAfterTheForwardReturns) {
  ViewAndMutationMetaFields facts = Example();
  facts.saved.emplace();
  facts.saved->num_tensors = 3;
  facts.saved->num_tensors_without_version_check = 1;
  const DerivedMetadata derived = DerivedMetadata::Of(facts);
  EXPECT_EQ(derived.num_forward_returns, 10);
  EXPECT_EQ(derived.tensors_saved_for_backwards, (SavedSlice{10, 13}));
  EXPECT_EQ(derived.tensors_saved_for_backwards_with_vc_check, (SavedSlice{10, 12}));
  EXPECT_EQ(derived.tensors_saved_for_backwards_no_vc_check, (SavedSlice{12, 13}));
}

TEST(DerivedMetadata, NothingIsSavedBeforePartitioning) {
  const DerivedMetadata derived = DerivedMetadata::Of(Example());
  EXPECT_EQ(derived.tensors_saved_for_backwards, (SavedSlice{10, 10}));
}

TEST(DerivedMetadata, DynamicOutputsHaveADynamicDimension) {
  ViewAndMutationMetaFields facts = Example();
  EXPECT_FALSE(DerivedMetadata::Of(facts).dynamic_outputs);
  facts.output_info[3].dynamic_dims = {1};
  EXPECT_TRUE(DerivedMetadata::Of(facts).dynamic_outputs);
}

TEST(DerivedMetadata, BackwardMutationsThatForbidCreateGraphRequireGrad) {
  ViewAndMutationMetaFields facts = Example();
  facts.backward_mutated_inputs = {0, 1};
  EXPECT_EQ(DerivedMetadata::Of(facts).backward_mutated_inputs_requiring_grad, (std::vector<int>{0}));
}

TEST(DerivedMetadata, TangentTypesAreThoseOfTheWrappers) {
  ViewAndMutationMetaFields facts = Example();
  EXPECT_EQ(DerivedMetadata::Of(facts).tangent_types, (std::vector<std::string>(4)));
  WrapperMeta wrapper;
  wrapper.type_name = "quantized";
  facts.tangent_wrappers = {PlainTensorMeta(), wrapper, PlainTensorMeta(), PlainTensorMeta()};
  EXPECT_EQ(DerivedMetadata::Of(facts).tangent_types, (std::vector<std::string>{"", "quantized", "", ""}));
}

}  // namespace
}  // namespace cotan
