// SPDX-License-Identifier: Apache-2.0

#include "planning/merge_launches.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/register_reference.h"
#include "runtime/session.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Op;
using serialization::State;
using ::testing::ElementsAre;
using testing::ExprBuilder;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using ::testing::SizeIs;

const testing::Sizes kFour = {"4"};

int PlusOne(ExprBuilder& b) { return b.Add(0, b.Constant(DType::kFloat32, 1)); }

Schedule MakeMerged(ProgramBuilder& program) {
  const std::shared_ptr<const Program> loaded = program.Load();
  absl::StatusOr<Schedule> schedule = MakeSchedule(loaded->artifact(), loaded->method(0), {});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  EXPECT_TRUE(MergeLaunches(loaded->method(0), {}, *schedule).ok());
  return *std::move(schedule);
}

// Executes the members of a group one after another.
class Members final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(absl::Span<const KernelRequest> requests) {
    KernelRegistry reference;
    EXPECT_TRUE(RegisterReferenceKernels(reference).ok());
    auto kernel = std::make_unique<Members>();
    for (const KernelRequest& request : requests) {
      const KernelFactory factory = *reference.Find(DeviceType::kCpu, Op::kExpr, request.outputs[0].dtype);
      kernel->members_.push_back({*factory(request), request.inputs.size(), request.outputs.size()});
    }
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  absl::Status Run(const KernelArgs& args) override {
    KernelArgs member = args;
    for (const Member& one : members_) {
      EXPECT_EQ(one.kernel->scratch_bytes(), 0);
      EXPECT_TRUE(one.kernel->Run(member).ok());
      member.inputs += one.inputs;
      member.outputs += one.outputs;
    }
    return absl::OkStatus();
  }

 private:
  struct Member {
    std::unique_ptr<Kernel> kernel;
    size_t inputs;
    size_t outputs;
  };
  std::vector<Member> members_;
};

TEST(MergeLaunchesTest, IndependentExpressionsBecomeOneStep) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kFour);
  const uint32_t y = m.Input("y", DType::kFloat32, kFour);
  m.Output("a", m.Pointwise(kFour, {x}, PlusOne));
  m.Output("b", m.Pointwise(kFour, {x, y}, [](ExprBuilder& e) { return e.Mul(0, 1); }));
  const Schedule schedule = MakeMerged(program);
  ASSERT_THAT(schedule.steps, SizeIs(1));
  ASSERT_THAT(schedule.steps[0].members, SizeIs(2));
  EXPECT_EQ(schedule.steps[0].members[1].op, 1);
  EXPECT_EQ(schedule.steps[0].members[1].num_inputs, 2);
  EXPECT_THAT(schedule.steps[0].inputs, SizeIs(3));
  EXPECT_THAT(schedule.steps[0].outputs, SizeIs(2));
}

TEST(MergeLaunchesTest, DependentExpressionsStayInOrder) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  uint32_t value = m.Input("x", DType::kFloat32, kFour);
  for (int i = 0; i < 3; ++i) value = m.Pointwise(kFour, {value}, PlusOne);
  m.Output("y", value);
  const Schedule schedule = MakeMerged(program);
  ASSERT_THAT(schedule.steps, SizeIs(3));
  for (const ScheduledStep& step : schedule.steps) EXPECT_THAT(step.members, SizeIs(0));
}

TEST(MergeLaunchesTest, ExpressionsWaitForOtherStepsThatCanRun) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const testing::Sizes square = {"2", "2"};
  const uint32_t x = m.Input("x", DType::kFloat32, square);
  m.Output("a", m.Pointwise(square, {x}, PlusOne));
  const uint32_t product = m.Matmul(x, x, square);
  m.Output("product", product);
  m.Output("b", m.Pointwise(square, {product}, PlusOne));
  const Schedule schedule = MakeMerged(program);
  ASSERT_THAT(schedule.steps, SizeIs(2));
  EXPECT_EQ(schedule.steps[0].op, 1);
  EXPECT_THAT(schedule.steps[1].members, SizeIs(2));
}

TEST(MergeLaunchesTest, UpdatesWaitForTheEndUnlessTheirInputsAreLarge) {
  for (const bool is_large : {false, true}) {
    ProgramBuilder program;
    MethodBuilder m = program.AddMethod("run");
    const testing::Sizes square = {"2", "2"};
    const testing::Sizes row = {is_large ? "4194304" : "4"};
    const uint32_t x = m.Input("x", DType::kFloat32, square);
    const uint32_t y = m.Input("y", DType::kFloat32, row);
    Op op;
    op.mutable_scan()->set_dim(0);
    op.mutable_scan()->set_function(serialization::Scan::SUM);
    const uint32_t sums = m.AddValue(DType::kFloat32, row);
    m.AddOp(op, {y}, {sums});
    m.Output("update", m.Pointwise(row, {sums}, PlusOne));
    const uint32_t factor = m.Pointwise(square, {x}, PlusOne);
    const uint32_t product = m.Matmul(factor, factor, square);
    m.Output("product", product);
    m.Output("last", m.Pointwise(square, {product}, PlusOne));
    const Schedule schedule = MakeMerged(program);
    ASSERT_THAT(schedule.steps, SizeIs(4));
    EXPECT_THAT(schedule.steps[1].members, SizeIs(is_large ? 2 : 0));
    EXPECT_THAT(schedule.steps[3].members, SizeIs(is_large ? 0 : 2));
  }
}

TEST(MergeLaunchesTest, StatesAreWrittenAfterTheChecksBeforeThem) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("s", State::BUFFER, kFour, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t index = m.Input("index", DType::kInt64, kFour);
  const uint32_t checked = m.AddValue(DType::kInt64, kFour);
  Op check;
  check.mutable_checked_index()->set_size("4");
  m.AddOp(check, {index}, {checked});
  m.Output("checked", checked);
  m.Update(state, m.Pointwise(kFour, {m.Read(state, DType::kFloat32, kFour)}, PlusOne));
  const Schedule schedule = MakeMerged(program);
  ASSERT_THAT(schedule.steps, SizeIs(2));
  EXPECT_EQ(schedule.steps[0].op, 0);
}

TEST(MergeLaunchesTest, ChecksThatFollowOneAnotherAreOneStep) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  Op check;
  check.mutable_checked_index()->set_size("4");
  const auto add_check = [&](uint32_t index) {
    const uint32_t checked = m.AddValue(DType::kInt64, kFour);
    m.AddOp(check, {index}, {checked});
    return checked;
  };
  const uint32_t first = add_check(m.Input("a", DType::kInt64, kFour));
  const uint32_t second = add_check(m.Input("b", DType::kInt64, kFour));
  const uint32_t reader = add_check(first);  // of the first one's result
  const uint32_t last = add_check(m.Input("c", DType::kInt64, kFour));
  for (const uint32_t value : {first, second, reader, last}) m.Output(absl::StrCat("checked", value), value);
  const Schedule schedule = MakeMerged(program);
  ASSERT_THAT(schedule.steps, SizeIs(2));
  for (const int step : {0, 1}) {
    const std::vector<GroupMember>& members = schedule.steps[static_cast<size_t>(step)].members;
    ASSERT_THAT(members, SizeIs(2));
    EXPECT_EQ(members[0].op, 2 * step);
    EXPECT_EQ(members[1].op, 2 * step + 1);
  }
}

TEST(MergeLaunchesTest, TrainingStepsGiveTheSameBitsAsWithoutGroups) {
  KernelRegistry merged;
  ASSERT_TRUE(RegisterReferenceKernels(merged).ok());
  ASSERT_TRUE(merged.RegisterGroup(DeviceType::kCpu, &Members::Create).ok());
  KernelRegistry single;
  ASSERT_TRUE(RegisterReferenceKernels(single).ok());
  const std::shared_ptr<const Program> program = testing::LinearRegression().Load();
  std::vector<std::vector<float>> weights;
  std::vector<int> steps;
  for (const KernelRegistry* kernels : {&single, &merged}) {
    Session session = *Session::Create(program, {.kernels = kernels, .threads = 1});
    for (int i = 0; i < 3; ++i) {
      const auto results = session.Run(
          "train_step", {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3}), *Tensor::From<float>({1, 0, 0, 1}, {2, 2})});
      ASSERT_TRUE(results.ok()) << results.status();
    }
    weights.push_back(*session.State("weight")->ToVector<float>());
    steps.push_back(session.Summary(*session.FindMethod("train_step"))->num_steps);
  }
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_LT(steps[1], steps[0]);
}

// Trains two layers: h = relu(x w1 + b1), gradients for the tangent g of h w2. All values are integers, so that f32 is
// exact.
ProgramBuilder TwoLayers() {
  ProgramBuilder program;
  const uint32_t w1 = program.AddState("w1", State::PARAMETER, {"3", "4"}, {1, -2, 0, 3, 2, 1, -1, 1, 0, 2, 1, -3});
  const uint32_t b1 = program.AddState("b1", State::PARAMETER, {"1", "4"}, {1, -1, 2, 0});
  const uint32_t w2 = program.AddState("w2", State::PARAMETER, {"4", "2"}, {1, 2, -1, 0, 3, 1, -2, 1});
  MethodBuilder m = program.AddMethod("train_step");
  const uint32_t x = m.Input("x", DType::kFloat32, {"5", "3"});
  const uint32_t g = m.Input("g", DType::kFloat32, {"5", "2"});
  const uint32_t weight1 = m.Read(w1, DType::kFloat32, {"3", "4"});
  const uint32_t bias1 = m.Read(b1, DType::kFloat32, {"1", "4"});
  const uint32_t weight2 = m.Read(w2, DType::kFloat32, {"4", "2"});
  const auto minus = [](ExprBuilder& b) { return b.Sub(0, 1); };
  const auto relu = [](ExprBuilder& b) { return b.Apply(serialization::FN_RELU, {0}); };
  Op matmul;
  matmul.mutable_matmul();
  const uint32_t sum = m.AddValue(DType::kFloat32, {"5", "4"});
  m.AddOp(matmul, {x, weight1, bias1}, {sum});
  const uint32_t h = m.Pointwise({"5", "4"}, {sum}, relu);
  const uint32_t gradient2 = m.Matmul(m.Permute(h, {1, 0}), g, {"4", "2"});
  const uint32_t tangent = m.Matmul(g, m.Permute(weight2, {1, 0}), {"5", "4"});
  m.Update(w2, m.Pointwise({"4", "2"}, {weight2, gradient2}, minus));
  const int reduce[] = {0};
  ExprBuilder b({5, 4}, reduce);
  const int product = b.Input(0, DType::kFloat32);
  const int zero = b.Constant(DType::kFloat32, 0);
  const int active = b.Apply(serialization::FN_GT, {b.Input(1, DType::kFloat32), zero});
  const int masked = b.Apply(serialization::FN_SELECT, {active, product, zero});
  b.Output(masked);
  b.Output(b.Sub(b.Input(2, DType::kFloat32), b.Sum(masked)));
  const uint32_t d = m.AddValue(DType::kFloat32, {"5", "4"});
  const uint32_t next_bias = m.AddValue(DType::kFloat32, {"1", "4"});
  m.AddOp(b.Build(), {tangent, h, bias1}, {d, next_bias});
  m.Update(b1, next_bias);
  const uint32_t gradient1 = m.Matmul(m.Permute(x, {1, 0}), d, {"3", "4"});
  m.Update(w1, m.Pointwise({"3", "4"}, {weight1, gradient1}, minus));
  return program;
}

TEST(MergeLaunchesTest, ABackwardWithEpiloguesGivesTheSameBits) {
  KernelRegistry merged;
  ASSERT_TRUE(RegisterReferenceKernels(merged).ok());
  ASSERT_TRUE(merged.RegisterGroup(DeviceType::kCpu, &Members::Create).ok());
  KernelRegistry single;
  ASSERT_TRUE(RegisterReferenceKernels(single).ok());
  const std::shared_ptr<const Program> program = TwoLayers().Load();
  std::vector<std::vector<float>> states;
  std::vector<int> steps;
  for (const KernelRegistry* kernels : {&single, &merged}) {
    Session session = *Session::Create(program, {.kernels = kernels, .threads = 1});
    std::vector<float> x(15), g(10);
    for (int i = 0; i < 2; ++i) {
      for (size_t j = 0; j < x.size(); ++j) x[j] = static_cast<float>((j * 7 + static_cast<size_t>(i)) % 5) - 2;
      for (size_t j = 0; j < g.size(); ++j) g[j] = static_cast<float>((j * 3 + static_cast<size_t>(i)) % 4) - 1;
      const auto results =
          session.Run("train_step", {*Tensor::From<float>(x, {5, 3}), *Tensor::From<float>(g, {5, 2})});
      ASSERT_TRUE(results.ok()) << results.status();
    }
    std::vector<float> values;
    for (const char* name : {"w1", "b1", "w2"}) {
      const std::vector<float> state = *session.State(name)->ToVector<float>();
      values.insert(values.end(), state.begin(), state.end());
    }
    states.push_back(values);
    steps.push_back(session.Summary(*session.FindMethod("train_step"))->num_steps);
  }
  EXPECT_EQ(states[0], states[1]);
  // Four products with epilogues, and the update of the bias.
  EXPECT_EQ(steps[0], 8);
  EXPECT_EQ(steps[1], 5);
}

}  // namespace
}  // namespace cotan
