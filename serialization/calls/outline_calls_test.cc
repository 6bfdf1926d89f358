// SPDX-License-Identifier: Apache-2.0

#include "serialization/calls/outline_calls.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "serialization/calls/inline_calls.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;

uint32_t AddValue(Method& method, const std::string& name = "") {
  serialization::Value& value = *method.add_values();
  value.mutable_type()->set_dtype(serialization::DTYPE_F32);
  value.mutable_type()->add_sizes("4");
  value.set_name(name);
  return static_cast<uint32_t>(method.values_size() - 1);
}

Op& AddOp(std::initializer_list<uint32_t> inputs, uint32_t output, const std::string& source, Method& method) {
  Op& op = *method.add_ops();
  op.mutable_inputs()->Add(inputs.begin(), inputs.end());
  op.add_outputs(output);
  op.set_source(source);
  return op;
}

// Adds layer `i` on x with the weight: a product, a draw at slice 7 * i + 1, and their difference; returns the result.
// `reversed` exchanges the operands of the last op.
uint32_t AddLayer(int i, uint32_t x, uint32_t weight, bool reversed, Method& method) {
  const std::string path = absl::StrCat("layers.", i, ".");
  const uint32_t product = AddValue(method, "product"), draw = AddValue(method), result = AddValue(method, "result");
  AddOp({x, weight}, product, path + "fc", method).mutable_matmul();
  serialization::Expr& random = *AddOp({product}, draw, path + "dropout", method).mutable_expr();
  random.add_domain_sizes("4");
  serialization::ExprInstruction& instruction = *random.add_instructions();
  instruction.set_fn(serialization::FN_RANDOM_UNIFORM);
  instruction.set_slice(absl::StrCat(7 * i + 1));
  serialization::Expr& sum =
      *AddOp({reversed ? draw : x, reversed ? x : draw}, result, path + "add", method).mutable_expr();
  sum.add_domain_sizes("4");
  sum.add_instructions()->set_fn(serialization::FN_SUB);
  return result;
}

// A method of `count` layers between two ops of other kinds; `reversed` is the layer whose last op is another one.
void AddMethod(int count, int reversed, Artifact& artifact) {
  Method& method = *artifact.add_methods();
  method.set_name(absl::StrCat("method", artifact.methods_size()));
  const uint32_t input = AddValue(method, "input");
  uint32_t x = AddValue(method);
  method.add_inputs(input);
  AddOp({input}, x, "embedding", method).mutable_copy();
  for (int i = 0; i < count; ++i) {
    const uint32_t weight = AddValue(method, "weight");
    method.add_state_reads()->set_value(weight);
    x = AddLayer(i, x, weight, i == reversed, method);
  }
  const uint32_t output = AddValue(method);
  AddOp({x}, output, "output", method).mutable_sort();
  method.add_outputs(output);
}

// Returns the ops as text, with values numbered in order of their first use.
std::vector<std::string> OpsOf(const Method& method) {
  std::vector<std::string> ops;
  std::map<uint32_t, size_t> numbers;
  for (const Op& op : method.ops()) {
    Op anonymous = op;
    anonymous.clear_inputs();
    anonymous.clear_outputs();
    std::string text = anonymous.SerializeAsString();
    for (const auto* values : {&op.inputs(), &op.outputs()}) {
      for (const uint32_t value : *values)
        absl::StrAppend(&text, " ", numbers.try_emplace(value, numbers.size()).first->second);
    }
    ops.push_back(std::move(text));
  }
  return ops;
}

std::vector<std::string> InlinedOps(Artifact artifact, int method) {
  const absl::Status status = InlineCalls(artifact);
  EXPECT_TRUE(status.ok()) << status;
  return OpsOf(artifact.methods(method));
}

int CallsIn(const Method& method) {
  int calls = 0;
  for (const Op& op : method.ops()) calls += op.has_call() ? 1 : 0;
  return calls;
}

TEST(OutlineCallsTest, LayersBecomeCallsOfOneBlock) {
  Artifact artifact;
  AddMethod(6, /*reversed=*/-1, artifact);
  const std::vector<std::string> ops = OpsOf(artifact.methods(0));
  OutlineCalls(artifact);
  ASSERT_EQ(artifact.blocks_size(), 1);
  EXPECT_EQ(artifact.blocks(0).ops_size(), 3);
  EXPECT_EQ(CallsIn(artifact.methods(0)), 6);
  EXPECT_EQ(artifact.methods(0).ops(3).call().path(), "layers.2");
  EXPECT_EQ(artifact.methods(0).ops(3).call().slice(), "15");
  EXPECT_EQ(InlinedOps(artifact, 0), ops);
}

TEST(OutlineCallsTest, LayersThatAreConnectedInAnotherWayStay) {
  Artifact artifact;
  AddMethod(6, /*reversed=*/3, artifact);
  const std::vector<std::string> ops = OpsOf(artifact.methods(0));
  OutlineCalls(artifact);
  ASSERT_EQ(artifact.blocks_size(), 1);
  EXPECT_EQ(CallsIn(artifact.methods(0)), 5);
  EXPECT_EQ(InlinedOps(artifact, 0), ops);
}

TEST(OutlineCallsTest, ValuesOnTheHostStayThereAndAreNotTakenForOthers) {
  const auto product = [](int layer) { return 3 + 4 * layer; };
  Artifact one;
  AddMethod(6, /*reversed=*/-1, one);
  one.mutable_methods(0)->mutable_values(product(3))->set_on_host(true);
  OutlineCalls(one);
  EXPECT_EQ(CallsIn(one.methods(0)), 5);
  Artifact all;
  AddMethod(6, /*reversed=*/-1, all);
  for (int i = 0; i < 6; ++i) all.mutable_methods(0)->mutable_values(product(i))->set_on_host(true);
  OutlineCalls(all);
  EXPECT_EQ(CallsIn(all.methods(0)), 6);
  ASSERT_TRUE(InlineCalls(all).ok());
  int on_host = 0;
  for (const serialization::Value& value : all.methods(0).values()) on_host += value.on_host() ? 1 : 0;
  EXPECT_EQ(on_host, 6);
}

TEST(OutlineCallsTest, MethodsShareABlock) {
  Artifact artifact;
  AddMethod(4, -1, artifact);
  AddMethod(1, -1, artifact);
  const std::vector<std::string> first = OpsOf(artifact.methods(0)), second = OpsOf(artifact.methods(1));
  OutlineCalls(artifact);
  EXPECT_EQ(artifact.blocks_size(), 1);
  EXPECT_EQ(CallsIn(artifact.methods(0)), 4);
  EXPECT_EQ(CallsIn(artifact.methods(1)), 1);
  EXPECT_EQ(InlinedOps(artifact, 0), first);
  EXPECT_EQ(InlinedOps(artifact, 1), second);
}

TEST(OutlineCallsTest, BytesDoNotGrowWithTheLayersOps) {
  size_t bytes[2];
  for (const int layers : {8, 9}) {
    Artifact artifact;
    AddMethod(layers, -1, artifact);
    const size_t before = artifact.ByteSizeLong();
    OutlineCalls(artifact);
    EXPECT_LT(artifact.ByteSizeLong(), before);
    bytes[layers - 8] = artifact.ByteSizeLong();
  }
  EXPECT_LT(bytes[1] - bytes[0], 70);  // a layer has 152
}

TEST(OutlineCallsTest, OpsThatDoNotRepeatStay) {
  Artifact artifact;
  AddMethod(1, -1, artifact);
  const std::string before = artifact.SerializeAsString();
  OutlineCalls(artifact);
  EXPECT_EQ(artifact.SerializeAsString(), before);
}

TEST(OutlineCallsTest, ExistingBlocksKeepTheirIndexes) {
  Artifact artifact;
  AddMethod(4, -1, artifact);
  OutlineCalls(artifact);
  const std::string once = artifact.SerializeAsString();
  OutlineCalls(artifact);
  EXPECT_EQ(artifact.SerializeAsString(), once);
}

}  // namespace
}  // namespace cotan
