// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/commands.h"

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/testing/program_builder.h"
#include "runtime/tools/external_command.h"

namespace cotan::tools {
namespace {

using serialization::Reference;
using serialization::ReferenceTensor;
using ::testing::HasSubstr;
using testing::LinearRegression;
using ::testing::Not;
using testing::ProgramBuilder;
using testing::TestKernels;

void Record(ProgramBuilder& program, const Tensor& tensor, ReferenceTensor& reference) {
  std::vector<std::string> sizes;
  for (int64_t size : tensor.sizes()) sizes.push_back(absl::StrCat(size));
  *reference.mutable_type() = testing::TypeOf(tensor.dtype(), sizes);
  reference.set_segment(
      program.writer().AddSegment(std::string(static_cast<const char*>(tensor.address()), tensor.storage()->bytes())));
  reference.set_tolerance(1e-5);
}

// LinearRegression() with a recorded run of train_step and of the pair; `error` is added to the recorded
// loss.
std::string WriteModel(absl::string_view name, float error = 0) {
  ProgramBuilder program = LinearRegression();
  Session session = *Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .threads = 1});
  const Tensor input = *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor target = *Tensor::From<float>({1, 0, 0, 1}, {2, 2});
  const auto add = [&](const std::string& method, const std::vector<Tensor>& arguments) -> Reference& {
    Reference& reference = *program.artifact().add_references();
    reference.set_method(method);
    for (const Tensor& argument : arguments) Record(program, argument, *reference.add_inputs());
    const std::vector<Tensor> results = *session.Run(method, arguments);
    if (method == "train_step") results[0].data<float>()[0] += error;
    for (const Tensor& result : results) Record(program, result, *reference.add_outputs());
    return reference;
  };
  add("forward", {input});
  add("backward", {target});
  Reference& step = add("train_step", {input, target});
  auto& state = *step.add_states_after();
  state.set_state("weight");
  Record(program, *session.State("weight"), *state.mutable_tensor());

  const std::string path = absl::StrCat(::testing::TempDir(), "/", name, ".cotan");
  const std::string bytes = program.Bytes();
  EXPECT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  return path;
}

struct Outcome {
  absl::Status status;
  std::string text;
};

Outcome RunTool(const std::vector<std::string>& arguments) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::ostringstream out;
  absl::Status status = RunCommand(
      pointers,
      [](absl::string_view device) -> absl::StatusOr<Backend> {
        if (device == "cpu") return Backend{.kernels = &TestKernels()};
        return absl::InvalidArgumentError(absl::StrCat("no backend for --device=", device));
      },
      out);
  return {std::move(status), out.str()};
}

TEST(CommandsTest, InspectShowsStatesMethodsAndProgram) {
  const std::string path = WriteModel("inspected");
  const Outcome brief = RunTool({"inspect", path});
  ASSERT_TRUE(brief.status.ok()) << brief.status;
  EXPECT_THAT(brief.text, HasSubstr("s0 = batch in [1, 64]"));
  EXPECT_THAT(brief.text, HasSubstr("parameter            weight  f32[2,3]  24 bytes"));
  EXPECT_THAT(brief.text,
              HasSubstr("optimizer_slot       optimizer.weight.momentum  f32[2,3]  24 bytes  of weight, = 0"));
  EXPECT_THAT(brief.text, HasSubstr("train_step(input: f32[s0,3], target: f32[s0,2]) -> (loss: f32[])"));
  EXPECT_THAT(brief.text, HasSubstr("updates: weight, bias, optimizer.weight.momentum, step, rng"));
  EXPECT_THAT(brief.text, HasSubstr("backward: backward, 1 saved values"));
  EXPECT_THAT(brief.text, Not(HasSubstr("method @")));
  EXPECT_THAT(RunTool({"inspect", "--program", path}).text, HasSubstr("method @eval(%0: f32[s0,3] \"input\") {"));
}

// Writes a program that computes x * scale, with a recorded run.
std::string WriteScaled() {
  ProgramBuilder program;
  testing::MethodBuilder method = program.AddMethod("scaled");
  const uint32_t x = method.Input("x", DType::kFloat32, {"2"});
  const uint32_t scale = method.Input("scale", DType::kFloat64, {});
  method.Output("y", method.Pointwise({"2"}, {x, scale},
                                      [](testing::ExprBuilder& b) { return b.Mul(0, b.Cast(1, DType::kFloat32)); }));
  Reference& reference = *program.artifact().add_references();
  reference.set_method("scaled");
  Record(program, *Tensor::From<float>({1, -2}, {2}), *reference.add_inputs());
  Record(program, *Tensor::Scalar(0.5), *reference.add_inputs());
  Record(program, *Tensor::From<float>({0.5, -1}, {2}), *reference.add_outputs());
  const std::string path = absl::StrCat(::testing::TempDir(), "/scaled.cotan");
  const std::string bytes = program.Bytes();
  EXPECT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  return path;
}

TEST(CommandsTest, RunTakesOtherNumbers) {
  const std::string path = WriteScaled();
  EXPECT_THAT(RunTool({"run", path, "--method=scaled"}).text, HasSubstr("y: f32[2] = [0.5, -1]"));
  EXPECT_THAT(RunTool({"run", path, "--method=scaled", "--numbers=scale=-3"}).text, HasSubstr("= [-3, 6]"));
  EXPECT_THAT(RunTool({"run", path, "--method=scaled", "--numbers=scale=1e3"}).text, HasSubstr("= [1000, -2000]"));
  EXPECT_THAT(std::string(RunTool({"run", path, "--method=scaled", "--numbers=size=1"}).status.message()),
              HasSubstr("'size=1' is not INPUT=NUMBER with an input of 'scaled'"));
  EXPECT_THAT(std::string(RunTool({"run", path, "--method=scaled", "--numbers=scale=one"}).status.message()),
              HasSubstr("'one' is not a number"));
  EXPECT_THAT(std::string(RunTool({"run", path, "--method=scaled", "--numbers=x=1"}).status.message()),
              HasSubstr("argument 'x': expected f32[2], got the integer 1"));
}

TEST(CommandsTest, InspectShowsMutatedBuffers) {
  ProgramBuilder program = LinearRegression();
  const uint32_t state =
      program.AddState("bn.running_mean", serialization::State::BUFFER, DType::kFloat32, {"2"}, /*fill=*/0);
  serialization::Method& method = *program.artifact().mutable_methods(0);
  testing::MethodBuilder builder(method);
  builder.Update(state, builder.Read(state, DType::kFloat32, {"2"}));
  method.mutable_signature()->add_buffers("bn.running_mean");
  method.mutable_signature()->add_user_inputs("input");
  method.mutable_signature()->add_user_inputs("target");
  method.mutable_signature()->add_user_outputs("loss");
  method.mutable_metadata()->add_input_info()->set_mutates_data(true);
  method.mutable_metadata()->mutable_input_info(0)->set_mutations_hidden_from_autograd(true);
  method.mutable_metadata()->add_input_info()->set_requires_grad(true);
  method.mutable_metadata()->add_input_info();
  method.mutable_metadata()->add_output_info()->set_output_type(serialization::NON_ALIAS);
  const std::string path = absl::StrCat(::testing::TempDir(), "/mutated.cotan");
  const std::string bytes = program.Bytes();
  ASSERT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  const Outcome outcome = RunTool({"inspect", path});
  EXPECT_THAT(outcome.text, HasSubstr(R"(  ViewAndMutationMeta:
    inference
    input 0 "bn.running_mean": mutates data, hidden from autograd, written back by the runtime
    input 1 "input": requires grad, not mutated
    input 2 "target": not mutated
    output 0 "loss": non_alias
)"));
}

TEST(CommandsTest, ContradictoryMetadataIsRefusedAtLoad) {
  ProgramBuilder program = LinearRegression();
  serialization::Method& method = *program.artifact().mutable_methods(0);
  method.mutable_metadata()->add_output_info()->set_output_type(serialization::IS_INPUT);
  const std::string path = absl::StrCat(::testing::TempDir(), "/contradictory.cotan");
  const std::string bytes = program.Bytes();
  ASSERT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  const Outcome outcome = RunTool({"inspect", path});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(outcome.status.message()),
      HasSubstr("method 'train_step': metadata.output_info[0].base_index: is missing, but the output is is_input"));
}

TEST(CommandsTest, VerifyPassesOnWhatWasRecorded) {
  const Outcome outcome = RunTool({"verify", WriteModel("verified"), "--threads=1"});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("ok   backward result weight f32[2,3]"));
  EXPECT_THAT(outcome.text, HasSubstr("ok   train_step state weight f32[2,3]"));
  EXPECT_THAT(outcome.text, HasSubstr("\n6 passed, 0 failed\n"));
}

TEST(CommandsTest, VerifyNamesWhatTheRecordedRunsLeaveOpen) {
  const Outcome outcome = RunTool({"verify", WriteModel("open"), "--threads=1"});
  EXPECT_THAT(outcome.text, HasSubstr("not checked: eval, of which no run is recorded\n"));
  EXPECT_THAT(outcome.text, HasSubstr("not checked: train_step states bias, optimizer.weight.momentum, step, rng, "
                                      "which are not recorded\n"));
  EXPECT_THAT(outcome.text, Not(HasSubstr("not checked: forward")));
  EXPECT_THAT(outcome.text, Not(HasSubstr("not checked: backward")));
}

TEST(CommandsTest, AdaptersAreRefusedWhereThereAreNone) {
  const Outcome outcome = RunTool({"adapters", WriteModel("plain"), "--out=/nowhere"});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("compile it with --lora="));
  EXPECT_THAT(std::string(RunTool({"adapters", WriteModel("plain")}).status.message()), HasSubstr("--out=FOLDER"));
}

TEST(CommandsTest, NamesOfAdaptersAreEscapedInTheirConfiguration) {
  ProgramBuilder program = LinearRegression();
  const uint32_t down = program.AddState("a\"b.lora_A.weight", serialization::State::PARAMETER, {"1", "3"}, {1, 2, 3});
  const uint32_t up = program.AddState("a\"b.lora_B.weight", serialization::State::PARAMETER, {"2", "1"}, {4, 5});
  program.AddState("a\"b.lora_scaling", serialization::State::BUFFER, {}, {2});
  program.AddState("a\"b.weight", serialization::State::PARAMETER, {"2", "3"}, {1, 2, 3, 4, 5, 6});
  for (const uint32_t state : {down, up}) {
    program.artifact().mutable_states(static_cast<int>(state))->set_requires_grad(true);
  }
  const std::string folder = ::testing::TempDir(), path = folder + "/quoted.cotan";
  const std::string bytes = program.Bytes();
  ASSERT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  const Outcome outcome = RunTool({"adapters", path, "--out=" + folder});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const absl::StatusOr<MappedFile> config = MappedFile::Open(folder + "/adapter_config.json");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(std::string(config->bytes()), HasSubstr(R"("target_modules": ["a\u0022b"],)"));
}

TEST(CommandsTest, VerifyNamesWhatDiffers) {
  const Outcome outcome = RunTool({"verify", WriteModel("wrong", /*error=*/1)});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(outcome.text, HasSubstr("FAIL train_step result loss f32[]: error 1"));
  EXPECT_THAT(outcome.text, HasSubstr("5 passed, 1 failed\n"));
}

// LinearRegression() with a running mean of 2e-8 on the device, and of `recorded` in a recorded run of the
// forward; the running variance is 1.
std::string WriteRunningMean(absl::string_view name, float recorded, bool has_variance) {
  ProgramBuilder program = LinearRegression();
  program.AddState("bn.running_mean", serialization::State::BUFFER, {"1"}, {2e-8f});
  program.AddState("bn.running_var", serialization::State::BUFFER, {"1"}, {1});
  Reference& run = *program.artifact().add_references();
  run.set_method("forward");
  const Tensor input = *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  Session session = *Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .threads = 1});
  Record(program, input, *run.add_inputs());
  Record(program, (*session.Run("forward", {input}))[0], *run.add_outputs());
  const auto add = [&](const char* state, float value) {
    auto& after = *run.add_states_after();
    after.set_state(state);
    Record(program, *Tensor::From<float>({value}, {1}), *after.mutable_tensor());
  };
  add("bn.running_mean", recorded);
  if (has_variance) add("bn.running_var", 1);
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name, ".cotan");
  const std::string bytes = program.Bytes();
  EXPECT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  return path;
}

TEST(CommandsTest, VerifyComparesARunningMeanThatIsNoiseOnTheScaleOfItsVariance) {
  for (const float recorded : {1e-8f, 0.0f, -3e-8f}) {
    const Outcome noise = RunTool({"verify", WriteRunningMean("noise", recorded, /*has_variance=*/true)});
    EXPECT_TRUE(noise.status.ok()) << recorded << "\n" << noise.status << "\n" << noise.text;
    EXPECT_THAT(noise.text, HasSubstr("allowed 1e-07"));
  }
  for (const float recorded : {2e-7f, 1e-3f, 1.0f}) {
    const Outcome wrong = RunTool({"verify", WriteRunningMean("mean", recorded, /*has_variance=*/true)});
    EXPECT_THAT(wrong.text, HasSubstr("FAIL forward state bn.running_mean f32[1]")) << recorded;
  }
  const Outcome alone = RunTool({"verify", WriteRunningMean("alone", 1e-8f, /*has_variance=*/false)});
  EXPECT_THAT(alone.text, HasSubstr("FAIL forward state bn.running_mean f32[1]"));
}

TEST(CommandsTest, BenchTimesEveryMethodThatCanRunAlone) {
  const Outcome outcome = RunTool({"bench", WriteModel("timed"), "--steps=20", "--threads=1"});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, HasSubstr("forward: median "));
  EXPECT_THAT(outcome.text, HasSubstr("train_step: median "));
  EXPECT_THAT(outcome.text, Not(HasSubstr("backward")));
}

TEST(CommandsTest, CommandsThatRunMethodsFlushSubnormalNumbersIfAsked) {
  const std::string path = WriteScaled();
  const std::vector<std::string> run = {"run", path, "--method=scaled", "--numbers=scale=1e-39", "--threads=1"};
  std::vector<std::string> flushed = run;
  flushed.push_back("--flush_denormals");
  EXPECT_THAT(RunTool(run).text, HasSubstr("= [1e-39, -2e-39]"));
  EXPECT_THAT(RunTool(flushed).text, HasSubstr("= [0, -0]"));
  for (const std::string& command : {"bench", "verify"}) {
    const Outcome outcome = RunTool({command, path, "--threads=1", "--flush_denormals"});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status << "\n" << outcome.text;
  }
}

TEST(CommandsTest, BenchAsksForRecordedRuns) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/unrecorded.cotan");
  const std::string profile = absl::StrCat(::testing::TempDir(), "/unrecorded.profile");
  const std::string bytes = LinearRegression().Bytes();
  ASSERT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  const Outcome outcome = RunTool({"bench", path, "--threads=1", "--profile=" + profile});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("compile it with references"));
  EXPECT_FALSE(MappedFile::Open(profile).ok());
}

TEST(CommandsTest, AProfileNamesTheStepsAndTheirShares) {
  const Outcome outcome =
      RunTool({"bench", WriteModel("profiled"), "--method=train_step", "--steps=3", "--threads=1", "--profile"});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, HasSubstr("rates of this machine: "));
  EXPECT_THAT(outcome.text, HasSubstr("100.0 %  all "));
  EXPECT_THAT(outcome.text, HasSubstr("all 2 steps of kind matmul"));
  EXPECT_THAT(outcome.text, HasSubstr(" %  method 'train_step', op 1 (matmul)"));
}

TEST(CommandsTest, ATimelineIsAPictureOfAllMethods) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/timeline.svg");
  const Outcome outcome = RunTool({"bench", WriteModel("timeline"), "--steps=2", "--threads=1", "--timeline=" + path});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(std::string(file->bytes()), HasSubstr(">train_step: "));
  EXPECT_THAT(std::string(file->bytes()), HasSubstr("matmul: "));
  EXPECT_FALSE(RunTool({"bench", WriteModel("timeline"), "--timeline"}).status.ok());
}

TEST(CommandsTest, RunGoesOnFromACheckpoint) {
  const std::string path = WriteModel("run");
  const std::string half = absl::StrCat(::testing::TempDir(), "/half.safetensors");
  const Outcome whole = RunTool({"run", path, "--steps=4"});
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  ASSERT_TRUE(RunTool({"run", path, "--steps=2", "--save=" + half}).status.ok());
  const Outcome rest = RunTool({"run", path, "--steps=2", "--checkpoint=" + half});
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  const std::string last = rest.text.substr(rest.text.rfind("loss"));
  EXPECT_EQ(last, whole.text.substr(whole.text.rfind("loss")));
}

TEST(CommandsTest, TrainLearnsFromATableAndContinues) {
  std::string table = "a,b,c,sum,difference\n";
  for (int i = 0; i < 24; ++i) {
    const double a = i % 3, b = i % 4, c = i % 5;
    absl::StrAppend(&table, a, ",", b, ",", c, ",", a + b, ",", b - c, "\n");
  }
  const std::string folder = ::testing::TempDir();
  ASSERT_TRUE(WriteFileAtomically(folder + "/table.csv", {table}).ok());
  const std::string path = WriteModel("trained");
  const auto train = [&](std::vector<std::string> options) {
    std::vector<std::string> arguments = {"train",      path,        "--data=" + folder + "/table.csv",
                                          "--lr=0.02",  "--batch=8", "--targets=sum,difference",
                                          "--threads=1"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return RunTool(arguments);
  };
  const Outcome whole = train({"--epochs=60", "--held_out=0.25", "--save=" + folder + "/whole"});
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  EXPECT_THAT(whole.text, HasSubstr("18 examples in batches of 8, 6 held out; step 0 of 180\n"));
  EXPECT_THAT(whole.text, HasSubstr("epoch 60: loss 0.0"));
  EXPECT_THAT(whole.text, HasSubstr("step 180: held-out mse 0.0"));
  const std::string checkpoint = "--checkpoint=" + folder + "/part";
  ASSERT_TRUE(train({"--epochs=20", "--held_out=0.25", checkpoint}).status.ok());
  const Outcome rest = train({"--epochs=60", "--held_out=0.25", checkpoint, "--resume", "--save=" + folder + "/parts"});
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_THAT(rest.text, HasSubstr("step 60 of 180"));
  EXPECT_EQ(MappedFile::Open(folder + "/parts")->bytes(), MappedFile::Open(folder + "/whole")->bytes());

  EXPECT_THAT(RunTool({"train", "--help"}).text, HasSubstr("usage: cotan train FILE.cotan"));
  EXPECT_THAT(std::string(train({"--epochs=0"}).status.message()), HasSubstr("--epochs=0"));
  EXPECT_THAT(std::string(train({"--numbers=1"}).status.message()), HasSubstr("unknown option --numbers"));
}

TEST(CommandsTest, TrainNamesTheErrorOfAStepBeforeThatOfTheCurve) {
  const std::string folder = ::testing::TempDir();
  const std::string table = "1,2,3,4,5\n6,7,8,9,10\n";
  ASSERT_TRUE(WriteFileAtomically(folder + "/diverging.csv", {table}).ok());
  const Outcome outcome =
      RunTool({"train", WriteModel("diverging"), "--data=" + folder + "/diverging.csv", "--targets=3,4", "--epochs=100",
               "--lr=1e30", "--threads=1", "--curve=" + folder + "/no_such_folder/curve.svg"});
  EXPECT_EQ(outcome.status.code(), absl::StatusCode::kAborted) << outcome.status;
  EXPECT_THAT(std::string(outcome.status.message()), HasSubstr("lower the learning rate"));
}

TEST(CommandsTest, EveryCommandIsInTheUsageText) {
  for (const absl::string_view name : {"inspect", "verify", "bench", "run", "adapters", "train", "diff", "reduce"}) {
    EXPECT_TRUE(IsCommand(name)) << name;
    EXPECT_THAT(std::string(Usage()), HasSubstr(absl::StrCat("\n  ", name, " ")));
  }
}

TEST(CommandsTest, OptionsOfOtherCommandsAreRefused) {
  const auto refusal = [](const std::vector<std::string>& arguments) {
    const Outcome outcome = RunTool(arguments);
    EXPECT_EQ(outcome.status.code(), absl::StatusCode::kInvalidArgument) << outcome.status;
    return std::string(outcome.status.message());
  };
  EXPECT_EQ(refusal({"verify", "x", "--checkpoint=c"}),
            "verify: unknown option --checkpoint; there are: --threads, --device, --flush_denormals");
  EXPECT_THAT(refusal({"--checkpoint=c", "bench", "x"}), HasSubstr("bench: unknown option --checkpoint"));
  EXPECT_THAT(refusal({"run", "x", "--profile=p"}), HasSubstr("run: unknown option --profile"));
  EXPECT_THAT(refusal({"adapters", "x", "--steps=2"}), HasSubstr("adapters: unknown option --steps"));
  EXPECT_THAT(refusal({"reduce", "x", "--steps=2"}), HasSubstr("reduce: unknown option --steps"));
  EXPECT_EQ(refusal({"diff", "x", "y", "--program"}), "diff: unknown option --program; there are: none");
  EXPECT_THAT(refusal({"inspect", "x", "--profile=p"}), HasSubstr("--profile needs --html=FILE"));
}

TEST(CommandsTest, MistakesAreExplained) {
  EXPECT_THAT(std::string(RunTool({"inspect"}).status.message()), HasSubstr("usage: cotan"));
  EXPECT_THAT(std::string(RunTool({"explain", "x"}).status.message()), HasSubstr("unknown command 'explain'"));
  EXPECT_TRUE(IsCommand("train"));
  EXPECT_FALSE(IsCommand("explain"));
  EXPECT_THAT(std::string(RunExternalCommand({"explain"}).message()), HasSubstr("there is no program cotan-explain"));
  EXPECT_THAT(std::string(RunExternalCommand({"../explain"}).message()), HasSubstr("'../explain' is not a command"));
  EXPECT_THAT(std::string(RunTool({"bench", "x", "--stpes=3"}).status.message()),
              HasSubstr("there are: --threads, --steps"));
  EXPECT_THAT(std::string(RunTool({"bench", "x", "--steps=0"}).status.message()), HasSubstr("at least 1"));
  EXPECT_THAT(std::string(RunTool({"bench", "x", "--steps=3", "--steps=4"}).status.message()), HasSubstr("twice"));
  EXPECT_THAT(std::string(RunTool({"--steps=3"}).status.message()), HasSubstr("expected a command and a file"));
  EXPECT_EQ(RunTool({"verify", "/nonexistent.cotan"}).status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(RunTool({"run", WriteModel("plain"), "--method=eval"}).status.code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cotan::tools
