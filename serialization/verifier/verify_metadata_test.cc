// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_metadata.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::State;

void AddState(Artifact& artifact, const std::string& name, State::Role role) {
  State* state = artifact.add_states();
  state->set_name(name);
  state->set_role(role);
}

void AddValue(Method& method, int rank) {
  serialization::TensorType* type = method.add_values()->mutable_type();
  type->set_dtype(serialization::DTYPE_F32);
  for (int i = 0; i < rank; ++i) type->add_sizes("2");
}

// forward(batch) with a weight and a running mean that it updates; returns the
// loss and saves one tensor for backward(saved, tangent).
Artifact Example() {
  Artifact artifact;
  AddState(artifact, "weight", State::PARAMETER);
  AddState(artifact, "mean", State::BUFFER);
  artifact.mutable_states(1)->add_aliases("tied_mean");

  Method& forward = *artifact.add_methods();
  forward.set_name("forward");
  AddValue(forward, 2);  // batch
  AddValue(forward, 1);  // new mean
  AddValue(forward, 0);  // loss
  AddValue(forward, 2);  // saved
  forward.add_inputs(0);
  forward.add_outputs(2);
  forward.add_outputs(3);
  forward.set_num_saved(1);
  forward.set_backward_method("backward");
  serialization::StateUpdate* update = forward.add_state_updates();
  update->set_state(1);
  update->set_value(1);

  serialization::GraphSignature& signature = *forward.mutable_signature();
  signature.add_parameters("weight");
  signature.add_buffers("tied_mean");
  signature.add_user_inputs("batch");
  signature.add_user_outputs("loss");

  serialization::ViewAndMutationMeta& metadata = *forward.mutable_metadata();
  metadata.set_is_train(true);
  metadata.set_keep_input_mutations(true);
  for (int i = 0; i < 3; ++i) metadata.add_input_info()->set_keep_input_mutations(true);
  metadata.mutable_input_info(1)->set_mutates_data(true);
  serialization::OutputAliasInfo* loss = metadata.add_output_info();
  loss->set_output_type(serialization::NON_ALIAS);
  loss->set_requires_grad(true);
  loss->mutable_geometry()->set_dtype(serialization::DTYPE_F32);
  metadata.add_tangents()->set_output(0);
  metadata.mutable_tangents(0)->mutable_expected()->set_dtype(serialization::DTYPE_F32);
  metadata.mutable_saved()->set_num_tensors(1);

  Method& backward = *artifact.add_methods();
  backward.set_name("backward");
  AddValue(backward, 2);
  AddValue(backward, 0);
  backward.add_inputs(0);
  backward.add_inputs(1);
  return artifact;
}

std::string RefusalOf(const Artifact& artifact) {
  for (const Method& method : artifact.methods()) {
    const absl::Status status = VerifyMetadata(artifact, method);
    if (status.ok()) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }
  return "";
}

serialization::ViewAndMutationMeta& Metadata(Artifact& artifact) {
  return *artifact.mutable_methods(0)->mutable_metadata();
}

TEST(VerifyMetadata, AcceptsWhatFits) { EXPECT_EQ(RefusalOf(Example()), ""); }

TEST(VerifyMetadata, AcceptsMethodsWithoutMetadata) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->clear_metadata();
  EXPECT_EQ(RefusalOf(artifact), "");
  artifact.mutable_methods(0)->clear_signature();
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, NamesTheFieldThatIsMalformed) {
  Artifact artifact = Example();
  Metadata(artifact).mutable_output_info(0)->set_base_index(9);
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.output_info[0].base_index: 9 is out of range: there are 3 "
            "inputs");
  artifact = Example();
  artifact.mutable_methods(0)->mutable_signature()->set_loss_output("accuracy");
  EXPECT_EQ(RefusalOf(artifact), "signature.loss_output: \"accuracy\" is not a user output");
}

TEST(VerifyMetadata, RefusesNamesOfNoState) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->mutable_signature()->set_parameters(0, "mean");
  EXPECT_EQ(RefusalOf(artifact),
            "signature.parameters[0]: \"mean\" is not a state of the artifact with "
            "the role of a parameter");
}

TEST(VerifyMetadata, RefusesSignaturesOfOtherInputs) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->mutable_signature()->add_user_inputs("label");
  EXPECT_EQ(RefusalOf(artifact), "signature.user_inputs: 2 names, but the method has 1 inputs");
}

TEST(VerifyMetadata, RefusesMetadataOfOtherInputsAndOutputs) {
  Artifact artifact = Example();
  Metadata(artifact).add_input_info()->set_keep_input_mutations(true);
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info: 4 entries, but the function has 3 inputs");
  artifact.mutable_methods(0)->clear_signature();
  Metadata(artifact).clear_input_info();
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info: 0 entries, but the method has 1 inputs");
}

TEST(VerifyMetadata, RefusesOtherNumbersOfReturnedValues) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->add_outputs(1);
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.output_info: the method returns 3 values instead of 1 "
            "written-back inputs, outputs and intermediate bases, and 1 saved tensors");
  artifact = Example();
  artifact.mutable_methods(0)->set_num_saved(0);
  EXPECT_EQ(RefusalOf(artifact), "metadata.saved.num_tensors: 1, but the method saves 0");
}

TEST(VerifyMetadata, AcceptsGradientsAsFurtherOutputs) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->add_outputs(1);
  serialization::GraphSignature::Gradient* gradient =
      artifact.mutable_methods(0)->mutable_signature()->add_gradients_to_parameters();
  gradient->set_output("gradient.weight");
  gradient->set_target("weight");
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, CountsOutputsThatAreNoTensorsAsNoValues) {
  Artifact artifact = Example();
  serialization::OutputAliasInfo* count = Metadata(artifact).add_output_info();
  count->set_output_type(serialization::NON_ALIAS);
  count->set_raw_type(serialization::RAW_INT);
  count->mutable_scalar()->set_int_value(3);
  artifact.mutable_methods(0)->mutable_signature()->add_user_outputs("count");
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, OutputsThatTheRuntimeMakesAreNotReturned) {
  Artifact artifact = Example();
  serialization::OutputAliasInfo* view = Metadata(artifact).add_output_info();
  view->set_output_type(serialization::ALIAS_OF_INPUT);
  view->set_base_index(2);
  artifact.mutable_methods(0)->mutable_signature()->add_user_outputs("view");
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, WrittenBackInputsAreReturnedAndOthersAreUpdates) {
  Artifact artifact = Example();
  Metadata(artifact).mutable_input_info(2)->set_mutates_data(true);
  EXPECT_EQ(RefusalOf(artifact), "input_updates: input 2 is mutated by the program, but the method does not update it");
  serialization::InputUpdate* update = artifact.mutable_methods(0)->add_input_updates();
  EXPECT_EQ(RefusalOf(artifact), "");
  *artifact.mutable_methods(0)->add_input_updates() = *update;
  EXPECT_EQ(RefusalOf(artifact), "input_updates[1].input: 0 is updated twice");

  artifact = Example();
  artifact.mutable_methods(0)->add_input_updates();
  EXPECT_EQ(RefusalOf(artifact), "input_updates: the method updates its input 0, which the metadata does not say");
  artifact.mutable_methods(0)->mutable_input_updates(0)->set_input(1);
  EXPECT_EQ(RefusalOf(artifact), "input_updates[0].input: 1 is out of range: there are 1 inputs of the method");

  artifact = Example();
  Metadata(artifact).set_keep_input_mutations(false);
  for (int i = 0; i < 3; ++i) Metadata(artifact).mutable_input_info(i)->set_keep_input_mutations(false);
  Metadata(artifact).mutable_input_info(2)->set_mutates_data(true);
  EXPECT_THAT(RefusalOf(artifact),
              ::testing::HasSubstr("the method returns 2 values instead of 2 written-back inputs"));
  artifact.mutable_methods(0)->clear_outputs();
  for (uint32_t value : {0, 2, 3}) artifact.mutable_methods(0)->add_outputs(value);
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, ChecksWhatTheProgramGets) {
  Artifact artifact = Example();
  Metadata(artifact).mutable_input_info()->Add()->set_keep_input_mutations(true);
  artifact.mutable_methods(0)->mutable_signature()->add_user_inputs("twin");
  Metadata(artifact).mutable_input_info(2)->set_mutates_data(true);
  Metadata(artifact).mutable_input_info(3)->set_mutates_data(true);
  Method& forward = *artifact.mutable_methods(0);
  *forward.mutable_program_metadata() = forward.metadata();
  forward.mutable_program_metadata()->mutable_input_info()->RemoveLast();
  for (uint32_t unique : {0, 1, 2, 2}) forward.mutable_input_binding()->add_add_dupe_map(unique);
  forward.add_input_updates();
  EXPECT_EQ(RefusalOf(artifact), "");
  forward.mutable_program_metadata()->mutable_input_info(2)->set_mutates_data(false);
  EXPECT_EQ(RefusalOf(artifact), "input_updates: the method updates its input 0, which the metadata does not say");
}

TEST(VerifyMetadata, RefusesGeometryOfAnotherValue) {
  Artifact artifact = Example();
  serialization::TensorGeometry* geometry = Metadata(artifact).mutable_output_info(0)->mutable_geometry();
  geometry->add_sizes("2");
  geometry->add_strides("1");
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.output_info[0].geometry: f32[2]{1} differs in dtype or "
            "rank from the value that the method returns");
  artifact = Example();
  Metadata(artifact).mutable_output_info(0)->clear_geometry();
  Metadata(artifact).mutable_output_info(0)->add_dynamic_dims(0);
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.output_info[0].dynamic_dims[0]: 0 is out of range: there are 0 "
            "dimensions of the output");
}

TEST(VerifyMetadata, RefusesBuffersThatAreMutatedHereAndNotThere) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->clear_state_updates();
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.input_info[1].mutates_data: buffer \"tied_mean\" is "
            "mutated, but the method does not update it");
  artifact = Example();
  Metadata(artifact).mutable_input_info(1)->set_mutates_data(false);
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.input_info[1].mutates_data: buffer \"tied_mean\" is not "
            "mutated, but the method updates it");
}

TEST(VerifyMetadata, RefusesABackwardOfOtherTangents) {
  Artifact artifact = Example();
  artifact.mutable_methods(1)->add_inputs(1);
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.tangents: the method \"backward\" takes 3 inputs instead "
            "of 1 saved tensors and 1 tangents");
}

// Only a backward with several tangents takes inputs that say which are defined; they are bool[].
TEST(VerifyMetadata, TakesFlagsOfSeveralTangents) {
  Artifact artifact = Example();
  Method& forward = *artifact.mutable_methods(0);
  AddValue(forward, 0);
  forward.clear_outputs();
  for (const uint32_t output : {2, 4, 3}) forward.add_outputs(output);
  forward.mutable_signature()->add_user_outputs("other");
  *Metadata(artifact).add_output_info() = Metadata(artifact).output_info(0);
  *Metadata(artifact).add_tangents() = Metadata(artifact).tangents(0);
  Metadata(artifact).mutable_tangents(1)->set_output(1);
  Method& backward = *artifact.mutable_methods(1);
  for (const uint32_t input : {2, 3, 4}) {
    AddValue(backward, 0);
    backward.add_inputs(input);
  }
  EXPECT_EQ(
      RefusalOf(artifact),
      "metadata.tangents: input 3 of the method \"backward\" says whether a tangent is defined, but is not bool[]");
  for (const int flag : {3, 4}) backward.mutable_values(flag)->mutable_type()->set_dtype(serialization::DTYPE_BOOL);
  EXPECT_EQ(RefusalOf(artifact), "");
  backward.mutable_values(4)->mutable_type()->add_sizes("1");
  EXPECT_EQ(
      RefusalOf(artifact),
      "metadata.tangents: input 4 of the method \"backward\" says whether a tangent is defined, but is not bool[]");
}

TEST(VerifyMetadata, RefusesGradientsOfUnknownInputs) {
  Artifact artifact = Example();
  Method& backward = *artifact.mutable_methods(1);
  backward.add_outputs(0);
  EXPECT_EQ(RefusalOf(artifact), "") << "not recorded";
  backward.add_gradient_inputs(2);
  EXPECT_EQ(RefusalOf(artifact), "");
  backward.set_gradient_inputs(0, 3);
  EXPECT_EQ(RefusalOf(artifact), "gradient_inputs[0]: 3 is out of range: there are 3 inputs");
  backward.add_gradient_inputs(0);
  EXPECT_EQ(RefusalOf(artifact), "gradient_inputs: 2 entries, but the method \"backward\" returns 1 gradients");
}

TEST(VerifyMetadata, RefusesInputsWithoutGradientThatAreNotThere) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->add_no_grad_view_inputs(2);
  EXPECT_EQ(RefusalOf(artifact), "");
  artifact.mutable_methods(0)->set_no_grad_view_inputs(0, 3);
  EXPECT_EQ(RefusalOf(artifact), "no_grad_view_inputs[0]: 3 is out of range: there are 3 inputs");
}

TEST(VerifyMetadata, RefusesViewsOverDynamicDimensionsThatTheArtifactLacks) {
  Artifact artifact = Example();
  serialization::OutputAliasInfo* info = Metadata(artifact).mutable_output_info(0);
  info->set_output_type(serialization::ALIAS_OF_INPUT);
  info->set_base_index(2);
  Metadata(artifact).clear_tangents();
  artifact.mutable_methods(0)->clear_outputs();
  artifact.mutable_methods(0)->add_outputs(3);
  info->add_view_steps()->mutable_view()->add_sizes("4");
  EXPECT_EQ(RefusalOf(artifact), "");
  info->add_view_steps()->mutable_view()->add_sizes("s0");
  EXPECT_THAT(RefusalOf(artifact), ::testing::StartsWith("metadata.output_info[0].view_steps[1]: "));
}

TEST(VerifyMetadata, RefusesDynamicDimensionsThatTheArtifactLacks) {
  Artifact artifact = Example();
  artifact.add_symbols()->set_name("batch");
  Metadata(artifact).mutable_output_info(0)->mutable_geometry()->set_offset("(s0 * 2)");
  EXPECT_EQ(RefusalOf(artifact), "");
  Metadata(artifact).mutable_output_info(0)->mutable_geometry()->set_offset("(s1 * 2)");
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.output_info[0].geometry: (s1 * 2) uses a dynamic dimension "
            "beyond the artifact's 1");
}

// What a Function needs of the metadata: it checks nothing itself.

void SetGeometry(serialization::TensorGeometry& geometry) {
  geometry.set_dtype(serialization::DTYPE_F32);
  geometry.add_sizes("4");
  geometry.add_strides("1");
}

TEST(VerifyMetadata, RefusesAMetadataMutationWithoutNewGeometry) {
  Artifact artifact = Example();
  Metadata(artifact).mutable_input_info(2)->set_mutates_metadata(true);
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info[2].geometry_after: must be set, as the metadata is mutated");
  SetGeometry(*Metadata(artifact).mutable_input_info(2)->mutable_geometry_after());
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, RefusesAStorageMutationWithoutNewStorage) {
  Artifact artifact = Example();
  serialization::InputAliasInfo& info = *Metadata(artifact).mutable_input_info(2);
  info.set_mutates_metadata(true);
  info.set_mutates_storage_metadata(true);
  info.set_mutations_hidden_from_autograd(true);
  SetGeometry(*info.mutable_geometry_after());
  serialization::InputUpdate& update = *artifact.mutable_methods(0)->add_input_updates();
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info[2].new_storage: must be set, as the storage is mutated");
  SetGeometry(*info.mutable_new_storage()->mutable_geometry());
  EXPECT_EQ(RefusalOf(artifact), "input_updates: none sets the storage of input 2, which gets a new one");
  update.set_sets_storage(true);
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, RefusesANewLeafThatRequiredGradBefore) {
  Artifact artifact = Example();
  serialization::InputAliasInfo& info = *Metadata(artifact).mutable_input_info(2);
  info.set_requires_grad(true);
  info.set_is_leaf(true);
  info.set_history(serialization::InputAliasInfo::HISTORY_NEW_LEAF);
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info[2].history: is NEW_LEAF, but the input requires grad at entry");
  info.set_requires_grad_at_entry(false);
  EXPECT_EQ(RefusalOf(artifact), "");
}

TEST(VerifyMetadata, RefusesABindingOfOtherInputs) {
  Artifact artifact = Example();
  Method& forward = *artifact.mutable_methods(0);
  for (uint32_t unique : {0, 1, 1}) forward.mutable_input_binding()->add_add_dupe_map(unique);
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info: 3 entries, but the binding makes 2 arguments");
  forward.mutable_input_binding()->add_add_dupe_map(1);
  EXPECT_EQ(RefusalOf(artifact), "input_binding.add_dupe_map: 4 entries for 3 inputs");
  forward.mutable_input_binding()->set_num_bases(1);
  EXPECT_EQ(RefusalOf(artifact), "input_binding.num_bases: 1, but 0 bases are described");
}

TEST(VerifyMetadata, RefusesStatesThatAreMethodInputs) {
  Artifact artifact = Example();
  artifact.mutable_methods(0)->clear_signature();
  EXPECT_EQ(RefusalOf(artifact),
            "metadata.input_info: 3 entries, 0 of them parameters and buffers, but the method has 1 inputs");
}

// f(q), where q is of a wrapper type with one tensor.
TEST(VerifyMetadata, RefusesWrappersOfOtherInputs) {
  Artifact artifact;
  Method& method = *artifact.add_methods();
  method.set_name("f");
  AddValue(method, 1);
  method.add_inputs(0);
  method.mutable_signature()->add_user_inputs("q");
  serialization::ViewAndMutationMeta& metadata = *method.mutable_metadata();
  metadata.add_input_info();
  serialization::WrapperMeta& wrapper = *metadata.add_input_wrappers()->mutable_wrapper();
  wrapper.set_type_name("Quantized");
  wrapper.set_flat_count(1);
  serialization::WrapperMeta::Attribute& data = *wrapper.add_attributes();
  data.set_name("data");
  data.mutable_plain();
  metadata.mutable_subclass_meta()->mutable_fw_metadata()->add_input_info();
  EXPECT_EQ(RefusalOf(artifact), "");
  method.mutable_signature()->add_user_inputs("p");
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info: 1 entries, but the function has 2 inputs");
  method.clear_signature();
  EXPECT_EQ(RefusalOf(artifact), "metadata.input_info: 1 entries, but the function has 0 inputs");
}

}  // namespace
}  // namespace cotan
