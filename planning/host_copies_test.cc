// SPDX-License-Identifier: Apache-2.0

#include "planning/host_copies.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "planning/lifetimes.h"
#include "planning/merge_launches.h"
#include "planning/schedule.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Op;
using ::testing::ElementsAre;
using testing::ExprBuilder;
using testing::MethodBuilder;
using testing::ProgramBuilder;

const testing::Sizes kSizes = {"4", "8"};
constexpr int64_t kBytes = 128;

int PlusOne(ExprBuilder& b) { return b.Add(0, b.Constant(DType::kFloat32, 1)); }
int Sum(ExprBuilder& b) { return b.Add(0, 1); }

Op CopyOp() {
  Op op;
  op.mutable_copy();
  return op;
}

uint32_t ToHost(MethodBuilder& m, uint32_t value) {
  const uint32_t copy = m.AddValue(m.DTypeOf(value), m.SizesOf(value));
  m.proto().mutable_values(static_cast<int>(copy))->set_on_host(true);
  m.AddOp(CopyOp(), {value}, {copy});
  return copy;
}

uint32_t FromHost(MethodBuilder& m, uint32_t value) {
  const uint32_t copy = m.AddValue(m.DTypeOf(value), m.SizesOf(value));
  m.AddOp(CopyOp(), {value}, {copy});
  return copy;
}

Schedule MakeFirst(ProgramBuilder& program, bool has_host_memory, bool merges = false) {
  const std::shared_ptr<const Program> loaded = program.Load();
  absl::StatusOr<Schedule> schedule =
      MakeSchedule(loaded->artifact(), loaded->method(0), {}, {.has_host_memory = has_host_memory});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  if (merges) {
    EXPECT_TRUE(MergeLaunches(loaded->method(0), {}, *schedule).ok());
  }
  return *std::move(schedule);
}

// Returns the directions of the steps: "in", "out", or "op" for a step on the device.
std::vector<std::string> StepsOf(const Schedule& schedule) {
  std::vector<std::string> steps;
  for (const ScheduledStep& step : schedule.steps) {
    const bool from_host = !step.inputs.empty() && schedule.buffers[static_cast<size_t>(step.inputs[0].buffer)].on_host;
    steps.push_back(!IsHostCopy(schedule, step) ? "op" : from_host ? "in" : "out");
  }
  return steps;
}

int64_t BytesOf(const std::vector<BufferLifetime>& lifetimes) {
  int64_t bytes = 0;
  for (const BufferLifetime& lifetime : lifetimes) bytes += lifetime.bytes;
  return bytes;
}

// y = (x + 1) by way of the host, plus x.
void AddRoundTrip(ProgramBuilder& program) {
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kSizes);
  const uint32_t host = ToHost(m, m.Pointwise(kSizes, {x}, PlusOne));
  m.Output("y", m.Pointwise(kSizes, {FromHost(m, host), x}, Sum));
}

TEST(HostCopiesTest, AValueOnTheHostHasABufferInTheArenaThere) {
  ProgramBuilder program;
  AddRoundTrip(program);
  const Schedule schedule = MakeFirst(program, /*has_host_memory=*/true);
  EXPECT_THAT(StepsOf(schedule), ElementsAre("op", "out", "in", "op"));
  const std::vector<BufferLifetime> host = HostLifetimes(schedule);
  EXPECT_EQ(BytesOf(host), kBytes);
  EXPECT_EQ(PeakBytes(host), kBytes);
  // On the device, x + 1 and the copy that comes back.
  const std::vector<BufferLifetime> device = ArenaLifetimes(schedule, {});
  EXPECT_EQ(BytesOf(device), 2 * kBytes);
  EXPECT_EQ(PeakBytes(device), kBytes);
}

TEST(HostCopiesTest, ADeviceWithoutHostMemoryMakesNoCopies) {
  ProgramBuilder program;
  AddRoundTrip(program);
  const Schedule schedule = MakeFirst(program, /*has_host_memory=*/false);
  EXPECT_THAT(StepsOf(schedule), ElementsAre("op", "op"));
  EXPECT_EQ(BytesOf(HostLifetimes(schedule)), 0);
  EXPECT_EQ(schedule.steps[1].inputs[0].buffer, schedule.steps[0].outputs[0].buffer);
}

// A copy moves bytes: a transposed value is arranged on the device before.
TEST(HostCopiesTest, AStridedValueIsArrangedBeforeItIsMoved) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kSizes);
  const uint32_t turned = m.Permute(m.Pointwise(kSizes, {x}, PlusOne), {1, 0});
  m.Output("y", m.Pointwise({"8", "4"}, {FromHost(m, ToHost(m, turned))}, PlusOne));
  const Schedule schedule = MakeFirst(program, /*has_host_memory=*/true);
  ASSERT_THAT(StepsOf(schedule), ElementsAre("op", "op", "out", "in", "op"));
  EXPECT_TRUE(IsContiguous(schedule.steps[2].inputs[0].geometry.layout));
  EXPECT_TRUE(IsContiguous(schedule.steps[2].outputs[0].geometry.layout));
}

TEST(HostCopiesTest, ASavedValueGoesToMemoryOfTheCallerUnlessItIsNotSaved) {
  ProgramBuilder program;
  MethodBuilder forward = program.AddMethod("forward");
  const uint32_t x = forward.Input("x", DType::kFloat32, kSizes);
  const uint32_t y = forward.Pointwise(kSizes, {x}, PlusOne);
  forward.Output("y", y);
  forward.proto().add_outputs(ToHost(forward, y));
  forward.proto().set_num_saved(1);
  forward.proto().set_backward_method("backward");
  MethodBuilder backward = program.AddMethod("backward");
  const uint32_t saved = backward.Input("saved", DType::kFloat32, kSizes);
  backward.proto().mutable_values(static_cast<int>(saved))->set_on_host(true);
  const uint32_t tangent = backward.Input("t", DType::kFloat32, kSizes);
  backward.Output("g", backward.Pointwise(kSizes, {FromHost(backward, saved), tangent}, Sum));
  const std::shared_ptr<const Program> loaded = program.Load();
  const auto make = [&](int method, ResultUse use) {
    ScheduleOptions options = {.has_host_memory = true};
    if (method == 0) options.results = {{ResultUse::kReturn}, {use}};
    if (method == 1) options.donated = {0};
    return *MakeSchedule(loaded->artifact(), loaded->method(method), {}, options);
  };
  const Schedule saving = make(0, ResultUse::kSave);
  EXPECT_THAT(StepsOf(saving), ElementsAre("op", "out"));
  EXPECT_THAT(saving.outputs_on_host, ElementsAre(false, true));
  EXPECT_EQ(saving.buffers[static_cast<size_t>(saving.steps[1].outputs[0].buffer)].kind, BufferKind::kOutput);
  EXPECT_EQ(BytesOf(HostLifetimes(saving)), 0);
  EXPECT_THAT(StepsOf(make(0, ResultUse::kSkip)), ElementsAre("op"));
  const Schedule taking = make(1, ResultUse::kReturn);
  EXPECT_THAT(StepsOf(taking), ElementsAre("in", "op"));
  EXPECT_THAT(taking.inputs_on_host, ElementsAre(true, false));
}

// Neither is written in place of a state: the copy is made even if an earlier op of the call fails.
TEST(HostCopiesTest, AStateIsNotTheTargetOfACopyFromTheHost) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("w", serialization::State::PARAMETER, DType::kFloat32, kSizes, 0);
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kSizes);
  m.Update(state, FromHost(m, ToHost(m, m.Pointwise(kSizes, {x}, PlusOne))));
  const Schedule schedule = MakeFirst(program, /*has_host_memory=*/true);
  EXPECT_THAT(StepsOf(schedule), ElementsAre("op", "out", "in", "op"));
  EXPECT_EQ(schedule.stats.update_copies, 1);
}

// Values come back one by one, each when the chain of products needs it.
TEST(HostCopiesTest, MergedLaunchesFetchAValueWhenNothingGoesOnWithoutIt) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const testing::Sizes square = {"8", "8"};
  uint32_t value = m.Input("x", DType::kFloat32, square);
  const uint32_t weight = m.Input("w", DType::kFloat32, square);
  std::vector<uint32_t> saved;
  for (int i = 0; i < 3; ++i) {
    value = m.Matmul(value, weight, square);
    saved.push_back(ToHost(m, value));
  }
  for (int i = 3; i-- > 0;) value = m.Matmul(value, FromHost(m, saved[static_cast<size_t>(i)]), square);
  m.Output("y", value);
  const Schedule schedule = MakeFirst(program, /*has_host_memory=*/true, /*merges=*/true);
  EXPECT_THAT(StepsOf(schedule),
              ElementsAre("op", "out", "op", "out", "op", "out", "in", "op", "in", "op", "in", "op"));
}

}  // namespace
}  // namespace cotan
