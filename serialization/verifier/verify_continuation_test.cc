// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_continuation.h"

#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialization/verifier/artifact_verifier.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::ContinuedInput;
using serialization::Method;
using ::testing::HasSubstr;

uint32_t AddValue(serialization::DTypeProto dtype, const std::vector<std::string>& sizes, Method& method) {
  serialization::TensorType& type = *method.add_values()->mutable_type();
  type.set_dtype(dtype);
  for (const std::string& size : sizes) type.add_sizes(size);
  return static_cast<uint32_t>(method.values_size() - 1);
}

void Give(uint32_t index, bool from_inputs, uint32_t count, Method& method) {
  ContinuedInput& input = *method.mutable_continuation()->add_inputs();
  input.set_index(index);
  input.set_from_inputs(from_inputs);
  input.set_count(count);
}

// "step" takes f32[8], and i64[s0] that "step.sizes" cuts from i64[5].
Artifact ValidArtifact() {
  Artifact artifact;
  serialization::SymbolProto& symbol = *artifact.add_symbols();
  symbol.set_name("nonzero");
  symbol.set_min(0);
  symbol.set_max(5);
  Method& step = *artifact.add_methods();
  step.set_name("step");
  step.add_inputs(AddValue(serialization::DTYPE_F32, {"8"}, step));
  step.add_inputs(AddValue(serialization::DTYPE_I64, {"s0"}, step));
  step.add_outputs(1);
  Method& sizes = *artifact.add_methods();
  sizes.set_name("step.sizes");
  sizes.add_inputs(AddValue(serialization::DTYPE_F32, {"8"}, sizes));
  for (const auto& type : {std::vector<std::string>{"5"}, std::vector<std::string>{}}) {
    serialization::Op& op = *sizes.add_ops();
    op.add_outputs(AddValue(serialization::DTYPE_I64, type, sizes));
    op.mutable_copy();
    sizes.add_outputs(op.outputs(0));
  }
  sizes.mutable_continuation()->set_method("step");
  Give(0, /*from_inputs=*/true, 0, sizes);
  Give(0, /*from_inputs=*/false, 2, sizes);
  return artifact;
}

TEST(VerifyContinuationTest, AcceptsAChain) {
  const absl::Status status = VerifyArtifact(ValidArtifact());
  EXPECT_TRUE(status.ok()) << status;
}

struct Damage {
  std::string expected;
  std::function<void(Method& step, Method& sizes)> damage;
};

TEST(VerifyContinuationTest, RefusesWhatASizingMethodMayNotHave) {
  const std::vector<Damage> cases = {
      {"there is no method 'other'", [](Method&, Method& sizes) { sizes.mutable_continuation()->set_method("other"); }},
      {"the method continues itself",
       [](Method&, Method& sizes) { sizes.mutable_continuation()->set_method("step.sizes"); }},
      {"comes before the method", [](Method& step, Method&) { step.mutable_continuation()->set_method("step.sizes"); }},
      {"1 inputs for 'step', which has 2",
       [](Method&, Method& sizes) { sizes.mutable_continuation()->mutable_inputs()->RemoveLast(); }},
      {"is output 2 of 2",
       [](Method&, Method& sizes) { sizes.mutable_continuation()->mutable_inputs(1)->set_index(2); }},
      {"count 2 of 2 outputs",
       [](Method&, Method& sizes) { sizes.mutable_continuation()->mutable_inputs(1)->set_count(3); }},
      {"a count is i64[5], expected i64[]",
       [](Method&, Method& sizes) { sizes.mutable_continuation()->mutable_inputs(1)->set_count(1); }},
      {"expected a symbol", [](Method& step, Method&) { step.mutable_values(1)->mutable_type()->set_sizes(0, "4"); }},
      {"is cut to f32[s0]",
       [](Method& step, Method&) { step.mutable_values(1)->mutable_type()->set_dtype(serialization::DTYPE_F32); }},
      {"it is given i64[5]",
       [](Method&, Method& sizes) { sizes.mutable_continuation()->mutable_inputs(1)->clear_count(); }},
      {"input 0 is not argument 0",
       [](Method&, Method& sizes) { sizes.mutable_continuation()->mutable_inputs(0)->set_from_inputs(false); }},
      {"has a backward", [](Method&, Method& sizes) { sizes.mutable_metadata()->set_is_train(true); }},
      {"has 'step' as its backward", [](Method&, Method& sizes) { sizes.set_backward_method("step"); }},
  };
  for (const Damage& c : cases) {
    Artifact artifact = ValidArtifact();
    c.damage(*artifact.mutable_methods(0), *artifact.mutable_methods(1));
    const absl::Status status = VerifyContinuation(artifact, artifact.methods(1));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.expected << ": " << status;
    EXPECT_FALSE(VerifyArtifact(artifact).ok()) << c.expected;
    if (c.expected != "has 'step' as its backward") EXPECT_THAT(status.message(), HasSubstr(c.expected));
  }
}

TEST(VerifyContinuationTest, RefusesTwoMethodsThatGoOnInOne) {
  Artifact artifact = ValidArtifact();
  *artifact.add_methods() = artifact.methods(1);
  artifact.mutable_methods(2)->set_name("step.other");
  EXPECT_THAT(VerifyArtifact(artifact).message(), HasSubstr("are continued by 'step'"));
}

}  // namespace
}  // namespace cotan
