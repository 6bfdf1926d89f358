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

void AddOp(serialization::Method& method, uint32_t input, uint32_t output) {
  serialization::Op& op = *method.add_ops();
  op.add_inputs(input);
  op.add_outputs(output);
  op.mutable_expr();
}

TEST(ArtifactSummaryTest, CountsWhatIsAliveAtOnce) {
  serialization::Method method;
  const uint32_t input = AddValue(method, 1000);
  const uint32_t a = AddValue(method, 10);
  const uint32_t b = AddValue(method, 20);
  const uint32_t c = AddValue(method, 5);
  AddOp(method, input, a);
  AddOp(method, a, b);  // 10 and 20 elements
  AddOp(method, b, c);  // 20 and 5
  method.add_outputs(c);
  EXPECT_EQ(BytesOf(method).peak, 30 * 4);
  EXPECT_EQ(BytesOf(method).saved, 0);
}

TEST(ArtifactSummaryTest, CountsWhatIsSaved) {
  serialization::Method method;
  const uint32_t result = AddValue(method, 1);
  const uint32_t saved = AddValue(method, 7);
  method.add_outputs(result);
  method.add_outputs(saved);
  method.set_num_saved(1);
  EXPECT_EQ(BytesOf(method).saved, 7 * 4);
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

TEST(ArtifactSummaryTest, WritesBytesForPeople) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(3 * 1024 * 1024), "3.0 MiB");
}

}  // namespace
}  // namespace cotan::aot
