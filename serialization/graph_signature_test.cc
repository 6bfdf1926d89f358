#include "serialization/graph_signature.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

// Two parameters, a buffer that the function mutates, two user inputs; the
// function returns a detached value and the loss. One effect token.
ViewAndMutationFacts Facts() {
  ViewAndMutationFacts facts;
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
  names.graph_inputs = {"token", "primals_1", "primals_2", "primals_3", "primals_4", "primals_5"};
  names.graph_outputs = {"token_1", "add", "detach", "sum_1", "mm_1", "view_2"};
  names.parameters = {"fc.weight", "fc.bias"};
  names.buffers = {"bn.running_mean"};
  names.num_user_inputs = 2;
  names.num_user_outputs = 2;
  names.in_spec = TreeSpec::FlatTuple(2);
  names.out_spec = TreeSpec::FlatTuple(2);
  names.trace_joint = true;
  names.loss_index = 1;
  names.backward_signature = BackwardSignature{{{"mm_1", "fc.weight"}, {"view_2", "fc.bias"}}, {}, ""};
  return names;
}

absl::StatusOr<GraphSignature> Build(const TracedNames& names, const ViewAndMutationFacts& facts) {
  return GraphSignature::FromTracingMetadata(names, *ViewAndMutationMeta::Create(facts));
}

std::string RefusalOf(const TracedNames& names, const ViewAndMutationFacts& facts) {
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

TEST(GraphSignature, LossIsAmongTheUserOutputsHoweverManyMutationsComeFirst) {
  EXPECT_EQ(Build(Names(), Facts())->backward_signature->loss_output, "sum_1");
  TracedNames names = Names();
  names.backward_signature->loss_output = "detach";
  EXPECT_EQ(RefusalOf(names, Facts()), "backward_signature.loss_output: \"detach\", but user output 1 is \"sum_1\"");
}

TEST(GraphSignature, MutatedUserInputsAndParametersAreToldApart) {
  ViewAndMutationFacts facts = Facts();
  facts.input_info[1].mutates_data = true;
  facts.input_info[4].mutates_data = true;
  TracedNames names = Names();
  names.trace_joint = false;
  names.loss_index.reset();
  names.backward_signature.reset();
  names.graph_outputs = {"token_1", "bias_1", "add", "input_1", "detach", "sum_1"};
  absl::StatusOr<GraphSignature> signature = Build(names, facts);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->parameters_to_mutate, (std::vector<NamedTarget>{{"bias_1", "fc.bias"}}));
  EXPECT_EQ(signature->buffers_to_mutate, (std::vector<NamedTarget>{{"add", "bn.running_mean"}}));
  EXPECT_EQ(signature->user_inputs_to_mutate, (std::vector<NamedTarget>{{"input_1", "primals_5"}}));
}

TEST(GraphSignature, OneOutputMayReplaceTwoBuffers) {
  TracedNames names = Names();
  names.buffers = {"a", "b"};
  names.num_user_inputs = 1;
  names.in_spec = TreeSpec::FlatTuple(1);
  names.graph_outputs.insert(names.graph_outputs.begin() + 1, "add");
  ViewAndMutationFacts facts = Facts();
  facts.input_info[3].mutates_data = true;
  absl::StatusOr<GraphSignature> signature = Build(names, facts);
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->buffers_to_mutate, (std::vector<NamedTarget>{{"add", "a"}, {"add", "b"}}));
}

TEST(GraphSignature, RefusesMutatedParametersOfAJointGraph) {
  ViewAndMutationFacts facts = Facts();
  facts.input_info[0].mutates_data = true;
  TracedNames names = Names();
  names.graph_outputs.insert(names.graph_outputs.begin() + 1, "mul");
  EXPECT_EQ(RefusalOf(names, facts),
            "input_info[0]: the parameter \"fc.weight\" is mutated, but with a backward only "
            "buffers and user inputs may be");
}

TEST(GraphSignature, RefusesNamesThatAreTooFewOrTooMany) {
  TracedNames names = Names();
  names.graph_inputs.pop_back();
  EXPECT_EQ(RefusalOf(names, Facts()), "graph_inputs: 5 names, which leaves 1 for 2 user inputs");
  names.graph_inputs = {"token", "a", "b", "c", "d", "e", "f"};
  EXPECT_EQ(RefusalOf(names, Facts()),
            "graph_inputs: 1 names are left after tokens, parameters, buffers and user inputs, the "
            "first of them \"f\"");
  names = Names();
  names.graph_outputs = {"token_1", "add", "detach"};
  EXPECT_EQ(RefusalOf(names, Facts()), "graph_outputs: 3 names, which leaves 1 for 2 user outputs");
  names = Names();
  names.graph_outputs.push_back("more");
  EXPECT_EQ(RefusalOf(names, Facts()),
            "graph_outputs: 3 names are left after tokens, written-back inputs and user outputs, "
            "but there are 2 gradients");
}

TEST(GraphSignature, RefusesAnalysesOfOtherFunctions) {
  TracedNames names = Names();
  names.buffers.push_back("bn.running_var");
  names.graph_inputs.push_back("primals_6");
  EXPECT_EQ(RefusalOf(names, Facts()), "input_info: 5 entries, but the function has 6 inputs");
}

TEST(GraphSignature, RefusesMutationsThatAreNotReturned) {
  ViewAndMutationFacts facts = Facts();
  facts.keep_input_mutations = true;
  for (InputAliasInfo& info : facts.input_info) info.keep_input_mutations = true;
  facts.input_info[2].mutations_hidden_from_autograd = false;
  TracedNames names = Names();
  names.graph_outputs.erase(names.graph_outputs.begin() + 1);
  EXPECT_EQ(RefusalOf(names, facts),
            "input_info[2]: a graph with a signature returns the new content of inputs, and of "
            "nothing but content; input \"bn.running_mean\": mutates data, written by the program");
  facts = Facts();
  facts.input_info[3].mutates_metadata = true;
  EXPECT_EQ(RefusalOf(Names(), facts),
            "input_info[3]: a graph with a signature returns the new content of inputs, and of "
            "nothing but content; input \"primals_4\": mutates metadata, hidden from autograd, "
            "written back by the runtime");
}

TEST(GraphSignature, RefusesLossesThatAreNoUserOutput) {
  TracedNames names = Names();
  names.loss_index = 2;
  EXPECT_EQ(RefusalOf(names, Facts()), "loss_index: 2 is no index into the 2 user outputs");
  names.backward_signature.reset();
  EXPECT_EQ(RefusalOf(names, Facts()), "loss_index: must not be set without a backward signature");
}

TEST(GraphSignature, RefusesGradientsThatTheGraphDoesNotReturn) {
  TracedNames names = Names();
  names.backward_signature->gradients_to_parameters[1].name = "detach";
  EXPECT_EQ(RefusalOf(names, Facts()),
            "backward_signature: the gradient \"detach\" of \"fc.bias\" is none of the graph's last "
            "outputs");
}

TEST(GraphSignature, RefusesTargetsThatAreNotThere) {
  GraphSignature signature = *Build(Names(), Facts());
  signature.buffers_to_mutate[0].target = "fc.weight";
  EXPECT_EQ(RefusalOf(signature), "buffers_to_mutate[0]: \"fc.weight\" is no buffer");
  signature = *Build(Names(), Facts());
  signature.backward_signature->gradients_to_parameters[1].target = "fc.weight";
  EXPECT_EQ(RefusalOf(signature), "gradients_to_parameters[1]: \"fc.weight\" occurs twice");
  signature = *Build(Names(), Facts());
  signature.backward_signature->gradients_to_user_inputs = {{"g", "fc.bias"}};
  EXPECT_EQ(RefusalOf(signature), "gradients_to_user_inputs[0]: \"fc.bias\" is no user input");
  signature = *Build(Names(), Facts());
  signature.backward_signature->loss_output = "add";
  EXPECT_EQ(RefusalOf(signature), "loss_output: \"add\" is no user output");
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
  EXPECT_EQ(RefusalOf(signature), "inputs_to_parameters[0]: \"fc.bias\" stands where \"fc.weight\" belongs");
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
