// SPDX-License-Identifier: Apache-2.0

#include "planning/schedule.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::Op;
using serialization::State;
using ::testing::ElementsAre;
using testing::ExprBuilder;
using ::testing::HasSubstr;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::TestKernels;

const testing::Sizes kFour = {"4"};

int PlusOne(ExprBuilder& b) { return b.Add(0, b.Constant(DType::kFloat32, 1)); }

Schedule MakeFirst(ProgramBuilder& program) {
  const std::shared_ptr<const Program> loaded = program.Load();
  absl::StatusOr<Schedule> schedule = MakeSchedule(loaded->artifact(), loaded->method(0), {});
  EXPECT_TRUE(schedule.ok()) << schedule.status();
  return *std::move(schedule);
}

// Runs the first method once and returns its session.
Session RunFirst(ProgramBuilder& program, const std::vector<Tensor>& arguments, bool succeeds = true) {
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const absl::Status status = session.Run(session.program().method(0).name(), arguments).status();
  EXPECT_EQ(status.ok(), succeeds) << status;
  return session;
}

std::vector<float> Values(const Session& session, absl::string_view state) {
  return *session.State(state)->ToVector<float>();
}

TEST(ScheduleTest, AChainOfPointwiseOpsTakesOneBuffer) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  uint32_t value = m.Input("x", DType::kFloat32, kFour);
  for (int i = 0; i < 4; ++i) value = m.Pointwise(kFour, {value}, PlusOne);
  m.Output("y", value);
  const Schedule schedule = MakeFirst(program);
  EXPECT_EQ(schedule.stats.inputs_overwritten, 2);  // not the argument, and the last goes to the result
  EXPECT_EQ(schedule.stats.outputs_in_place, 1);
  EXPECT_EQ(schedule.steps[0].outputs[0].buffer, schedule.steps[1].outputs[0].buffer);
  EXPECT_EQ(schedule.steps[0].outputs[0].buffer, schedule.steps[2].outputs[0].buffer);
  EXPECT_NE(schedule.steps[0].inputs[0].buffer, schedule.steps[0].outputs[0].buffer);
}

TEST(ScheduleTest, AValueThatIsReadAgainIsNotOverwritten) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kFour);
  const uint32_t a = m.Pointwise(kFour, {x}, PlusOne);
  const uint32_t b = m.Pointwise(kFour, {a}, PlusOne);
  m.Output("y", m.Pointwise(kFour, {a, b}, [](ExprBuilder& e) { return e.Mul(0, 1); }));
  const Schedule schedule = MakeFirst(program);
  EXPECT_NE(schedule.steps[0].outputs[0].buffer, schedule.steps[1].outputs[0].buffer);
}

TEST(ScheduleTest, AViewKeepsItsSourceAlive) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kFour);
  const uint32_t a = m.Pointwise(kFour, {x}, PlusOne);
  const uint32_t view = m.View(a, {"2", "2"});
  const uint32_t b = m.Pointwise(kFour, {a}, PlusOne);
  m.Output("y", m.Pointwise({"2", "2"}, {view}, PlusOne));
  m.Output("z", m.Pointwise(kFour, {b}, PlusOne));
  const Schedule schedule = MakeFirst(program);
  EXPECT_EQ(schedule.stats.views, 1);
  EXPECT_NE(schedule.steps[0].outputs[0].buffer, schedule.steps[1].outputs[0].buffer);
}

TEST(ScheduleTest, AViewThatStridesCannotExpressIsCopied) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "3"});
  m.Output("y", m.View(m.Permute(x, {1, 0}), {"6"}));
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const auto results = session.Run("run", {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*(*results)[0].ToVector<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_EQ(session.Summary(*session.FindMethod("run"))->stats.view_copies, 1);
}

// as_strided addresses the operand's elements in row-major order.
TEST(ScheduleTest, AStridedViewSeesElementsInRowMajorOrder) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "3"});
  const auto seen_of = [&](uint32_t source) {  // elements 1 and 4 of a [3, 2]
    const uint32_t y = m.AddValue(DType::kFloat32, {"2"});
    Op op;
    auto& strided = *op.mutable_view()->add_steps()->mutable_as_strided();
    strided.add_sizes("2");
    strided.add_strides("3");
    strided.set_offset("1");
    m.AddOp(op, {source}, {y});
    return y;
  };
  m.Output("y", seen_of(m.Permute(x, {1, 0})));
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const auto results = session.Run("run", {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*(*results)[0].ToVector<float>(), ElementsAre(4, 3));  // of 1 4 2 5 3 6
  EXPECT_EQ(session.Summary(*session.FindMethod("run"))->stats.view_copies, 1);
}

TEST(ScheduleTest, ResultsThatAreArgumentsOrEachOtherAreCopied) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("s", State::PARAMETER, kFour, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kFour);
  const uint32_t y = m.Pointwise(kFour, {x}, PlusOne);
  m.Output("x", x);
  m.Output("y", y);
  m.Output("y again", y);
  m.Output("s", m.Read(state, DType::kFloat32, kFour));
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor argument = *Tensor::From<float>({5, 6, 7, 8}, {4});
  const auto results = session.Run("run", {argument});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*(*results)[0].ToVector<float>(), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(*(*results)[1].ToVector<float>(), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(*(*results)[2].ToVector<float>(), ElementsAre(6, 7, 8, 9));
  EXPECT_THAT(*(*results)[3].ToVector<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_NE((*results)[0].address(), argument.address());
  EXPECT_NE((*results)[1].address(), (*results)[2].address());
}

TEST(ScheduleTest, UpdatesHappenAtOnce) {
  ProgramBuilder program;
  const uint32_t a = program.AddState("a", State::BUFFER, kFour, {1, 2, 3, 4});
  const uint32_t b = program.AddState("b", State::BUFFER, kFour, {5, 6, 7, 8});
  const uint32_t c = program.AddState("c", State::BUFFER, kFour, {0, 0, 0, 0});
  const uint32_t d = program.AddState("d", State::BUFFER, kFour, {9, 9, 9, 9});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t old_a = m.Read(a, DType::kFloat32, kFour);
  const uint32_t old_b = m.Read(b, DType::kFloat32, kFour);
  const uint32_t old_d = m.Read(d, DType::kFloat32, kFour);
  m.Update(a, old_b);  // a and b trade places
  m.Update(b, old_a);
  m.Update(c, old_a);  // and c is the old a
  m.Update(d, old_d);  // stays
  Session session = RunFirst(program, {});
  EXPECT_THAT(Values(session, "a"), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(Values(session, "b"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values(session, "c"), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values(session, "d"), ElementsAre(9, 9, 9, 9));
}

TEST(ScheduleTest, AnUpdateWaitsForReadersOfTheOldContent) {
  ProgramBuilder program;
  const uint32_t a = program.AddState("a", State::BUFFER, kFour, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t old_a = m.Read(a, DType::kFloat32, kFour);
  m.Update(a, m.Pointwise(kFour, {old_a}, PlusOne));
  m.Output("old", m.Pointwise(kFour, {old_a}, [](ExprBuilder& e) { return e.Mul(0, 0); }));
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const auto results = session.Run("run", {});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*(*results)[0].ToVector<float>(), ElementsAre(1, 4, 9, 16));
  EXPECT_THAT(Values(session, "a"), ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(session.Summary({0})->stats.update_copies, 1);
}

TEST(ScheduleTest, OneValueMayUpdateTwoStates) {
  ProgramBuilder program;
  const uint32_t a = program.AddState("a", State::BUFFER, kFour, {1, 2, 3, 4});
  const uint32_t b = program.AddState("b", State::BUFFER, kFour, {0, 0, 0, 0});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t next = m.Pointwise(kFour, {m.Read(a, DType::kFloat32, kFour)}, PlusOne);
  m.Update(a, next);
  m.Update(b, next);
  Session session = RunFirst(program, {});
  EXPECT_THAT(Values(session, "a"), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(Values(session, "b"), ElementsAre(2, 3, 4, 5));
}

TEST(ScheduleTest, AnUpdateThatReadsItsStateOtherwiseIsNotInPlace) {
  ProgramBuilder program;
  const uint32_t a = program.AddState("a", State::BUFFER, {"2", "2"}, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t old_a = m.Read(a, DType::kFloat32, {"2", "2"});
  // a = a + transpose(a)
  m.Update(a, m.Pointwise({"2", "2"}, {old_a, m.Permute(old_a, {1, 0})}, [](ExprBuilder& e) { return e.Add(0, 1); }));
  Session session = RunFirst(program, {});
  EXPECT_THAT(Values(session, "a"), ElementsAre(2, 5, 5, 8));
}

// --- steps that may fail -----------------------------------------------------

// state += 1; result = table[index]; with `index_first`, the other way round.
ProgramBuilder WithGather(bool index_first) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("a", State::BUFFER, kFour, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t table = m.Input("table", DType::kFloat32, {"3", "2"});
  const uint32_t index = m.Input("index", DType::kInt64, {"2"});
  const uint32_t old_state = m.Read(state, DType::kFloat32, kFour);
  Op gather;
  gather.mutable_gather()->set_dim(0);
  uint32_t result = 0;
  const auto add_gather = [&] {
    result = m.AddValue(DType::kFloat32, {"2", "2"});
    m.AddOp(gather, {table, index}, {result});
  };
  if (index_first) add_gather();
  m.Update(state, m.Pointwise(kFour, {old_state}, PlusOne));
  if (!index_first) add_gather();
  if (index_first) {
    // A second use of the same index cannot fail.
    Op scatter;
    scatter.mutable_scatter_add()->set_dim(0);
    scatter.mutable_scatter_add()->set_padding_index(-1);
    const uint32_t sums = m.AddValue(DType::kFloat32, {"3", "2"});
    m.AddOp(scatter, {result, index}, {sums});
    m.Output("sums", sums);
  }
  m.Output("rows", result);
  return program;
}

TEST(ScheduleTest, StatesAreWrittenAfterAllStepsThatMayFail) {
  ProgramBuilder late = WithGather(/*index_first=*/false);
  EXPECT_EQ(MakeFirst(late).stats.update_copies, 1);
  ProgramBuilder early = WithGather(/*index_first=*/true);
  EXPECT_EQ(MakeFirst(early).stats.updates_in_place, 1);
}

// state += 1; x = a solve by the factors of a matrix, with their pivots or given ones.
ProgramBuilder WithSolve(bool given) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("a", State::BUFFER, kFour, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t matrix = m.Input("matrix", DType::kFloat32, {"2", "2"});
  const uint32_t pivots = m.Input("pivots", DType::kInt32, {"2"});
  const uint32_t old_state = m.Read(state, DType::kFloat32, kFour);
  Op lu, solve;
  lu.mutable_linear_algebra()->set_function(serialization::LinearAlgebra::LU);
  solve.mutable_linear_algebra()->set_function(serialization::LinearAlgebra::LU_SOLVE);
  const uint32_t factors = m.AddValue(DType::kFloat32, {"2", "2"});
  const uint32_t computed = m.AddValue(DType::kInt32, {"2"});
  m.AddOp(lu, {matrix}, {factors, computed, m.AddValue(DType::kInt32, {})});
  m.Update(state, m.Pointwise(kFour, {old_state}, PlusOne));
  const uint32_t x = m.AddValue(DType::kFloat32, {"2", "2"});
  m.AddOp(solve, {factors, given ? pivots : computed, matrix}, {x});
  m.Output("x", x);
  return program;
}

TEST(ScheduleTest, PivotsOfAnLuCannotFail) {
  ProgramBuilder computed = WithSolve(/*given=*/false);
  EXPECT_EQ(MakeFirst(computed).stats.updates_in_place, 1);
  ProgramBuilder given = WithSolve(/*given=*/true);
  EXPECT_EQ(MakeFirst(given).stats.updates_in_place, 0);
}

// checked = index below `size`; state += 1; result = table[a view of checked].
ProgramBuilder WithCheck(const std::string& size, bool ignores) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("a", State::BUFFER, kFour, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t table = m.Input("table", DType::kFloat32, {"3", "2"});
  const uint32_t index = m.Input("index", DType::kInt64, {"2"});
  const uint32_t old_state = m.Read(state, DType::kFloat32, kFour);
  Op check;
  check.mutable_checked_index()->set_size(size);
  if (ignores) check.mutable_checked_index()->set_ignored(7);
  const uint32_t checked = m.AddValue(DType::kInt64, {"2"});
  m.AddOp(check, {index}, {checked});
  m.Update(state, m.Pointwise(kFour, {old_state}, PlusOne));
  Op gather;
  gather.mutable_gather()->set_dim(0);
  const uint32_t result = m.AddValue(DType::kFloat32, {"2", "1", "2"});
  m.AddOp(gather, {table, m.View(checked, {"2", "1"})}, {result});
  m.Output("rows", result);
  return program;
}

TEST(ScheduleTest, ACheckedIndexCannotFailAnyMore) {
  ProgramBuilder enough = WithCheck("3", false);
  EXPECT_EQ(MakeFirst(enough).stats.updates_in_place, 1);
  ProgramBuilder more_than_the_table = WithCheck("4", false);
  EXPECT_EQ(MakeFirst(more_than_the_table).stats.updates_in_place, 0);
  ProgramBuilder ignoring = WithCheck("3", true);
  EXPECT_EQ(MakeFirst(ignoring).stats.updates_in_place, 0);
}

TEST(ScheduleTest, ARefusedCheckChangesNoState) {
  const Tensor table = *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor bad = *Tensor::From<int64_t>({0, 7}, {2});
  ProgramBuilder program = WithCheck("3", false);
  Session session = RunFirst(program, {table, bad}, /*succeeds=*/false);
  EXPECT_THAT(Values(session, "a"), ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(session.Run("run", {table, bad}).status().message(),
            "method 'run', op 0 (checked_index): checked_index: index[1] is 7, outside [0, 3)");
  ASSERT_TRUE(session.Run("run", {table, *Tensor::From<int64_t>({0, 2}, {2})}).ok());
  EXPECT_THAT(Values(session, "a"), ElementsAre(2, 3, 4, 5));
}

TEST(ScheduleTest, ABadIndexChangesNoState) {
  const Tensor table = *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {3, 2});
  const Tensor bad = *Tensor::From<int64_t>({0, 7}, {2});
  for (bool index_first : {false, true}) {
    ProgramBuilder program = WithGather(index_first);
    Session session = RunFirst(program, {table, bad}, /*succeeds=*/false);
    EXPECT_THAT(Values(session, "a"), ElementsAre(1, 2, 3, 4));
    const absl::Status status = session.Run("run", {table, bad}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("method 'run', op "));
    EXPECT_THAT(std::string(status.message()), HasSubstr("7"));
    ASSERT_TRUE(session.Run("run", {table, *Tensor::From<int64_t>({0, 2}, {2})}).ok());
    EXPECT_THAT(Values(session, "a"), ElementsAre(2, 3, 4, 5));
  }
}

// --- programs that do not fit ------------------------------------------------

absl::Status ScheduleStatus(ProgramBuilder& program) {
  const std::shared_ptr<const Program> loaded = program.Load();
  return MakeSchedule(loaded->artifact(), loaded->method(0), {}).status();
}

TEST(ScheduleTest, OpsThatDoNotFitTheirOperandsAreNamed) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "3"});
  m.Output("y", m.Matmul(x, x, {"2", "3"}));
  m.proto().mutable_ops(0)->set_source("fc1");
  const absl::Status status = ScheduleStatus(program);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("method 'run', op 0 (matmul) from fc1: "));
}

TEST(ScheduleTest, ViewsThatLieAboutTheirTypeAreRejected) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "3"});
  m.Output("y", m.View(x, {"6"}));
  m.proto().mutable_values(1)->mutable_type()->set_sizes(0, "7");
  EXPECT_THAT(std::string(ScheduleStatus(program).message()), HasSubstr("its value is declared f32[7]"));
}

TEST(ScheduleTest, ViewsOutsideTheirMemoryAreRejected) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"6"});
  const uint32_t y = m.AddValue(DType::kFloat32, {"3"});
  Op op;
  auto& strided = *op.mutable_view()->add_steps()->mutable_as_strided();
  strided.add_sizes("3");
  strided.add_strides("3");
  strided.set_offset("0");
  m.AddOp(op, {x}, {y});
  m.Output("y", y);
  EXPECT_THAT(std::string(ScheduleStatus(program).message()), HasSubstr("leaves its memory of 24 bytes"));
}

// x := x + 1 in the argument's own memory if `in_graph`, else returned.
ProgramBuilder Increment(bool in_graph) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kFour);
  const uint32_t next = m.Pointwise(kFour, {x}, PlusOne);
  if (in_graph) m.proto().add_input_updates()->set_value(next);
  if (!in_graph) m.Output("x", next);
  m.Output("twice", m.Pointwise(kFour, {next}, [](ExprBuilder& b) { return b.Add(0, 0); }));
  return program;
}

Tensor Ones() { return *Tensor::From<float>({1, 1, 1, 1}, {4}); }

TEST(ScheduleTest, UpdatedArgumentsAreComputedInTheirOwnMemory) {
  ProgramBuilder program = Increment(/*in_graph=*/true);
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor x = Ones();
  const auto results = session.Run("run", {x});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*x.ToVector<float>(), ElementsAre(2, 2, 2, 2));
  EXPECT_THAT(*results->at(0).ToVector<float>(), ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(session.Summary({0})->stats.inputs_in_place, 1);
  EXPECT_EQ(session.Summary({0})->stats.input_copies, 0);
}

TEST(ScheduleTest, UpdatedArgumentsOfAnotherLayoutAreCopiedBack) {
  ProgramBuilder program = Increment(/*in_graph=*/true);
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor all = *Tensor::From<float>({1, 9, 1, 9, 1, 9, 1, 9}, {8});
  const Tensor x = *Tensor::InStorage(all.storage(), DType::kFloat32, {.sizes = {4}, .strides = {2}, .offset = 0});
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(session.Run("run", {x}).ok());
  EXPECT_THAT(*all.ToVector<float>(), ElementsAre(3, 9, 3, 9, 3, 9, 3, 9));
}

TEST(ScheduleTest, ArgumentThatIsReadAfterItsUpdateIsKnownIsCopiedInto) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "2"});
  m.proto().add_input_updates()->set_value(m.Matmul(x, x, {"2", "2"}));
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor matrix = *Tensor::From<float>({1, 2, 3, 4}, {2, 2});
  ASSERT_TRUE(session.Run("run", {matrix}).ok());
  EXPECT_THAT(*matrix.ToVector<float>(), ElementsAre(7, 10, 15, 22));
  EXPECT_EQ(session.Summary({0})->stats.input_copies, 1);
}

TEST(ScheduleTest, ArgumentsSwapTheirContents) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2"});
  const uint32_t y = m.Input("y", DType::kFloat32, {"2"});
  for (uint32_t i : {0, 1}) {
    serialization::InputUpdate& update = *m.proto().add_input_updates();
    update.set_input(i);
    update.set_value(i == 0 ? y : x);
  }
  m.Output("x", x);
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor a = *Tensor::From<float>({1, 2}, {2});
  const Tensor b = *Tensor::From<float>({3, 4}, {2});
  const auto results = session.Run("run", {a, b});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*a.ToVector<float>(), ElementsAre(3, 4));
  EXPECT_THAT(*b.ToVector<float>(), ElementsAre(1, 2));
  EXPECT_THAT(*results->at(0).ToVector<float>(), ElementsAre(1, 2));
}

TEST(ScheduleTest, WrittenArgumentsMustNotShareMemory) {
  ProgramBuilder program = Increment(/*in_graph=*/true);
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor one = *Tensor::Scalar(1.0f);
  const Tensor expanded =
      *Tensor::InStorage(one.storage(), DType::kFloat32, {.sizes = {4}, .strides = {0}, .offset = 0});
  EXPECT_THAT(session.Run("run", {expanded}).status().message(), HasSubstr("refers to a single place in memory"));

  ProgramBuilder two;
  MethodBuilder m = two.AddMethod("run");
  m.Input("x", DType::kFloat32, kFour);
  const uint32_t y = m.Input("y", DType::kFloat32, kFour);
  m.proto().add_input_updates()->set_value(m.Pointwise(kFour, {y}, PlusOne));
  Session other = *Session::Create(two.Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor all = *Tensor::Zeros(DType::kFloat32, {8});
  const auto part = [&all](int64_t offset) {
    return *Tensor::InStorage(all.storage(), DType::kFloat32, {.sizes = {4}, .strides = {1}, .offset = offset});
  };
  EXPECT_TRUE(other.Run("run", {part(0), part(4)}).ok());
  EXPECT_THAT(other.Run("run", {part(0), part(3)}).status().message(),
              HasSubstr("writes argument 0 'x', which shares memory with argument 1 'y'"));
}

TEST(ScheduleTest, ResultsAreWhereTheirUseWantsThem) {
  ProgramBuilder program = Increment(/*in_graph=*/false);
  MethodBuilder m(*program.artifact().mutable_methods(0));
  m.proto().add_outputs(m.proto().outputs(0));  // the new content again
  m.proto().add_outputs(m.proto().outputs(1));  // the other result again
  m.proto().add_outputs(m.proto().inputs(0));   // the old content
  m.proto().clear_output_names();
  const std::shared_ptr<const Program> loaded = program.Load();
  using Use = ResultUse;
  const auto made = MakeSchedule(
      loaded->artifact(), loaded->method(0), {},
      {.results = {{Use::kWriteBack, 0}, {Use::kReturn}, {Use::kSave}, {Use::kSave}, {Use::kSave}}, .donated = {}});
  ASSERT_TRUE(made.ok()) << made.status();
  using Kind = ResultBuffer::Kind;
  EXPECT_THAT(made->places,
              ElementsAre(ResultBuffer{Kind::kInput, 0}, ResultBuffer{Kind::kOwn, 0}, ResultBuffer{Kind::kInput, 0},
                          ResultBuffer{Kind::kResult, 1}, ResultBuffer{Kind::kOwn, 0}));
  EXPECT_THAT(made->written_inputs, ElementsAre(0));
  EXPECT_EQ(made->stats.inputs_in_place, 0);  // the old content is still to be copied
  EXPECT_EQ(made->stats.output_copies, 1);
}

TEST(ScheduleTest, DonatedArgumentsAreOverwritten) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kFour);
  m.Output("y", m.Sum(m.Pointwise(kFour, {x}, PlusOne), 0));
  const std::shared_ptr<const Program> loaded = program.Load();
  EXPECT_EQ(MakeSchedule(loaded->artifact(), loaded->method(0), {})->stats.inputs_overwritten, 0);
  EXPECT_EQ(MakeSchedule(loaded->artifact(), loaded->method(0), {}, {.results = {}, .donated = {0}})
                ->stats.inputs_overwritten,
            1);
}

}  // namespace
}  // namespace cotan
