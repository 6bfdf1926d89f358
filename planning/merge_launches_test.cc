// SPDX-License-Identifier: Apache-2.0

#include "planning/merge_launches.h"

#include <memory>
#include <utility>
#include <vector>

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
  m.Output("b", m.Pointwise(square, {product}, PlusOne));
  const Schedule schedule = MakeMerged(program);
  ASSERT_THAT(schedule.steps, SizeIs(2));
  EXPECT_EQ(schedule.steps[0].op, 1);
  EXPECT_THAT(schedule.steps[1].members, SizeIs(2));
}

TEST(MergeLaunchesTest, AnEpilogueBecomesAnExpressionOfItsOwn) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const testing::Sizes square = {"2", "2"};
  const uint32_t x = m.Input("x", DType::kFloat32, square);
  const uint32_t y = m.AddValue(DType::kFloat32, square);
  ExprBuilder epilogue({2, 2});
  epilogue.Input(0, DType::kFloat32);
  epilogue.Input(1, DType::kFloat32);
  epilogue.Output(epilogue.Sub(1, 0));
  Op op;
  *op.mutable_matmul()->mutable_epilogue() = epilogue.expr();
  m.AddOp(op, {x, x, x}, {y});
  m.Output("y", y);
  const Schedule schedule = MakeMerged(program);
  ASSERT_THAT(schedule.steps, SizeIs(2));
  ASSERT_NE(schedule.steps[0].part, nullptr);
  EXPECT_TRUE(schedule.steps[0].part->has_matmul());
  EXPECT_FALSE(schedule.steps[0].part->matmul().has_epilogue());
  EXPECT_TRUE(schedule.steps[1].part->has_expr());
  EXPECT_EQ(schedule.steps[1].inputs[0].buffer, schedule.steps[0].outputs[0].buffer);
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

}  // namespace
}  // namespace cotan
