// SPDX-License-Identifier: Apache-2.0

#include "aot/emit/artifact_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using serialization::State;
using ::testing::ElementsAre;

TensorData Floats(std::vector<float> values) {
  TensorData data;
  data.dtype = DType::kFloat32;
  data.sizes = {static_cast<int64_t>(values.size())};
  data.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return data;
}

TracedProgram Program() {
  TracedProgram traced;
  traced.states.push_back({"weight", State::PARAMETER, Floats({1, 2}), true, true, {"tied"}});
  traced.states.push_back({"step.constant.0", State::CONSTANT, Floats({3}), false, false, {}});
  traced.states.push_back({"step.constant.1", State::CONSTANT, Floats({4}), false, false, {}});
  return traced;
}

// Reads the second constant and the generator.
Graph GraphOfProgram() {
  return *ParseGraph(R"(graph @step {
  %0: f32[2] = parameter 0 "weight"
  %1: f32[1] = constant 1 "step.constant.1"
  %2: i64[2] = rng_state 0 "rng"
  user_output 0 "output.0" = %0
}
)");
}

std::vector<std::string> Names(const ArtifactBuilder& builder) {
  std::vector<std::string> names;
  for (const State& state : builder.states()) names.push_back(state.name());
  return names;
}

TEST(ArtifactBuilderTest, KeepsParametersAndWhatTheGraphReads) {
  ArtifactBuilder builder(/*seed=*/5);
  builder.AddTracedStates(Program(), GraphOfProgram());
  EXPECT_THAT(Names(builder), ElementsAre("weight", "step.constant.1", "rng"));
  EXPECT_THAT(builder.states()[0].aliases(), ElementsAre("tied"));
  EXPECT_TRUE(builder.states()[0].requires_grad());
  EXPECT_FALSE(builder.states()[1].persistent());
}

TEST(ArtifactBuilderTest, AddsAStateOnce) {
  ArtifactBuilder builder(/*seed=*/5);
  builder.AddTracedStates(Program(), GraphOfProgram());
  builder.AddTracedStates(Program(), GraphOfProgram());
  State weight;
  weight.set_name("weight");
  State slot;
  slot.set_name("slot");
  builder.AddStates({weight, slot});
  EXPECT_THAT(Names(builder), ElementsAre("weight", "step.constant.1", "rng", "slot"));
}

TEST(ArtifactBuilderTest, WritesContentsAndReferences) {
  ArtifactBuilder builder(/*seed=*/5);
  builder.AddTracedStates(Program(), GraphOfProgram());
  const std::vector<ExpectedState> after = {{"weight", Floats({1, -4}), /*slack=*/0.5}};
  builder.AddReference("step", {Floats({7})}, {Floats({8})}, after, DType::kUndefined);
  auto bytes = std::move(builder).Build("test");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto file = ArtifactFile::Parse(*bytes);
  ASSERT_TRUE(file.ok()) << file.status();

  const serialization::Artifact& artifact = file->artifact();
  EXPECT_EQ(artifact.producer(), "test");
  EXPECT_EQ(file->segment(artifact.states(0).segment()), Floats({1, 2}).bytes);
  const int64_t rng[2] = {5, 0};
  EXPECT_EQ(file->segment(artifact.states(2).segment()),
            absl::string_view(reinterpret_cast<const char*>(rng), sizeof(rng)));

  const serialization::Reference& reference = artifact.references(0);
  EXPECT_EQ(reference.method(), "step");
  EXPECT_EQ(reference.rng_seed(), 5);
  EXPECT_EQ(file->segment(reference.inputs(0).segment()), Floats({7}).bytes);
  EXPECT_EQ(file->segment(reference.outputs(0).segment()), Floats({8}).bytes);
  EXPECT_EQ(reference.states_after(0).state(), "weight");
  // The slack is relative to the largest magnitude, 4.
  EXPECT_NEAR(reference.states_after(0).tensor().tolerance(), 0.125, 1e-3);
  EXPECT_GT(reference.states_after(0).tensor().tolerance(), 0.125);
}

}  // namespace
}  // namespace cotan::aot
