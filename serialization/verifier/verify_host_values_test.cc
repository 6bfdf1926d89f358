// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_host_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "serialization/verifier/artifact_verifier.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using ::testing::HasSubstr;

void AddValues(int count, Method& method) {
  for (int i = 0; i < count; ++i) {
    serialization::TensorType& type = *method.add_values()->mutable_type();
    type.set_dtype(serialization::DTYPE_F32);
    type.add_sizes("4");
  }
}

Op& AddCopy(uint32_t from, uint32_t to, Method& method) {
  Op& op = *method.add_ops();
  op.add_inputs(from);
  op.add_outputs(to);
  op.mutable_copy();
  return op;
}

// forward(x: %0) -> %3, saves %1 on the host; inside, x goes to the host and back as %2 and %3. backward(%0 on the
// host, tangent %1) copies the former to %2 and returns it; its value %3 is unused. There is a state w f32[4].
Artifact Offloaded() {
  Artifact artifact;
  serialization::State& state = *artifact.add_states();
  state.set_name("w");
  state.set_role(serialization::State::PARAMETER);
  state.mutable_type()->set_dtype(serialization::DTYPE_F32);
  state.mutable_type()->add_sizes("4");
  state.set_fill(0);
  Method& forward = *artifact.add_methods();
  forward.set_name("forward");
  forward.set_backward_method("backward");
  AddValues(4, forward);
  forward.add_inputs(0);
  AddCopy(0, 1, forward);
  AddCopy(0, 2, forward);
  AddCopy(2, 3, forward);
  for (const int value : {1, 2}) forward.mutable_values(value)->set_on_host(true);
  forward.add_outputs(3);
  forward.add_outputs(1);
  forward.set_num_saved(1);
  Method& backward = *artifact.add_methods();
  backward.set_name("backward");
  AddValues(4, backward);
  backward.mutable_values(0)->set_on_host(true);
  backward.add_inputs(0);
  backward.add_inputs(1);
  AddCopy(0, 2, backward);
  backward.add_outputs(2);
  return artifact;
}

Method& Forward(Artifact& artifact) { return *artifact.mutable_methods(0); }
Method& Backward(Artifact& artifact) { return *artifact.mutable_methods(1); }

TEST(VerifyHostValuesTest, CopiesToAndFromTheHostAndSavedValuesAreAccepted) {
  const absl::Status status = VerifyArtifact(Offloaded());
  EXPECT_TRUE(status.ok()) << status;
}

struct Fault {
  std::string message;  // part of it
  std::function<void(Artifact&)> make;
};

const std::vector<Fault>& Faults() {
  static const auto& faults = *new std::vector<Fault>{
      {"op 2 (concat) reads a value on the host", [](Artifact& a) { Forward(a).mutable_ops(2)->mutable_concat(); }},
      {"op 0 (concat) writes a value on the host", [](Artifact& a) { Forward(a).mutable_ops(0)->mutable_concat(); }},
      {"op 0 (view) writes a value on the host", [](Artifact& a) { Forward(a).mutable_ops(0)->mutable_view(); }},
      {"op 2 (copy) writes a value on the host, and reads another one",
       [](Artifact& a) {
         Forward(a).mutable_values(3)->set_on_host(true);
         Forward(a).set_outputs(0, 0);
       }},
      {"op 2 (copy) reads a value on the host", [](Artifact& a) { Forward(a).mutable_ops(2)->add_inputs(0); }},
      {"input 0 is on the host",
       [](Artifact& a) {
         Forward(a).mutable_values(0)->set_on_host(true);
         for (const int value : {1, 2}) Forward(a).mutable_values(value)->set_on_host(false);
       }},
      {"input 1 is on the host", [](Artifact& a) { Backward(a).mutable_values(1)->set_on_host(true); }},
      {"the value of state 0 is on the host",
       [](Artifact& a) {
         Backward(a).mutable_values(3)->set_on_host(true);
         Backward(a).add_state_reads()->set_value(3);
       }},
      {"the new content of state 0 is on the host", [](Artifact& a) { Forward(a).add_state_updates()->set_value(2); }},
      {"input 0 or its new content is on the host", [](Artifact& a) { Forward(a).add_input_updates()->set_value(2); }},
      {"input 0 or its new content is on the host", [](Artifact& a) { Backward(a).add_input_updates()->set_value(1); }},
      {"result 0 is on the host", [](Artifact& a) { Forward(a).set_outputs(0, 2); }},
      {"result 0 is on the host", [](Artifact& a) { Backward(a).set_outputs(0, 0); }},
      {"value 1 on the host is saved twice",
       [](Artifact& a) {
         Forward(a).add_outputs(1);
         Forward(a).set_num_saved(2);
         Backward(a).mutable_values(1)->set_on_host(true);
       }},
      {"a linked method has a value on the host", [](Artifact& a) { Backward(a).mutable_linked(); }},
      {"saved value 0 is on the host, 'backward' takes it on the other",
       [](Artifact& a) { Backward(a).mutable_values(0)->set_on_host(false); }},
      {"saved value 0 is on the device, 'backward' takes it on the other",
       [](Artifact& a) { Forward(a).mutable_values(1)->set_on_host(false); }},
  };
  return faults;
}

TEST(VerifyHostValuesTest, EachWrongUseOfAValueOnTheHostIsNamed) {
  for (const Fault& fault : Faults()) {
    Artifact artifact = Offloaded();
    fault.make(artifact);
    const absl::Status status = VerifyArtifact(artifact);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << fault.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(fault.message));
  }
}

// The methods of an artifact are checked in order: the forward after the backward has a damaged number of saved values.
TEST(VerifyHostValuesTest, ADamagedForwardThatComesLaterIsRefused) {
  Artifact artifact = Offloaded();
  artifact.mutable_methods()->SwapElements(0, 1);
  artifact.mutable_methods(1)->set_num_saved(0xffffffffu);
  EXPECT_EQ(VerifyArtifact(artifact).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan
