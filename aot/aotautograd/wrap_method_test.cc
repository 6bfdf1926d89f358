// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/wrap_method.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan::aot {
namespace {

using serialization::Method;
using ::testing::ElementsAre;

// Returns quantized{data, scale} over the flat tensors from `start` on.
FlatMeta Quantized(int start) {
  return WrapperMeta{.type_name = "quantized",
                     .flat_start = start,
                     .flat_count = 2,
                     .attributes = {{"data", PlainTensorMeta{start, {}}}, {"scale", PlainTensorMeta{start + 1, {}}}},
                     .outer_sizes = {SymInt(4)},
                     .outer_strides = {SymInt(1)},
                     .metadata = ""};
}

InputAliasInfo Input(bool requires_grad) {
  InputAliasInfo info;
  info.is_leaf = true;
  info.requires_grad = requires_grad;
  info.mutations_hidden_from_autograd = true;
  info.keep_input_mutations = true;
  return info;
}

OutputAliasInfo Output(bool requires_grad) {
  OutputAliasInfo info;
  info.output_type = OutputType::kNonAlias;
  info.requires_grad = requires_grad;
  info.requires_grad_for_backward = requires_grad;
  return info;
}

// Returns the method of (x, quantized) -> (quantized, y): flat inputs x, data, scale, of which
// scale requires grad, and flat outputs data, scale, y.
const WrapperStructure& Structure() {
  static const auto& structure = *new WrapperStructure{.inputs = {PlainTensorMeta{0, {}}, Quantized(1)},
                                                       .outputs = {Quantized(0), PlainTensorMeta{2, {}}}};
  return structure;
}

ViewAndMutationMetaFields FlatFacts() {
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  facts.is_train = true;
  facts.input_info = {Input(false), Input(false), Input(true)};
  facts.output_info = {Output(false), Output(true), Output(true)};
  for (int output : {1, 2}) {
    TangentMeta& tangent = facts.tangents.emplace_back();
    tangent.source = {ForwardTensor::Kind::kOutput, output};
    tangent.expected = {.dtype = DType::kFloat32, .sizes = {SymInt(output)}, .strides = {SymInt(1)}, .offset = 0};
  }
  return facts;
}

Method FlatMethod(ViewAndMutationMetaFields facts) {
  Method method;
  const auto metadata = ViewAndMutationMeta::Create(std::move(facts));
  EXPECT_TRUE(metadata.ok()) << metadata.status();
  *method.mutable_metadata() = metadata->ToProto();
  for (const char* name : {"input.0", "input.1.data", "input.1.scale"}) {
    method.add_input_names(name);
    method.mutable_signature()->add_user_inputs(name);
  }
  for (const char* name : {"output.0", "output.1", "output.2"}) {
    method.add_output_names(name);
    method.mutable_signature()->add_user_outputs(name);
  }
  auto& gradient = *method.mutable_signature()->add_gradients_to_user_inputs();
  gradient.set_output("gradient.input.1.scale");
  gradient.set_target("input.1.scale");
  return method;
}

TEST(WrapMethodTest, MetadataIsInTermsOfTheCallersTensors) {
  Method method = FlatMethod(FlatFacts());
  const absl::Status status = WrapForward(Structure(), method);
  ASSERT_TRUE(status.ok()) << status;
  const auto metadata = ViewAndMutationMeta::FromProto(method.metadata());
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->num_inputs(), 2);
  EXPECT_FALSE(metadata->input(0).requires_grad);
  EXPECT_TRUE(metadata->input(1).requires_grad);
  EXPECT_EQ(metadata->num_outputs(), 2);
  EXPECT_TRUE(metadata->output(0).requires_grad);
  const ViewAndMutationMetaFields& facts = metadata->facts();
  ASSERT_EQ(facts.tangents.size(), 2u);
  EXPECT_EQ(facts.tangents[0].expected.sizes, SymIntVector({SymInt(4)}));  // outer sizes of the wrapper
  EXPECT_EQ(facts.tangents[1].source.index, 1);
  ASSERT_EQ(facts.tangent_wrappers.size(), 2u);
  EXPECT_EQ(ToString(facts.tangent_wrappers[0]), "quantized{data: opaque no gradient, scale: flat 0}");
  EXPECT_EQ(ToString(facts.tangent_wrappers[1]), "flat 1");
  ASSERT_EQ(facts.forward_return_wrappers.size(), 2u);
  EXPECT_EQ(ToString(facts.forward_return_wrappers[0]), "quantized{data: flat 0, scale: flat 1}");
  EXPECT_EQ(facts.input_wrappers, Structure().inputs);
  EXPECT_EQ(facts.subclass_meta->grad_inputs, Structure().inputs);
  EXPECT_EQ(facts.subclass_meta->fw_metadata->facts(), FlatFacts());
}

TEST(WrapMethodTest, NamesAreThoseOfTheCaller) {
  Method method = FlatMethod(FlatFacts());
  ASSERT_TRUE(WrapForward(Structure(), method).ok());
  EXPECT_THAT(method.signature().user_inputs(), ElementsAre("input.0", "input.1"));
  EXPECT_THAT(method.signature().user_outputs(), ElementsAre("output.0", "output.1"));
  EXPECT_EQ(method.signature().gradients_to_user_inputs(0).target(), "input.1");
  EXPECT_EQ(method.signature().in_spec().children_size(), 2);
  EXPECT_EQ(method.signature().out_spec().children_size(), 2);
  EXPECT_THAT(method.output_names(), ElementsAre("output.0.data", "output.0.scale", "output.1"));
  Method backward;
  backward.add_input_names("saved.0");
  backward.add_input_names("tangent.output.1");
  backward.add_input_names("tangent.output.2");
  WrapBackward(Structure(), backward);
  EXPECT_THAT(backward.input_names(), ElementsAre("saved.0", "tangent.output.0.scale", "tangent.output.1"));
}

TEST(WrapMethodTest, AnArgumentThatComesBackWholeIsThatArgument) {
  ViewAndMutationMetaFields facts = FlatFacts();
  for (int i : {0, 1}) {
    facts.output_info[static_cast<size_t>(i)].output_type = OutputType::kIsInput;
    facts.output_info[static_cast<size_t>(i)].base_index = i + 1;
  }
  facts.tangents.erase(facts.tangents.begin());
  Method method = FlatMethod(facts);
  const absl::Status status = WrapForward(Structure(), method);
  ASSERT_TRUE(status.ok()) << status;
  const auto metadata = ViewAndMutationMeta::FromProto(method.metadata());
  EXPECT_EQ(metadata->output(0).output_type, OutputType::kIsInput);
  EXPECT_EQ(metadata->output(0).base_index, 1);
  EXPECT_EQ(metadata->facts().tangent_wrappers.size(), 1u);
}

TEST(WrapMethodTest, WithoutWrappersNothingChanges) {
  Method method = FlatMethod(FlatFacts());
  const std::string before = method.SerializeAsString();
  const WrapperStructure plain = {.inputs = {PlainTensorMeta{0, {}}, PlainTensorMeta{1, {}}, PlainTensorMeta{2, {}}},
                                  .outputs = {PlainTensorMeta{0, {}}, PlainTensorMeta{1, {}}, PlainTensorMeta{2, {}}}};
  ASSERT_TRUE(WrapForward(plain, method).ok());
  EXPECT_EQ(method.SerializeAsString(), before);
}

TEST(WrapMethodTest, WhatIsWrittenToAPartIsWrittenToItsWrapper) {
  ViewAndMutationMetaFields facts = FlatFacts();
  for (const int part : {1, 2}) {  // data is written by the program, scale by the runtime
    facts.input_info[static_cast<size_t>(part)].mutates_data = true;
    facts.input_info[static_cast<size_t>(part)].mutations_hidden_from_autograd = false;
  }
  TangentMeta written;
  written.source = {ForwardTensor::Kind::kMutatedInput, 2};
  written.expected = {.dtype = DType::kFloat64, .sizes = {SymInt(1)}, .strides = {SymInt(1)}, .offset = 0};
  facts.tangents.insert(facts.tangents.begin(), written);
  Method method = FlatMethod(facts);
  const absl::Status status = WrapForward(Structure(), method);
  ASSERT_TRUE(status.ok()) << status;
  const auto metadata = ViewAndMutationMeta::FromProto(method.metadata());
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_FALSE(metadata->input(0).is_mutated());
  EXPECT_TRUE(metadata->input(1).mutates_data);
  EXPECT_FALSE(metadata->input(1).mutations_hidden_from_autograd);
  EXPECT_THAT(metadata->derived().mutated_inp_runtime_indices, ElementsAre(1));
  const ViewAndMutationMetaFields& wrapped = metadata->facts();
  ASSERT_EQ(wrapped.tangents.size(), 3u);
  EXPECT_EQ(wrapped.tangents[0].expected.dtype, DType::kFloat64);
  EXPECT_EQ(wrapped.tangents[0].expected.sizes, SymIntVector({SymInt(4)}));
  EXPECT_EQ(ToString(wrapped.tangent_wrappers[0]), "quantized{data: opaque no gradient, scale: flat 0}");
  EXPECT_EQ(ToString(wrapped.forward_return_wrappers[0]), "quantized{data: opaque not returned, scale: flat 0}");
}

TEST(WrapMethodTest, AWriteToAPartWithoutGradientHasNoTangent) {
  ViewAndMutationMetaFields facts = FlatFacts();
  facts.input_info[1].mutates_data = true;
  facts.input_info[1].mutations_hidden_from_autograd = false;
  Method method = FlatMethod(facts);
  ASSERT_TRUE(WrapForward(Structure(), method).ok());
  const auto metadata = ViewAndMutationMeta::FromProto(method.metadata());
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  // The wrapper requires grad and is written back as a whole; none of its parts is.
  EXPECT_EQ(ToString(metadata->facts().tangent_wrappers[0]),
            "quantized{data: opaque no gradient, scale: opaque no gradient}");
}

TEST(WrapMethodTest, BasesOfPartsAreThoseOfTheFlatFunction) {
  ViewAndMutationMetaFields facts = FlatFacts();
  facts.num_intermediate_bases = 1;
  for (const int output : {1, 2}) {  // the scale of output 0, and output 1
    OutputAliasInfo& info = facts.output_info[static_cast<size_t>(output)];
    info.output_type = output == 1 ? OutputType::kAliasOfIntermediateSaveAsOutput : OutputType::kAliasOfIntermediate;
    info.base_index = 0;
  }
  facts.tangents.pop_back();
  facts.tangents[0].source = {ForwardTensor::Kind::kIntermediateBase, 0};
  Method method = FlatMethod(facts);
  const absl::Status status = WrapForward(Structure(), method);
  ASSERT_TRUE(status.ok()) << status;
  const auto metadata = ViewAndMutationMeta::FromProto(method.metadata());
  ASSERT_TRUE(metadata.ok()) << metadata.status();
  EXPECT_EQ(metadata->output(0).output_type, OutputType::kNonAlias);
  EXPECT_FALSE(metadata->output(0).has_tangent());
  EXPECT_EQ(metadata->output(1).output_type, OutputType::kAliasOfIntermediate);
  EXPECT_EQ(ToString(metadata->facts().tangent_wrappers[0]), "flat 0");
}

TEST(WrapMethodTest, AnotherStorageOfAPartIsUnimplemented) {
  ViewAndMutationMetaFields facts = FlatFacts();
  facts.input_info[1].mutates_metadata = true;
  facts.input_info[1].mutates_storage_metadata = true;
  Method method = FlatMethod(facts);
  const absl::Status status = WrapForward(Structure(), method);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "'input.1.data' gets another storage: parts of wrappers keep theirs; copy_() into it instead");
}

}  // namespace
}  // namespace cotan::aot
