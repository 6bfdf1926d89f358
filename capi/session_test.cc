// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/session.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "capi/effect_program.h"
#include "capi/test_handles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"
#include "runtime/testing/program_builder.h"

namespace cotan::capi {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<float> kInput = {1, 2, 3, -1, 0.5f, 2};

void CountRelease(void* context) { ++*static_cast<int*>(context); }

// Runs a method with one argument and one result.
cotan_status RunOne(const SessionHandle& session, const char* method, cotan_tensor* argument, cotan_tensor** result) {
  return cotan_session_run(session.get(), method, &argument, 1, result, 1);
}

void* DataOf(const cotan_tensor* tensor) {
  cotan_tensor_info info = COTAN_TENSOR_INFO_INIT;
  EXPECT_EQ(cotan_tensor_get_info(tensor, &info), COTAN_OK);
  return info.data;
}

TEST(CSessionTest, TrainingGivesTheBitsOfTheCppInterface) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  Session expected =
      *Session::Create(testing::LinearRegression().Load(), {.kernels = &testing::TestKernels(), .threads = 1});
  const Tensor input = *Tensor::From<float>(kInput, {2, 3});
  const Tensor target = *Tensor::From<float>({1, 0, -1, 2}, {2, 2});
  for (int step = 0; step < 4; ++step) {
    const auto results = expected.Run("train_step", {input, target});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(TrainOnce(session.get()), *(*results)[0].Item<float>());
    EXPECT_EQ(StateOf(session.get(), "weight"), *expected.State("weight")->ToVector<float>());
  }
}

TEST(CSessionTest, GivenResultsAreWrittenInTheirMemory) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const TensorHandle input = F32(kInput, {2, 3});
  cotan_tensor* result = nullptr;
  ASSERT_EQ(RunOne(session, "eval", input.get(), &result), COTAN_OK) << cotan_last_error();
  const TensorHandle owner(result);
  const std::vector<float> expected = Floats(result);
  void* const data = DataOf(result);
  ASSERT_EQ(RunOne(session, "eval", input.get(), &result), COTAN_OK) << cotan_last_error();
  EXPECT_EQ(result, owner.get());
  EXPECT_EQ(DataOf(result), data);
  EXPECT_EQ(Floats(result), expected);
}

TEST(CSessionTest, AResultWithoutRoomGetsOtherMemory) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  float small[2] = {};
  const int64_t sizes[] = {1, 2};
  int released = 0;
  cotan_tensor* result = nullptr;
  ASSERT_EQ(cotan_tensor_borrow(COTAN_F32, 2, sizes, nullptr, small, sizeof(small), CountRelease, &released, &result),
            COTAN_OK);
  const TensorHandle owner(result);
  const TensorHandle input = F32(kInput, {2, 3});
  ASSERT_EQ(RunOne(session, "eval", input.get(), &result), COTAN_OK) << cotan_last_error();
  EXPECT_EQ(result, owner.get());
  EXPECT_EQ(Floats(result).size(), 4u);
  EXPECT_EQ(released, 1);
  EXPECT_EQ(small[0], 0);
}

TEST(CSessionTest, ABackwardGivesTheGradientsOfItsForward) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const TensorHandle input = F32({1, 2, 3}, {1, 3});
  const TensorHandle tangent = F32({1, 2}, {1, 2});
  cotan_tensor* gradient = nullptr;
  EXPECT_EQ(cotan_session_gradient(session.get(), "weight", &gradient), COTAN_FAILED_PRECONDITION);
  cotan_tensor* results[3] = {};
  cotan_tensor* tangents[] = {tangent.get()};
  EXPECT_EQ(cotan_session_run(session.get(), "backward", tangents, 1, results, 3), COTAN_FAILED_PRECONDITION);
  EXPECT_EQ(results[0], nullptr);
  cotan_tensor* prediction = nullptr;
  ASSERT_EQ(RunOne(session, "forward", input.get(), &prediction), COTAN_OK) << cotan_last_error();
  const TensorHandle prediction_owner(prediction);
  ASSERT_EQ(cotan_session_run(session.get(), "backward", tangents, 1, results, 3), COTAN_OK) << cotan_last_error();
  const TensorHandle owners[] = {TensorHandle(results[0]), TensorHandle(results[1]), TensorHandle(results[2])};
  EXPECT_THAT(Floats(results[0]), ElementsAre(1, 2, 3, 2, 4, 6));
  ASSERT_EQ(cotan_session_gradient(session.get(), "bias", &gradient), COTAN_OK) << cotan_last_error();
  const TensorHandle gradient_owner(gradient);
  EXPECT_THAT(Floats(gradient), ElementsAre(1, 2));
  EXPECT_NE(DataOf(gradient), DataOf(results[1]));
  EXPECT_EQ(cotan_session_gradient(session.get(), "step", &gradient), COTAN_NOT_FOUND);
}

TEST(CSessionTest, WrongCallsAreNamedAndChangeNothing) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const std::vector<float> weight = StateOf(session.get(), "weight");
  const TensorHandle input = F32(kInput, {2, 3});
  const TensorHandle target = F32({1, 0, -1, 2}, {2, 2});
  cotan_tensor* results[2] = {};
  const auto run = [&](const char* method, std::vector<cotan_tensor*> arguments, size_t num_results) {
    return cotan_session_run(session.get(), method, arguments.data(), arguments.size(), results, num_results);
  };
  EXPECT_EQ(run("train", {input.get(), target.get()}, 1), COTAN_NOT_FOUND);
  EXPECT_THAT(cotan_last_error(), HasSubstr("cotan_session_run: no method 'train'; there are: "));
  EXPECT_EQ(run("train_step", {input.get()}, 1), COTAN_INVALID_ARGUMENT);
  EXPECT_EQ(run("train_step", {input.get(), target.get()}, 2), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("has 1 results, got room for 2"));
  EXPECT_EQ(run("train_step", {input.get(), input.get()}, 1), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("target"));
  EXPECT_EQ(run("train_step", {input.get(), nullptr}, 1), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("argument 1 is NULL"));
  const TensorHandle many = F32(std::vector<float>(3 * 65), {65, 3});
  EXPECT_EQ(run("eval", {many.get()}, 1), COTAN_OUT_OF_RANGE);
  EXPECT_EQ(results[0], nullptr);
  EXPECT_EQ(StateOf(session.get(), "weight"), weight);
}

TEST(CSessionTest, OneTensorCannotBeTwoResults) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const TensorHandle tensor = F32({0, 0}, {2});
  cotan_tensor* results[] = {tensor.get(), nullptr, tensor.get()};
  EXPECT_EQ(cotan_session_run(session.get(), "backward", nullptr, 0, results, 3), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("result 2 is the tensor of an earlier result"));
}

TEST(CSessionTest, TimedRunsReturnTheTimeOfEachStep) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  TensorHandle input = F32(kInput, {2, 3});
  cotan_tensor* argument = input.get();
  cotan_tensor* result = nullptr;
  size_t num_steps = 0;
  ASSERT_EQ(cotan_session_run_timed(session.get(), "eval", &argument, 1, &result, 1, nullptr, &num_steps), COTAN_OK)
      << cotan_last_error();
  const TensorHandle owner(result);
  ASSERT_GT(num_steps, 0u);
  std::vector<int64_t> times(num_steps, -1);
  ASSERT_EQ(cotan_session_run_timed(session.get(), "eval", &argument, 1, &result, 1, times.data(), &num_steps),
            COTAN_OK);
  for (int64_t time : times) EXPECT_GE(time, 0);
}

TEST(CSessionTest, SubnormalNumbersAreZerosIfTheOptionsSaySo) {
  const ProgramHandle program = LoadLinearRegression();
  const TensorHandle small = F32(std::vector<float>(6, 1e-38F), {2, 3});
  for (const bool flush : {false, true}) {
    cotan_session_options options = COTAN_SESSION_OPTIONS_INIT;
    options.threads = 1;
    options.flush_denormals = flush ? 1 : 0;
    const SessionHandle session = MakeSession(program.get(), &options);
    ASSERT_EQ(cotan_session_set_state(session.get(), "optimizer.weight.momentum", small.get()), COTAN_OK);
    const TensorHandle input = F32(std::vector<float>(6), {2, 3});
    const TensorHandle target = F32({1, 0, -1, 2}, {2, 2});
    cotan_tensor* arguments[] = {input.get(), target.get()};
    cotan_tensor* loss = nullptr;
    ASSERT_EQ(cotan_session_run(session.get(), "train_step", arguments, 2, &loss, 1), COTAN_OK) << cotan_last_error();
    const TensorHandle owner(loss);
    EXPECT_EQ(StateOf(session.get(), "optimizer.weight.momentum"), std::vector<float>(6, flush ? 0 : 5e-39F));
  }
}

TEST(CSessionTest, OptionsAreChecked) {
  const ProgramHandle program = LoadLinearRegression();
  cotan_session* session = nullptr;
  cotan_session_options options = COTAN_SESSION_OPTIONS_INIT;
  options.device = "tpu";
  EXPECT_EQ(cotan_session_create(program.get(), &options, &session), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("options.device is 'tpu'"));
  options = COTAN_SESSION_OPTIONS_INIT;
  options.threads = -1;
  EXPECT_EQ(cotan_session_create(program.get(), &options, &session), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("threads = -1"));
  options = COTAN_SESSION_OPTIONS_INIT;
  options.struct_size = 8;
  EXPECT_EQ(cotan_session_create(program.get(), &options, &session), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("options.struct_size is 8"));
  EXPECT_EQ(session, nullptr);
  options = COTAN_SESSION_OPTIONS_INIT;
  options.device = "cpu";
  EXPECT_NE(MakeSession(program.get(), &options), nullptr);
}

TEST(CSessionTest, ResultsOutliveSessionAndProgram) {
  ProgramHandle program = LoadLinearRegression();
  SessionHandle session = MakeSession(program.get());
  const TensorHandle input = F32({0, 0, 0}, {1, 3});
  cotan_tensor* result = nullptr;
  ASSERT_EQ(RunOne(session, "eval", input.get(), &result), COTAN_OK);
  const TensorHandle owner(result);
  program.reset();
  session.reset();
  EXPECT_THAT(Floats(result), ElementsAre(0.25f, -0.25f));
}

// --- effects -----------------------------------------------------------------

ProgramHandle EffectProgram() {
  const std::string bytes = EffectProgramBytes();
  cotan_program* program = nullptr;
  EXPECT_EQ(cotan_program_load_copy(bytes.data(), bytes.size(), "effects", &program), COTAN_OK) << cotan_last_error();
  return ProgramHandle(program);
}

struct Seen {
  std::vector<std::string> effects;
  cotan_status answer = COTAN_OK;
  cotan_session* session = nullptr;
  cotan_status nested = COTAN_OK;
  bool throws = false;
};

cotan_status Record(void* context, const cotan_effect* effect) {
  Seen& seen = *static_cast<Seen*>(context);
  if (seen.throws) throw std::runtime_error("thrown by the handler");
  seen.effects.push_back(std::to_string(effect->kind) + " " + effect->name + ": " + effect->message);
  if (effect->kind == COTAN_EFFECT_PRINT) {
    EXPECT_THAT(Floats(effect->value), ElementsAre(1, 2));
  }
  seen.nested = cotan_session_synchronize(seen.session);
  return seen.answer;
}

class CEffectTest : public ::testing::Test {
 protected:
  void Make(bool handle_assertions) {
    cotan_session_options options = COTAN_SESSION_OPTIONS_INIT;
    options.on_effect = Record;
    options.on_effect_context = &seen_;
    options.handle_assertions = handle_assertions ? 1 : 0;
    session_ = MakeSession(program_.get(), &options);
    seen_.session = session_.get();
  }
  cotan_status Run(bool ok) {
    const TensorHandle x = F32({1, 2}, {2});
    cotan_tensor* truth = nullptr;
    EXPECT_EQ(cotan_tensor_create(COTAN_BOOL, 0, nullptr, &ok, 1, &truth), COTAN_OK) << cotan_last_error();
    const TensorHandle truth_owner(truth);
    cotan_tensor* arguments[] = {x.get(), truth};
    cotan_tensor* results[] = {nullptr};
    const cotan_status status = cotan_session_run(session_.get(), "double", arguments, 2, results, 1);
    cotan_tensor_free(results[0]);
    return status;
  }

  ProgramHandle program_ = EffectProgram();
  SessionHandle session_;
  Seen seen_;
};

TEST_F(CEffectTest, AProgramWithPrintsNeedsAHandler) {
  cotan_session* session = nullptr;
  EXPECT_EQ(cotan_session_create(program_.get(), nullptr, &session), COTAN_FAILED_PRECONDITION);
  EXPECT_THAT(cotan_last_error(), HasSubstr("fc"));
}

TEST_F(CEffectTest, PrintsReachTheHandlerAndFailedAssertionsFailTheRun) {
  Make(/*handle_assertions=*/false);
  EXPECT_EQ(Run(true), COTAN_OK) << cotan_last_error();
  EXPECT_THAT(seen_.effects, ElementsAre("0 fc: first"));
  EXPECT_EQ(Run(false), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("x is odd"));
}

TEST_F(CEffectTest, TheHandlerMayDecideAboutAssertions) {
  Make(/*handle_assertions=*/true);
  EXPECT_EQ(Run(false), COTAN_OK) << cotan_last_error();
  EXPECT_THAT(seen_.effects, ElementsAre("0 fc: first", "2 check: x is odd"));
}

TEST_F(CEffectTest, AnErrorOfTheHandlerIsThatOfTheRun) {
  Make(/*handle_assertions=*/false);
  seen_.answer = COTAN_ABORTED;
  EXPECT_EQ(Run(true), COTAN_ABORTED);
  EXPECT_THAT(cotan_last_error(), HasSubstr("the handler of print 'fc' returned ABORTED: first"));
  seen_.answer = 99;
  EXPECT_EQ(Run(true), COTAN_UNKNOWN);
}

TEST_F(CEffectTest, TheHandlerCannotUseTheSession) {
  Make(/*handle_assertions=*/false);
  EXPECT_EQ(Run(true), COTAN_OK);
  EXPECT_EQ(seen_.nested, COTAN_FAILED_PRECONDITION);
}

TEST_F(CEffectTest, AnExceptionOfTheHandlerDoesNotLeaveTheLibrary) {
  Make(/*handle_assertions=*/false);
  seen_.throws = true;
  EXPECT_EQ(Run(true), COTAN_INTERNAL);
  EXPECT_THAT(cotan_last_error(), HasSubstr("the handler of print 'fc' has thrown an exception"));
  seen_.throws = false;
  EXPECT_EQ(Run(true), COTAN_OK) << cotan_last_error();
}

}  // namespace
}  // namespace cotan::capi
