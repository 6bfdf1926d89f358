// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/trainer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::ProgramBuilder;
using testing::TestKernels;
using ::testing::UnorderedElementsAreArray;

std::string TestPath(absl::string_view name) { return absl::StrCat(::testing::TempDir(), "/", name); }

std::string ReadAll(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  return file.ok() ? std::string(file->bytes()) : "";
}

Session NewSession(int static_batch = 0) {
  ProgramBuilder program = LinearRegression(static_batch);
  for (int parameter : {0, 1}) program.artifact().mutable_states(parameter)->set_requires_grad(true);
  return *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
}

// Returns a session whose program has these parameter groups. The methods read the rate of the first one of `groups`;
// the rate of group g is 0.5 * (g + 1).
Session SessionOfGroups(const std::vector<int>& groups) {
  ProgramBuilder program = LinearRegression();
  for (auto& state : *program.artifact().mutable_states()) {
    if (state.name() == "hyperparameter.lr.0") state.set_name(absl::StrCat("hyperparameter.lr.", groups[0]));
  }
  for (size_t i = 1; i < groups.size(); ++i) {
    program.AddState(absl::StrCat("hyperparameter.lr.", groups[i]), serialization::State::HYPERPARAMETER,
                     DType::kFloat32, {}, 0);
  }
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  for (const int group : groups) EXPECT_TRUE(session.SetHyperparameter("lr", 0.5 * (group + 1), group).ok());
  return session;
}

// y is a linear function of x, f32[examples,3] to f32[examples,2].
Dataset Data(int64_t examples, float first = 0) {
  std::vector<float> x, y;
  for (int64_t i = 0; i < examples; ++i) {
    const float a = std::sin(first + static_cast<float>(i)), b = std::cos(first + 2 * static_cast<float>(i)), c = a * b;
    x.insert(x.end(), {a, b, c});
    y.insert(y.end(), {a - b + 0.5f * c, 2 * b + 1});
  }
  return *Dataset::Create(
      {{"x", *Tensor::From<float>(x, {examples, 3})}, {"y", *Tensor::From<float>(y, {examples, 2})}});
}

TrainerOptions Options() {
  TrainerOptions options;
  options.targets = {"y"};
  options.epochs = 4;
  options.batch = 8;
  options.seed = 5;
  options.lr = 0.1;
  options.metric = Metric::kMeanSquaredError;
  return options;
}

Trainer NewTrainer(Session& session, const TrainerOptions& options) {
  absl::StatusOr<Trainer> trainer = Trainer::Create(&session, Data(20), Data(7, 100), options);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

std::string Refusal(const TrainerOptions& options, int static_batch = 0) {
  Session session = NewSession(static_batch);
  const absl::Status status = Trainer::Create(&session, Data(20), Data(7, 100), options).status();
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(TrainerTest, TrainingImprovesTheHeldOutScore) {
  Session session = NewSession();
  TrainerOptions options = Options();
  options.epochs = 40;
  Trainer trainer = NewTrainer(session, options);
  const double before = trainer.Evaluate()->score;
  std::vector<StepReport> steps;
  std::vector<EvaluationReport> evaluations;
  const absl::Status status = trainer.Run({.on_step =
                                               [&](const StepReport& report) {
                                                 steps.push_back(report);
                                                 return absl::OkStatus();
                                               },
                                           .on_evaluation =
                                               [&](const EvaluationReport& report) {
                                                 evaluations.push_back(report);
                                                 return absl::OkStatus();
                                               }});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(trainer.done());
  ASSERT_EQ(steps.size(), 120u) << "20 examples are batches of 8, 8 and 4";
  EXPECT_EQ(steps[2].examples, 4);
  EXPECT_EQ(steps[3].epoch, 2);
  EXPECT_EQ(evaluations.size(), 40u);
  EXPECT_EQ(evaluations[1].step, 6);
  EXPECT_EQ(evaluations[1].epoch, 2);
  EXPECT_LT(evaluations.back().score, 0.01 * before);
  EXPECT_LT(steps.back().loss, 0.1 * steps.front().loss);
}

TEST(TrainerTest, TheScheduleSetsTheHyperparameter) {
  Session session = NewSession();
  TrainerOptions options = Options();
  options.epochs = 2;
  options.schedule = {.kind = ScheduleKind::kStep, .step_epochs = 1, .gamma = 0.5};
  Trainer trainer = NewTrainer(session, options);
  std::vector<double> rates;
  while (!trainer.done()) {
    rates.push_back(trainer.Step()->lr);
    EXPECT_FLOAT_EQ(static_cast<float>(*session.Hyperparameter("lr")), static_cast<float>(rates.back()));
  }
  EXPECT_THAT(rates, ElementsAre(0.1, 0.1, 0.1, 0.05, 0.05, 0.05));
}

// Returns the losses of single examples in the order of the first epoch of a session whose generator is `rng`. The
// weights stay, so that an example has the same loss in each place.
std::vector<double> LossesInOrder(RngState rng, std::optional<uint64_t> seed = std::nullopt) {
  Session session = NewSession();
  EXPECT_TRUE(session.SetRng(rng).ok());
  TrainerOptions options = Options();
  options.batch = 1;
  options.lr = 1e-12;
  options.seed = seed;
  Trainer trainer = NewTrainer(session, options);
  std::vector<double> losses;
  while (trainer.step() < trainer.steps_per_epoch()) {
    const absl::StatusOr<StepReport> report = trainer.Step();
    EXPECT_TRUE(report.ok()) << report.status();
    if (!report.ok()) break;
    losses.push_back(report->loss);
  }
  return losses;
}

TEST(TrainerTest, TheSeedOfTheSessionDecidesTheOrderOfTheExamples) {
  const std::vector<double> order = LossesInOrder({.seed = 3, .offset = 0});
  ASSERT_EQ(order.size(), 20u);
  EXPECT_EQ(LossesInOrder({.seed = 3, .offset = 0}), order);
  EXPECT_EQ(LossesInOrder({.seed = 3, .offset = 1000}), order) << "draws do not change the order";
  const std::vector<double> other = LossesInOrder({.seed = 4, .offset = 0});
  EXPECT_NE(other, order);
  EXPECT_THAT(other, UnorderedElementsAreArray(order)) << "each example is visited once";
  EXPECT_EQ(LossesInOrder({.seed = 4, .offset = 0}, /*seed=*/3), order) << "the option replaces the session's seed";
}

// Runs in two sessions, the second one from the checkpoint of the first, and compares with one run.
void ExpectEqualAfterResume(const TrainerOptions& base, int64_t interrupted_after) {
  TrainerOptions options = base;
  options.checkpoint = TestPath("whole.safetensors");
  Session whole = NewSession();
  ASSERT_TRUE(NewTrainer(whole, options).Run({}).ok());

  options.checkpoint = TestPath("resumed.safetensors");
  Session first = NewSession();
  int64_t asked = 0;
  ASSERT_TRUE(NewTrainer(first, options).Run({.should_stop = [&] { return asked++ == interrupted_after; }}).ok());
  EXPECT_NE(ReadAll(options.checkpoint), ReadAll(TestPath("whole.safetensors")));
  Session second = NewSession();
  Trainer trainer = NewTrainer(second, options);
  const absl::Status resumed = trainer.Resume(options.checkpoint);
  ASSERT_TRUE(resumed.ok()) << resumed;
  EXPECT_EQ(trainer.step(), interrupted_after);
  ASSERT_TRUE(trainer.Run({}).ok());
  EXPECT_EQ(ReadAll(options.checkpoint), ReadAll(TestPath("whole.safetensors")));
}

// ThreadSanitizer runs this test as well (testing/sanitize).
TEST(TrainerTest, AnotherThreadStopsARun) {
  TrainerOptions options = Options();
  options.checkpoint = TestPath("stopped.safetensors");
  options.epochs = 100000;
  Session session = NewSession();
  std::atomic<bool> stop = false;
  std::atomic<int64_t> steps = 0;
  std::thread stopper([&] {
    while (steps < 5) std::this_thread::yield();
    stop = true;
  });
  Trainer trainer = NewTrainer(session, options);
  const absl::Status status = trainer.Run({.on_step =
                                               [&](const StepReport& report) {
                                                 steps = report.step;
                                                 return absl::OkStatus();
                                               },
                                           .should_stop = [&] { return stop.load(); }});
  stopper.join();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(trainer.done());
  Session resumed = NewSession();
  Trainer next = NewTrainer(resumed, options);
  ASSERT_TRUE(next.Resume(options.checkpoint).ok());
  EXPECT_EQ(next.step(), trainer.step());
}

TEST(TrainerTest, ResumedRunsHaveTheBitsOfUninterruptedOnes) {
  TrainerOptions options = Options();
  ExpectEqualAfterResume(options, 4);
  options.ema = 0.9;
  options.schedule = {.kind = ScheduleKind::kOneCycle, .warmup_steps = 3};
  options.early_stopping.patience = 2;
  options.evaluate_every = 2;
  for (const int64_t steps : {1, 3, 7, 10}) ExpectEqualAfterResume(options, steps);
}

TEST(TrainerTest, ParameterGroupsKeepTheRatioOfTheirRatesAfterAResume) {
  const std::vector<std::vector<int>> programs = {{0, 1, 2}, {1, 2}, {10, 2}};
  TrainerOptions options = Options();
  options.schedule = {.kind = ScheduleKind::kStep, .step_epochs = 1, .gamma = 0.5};
  for (const std::vector<int>& groups : programs) {
    const int lowest = *std::min_element(groups.begin(), groups.end());
    const auto expect_rates = [&](const Session& session, double first) {
      for (const int group : groups) {
        const double expected = first * (group + 1) / (lowest + 1);
        EXPECT_FLOAT_EQ(static_cast<float>(*session.Hyperparameter("lr", group)), static_cast<float>(expected))
            << group;
      }
    };
    Session session = SessionOfGroups(groups);
    Trainer trainer = NewTrainer(session, options);
    for (int step = 0; step < 4; ++step) ASSERT_TRUE(trainer.Step().ok());
    expect_rates(session, 0.05);
    const std::string path = TestPath("groups.safetensors"), again = TestPath("groups_again.safetensors");
    ASSERT_TRUE(trainer.Save(path).ok());

    Session resumed = SessionOfGroups(groups);
    Trainer next = NewTrainer(resumed, options);
    const absl::Status status = next.Resume(path);
    ASSERT_TRUE(status.ok()) << status;
    expect_rates(resumed, 0.05);
    ASSERT_TRUE(next.Save(again).ok());
    EXPECT_EQ(ReadAll(again), ReadAll(path));

    Session other = SessionOfGroups(groups);
    ASSERT_TRUE(other.SetHyperparameter("lr", 7, 2).ok());
    EXPECT_THAT(std::string(NewTrainer(other, options).Resume(path).message()), HasSubstr("lr of group "));
  }
}

TEST(TrainerTest, CheckpointsAreWrittenWhenTheyAreDue) {
  TrainerOptions options = Options();
  options.checkpoint = TestPath("due.safetensors");
  options.checkpoint_every = 5;
  Session session = NewSession();
  Trainer trainer = NewTrainer(session, options);
  std::vector<int64_t> written;
  ASSERT_TRUE(trainer
                  .Run({.before_checkpoint =
                            [&] {
                              written.push_back(trainer.step());
                              return absl::OkStatus();
                            }})
                  .ok());
  EXPECT_THAT(written, ElementsAre(5, 10, 12));
}

TEST(TrainerTest, ResumeRefusesOtherOptionsDataAndFiles) {
  TrainerOptions options = Options();
  options.checkpoint = TestPath("options.safetensors");
  Session session = NewSession();
  ASSERT_TRUE(NewTrainer(session, options).Run({}).ok());
  const auto refusal = [&](const TrainerOptions& other, const Dataset& data) {
    Session resumed = NewSession();
    absl::StatusOr<Trainer> trainer = Trainer::Create(&resumed, data, Data(7, 100), other);
    EXPECT_TRUE(trainer.ok()) << trainer.status();
    return std::string(trainer->Resume(options.checkpoint).message());
  };
  EXPECT_EQ(refusal(options, Data(20)), "");
  EXPECT_THAT(refusal(options, Data(20, 1)), HasSubstr("is of a run with data = 20 examples, "));
  TrainerOptions other = options;
  other.batch = 4;
  EXPECT_THAT(refusal(other, Data(20)), HasSubstr("is of a run with batch = 8; this one has batch = 4"));
  other = options;
  other.schedule.kind = ScheduleKind::kCosine;
  EXPECT_THAT(refusal(other, Data(20)), HasSubstr("schedule = constant; this one has schedule = cosine"));
  other = options;
  other.epochs = 9;
  EXPECT_EQ(refusal(other, Data(20)), "") << "more epochs continue a constant schedule";
}

TEST(TrainerTest, EarlyStoppingEndsTheRun) {
  TrainerOptions options = Options();
  options.epochs = 100;
  options.lr = 1e-12;  // the weights stay
  options.early_stopping = {.patience = 3, .min_delta = 0.1};
  Session session = NewSession();
  Trainer trainer = NewTrainer(session, options);
  ASSERT_TRUE(trainer.Run({}).ok());
  EXPECT_TRUE(trainer.done());
  EXPECT_EQ(trainer.step(), 4 * 3) << "one evaluation is the best one, three do not improve it";
  EXPECT_EQ(trainer.best().best_step, 3);
}

TEST(TrainerTest, EvaluationsUseTheAveragesAndKeepTheParameters) {
  TrainerOptions options = Options();
  Session plain = NewSession(), averaged = NewSession();
  Trainer without = NewTrainer(plain, options);
  options.ema = 0.99;
  Trainer with = NewTrainer(averaged, options);
  for (int step = 0; step < 6; ++step) {
    ASSERT_TRUE(without.Step().ok());
    ASSERT_TRUE(with.Step().ok());
  }
  EXPECT_LT(without.Evaluate()->score, with.Evaluate()->score) << "averages move slowly";
  EXPECT_EQ(*plain.State("weight")->ToVector<float>(), *averaged.State("weight")->ToVector<float>());
  const std::string path = TestPath("averages.safetensors");
  ASSERT_TRUE(with.SaveModel(path).ok());
  Session loaded = NewSession();
  ASSERT_TRUE(loaded.LoadCheckpoint(path).ok());
  EXPECT_NE(*loaded.State("weight")->ToVector<float>(), *averaged.State("weight")->ToVector<float>());
  Trainer evaluator = NewTrainer(loaded, Options());
  EXPECT_EQ(evaluator.Evaluate()->score, with.Evaluate()->score);
}

TEST(TrainerTest, StaticBatchesSkipTheRestAndPadEvaluations) {
  Session session = NewSession(/*static_batch=*/8), dynamic = NewSession();
  TrainerOptions options = Options();
  Trainer trainer = NewTrainer(session, options);
  EXPECT_EQ(trainer.steps_per_epoch(), 2);
  EXPECT_EQ(trainer.Evaluate()->score, NewTrainer(dynamic, options).Evaluate()->score);
  options.batch = 4;
  EXPECT_THAT(Refusal(options, 8), HasSubstr("batch = 4, but the program takes 8 to 8 examples"));
  EXPECT_THAT(Refusal(Options(), 32), HasSubstr("batch = 8"));
  options.batch = 0;
  EXPECT_THAT(Refusal(options, 32), HasSubstr("there are 20 examples, fewer than a batch of 32"));
}

TEST(TrainerTest, AStepAccumulatesAtMostAnEpoch) {
  ProgramBuilder program = LinearRegression();
  // Methods that Create() finds; no step calls them.
  for (const char* name : {"accumulate", "apply_optimizer"}) {
    const serialization::Method train_step = program.artifact().methods(0);
    auto& method = *program.artifact().add_methods();
    method = train_step;
    method.set_name(name);
  }
  Session session = *Session::Create(program.Load(), {.kernels = &TestKernels(), .threads = 1});
  TrainerOptions options = Options();
  options.accumulate = 2;
  EXPECT_EQ(NewTrainer(session, options).steps_per_epoch(), 2) << "3 batches";
  options.accumulate = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(NewTrainer(session, options).steps_per_epoch(), 1);
}

TEST(TrainerTest, WhatTheProgramLacksIsNamedWithItsCompileOption) {
  TrainerOptions options = Options();
  options.accumulate = 2;
  EXPECT_THAT(Refusal(options), HasSubstr("accumulate = 2, but the program has no methods 'accumulate' and "
                                          "'apply_optimizer'; compile it with CompileOptions.methods.accumulate"));
  options = Options();
  options.clip_norm = 1;
  EXPECT_THAT(Refusal(options), HasSubstr("compile it with OptimizerConfig.clip_norm"));
  options = Options();
  options.clip_value = 1;
  EXPECT_THAT(Refusal(options), HasSubstr("compile it with OptimizerConfig.clip_value"));
}

TEST(TrainerTest, OptionsOutOfRangeAreNamed) {
  const auto refusal = [](void (*change)(TrainerOptions&)) {
    TrainerOptions options = Options();
    change(options);
    return Refusal(options);
  };
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.epochs = 0; }), HasSubstr("epochs = 0"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.epochs = std::numeric_limits<int64_t>::max(); }), HasSubstr("epochs"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.lr = -1; }), HasSubstr("lr = -1"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.ema = 1; }), HasSubstr("decay"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.targets = {"z"}; }), HasSubstr("no column 'z'"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.inputs = {"y"}; }), HasSubstr("two columns are named 'y'"));
  EXPECT_THAT(refusal([](TrainerOptions& o) { o.schedule.warmup_steps = 12; }), HasSubstr("warmup_steps = 12"));
}

TEST(TrainerTest, ALossThatIsNotFiniteEndsTheRun) {
  TrainerOptions options = Options();
  options.lr = 1e30;
  options.epochs = 100;
  Session session = NewSession();
  const absl::Status status = NewTrainer(session, options).Run({});
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("lower the learning rate"));
}

}  // namespace
}  // namespace cotan::training
