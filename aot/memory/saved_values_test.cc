// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/saved_values.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aot/memory/test_programs.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using cotan::testing::ProgramBuilder;
using cotan::testing::TestKernels;
using serialization::Artifact;

constexpr int kDepth = 12;
const std::vector<std::string> kMethods = {"forward", "backward"};

TEST(SavedValuesTest, GradientsAreTheSameWithLessSaved) {
  const std::vector<float> expected = RunTwice(DeepPair(kDepth), kMethods);
  ProgramBuilder program = DeepPair(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto saved = SavedValues::Start(*artifact.mutable_methods(0), *artifact.mutable_methods(1), planner);
  ASSERT_TRUE(saved.ok()) << saved.status();
  const int64_t before = saved->memory().Total();
  EXPECT_EQ(saved->memory().saved, kDepth * 4096);
  const auto reached = saved->FitBudget(before * 2 / 3);
  ASSERT_TRUE(reached.ok()) << reached.status();
  EXPECT_TRUE(*reached);
  EXPECT_LE(saved->memory().Total(), before * 2 / 3);
  EXPECT_LT(artifact.methods(0).num_saved(), static_cast<uint32_t>(kDepth));
  EXPECT_GT(saved->repeated_ops(), 0);
  EXPECT_EQ(RunTwice(std::move(program), kMethods), expected);
}

serialization::Op& InsertCopy(int position, uint32_t from, uint32_t to, serialization::Method& method) {
  serialization::Op& op = *method.add_ops();
  op.add_inputs(from);
  op.add_outputs(to);
  op.mutable_copy();
  std::rotate(method.mutable_ops()->pointer_begin() + position, method.mutable_ops()->pointer_end() - 1,
              method.mutable_ops()->pointer_end());
  return *method.mutable_ops(position);
}

uint32_t AddValueLike(uint32_t value, serialization::Method& method) {
  *method.add_values() = serialization::Value(method.values(static_cast<int>(value)));
  return static_cast<uint32_t>(method.values_size()) - 1;
}

// Keeps every second saved value of a pair on the host.
void SaveOnHost(Artifact& artifact) {
  serialization::Method& forward = *artifact.mutable_methods(0);
  serialization::Method& backward = *artifact.mutable_methods(1);
  const auto num_saved = static_cast<int>(forward.num_saved());
  for (int i = 0; i < num_saved; i += 2) {
    const int output = forward.outputs_size() - num_saved + i;
    const uint32_t copy = AddValueLike(forward.outputs(output), forward);
    forward.mutable_values(static_cast<int>(copy))->set_on_host(true);
    InsertCopy(forward.ops_size(), forward.outputs(output), copy, forward);
    forward.set_outputs(output, copy);
    const uint32_t taken = backward.inputs(i);
    const uint32_t received = AddValueLike(taken, backward);
    backward.mutable_values(static_cast<int>(received))->set_on_host(true);
    backward.set_inputs(i, received);
    InsertCopy(0, received, taken, backward);
  }
}

TEST(SavedValuesTest, ValuesOnTheHostTakeNoMemoryAndStayThere) {
  const std::vector<float> expected = RunTwice(DeepPair(kDepth), kMethods);
  ProgramBuilder program = DeepPair(kDepth);
  Artifact& artifact = program.artifact();
  SaveOnHost(artifact);
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto saved = SavedValues::Start(*artifact.mutable_methods(0), *artifact.mutable_methods(1), planner);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->memory().saved, kDepth / 2 * 4096);
  ASSERT_TRUE(saved->FitBudget(64).ok());
  EXPECT_LT(saved->memory().saved, kDepth / 2 * 4096);
  int on_host = 0;
  for (const uint32_t output : artifact.methods(0).outputs()) {
    on_host += artifact.methods(0).values(static_cast<int>(output)).on_host() ? 1 : 0;
  }
  EXPECT_EQ(on_host, kDepth / 2);
  EXPECT_EQ(RunTwice(std::move(program), kMethods), expected);
}

TEST(SavedValuesTest, GetsAsSmallAsItCan) {
  const std::vector<float> expected = RunTwice(DeepPair(kDepth), kMethods);
  ProgramBuilder program = DeepPair(kDepth);
  Artifact& artifact = program.artifact();
  const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
  auto saved = SavedValues::Start(*artifact.mutable_methods(0), *artifact.mutable_methods(1), planner);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_FALSE(*saved->FitBudget(64));
  EXPECT_EQ(RunTwice(std::move(program), kMethods), expected);
}

// forward(x) -> y, with three saved values that are computed from x and larger than it;
// backward(tangent) -> their product. `writes`: the forward also changes x.
ProgramBuilder ThreeOfOneArgument(bool writes) {
  using cotan::testing::MethodBuilder;
  const std::vector<std::string> sizes = {"64", "1024"};
  const auto multiply = [](cotan::testing::ExprBuilder& b) { return b.Mul(0, 1); };
  ProgramBuilder program;
  MethodBuilder forward = program.AddMethod("forward");
  const uint32_t x = forward.Input("x", DType::kFloat32, {"1", "1024"});
  std::vector<uint32_t> saved;
  for (int i = 0; i < 3; ++i) {
    saved.push_back(forward.Pointwise(
        sizes, {x}, [i](cotan::testing::ExprBuilder& b) { return b.Add(0, b.Constant(DType::kFloat32, i)); }));
  }
  forward.Output("y", forward.Pointwise(sizes, {saved[0], saved[1]}, multiply));
  for (const uint32_t value : saved) forward.proto().add_outputs(value);
  forward.proto().set_num_saved(3);
  forward.proto().set_backward_method("backward");
  if (writes) {
    serialization::InputUpdate& update = *forward.proto().add_input_updates();
    update.set_input(0);
    update.set_value(forward.Pointwise({"1", "1024"}, {x}, [](cotan::testing::ExprBuilder& b) { return b.Add(0, 0); }));
  }
  MethodBuilder backward = program.AddMethod("backward");
  std::vector<uint32_t> taken;
  for (int i = 0; i < 3; ++i) taken.push_back(backward.Input("saved", DType::kFloat32, sizes));
  uint32_t gradient = backward.Input("tangent", DType::kFloat32, sizes);
  for (const uint32_t value : taken) gradient = backward.Pointwise(sizes, {gradient, value}, multiply);
  backward.Output("gradient", gradient);
  return program;
}

// The backward would read the new content of x.
TEST(SavedValuesTest, AnArgumentIsSavedUnlessTheForwardWritesIt) {
  for (const bool writes : {false, true}) {
    ProgramBuilder program = ThreeOfOneArgument(writes);
    Artifact& artifact = program.artifact();
    serialization::Method& forward = *artifact.mutable_methods(0);
    const MemoryPlanner planner(artifact, {}, {.kernels = &TestKernels()});
    auto saved = SavedValues::Start(forward, *artifact.mutable_methods(1), planner);
    ASSERT_TRUE(saved.ok()) << saved.status();
    ASSERT_TRUE(saved->FitBudget(64).ok());
    const bool saves_argument =
        std::find(forward.outputs().begin(), forward.outputs().end(), forward.inputs(0)) != forward.outputs().end();
    EXPECT_EQ(saves_argument, !writes);
    EXPECT_EQ(forward.num_saved(), writes ? 3u : 1u);
    ASSERT_NE(program.Load(), nullptr);
  }
}

}  // namespace
}  // namespace cotan::aot
