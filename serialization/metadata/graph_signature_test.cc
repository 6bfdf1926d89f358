// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/graph_signature.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

// Two parameters, a buffer that the function mutates, two user inputs; the
// function returns a detached value and the loss. One effect token.
ViewAndMutationMetaFields Facts() {
  ViewAndMutationMetaFields facts;
  facts.is_train = true;
  facts.input_info.resize(5);
  facts.input_info[0].requires_grad = facts.input_info[1].requires_grad = true;
  facts.input_info[2].mutates_data = true;
  facts.output_info.resize(2);
  facts.output_info[1].requires_grad = facts.output_info[1].requires_grad_for_backward = true;
  facts.tokens = {"ordered"};
  return facts;
}

TracedNames Names() {
  TracedNames names;
  names.parameters = {{"primals_1", "fc.weight"}, {"primals_2", "fc.bias"}};
  names.buffers = {{"primals_3", "bn.running_mean"}};
  names.user_inputs = {"primals_4", "primals_5"};
  names.user_outputs = {"detach", "sum_1"};
  names.new_contents = {{"add", 2}};
  names.gradients = {{"mm_1", 0}, {"view_2", 1}};
  names.input_tokens = {"token"};
  names.output_tokens = {"token_1"};
  names.in_spec = TreeSpec::FlatTuple(2);
  names.out_spec = TreeSpec::FlatTuple(2);
  names.loss_index = 1;
  return names;
}

absl::StatusOr<GraphSignature> Build(const TracedNames& names, const ViewAndMutationMetaFields& facts) {
  return GraphSignature::FromTracingMetadata(names, *ViewAndMutationMeta::Create(facts));
}

std::string RefusalOf(const TracedNames& names, const ViewAndMutationMetaFields& facts) {
  const absl::Status status = Build(names, facts).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string RefusalOf(const GraphSignature& signature) { return std::string(signature.Validate().message()); }

TEST(GraphSignature, NamesFollowTheCallingConvention) {
  absl::StatusOr<GraphSignature> signature = Build(Names(), Facts());
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->input_tokens, (std::vector<std::string>{"token"}));
  EXPECT_EQ(signature->inputs_to_parameters,
            (std::vector<NamedTarget>{{"primals_1", "fc.weight"}, {"primals_2", "fc.bias"}}));
  EXPECT_EQ(signature->inputs_to_buffers, (std::vector<NamedTarget>{{"primals_3", "bn.running_mean"}}));
  EXPECT_EQ(signature->user_inputs, (std::vector<std::string>{"primals_4", "primals_5"}));
  EXPECT_EQ(signature->output_tokens, (std::vector<std::string>{"token_1"}));
  EXPECT_EQ(signature->buffers_to_mutate, (std::vector<NamedTarget>{{"add", "bn.running_mean"}}));
  EXPECT_TRUE(signature->user_inputs_to_mutate.empty());
  EXPECT_EQ(signature->user_outputs, (std::vector<std::string>{"detach", "sum_1"}));
}

TEST(GraphSignature, GradientsAreOfParametersOrUserInputs) {
  ViewAndMutationMetaFields facts = Facts();
  facts.input_info[4].requires_grad = true;
  TracedNames names = Names();
  names.gradients.push_back({"mul_3", 4});
  const absl::StatusOr<GraphSignature> signature = Build(names, facts);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->backward_signature->loss_output, "sum_1");
  EXPECT_EQ(signature->backward_signature->gradients_to_parameters,
            (std::vector<NamedTarget>{{"mm_1", "fc.weight"}, {"view_2", "fc.bias"}}));
  EXPECT_EQ(signature->backward_signature->gradients_to_user_inputs,
            (std::vector<NamedTarget>{{"mul_3", "primals_5"}}));
}

TEST(GraphSignature, WithoutLossAndGradientsThereIsNoBackward) {
  TracedNames names = Names();
  names.loss_index.reset();
  names.gradients.clear();
  EXPECT_EQ(Build(names, Facts())->backward_signature, std::nullopt);
}

TEST(GraphSignature, MutationsAreOfParametersBuffersOrUserInputs) {
  ViewAndMutationMetaFields facts = Facts();
  facts.input_info[1].mutates_data = true;
  facts.input_info[4].mutates_data = true;
  TracedNames names = Names();
  names.new_contents = {{"bias_1", 1}, {"add", 2}, {"input_1", 4}};
  absl::StatusOr<GraphSignature> signature = Build(names, facts);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->parameters_to_mutate, (std::vector<NamedTarget>{{"bias_1", "fc.bias"}}));
  EXPECT_EQ(signature->buffers_to_mutate, (std::vector<NamedTarget>{{"add", "bn.running_mean"}}));
  EXPECT_EQ(signature->user_inputs_to_mutate, (std::vector<NamedTarget>{{"input_1", "primals_5"}}));
}

TEST(GraphSignature, OneOutputMayReplaceTwoBuffers) {
  TracedNames names = Names();
  names.buffers = {{"primals_3", "a"}, {"primals_4", "b"}};
  names.user_inputs = {"primals_5"};
  names.in_spec = TreeSpec::FlatTuple(1);
  names.new_contents = {{"add", 2}, {"add", 3}};
  ViewAndMutationMetaFields facts = Facts();
  facts.input_info[3].mutates_data = true;
  absl::StatusOr<GraphSignature> signature = Build(names, facts);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->buffers_to_mutate, (std::vector<NamedTarget>{{"add", "a"}, {"add", "b"}}));
}

TEST(GraphSignature, RefusesAnalysesOfOtherFunctions) {
  TracedNames names = Names();
  names.buffers.push_back({"primals_6", "bn.running_var"});
  EXPECT_EQ(RefusalOf(names, Facts()), "input_info: 5 entries, but the function has 6 inputs");
  names = Names();
  names.user_outputs.pop_back();
  EXPECT_EQ(RefusalOf(names, Facts()), "output_info: 2 entries, but the function has 1 outputs");
  names = Names();
  names.input_tokens.clear();
  EXPECT_EQ(RefusalOf(names, Facts()), "input_tokens: 0 names for 1 effect tokens");
  names = Names();
  names.output_tokens.push_back("token_2");
  EXPECT_EQ(RefusalOf(names, Facts()), "output_tokens: 2 names for 1 effect tokens");
}

TEST(GraphSignature, RefusesMutationsThatAreNotReturned) {
  TracedNames names = Names();
  names.new_contents.clear();
  EXPECT_EQ(RefusalOf(names, Facts()),
            "input_info[2]: the graph returns no new content of input \"bn.running_mean\", but the analysis says: "
            "mutates data, hidden from autograd, written back by the runtime");
  names.new_contents = {{"add", 2}, {"mul", 3}};
  EXPECT_EQ(
      RefusalOf(names, Facts()),
      "input_info[3]: the graph returns a new content of input \"primals_4\", but the analysis says: not mutated");
  names.new_contents = {{"add", 2}, {"mul", 2}};
  EXPECT_EQ(RefusalOf(names, Facts()), "new_contents[1]: input \"bn.running_mean\" occurs twice");
  names.new_contents = {{"add", 5}};
  EXPECT_EQ(RefusalOf(names, Facts()), "new_contents[0].input: 5 is out of range: there are 5 inputs");
}

TEST(GraphSignature, RefusesLossesThatAreNoUserOutput) {
  TracedNames names = Names();
  names.loss_index = 2;
  EXPECT_EQ(RefusalOf(names, Facts()), "loss_index: 2 is out of range: there are 2 user outputs");
}

TEST(GraphSignature, RefusesGradientsOfWhatRequiresNone) {
  TracedNames names = Names();
  names.gradients[1].input = 3;
  EXPECT_EQ(RefusalOf(names, Facts()), "gradients[1]: input \"primals_4\" does not require grad");
  names.gradients[1].input = -1;
  EXPECT_EQ(RefusalOf(names, Facts()), "gradients[1].input: -1 is out of range: there are 5 inputs");
  names.gradients[1].input = 0;
  EXPECT_EQ(RefusalOf(names, Facts()), "gradients_to_parameters[1]: \"fc.weight\" occurs twice");
}

TEST(GraphSignature, RefusesTargetsThatAreNotThere) {
  GraphSignature signature = *Build(Names(), Facts());
  signature.buffers_to_mutate[0].target = "fc.weight";
  EXPECT_EQ(RefusalOf(signature), "buffers_to_mutate[0]: \"fc.weight\" is not a buffer");
  signature = *Build(Names(), Facts());
  signature.backward_signature->gradients_to_parameters[1].target = "fc.weight";
  EXPECT_EQ(RefusalOf(signature), "gradients_to_parameters[1]: \"fc.weight\" occurs twice");
  signature = *Build(Names(), Facts());
  signature.backward_signature->gradients_to_user_inputs = {{"g", "fc.bias"}};
  EXPECT_EQ(RefusalOf(signature), "gradients_to_user_inputs[0]: \"fc.bias\" is not a user input");
  signature = *Build(Names(), Facts());
  signature.backward_signature->loss_output = "add";
  EXPECT_EQ(RefusalOf(signature), "loss_output: \"add\" is not a user output");
  signature.backward_signature.emplace();
  EXPECT_EQ(RefusalOf(signature), "backward_signature: names neither a loss nor a gradient");
}

TEST(GraphSignature, RefusesNamesThatOccurTwice) {
  GraphSignature signature = *Build(Names(), Facts());
  signature.buffers[0] = "fc.bias";
  EXPECT_EQ(RefusalOf(signature), "buffers[0]: \"fc.bias\" occurs twice");
  signature = *Build(Names(), Facts());
  signature.user_inputs[1] = "primals_1";
  EXPECT_EQ(RefusalOf(signature), "user_inputs[1]: \"primals_1\" occurs twice");
}

TEST(GraphSignature, RefusesBindingsInAnotherOrder) {
  GraphSignature signature = *Build(Names(), Facts());
  std::swap(signature.inputs_to_parameters[0], signature.inputs_to_parameters[1]);
  EXPECT_EQ(RefusalOf(signature), "inputs_to_parameters[0]: \"fc.bias\", but expected \"fc.weight\"");
  signature.inputs_to_parameters.pop_back();
  EXPECT_EQ(RefusalOf(signature), "inputs_to_parameters: 1 entries for 2 names");
}

TEST(GraphSignature, RefusesTreesWithOtherLeaves) {
  GraphSignature signature = *Build(Names(), Facts());
  signature.in_spec = TreeSpec::FlatTuple(3);
  EXPECT_EQ(RefusalOf(signature), "in_spec: 3 leaves for 2 names");
}

TEST(GraphSignature, RoundTrips) {
  GraphSignature signature = *Build(Names(), Facts());
  signature.user_inputs_to_mutate = {{"add_2", "primals_4"}};
  signature.parameters_to_mutate = {{"add_3", "fc.weight"}};
  signature.backward_signature->gradients_to_user_inputs = {{"g", "primals_5"}};
  absl::StatusOr<GraphSignature> again = GraphSignature::FromProto(signature.ToProto());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, signature);
  EXPECT_EQ(*GraphSignature::FromProto(GraphSignature().ToProto()), GraphSignature());
}

TEST(GraphSignature, TextShowsWhatEachNameStandsFor) {
  EXPECT_EQ(Build(Names(), Facts())->ToString("  "),
            R"(  effect tokens: "token"
  parameters: "fc.weight", "fc.bias"
  buffers: "bn.running_mean"
  inputs: "primals_4", "primals_5" as (*, *)
  outputs: "detach", "sum_1" as (*, *)
  "add" becomes buffer "bn.running_mean"
  loss: "sum_1"
  "mm_1" is the gradient of parameter "fc.weight"
  "view_2" is the gradient of parameter "fc.bias"
)");
}

}  // namespace
}  // namespace cotan
