// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/artifact_summary.h"

#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

uint32_t AddValue(serialization::Method& method, int64_t elements) {
  serialization::TensorType& type = *method.add_values()->mutable_type();
  type.set_dtype(serialization::DTYPE_F32);
  type.add_sizes(std::to_string(elements));
  return static_cast<uint32_t>(method.values_size() - 1);
}

TEST(ArtifactSummaryTest, CountsWhatIsSaved) {
  serialization::Method method;
  const uint32_t result = AddValue(method, 1);
  const uint32_t saved = AddValue(method, 7);
  method.add_outputs(result);
  method.add_outputs(saved);
  method.set_num_saved(1);
  EXPECT_EQ(SavedBytes(method), 7 * 4);
}

TEST(ArtifactSummaryTest, CountsTheOpsOfABlockForEachCall) {
  serialization::Artifact artifact;
  serialization::Method& inner = *artifact.add_blocks();
  for (int i = 0; i < 3; ++i) inner.add_ops()->mutable_view();
  serialization::Method& outer = *artifact.add_blocks();
  outer.add_ops()->mutable_view();
  for (int i = 0; i < 2; ++i) outer.add_ops()->mutable_call()->set_block(0);
  serialization::Method& method = *artifact.add_methods();
  method.add_ops()->mutable_call()->set_block(1);
  method.add_ops()->mutable_call()->set_block(0);
  method.add_ops()->mutable_view();
  EXPECT_EQ(NumOps(artifact, method), 7 + 3 + 1);
}

TEST(ArtifactSummaryTest, CountsParameters) {
  serialization::Artifact artifact;
  for (const bool trained : {true, false}) {
    serialization::State& state = *artifact.add_states();
    state.set_role(serialization::State::PARAMETER);
    state.set_requires_grad(trained);
    state.mutable_type()->set_dtype(serialization::DTYPE_F32);
    state.mutable_type()->add_sizes("3");
    state.mutable_type()->add_sizes("4");
  }
  artifact.add_states()->set_role(serialization::State::BUFFER);
  EXPECT_EQ(ParametersOf(artifact).all, 24);
  EXPECT_EQ(ParametersOf(artifact).trained, 12);
}

}  // namespace
}  // namespace cotan::aot
