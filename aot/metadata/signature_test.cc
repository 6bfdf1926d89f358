#include "aot/metadata/signature.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/graph/text.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

TEST(SignatureTest, NamesInputsOutputsMutationsAndGradients) {
  const auto graph = ParseGraph(R"(graph @step {
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
)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  ViewAndMutationFacts facts;
  facts.input_info.resize(5);
  facts.input_info[2].mutates_data = facts.input_info[3].mutates_data = true;
  const serialization::GraphSignature signature = SignatureOf(
      *graph, facts, std::vector<std::string>{"input.0", "view.of.base"}, std::vector<std::string>{"loss", "view"});
  EXPECT_THAT(signature.parameters(), ElementsAre("weight", "unused"));
  EXPECT_THAT(signature.buffers(), ElementsAre("mean"));
  EXPECT_THAT(signature.user_inputs(), ElementsAre("input.0", "view.of.base"));
  EXPECT_THAT(signature.user_outputs(), ElementsAre("loss", "view"));
  ASSERT_EQ(signature.buffers_to_mutate_size(), 1);
  EXPECT_EQ(signature.buffers_to_mutate(0).target(), "mean");
  ASSERT_EQ(signature.user_inputs_to_mutate_size(), 1);
  EXPECT_EQ(signature.user_inputs_to_mutate(0).target(), "input.0");
  ASSERT_EQ(signature.gradients_to_parameters_size(), 1);
  EXPECT_EQ(signature.gradients_to_parameters(0).target(), "weight");
  ASSERT_EQ(signature.gradients_to_user_inputs_size(), 1);
  EXPECT_EQ(signature.gradients_to_user_inputs(0).output(), "gradient.input.0");
}

}  // namespace
}  // namespace cotan::aot
