// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

constexpr char kStep[] = R"(graph @step {
  %0: f32[2] = parameter 0 "weight"
  %1: f32[2] = parameter 1 "unused"
  %2: f32[2] = buffer 0 "mean"
  %3: f32[2] = user_input 0 "input.0"
  %4: f32[2] = tangent 0 "tangent.loss"
  mutated_input 2 "mean" = %3
  input_update 3 "input.0" = %0
  user_output 0 "loss" = %3
  gradient 0 "weight" = %4
  gradient 1 "unused" = none
  gradient 3 "input.0" = %4
}
)";

ViewAndMutationMetaFields StepFacts() {
  ViewAndMutationMetaFields facts;
  facts.input_info.resize(4);
  for (const size_t i : {0, 1, 3}) facts.input_info[i].requires_grad = true;
  facts.input_info[2].mutates_data = facts.input_info[3].mutates_data = true;
  facts.output_info.resize(2);
  return facts;
}

CallingConvention StepCall() {
  return {.user_inputs = {"input.0"}, .user_outputs = {"loss", "view"}, .graph_inputs = {0, 1, 2, 3}, .loss_output = 0};
}

absl::StatusOr<GraphSignature> Signature(const char* text, const ViewAndMutationMetaFields& facts,
                                         const CallingConvention& call) {
  const auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  const auto metadata = ViewAndMutationMeta::Create(facts);
  EXPECT_TRUE(metadata.ok()) << metadata.status();
  return SignatureOf(*graph, *metadata, call);
}

TEST(SignatureTest, NamesInputsOutputsMutationsAndGradients) {
  const auto signature = Signature(kStep, StepFacts(), StepCall());
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_EQ(signature->ToString(), R"(parameters: "weight", "unused"
buffers: "mean"
inputs: "input.0" as (*)
outputs: "loss", "view" as (*, *)
"mutated.mean" becomes buffer "mean"
"mutated.input.0" becomes input "input.0"
loss: "loss"
"gradient.weight" is the gradient of parameter "weight"
"gradient.input.0" is the gradient of input "input.0"
)");
  EXPECT_THAT(signature->inputs_to_parameters,
              ElementsAre(NamedTarget{"parameter.weight", "weight"}, NamedTarget{"parameter.unused", "unused"}));
  EXPECT_THAT(signature->inputs_to_buffers, ElementsAre(NamedTarget{"buffer.mean", "mean"}));
}

// Both user inputs are views of one base; only the second is written.
TEST(SignatureTest, OfViewsOfABaseThoseThatAreMutatedHaveNewContent) {
  ViewAndMutationMetaFields facts;
  facts.input_info.resize(2);
  facts.input_info[1].mutates_data = facts.input_info[1].requires_grad = true;
  const auto signature = Signature(R"(graph @forward {
  %0: f32[4] = user_input 0 "base.0"
  mutated_input 0 "base.0" = %0
  gradient 0 "base.0" = %0
}
)",
                                   facts, {.user_inputs = {"input.0", "input.1"}, .graph_inputs = {0, 0}});
  ASSERT_TRUE(signature.ok()) << signature.status();
  EXPECT_THAT(signature->user_inputs_to_mutate, ElementsAre(NamedTarget{"mutated.input.1", "input.1"}));
  EXPECT_EQ(signature->backward_signature, std::nullopt) << "the gradient is that of the base";
}

TEST(SignatureTest, GraphThatContradictsTheAnalysisIsInvalidArgument) {
  ViewAndMutationMetaFields facts = StepFacts();
  facts.input_info[0].mutates_data = true;
  EXPECT_THAT(std::string(Signature(kStep, facts, StepCall()).status().message()),
              ::testing::StartsWith("input_info[0]: the graph returns no new content of input \"weight\""));
  facts = StepFacts();
  facts.input_info[3].mutates_data = false;
  EXPECT_THAT(std::string(Signature(kStep, facts, StepCall()).status().message()),
              ::testing::StartsWith("input_info[3]: the graph returns a new content of input \"input.0\""));
  CallingConvention call = StepCall();
  call.out_spec = TreeSpec::FlatTuple(3);
  EXPECT_EQ(Signature(kStep, StepFacts(), call).status().message(), "out_spec: 3 leaves for 2 names");
}

}  // namespace
}  // namespace cotan::aot
