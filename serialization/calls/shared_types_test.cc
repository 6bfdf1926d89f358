// SPDX-License-Identifier: Apache-2.0

#include "serialization/calls/shared_types.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "absl/strings/str_cat.h"
#include "serialization/calls/inline_calls.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using serialization::TensorType;
using ::testing::HasSubstr;

TensorType F32(const std::string& size) {
  TensorType type;
  type.set_dtype(serialization::DTYPE_F32);
  type.add_sizes(size);
  return type;
}

void AddCall(uint32_t block, std::initializer_list<uint32_t> inputs, std::initializer_list<uint32_t> outputs,
             Method& method) {
  Op& op = *method.add_ops();
  op.mutable_call()->set_block(block);
  op.mutable_inputs()->Add(inputs.begin(), inputs.end());
  op.mutable_outputs()->Add(outputs.begin(), outputs.end());
}

// Adds a block with values %0 and %1, its inputs, and %2, its output.
Method& AddBlock(Artifact& artifact) {
  Method& block = *artifact.add_blocks();
  for (const char* const size : {"4", "5", "s0"}) *block.add_values()->mutable_type() = F32(size);
  block.add_inputs(0);
  block.add_inputs(1);
  block.add_outputs(2);
  return block;
}

// Method: %0 is an input, %1 reads the state "weight", block 1 calls block 0: (%0, %1) -> %2, as the method calls it.
Artifact Nested() {
  Artifact artifact;
  AddBlock(artifact);
  AddCall(0, {0, 1}, {2}, AddBlock(artifact));
  serialization::State& state = *artifact.add_states();
  state.set_name("weight");
  *state.mutable_type() = F32("5");
  Method& method = *artifact.add_methods();
  for (const char* const size : {"4", "5", "s0"}) *method.add_values()->mutable_type() = F32(size);
  method.mutable_values(1)->set_name("weight");
  method.add_inputs(0);
  method.add_outputs(2);
  method.add_state_reads()->set_value(1);
  AddCall(1, {0, 1}, {2}, method);
  return artifact;
}

TEST(SharedTypesTest, OperandsOfCallsAndStatesHaveNoTypesInFiles) {
  const Artifact expected = Nested();
  Artifact artifact = expected;
  OmitSharedTypes(artifact);
  for (const serialization::Value& value : artifact.methods(0).values()) EXPECT_EQ(value.ByteSizeLong(), 0);
  for (const serialization::Value& value : artifact.blocks(1).values()) EXPECT_FALSE(value.has_type());
  for (const serialization::Value& value : artifact.blocks(0).values()) EXPECT_TRUE(value.has_type());
  const std::string once = artifact.SerializeAsString();
  OmitSharedTypes(artifact);
  EXPECT_EQ(artifact.SerializeAsString(), once);
  ASSERT_TRUE(RestoreSharedTypes(artifact).ok());
  EXPECT_EQ(artifact.SerializeAsString(), expected.SerializeAsString());
}

TEST(SharedTypesTest, OtherTypesStay) {
  Artifact artifact = Nested();
  artifact.mutable_methods(0)->mutable_values(0)->mutable_type()->add_dim_order(0);
  artifact.mutable_methods(0)->mutable_values(1)->mutable_type()->set_dtype(serialization::DTYPE_BF16);
  artifact.mutable_methods(0)->mutable_values(1)->set_name("other");
  const std::string expected = artifact.SerializeAsString();
  OmitSharedTypes(artifact);
  EXPECT_TRUE(artifact.methods(0).values(0).has_type());
  EXPECT_TRUE(artifact.methods(0).values(1).has_type());
  EXPECT_FALSE(artifact.methods(0).values(2).has_type());
  ASSERT_TRUE(RestoreSharedTypes(artifact).ok());
  EXPECT_EQ(artifact.SerializeAsString(), expected);
}

TEST(SharedTypesTest, FilesWithoutBlocksStay) {
  Artifact artifact = Nested();
  artifact.clear_blocks();
  artifact.mutable_methods(0)->mutable_values(0)->clear_type();
  const std::string expected = artifact.SerializeAsString();
  OmitSharedTypes(artifact);
  ASSERT_TRUE(RestoreSharedTypes(artifact).ok());
  EXPECT_EQ(artifact.SerializeAsString(), expected);
}

TEST(SharedTypesTest, IndexesOutOfRangeAreIgnored) {
  Artifact artifact = Nested();
  OmitSharedTypes(artifact);
  artifact.mutable_methods(0)->mutable_state_reads(0)->set_state(9);
  artifact.mutable_methods(0)->mutable_ops(0)->set_inputs(0, 99);
  artifact.mutable_methods(0)->mutable_ops(0)->add_outputs(7);
  artifact.mutable_blocks(1)->set_outputs(0, 5);
  artifact.mutable_blocks(1)->mutable_ops(0)->mutable_call()->set_block(1);  // itself
  ASSERT_TRUE(RestoreSharedTypes(artifact).ok());
  EXPECT_FALSE(artifact.methods(0).values(0).has_type());
  EXPECT_FALSE(artifact.methods(0).values(2).has_type());
  EXPECT_FALSE(artifact.blocks(1).values(0).has_type());
}

TEST(SharedTypesTest, ManyLargeTypesAreRefused) {
  Artifact artifact = Nested();
  artifact.mutable_states(0)->mutable_type()->set_sizes(0, std::string(size_t{1} << 20, '1'));
  Method& method = *artifact.mutable_methods(0);
  for (int i = 0; i < 300; ++i) {
    method.add_values();
    method.add_state_reads()->set_value(static_cast<uint32_t>(3 + i));
  }
  const absl::Status status = RestoreSharedTypes(artifact);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("more than ", kMaxInlinedBytes, " bytes")));
}

}  // namespace
}  // namespace cotan
