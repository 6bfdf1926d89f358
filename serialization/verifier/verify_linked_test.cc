// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_linked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace cotan {
namespace {

using ::testing::HasSubstr;

// A method of a gradient f32[s0] and a list i64[s0].
serialization::Artifact Linked() {
  serialization::Artifact artifact;
  artifact.add_symbols()->set_name("size.0");
  serialization::Method& method = *artifact.add_methods();
  for (const auto dtype : {serialization::DTYPE_F32, serialization::DTYPE_I64}) {
    serialization::TensorType& type = *method.add_values()->mutable_type();
    type.set_dtype(dtype);
    type.add_sizes("s0");
  }
  method.add_inputs(0);
  method.add_inputs(1);
  serialization::LinkedBackward& linked = *method.mutable_linked();
  linked.add_key(7);
  linked.add_sizes("s0");
  linked.add_sizes("3");
  linked.set_num_symbols(1);
  linked.add_inputs(1);
  linked.add_inputs(0);
  serialization::IndexInput& index = *linked.add_index_inputs();
  index.set_input(1);
  index.mutable_place()->add_sizes("s0");
  index.mutable_place()->add_strides("2");
  index.mutable_place()->set_offset("0");
  return artifact;
}

std::string Refusal(const std::function<void(serialization::Method&)>& change) {
  serialization::Artifact artifact = Linked();
  change(*artifact.mutable_methods(0));
  return std::string(VerifyLinked(artifact, artifact.methods(0)).message());
}

TEST(VerifyLinkedTest, ADescribedMethodIsAccepted) {
  const serialization::Artifact artifact = Linked();
  EXPECT_TRUE(VerifyLinked(artifact, artifact.methods(0)).ok());
  EXPECT_TRUE(VerifyLinked(artifact, serialization::Method()).ok());
}

TEST(VerifyLinkedTest, EachContradictionIsNamed) {
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->clear_key(); }), HasSubstr("no key"));
  EXPECT_THAT(Refusal([](auto& method) { method.add_state_reads(); }), HasSubstr("states"));
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->set_num_symbols(2); }), HasSubstr("2 symbols"));
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->set_sizes(1, "(s0 * 2)"); }), HasSubstr("neither"));
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->set_sizes(0, "4"); }), HasSubstr("not occur"));
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->set_inputs(1, 2); }), HasSubstr("twice"));
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->set_inputs(1, 9); }), HasSubstr("input 8 of 2"));
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->set_inputs(0, 0); }), HasSubstr("no content"));
  EXPECT_THAT(Refusal([](auto& method) { method.mutable_linked()->add_guards()->set_a("s5"); }), HasSubstr("s5"));
  const auto index = [](auto& method) { return method.mutable_linked()->mutable_index_inputs(0); };
  EXPECT_THAT(Refusal([&](auto& method) { index(method)->set_input(5); }), HasSubstr("input 5 of 2"));
  EXPECT_THAT(Refusal([&](auto& method) { index(method)->mutable_place()->add_sizes("1"); }), HasSubstr("strides"));
  EXPECT_THAT(Refusal([&](auto& method) { index(method)->set_extent("s"); }), HasSubstr("s"));
  EXPECT_THAT(
      Refusal([&](auto& method) { method.mutable_values(1)->mutable_type()->set_dtype(serialization::DTYPE_F32); }),
      HasSubstr("expected i64[n]"));
}

}  // namespace
}  // namespace cotan
