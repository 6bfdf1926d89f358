// SPDX-License-Identifier: Apache-2.0

#include "serialization/calls/inline_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void AddValues(int count, Method& method, const std::string& size = "4") {
  for (int i = 0; i < count; ++i) {
    serialization::TensorType& type = *method.add_values()->mutable_type();
    type.set_dtype(serialization::DTYPE_F32);
    type.add_sizes(size);
  }
}

Op& AddOp(std::initializer_list<uint32_t> inputs, std::initializer_list<uint32_t> outputs, Method& method) {
  Op& op = *method.add_ops();
  op.mutable_inputs()->Add(inputs.begin(), inputs.end());
  op.mutable_outputs()->Add(outputs.begin(), outputs.end());
  return op;
}

Op& AddCall(uint32_t block, std::initializer_list<uint32_t> inputs, std::initializer_list<uint32_t> outputs,
            Method& method) {
  Op& op = AddOp(inputs, outputs, method);
  op.mutable_call()->set_block(block);
  return op;
}

// A block of two ops: %0, %1 -> %2 -> %3, with a draw at slice 3 in the second.
Method& AddBlock(Artifact& artifact) {
  Method& block = *artifact.add_blocks();
  block.set_name("layer");
  AddValues(4, block);
  block.add_inputs(0);
  block.add_inputs(1);
  block.add_outputs(3);
  AddOp({0, 1}, {2}, block).mutable_matmul();
  Op& draw = AddOp({2}, {3}, block);
  draw.set_source("fc");
  serialization::ExprInstruction& instruction = *draw.mutable_expr()->add_instructions();
  instruction.set_fn(serialization::FN_RANDOM_UNIFORM);
  instruction.set_slice("3");
  return block;
}

// Calls the block twice: (%0, %1) -> %2, (%2, %1) -> %3.
Artifact TwoCalls() {
  Artifact artifact;
  AddBlock(artifact);
  Method& method = *artifact.add_methods();
  method.set_name("forward");
  AddValues(4, method);
  method.add_inputs(0);
  method.add_inputs(1);
  method.add_outputs(3);
  AddCall(0, {0, 1}, {2}, method).mutable_call()->set_path("layers.0");
  Op& second = AddCall(0, {2, 1}, {3}, method);
  second.mutable_call()->set_path("layers.1");
  second.mutable_call()->set_slice("(s0 * 4)");
  return artifact;
}

TEST(InlineCallsTest, EachCallBecomesTheOpsOfTheBlock) {
  Artifact artifact = TwoCalls();
  ASSERT_TRUE(InlineCalls(artifact).ok());
  EXPECT_EQ(artifact.blocks_size(), 0);
  const Method& method = artifact.methods(0);
  ASSERT_EQ(method.ops_size(), 4);
  EXPECT_EQ(method.values_size(), 6);
  EXPECT_THAT(method.ops(0).inputs(), ElementsAre(0, 1));
  EXPECT_THAT(method.ops(0).outputs(), ElementsAre(4));
  EXPECT_THAT(method.ops(1).inputs(), ElementsAre(4));
  EXPECT_THAT(method.ops(1).outputs(), ElementsAre(2));
  EXPECT_THAT(method.ops(2).inputs(), ElementsAre(2, 1));
  EXPECT_THAT(method.ops(3).outputs(), ElementsAre(3));
}

TEST(InlineCallsTest, DrawsMoveToTheSliceOfTheCall) {
  Artifact artifact = TwoCalls();
  ASSERT_TRUE(InlineCalls(artifact).ok());
  EXPECT_EQ(artifact.methods(0).ops(1).expr().instructions(0).slice(), "3");
  EXPECT_EQ(artifact.methods(0).ops(3).expr().instructions(0).slice(), "((s0 * 4) + 3)");
}

TEST(InlineCallsTest, SourcesGetThePathOfTheCall) {
  Artifact artifact = TwoCalls();
  artifact.mutable_blocks(0)->mutable_ops(1)->set_source("backward of fc");
  ASSERT_TRUE(InlineCalls(artifact).ok());
  EXPECT_EQ(artifact.methods(0).ops(2).source(), "layers.1");
  EXPECT_EQ(artifact.methods(0).ops(3).source(), "backward of layers.1.fc");
}

TEST(InlineCallsTest, BlocksMayCallEarlierBlocks) {
  Artifact artifact;
  AddBlock(artifact);
  Method& outer = *artifact.add_blocks();
  AddValues(4, outer);
  outer.add_inputs(0);
  outer.add_inputs(1);
  outer.add_outputs(3);
  AddCall(0, {0, 1}, {2}, outer);
  Op& inner = AddCall(0, {2, 2}, {3}, outer);
  inner.mutable_call()->set_slice("5");
  inner.mutable_call()->set_path("b");
  Method& method = *artifact.add_methods();
  AddValues(2, method);
  Op& call = AddCall(1, {0, 0}, {1}, method);
  call.mutable_call()->set_slice("100");
  call.mutable_call()->set_path("a");
  ASSERT_TRUE(InlineCalls(artifact).ok());
  ASSERT_EQ(artifact.methods(0).ops_size(), 4);
  EXPECT_EQ(artifact.methods(0).ops(3).expr().instructions(0).slice(), "108");
  EXPECT_EQ(artifact.methods(0).ops(3).source(), "a.b.fc");
}

struct Damage {
  std::string name;
  void (*apply)(Artifact& artifact);
  std::string message;
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class HostileCallTest : public ::testing::TestWithParam<Damage> {};

TEST_P(HostileCallTest, IsRefused) {
  Artifact artifact = TwoCalls();
  GetParam().apply(artifact);
  const absl::Status status = InlineCalls(artifact);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(GetParam().message));
}

Op& FirstCall(Artifact& artifact) { return *artifact.mutable_methods(0)->mutable_ops(0); }

// Each of n blocks calls the previous one `width` times.
void Nest(int depth, int width, Artifact& artifact) {
  for (int i = 0; i < depth; ++i) {
    Method& block = *artifact.add_blocks();
    AddValues(width + 2, block);
    block.add_inputs(0);
    block.add_inputs(1);
    block.add_outputs(static_cast<uint32_t>(width) + 1);
    for (uint32_t k = 0; k < static_cast<uint32_t>(width); ++k) {
      AddCall(static_cast<uint32_t>(i), {k, 1}, {k + 2}, block);
    }
  }
  FirstCall(artifact).mutable_call()->set_block(static_cast<uint32_t>(depth));
}

INSTANTIATE_TEST_SUITE_P(
    Damages, HostileCallTest,
    ::testing::Values(
        Damage{"NoSuchBlock", [](Artifact& a) { FirstCall(a).mutable_call()->set_block(1); },
               "calls block 1, and there are 1 before it"},
        Damage{"BlockThatCallsItself",
               [](Artifact& a) {
                 AddCall(0, {0, 1}, {2}, *a.mutable_blocks(0));
               },
               "calls block 0, and there are 0 before it"},
        Damage{"TooFewInputs", [](Artifact& a) { FirstCall(a).mutable_inputs()->RemoveLast(); },
               "it has 1 inputs, block 'layer' has 2"},
        Damage{"TooManyOutputs", [](Artifact& a) { FirstCall(a).add_outputs(3); }, "it has 2 outputs"},
        Damage{"InputOutOfRange", [](Artifact& a) { FirstCall(a).set_inputs(0, 99); }, "input 0: value 99 of"},
        Damage{"OutputOutOfRange", [](Artifact& a) { FirstCall(a).set_outputs(0, 99); }, "output 0: value 99 of"},
        Damage{"OtherType",
               [](Artifact& a) { a.mutable_methods(0)->mutable_values(0)->mutable_type()->set_sizes(0, "5"); },
               "input 0 is f32[5], block 'layer' has f32[4]"},
        Damage{"InnerValueOutOfRange", [](Artifact& a) { a.mutable_blocks(0)->mutable_ops(0)->set_inputs(0, 7); },
               "block 0, op 0: value 7 of 4"},
        Damage{"OutputIsInput", [](Artifact& a) { a.mutable_blocks(0)->set_outputs(0, 1); }, "value 1 is listed twice"},
        Damage{"FormalOutOfRange", [](Artifact& a) { a.mutable_blocks(0)->set_inputs(0, 9); }, "value 9 of 4"},
        Damage{"BlockWithState", [](Artifact& a) { a.mutable_blocks(0)->add_state_reads(); }, "it has states"},
        Damage{"BadSlice", [](Artifact& a) { FirstCall(a).mutable_call()->set_slice("4 +"); }, "block 0, op 1"},
        Damage{"TooDeep", [](Artifact& a) { Nest(100, 1, a); }, "nested deeper than 64"},
        Damage{"TooLarge", [](Artifact& a) { Nest(40, 4, a); }, "more than 268435456 bytes"},
        Damage{"LongPath",
               [](Artifact& a) {
                 Nest(10, 4, a);
                 FirstCall(a).mutable_call()->set_path(std::string(1 << 16, 'a'));
               },
               "more than 268435456 bytes"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cotan
