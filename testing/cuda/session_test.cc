// SPDX-License-Identifier: Apache-2.0

// What a session promises holds on a GPU, too: errors, checkpoints, arguments, memory, effects.
#include "runtime/session.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/sim_device.h"
#include "kernels/cuda/testing/test_device.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/testing/program_builder.h"

namespace cotan::testing {
namespace {

using cuda::testing::SimDevice;
using cuda::testing::TestDevice;
using serialization::Effect;
using serialization::Op;
using serialization::State;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Sizes kFour = {"4"};

std::unique_ptr<TestDevice> NewDevice(SimDevice::Options options = {}) {
  absl::StatusOr<std::unique_ptr<TestDevice>> device = TestDevice::Create(options);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

Session NewSession(std::shared_ptr<const Program> program, TestDevice& gpu, const EffectHandlers& effects = {}) {
  absl::StatusOr<Session> session =
      Session::Create(std::move(program), {.kernels = &CudaKernels(), .device = &gpu.device(), .effects = effects});
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

// Checks how many graphs a simulated GPU has launched.
void ExpectGraphLaunches(TestDevice& gpu, int64_t launches) {
  if (gpu.simulated() == nullptr) return;
  EXPECT_EQ(gpu.simulated()->gpu().statistics().graph_launches, launches);
}

// Another `shift` gives other values.
std::vector<Tensor> Batch(int size, size_t shift = 0) {
  std::vector<float> inputs(static_cast<size_t>(3 * size));
  std::vector<float> targets(static_cast<size_t>(2 * size));
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = static_cast<float>((i + shift) % 7) / 8;
  for (size_t i = 0; i < targets.size(); ++i) targets[i] = static_cast<float>((i + shift) % 5) / 4;
  return {*Tensor::From<float>(inputs, {size, 3}), *Tensor::From<float>(targets, {size, 2})};
}

// Adds 1 to the state "s" and returns rows of it by a checked index.
std::shared_ptr<const Program> CountedGather() {
  ProgramBuilder program;
  const uint32_t state = program.AddState("s", State::BUFFER, kFour, {1, 2, 3, 4});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t index = m.Input("index", DType::kInt64, {"2"});
  const uint32_t value = m.Read(state, DType::kFloat32, kFour);
  const uint32_t rows = m.AddValue(DType::kFloat32, {"2"});
  Op gather;
  gather.mutable_gather();
  m.AddOp(gather, {value, index}, {rows}).set_source("aten.embedding");
  m.Output("rows", rows);
  m.Update(state, m.Pointwise(kFour, {value}, [](ExprBuilder& b) { return b.Add(0, b.Constant(DType::kFloat32, 1)); }));
  return program.Load();
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(CudaSessionTest, AnErrorOfAValueComesLaterAndLeavesStatesAsTheyWere) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const std::shared_ptr<const Program> program = CountedGather();
  Session session = NewSession(program, *gpu);
  const Tensor good = *Tensor::From<int64_t>({3, -1}, {2});
  const Tensor bad = *Tensor::From<int64_t>({0, 4}, {2});
  ASSERT_TRUE(session.Run("run", {good}).ok());
  ASSERT_TRUE(session.Run("run", {bad}).ok());   // queued
  ASSERT_TRUE(session.Run("run", {good}).ok());  // changes nothing either
  const absl::Status status = session.Synchronize();

  Session on_cpu = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  EXPECT_EQ(status, on_cpu.Run("run", {bad}).status());
  EXPECT_THAT(std::string(status.message()), HasSubstr("op 0 (gather) from aten.embedding"));
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(2, 3, 4, 5));

  const auto results = session.Run("run", {good});
  ASSERT_TRUE(results.ok());
  EXPECT_THAT(*(*results)[0].ToVector<float>(), ElementsAre(5, 5));
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(3, 4, 5, 6));
}

TEST(CudaSessionTest, AnErrorInARecordedStepLeavesStatesAndTheRecordingAsTheyWere) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const std::shared_ptr<const Program> program = CountedGather();
  Session session = NewSession(program, *gpu);
  const MethodHandle run = *session.FindMethod("run");
  std::vector<Tensor> results(static_cast<size_t>(session.NumResults(run)));
  const std::vector<Tensor> index = {*Tensor::From<int64_t>({3, -1}, {2})};
  const auto call = [&](int64_t second) {
    index[0].data<int64_t>()[1] = second;
    return session.Run(run, index, absl::MakeSpan(results));
  };
  ASSERT_TRUE(call(-1).ok());  // queued
  ASSERT_TRUE(call(0).ok());   // recorded
  ASSERT_TRUE(session.Synchronize().ok());
  ASSERT_TRUE(call(4).ok());
  ExpectGraphLaunches(*gpu, 2);
  const absl::Status status = session.Synchronize();

  Session on_cpu = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  EXPECT_EQ(status, on_cpu.Run("run", index).status());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(3, 4, 5, 6));

  ASSERT_TRUE(call(1).ok());
  EXPECT_THAT(*results[0].ToVector<float>(), ElementsAre(6, 4));
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(4, 5, 6, 7));
  ExpectGraphLaunches(*gpu, 3);
}

TEST(CudaSessionTest, ChecksOfIndicesAreOneLaunchWithTheErrorOfTheFirst) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  for (const char* const name : {"a", "b", "c"}) {
    const uint32_t checked = m.AddValue(DType::kInt64, kFour);
    Op op;
    op.mutable_checked_index()->set_size("5");
    m.AddOp(op, {m.Input(name, DType::kInt64, kFour)}, {checked}).set_source(absl::StrCat("table ", name));
    m.Output(name, checked);
  }
  const std::shared_ptr<const Program> loaded = program.Load();
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(loaded, *gpu);
  Session on_cpu = *Session::Create(loaded, {.kernels = &CpuKernels(), .threads = 1});
  const Tensor good = *Tensor::From<int64_t>({0, 1, 2, 4}, {4});
  const Tensor bad = *Tensor::From<int64_t>({0, 1, 9, 8}, {4});
  const Tensor worse = *Tensor::From<int64_t>({7, 1, 9, 8}, {4});
  const auto results = session.Run("run", {good, good, good});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*(*results)[2].ToVector<int64_t>(), ElementsAre(0, 1, 2, 4));
  if (SimDevice* const simulated = gpu->simulated(); simulated != nullptr) {
    EXPECT_EQ(simulated->gpu().statistics().kernel_launches, 1);
  }
  for (const std::vector<Tensor>& arguments :
       {std::vector<Tensor>{good, good, bad}, {good, bad, worse}, {worse, bad, good}}) {
    ASSERT_TRUE(session.Run("run", arguments).ok());
    EXPECT_EQ(session.Synchronize(), on_cpu.Run("run", arguments).status());
  }
}

TEST(CudaSessionTest, CopyingAResultReturnsTheErrorOnce) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(CountedGather(), *gpu);
  const auto results = session.Run("run", {*Tensor::From<int64_t>({0, 4}, {2})});
  ASSERT_TRUE(results.ok());
  EXPECT_EQ((*results)[0].ToHost().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(session.Synchronize().ok());
}

TEST(CudaSessionTest, CheckpointsOfCpuAndGpuAreTheSameFiles) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  Session on_cpu = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  ASSERT_TRUE(on_cpu.Run("train_step", Batch(5)).ok());
  const std::string folder = std::getenv("TEST_TMPDIR");
  ASSERT_TRUE(on_cpu.SaveCheckpoint(folder + "/cpu").ok());
  Session on_gpu = NewSession(program, *gpu);
  ASSERT_TRUE(on_gpu.LoadCheckpoint(folder + "/cpu").ok());
  ASSERT_TRUE(on_gpu.SaveCheckpoint(folder + "/gpu").ok());
  EXPECT_EQ(ReadFile(folder + "/gpu"), ReadFile(folder + "/cpu"));

  ASSERT_TRUE(on_gpu.Run("train_step", Batch(5)).ok());
  ASSERT_TRUE(on_gpu.SaveCheckpoint(folder + "/gpu").ok());
  ASSERT_TRUE(on_cpu.LoadCheckpoint(folder + "/gpu").ok());
  EXPECT_EQ(*on_cpu.State("weight")->ToVector<float>(), *on_gpu.State("weight")->ToVector<float>());
  EXPECT_EQ(*on_cpu.Rng(), *on_gpu.Rng());
}

TEST(CudaSessionTest, RandomDrawsAreTheBitsOfTheCpu) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const auto make = [] {
    ProgramBuilder program;
    const uint32_t rng = program.AddState("rng", State::RNG, DType::kInt64, {"2"}, 0);
    MethodBuilder m = program.AddMethod("run");
    ExprBuilder draw({37});
    draw.Output(draw.Random(0, "5"));
    const uint32_t y = m.AddValue(DType::kFloat32, {"37"});
    m.AddOp(draw.Build(), {m.Read(rng, DType::kInt64, {"2"})}, {y});
    m.Output("y", y);
    return program.Load();
  };
  const std::shared_ptr<const Program> program = make();
  Session on_cpu = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  Session on_gpu = NewSession(program, *gpu);
  for (Session* session : {&on_cpu, &on_gpu}) ASSERT_TRUE(session->SetRng({.seed = 1234, .offset = 77}).ok());
  EXPECT_EQ(*(*on_gpu.Run("run", {}))[0].ToVector<float>(), *(*on_cpu.Run("run", {}))[0].ToVector<float>());
}

TEST(CudaSessionTest, SizesMayChangeFromCallToCall) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  Session on_cpu = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  Session on_gpu = NewSession(program, *gpu);
  for (const int size : {4, 1, 9, 4, 9}) {
    const auto expected = on_cpu.Run("eval", {Batch(size)[0]});
    const auto actual = on_gpu.Run("eval", {Batch(size)[0]});
    ASSERT_TRUE(expected.ok() && actual.ok()) << actual.status();
    EXPECT_EQ((*actual)[0].sizes(), (*expected)[0].sizes());
    EXPECT_THAT(*(*actual)[0].ToVector<float>(),
                ::testing::Pointwise(::testing::FloatNear(1e-5f), *(*expected)[0].ToVector<float>()));
  }
}

TEST(CudaSessionTest, ArgumentsMayBeOnTheDeviceAndStrided) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  Session session = NewSession(program, *gpu);
  const Tensor dense = Batch(4)[0];
  const std::vector<float> expected = *(*session.Run("eval", {dense}))[0].ToVector<float>();
  // Column-major, on the host and on the device.
  Tensor strided = *Tensor::EmptyStrided(DType::kFloat32, {{4, 3}, {1, 4}, 0});
  CopyStrided(dense.address(), dense.layout(), strided.address(), strided.layout(), sizeof(float));
  EXPECT_EQ(*(*session.Run("eval", {strided}))[0].ToVector<float>(), expected);
  const Tensor on_device = *dense.ToDevice(gpu->device());
  EXPECT_EQ(*(*session.Run("eval", {on_device}))[0].ToVector<float>(), expected);
  Tensor strided_on_device = *Tensor::EmptyStrided(DType::kFloat32, strided.layout(), gpu->device());
  ASSERT_TRUE(gpu->device().CopyFromHost(strided_on_device.address(), strided.address(), 48).ok());
  EXPECT_EQ(*(*session.Run("eval", {strided_on_device}))[0].ToVector<float>(), expected);
  EXPECT_EQ(*strided_on_device.ToVector<float>(), *dense.ToVector<float>());
  EXPECT_EQ(*strided_on_device.Clone()->ToVector<float>(), *dense.ToVector<float>());
}

TEST(CudaSessionTest, ArgumentsOnTheHostThatAProgramWritesAreWritten) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "2"});
  const uint32_t y =
      m.Pointwise({"2", "2"}, {x}, [](ExprBuilder& b) { return b.Add(0, b.Constant(DType::kFloat32, 10)); });
  serialization::InputUpdate& update = *m.proto().add_input_updates();
  update.set_input(0);
  update.set_value(y);
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(program.Load(), *gpu);
  const Tensor dense = *Tensor::From<float>({1, 2, 3, 4}, {2, 2});
  ASSERT_TRUE(session.Run("run", {dense}).ok());
  EXPECT_THAT(*dense.ToVector<float>(), ElementsAre(11, 12, 13, 14));
  const Tensor strided = *Tensor::EmptyStrided(DType::kFloat32, {{2, 2}, {1, 2}, 0});
  CopyStrided(dense.address(), dense.layout(), strided.address(), strided.layout(), sizeof(float));
  ASSERT_TRUE(session.Run("run", {strided}).ok());
  EXPECT_THAT(*strided.ToVector<float>(), ElementsAre(21, 22, 23, 24));
}

TEST(CudaSessionTest, CopiesBetweenHostAndDeviceKeepLayouts) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(LinearRegression().Load(), *gpu);
  const Tensor host = *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor device = *Tensor::EmptyStrided(DType::kFloat32, {{2, 3}, {1, 2}, 0}, gpu->device());
  ASSERT_TRUE(session.ops().Copy(host, device).ok());
  EXPECT_EQ(*device.ToVector<float>(), *host.ToVector<float>());
  const Tensor back = *Tensor::EmptyStrided(DType::kFloat32, {{2, 3}, {8, 2}, 0});  // with gaps
  ASSERT_TRUE(session.ops().Copy(device, back).ok());
  EXPECT_EQ(*back.ToVector<float>(), *host.ToVector<float>());
  const Tensor other = *Tensor::Zeros(DType::kFloat64, {2, 3});
  EXPECT_EQ(session.ops().Copy(device, other).code(), absl::StatusCode::kInvalidArgument);
}

TEST(CudaSessionTest, AHostArgumentMayChangeAsSoonAsTheCallReturns) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(LinearRegression().Load(), *gpu);
  const Tensor x = Batch(4)[0];
  const std::vector<float> expected = *(*session.Run("eval", {x}))[0].ToVector<float>();
  const auto results = session.Run("eval", {x});
  ASSERT_TRUE(results.ok());
  std::fill_n(x.data<float>(), 12, -1.0f);
  EXPECT_EQ(*(*results)[0].ToVector<float>(), expected);
}

TEST(CudaSessionTest, AStepIsRecordedOnceForEachSetOfAddresses) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "a GPU does not count calls";
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(LinearRegression().Load(), *gpu);
  const MethodHandle step = *session.FindMethod("train_step");
  std::vector<Tensor> results(static_cast<size_t>(session.NumResults(step)));
  const std::vector<Tensor> batch = Batch(4);
  for (int i = 0; i < 6; ++i) ASSERT_TRUE(session.Run(step, batch, absl::MakeSpan(results)).ok());
  ASSERT_TRUE(session.Synchronize().ok());
  const cuda::sim::Statistics counts = gpu->simulated()->gpu().statistics();
  EXPECT_EQ(counts.graph_launches, 5);
  EXPECT_EQ(counts.calls.at("cuStreamBeginCapture_v2"), 1);
}

TEST(CudaSessionTest, AStepNeitherWaitsNorAllocates) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "a GPU does not count calls";
  for (const bool records_work : {true, false}) {
    const std::unique_ptr<TestDevice> gpu = NewDevice({.records_work = records_work});
    Session session = NewSession(LinearRegression().Load(), *gpu);
    const MethodHandle step = *session.FindMethod("train_step");
    std::vector<Tensor> results(static_cast<size_t>(session.NumResults(step)));
    std::vector<Tensor> batch = Batch(4);
    for (Tensor& argument : batch) argument = *argument.ToDevice(gpu->device());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.Run(step, batch, absl::MakeSpan(results)).ok());
    ASSERT_TRUE(session.Synchronize().ok());
    gpu->simulated()->gpu().ResetStatistics();
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(session.Run(step, batch, absl::MakeSpan(results)).ok());
    const cuda::sim::Statistics counts = gpu->simulated()->gpu().statistics();
    EXPECT_EQ(counts.synchronizations, 0);
    EXPECT_EQ(counts.allocations, 0);
    EXPECT_EQ(counts.host_allocations, 0);
    EXPECT_EQ(counts.graph_launches, records_work ? 3 : 0);
    ASSERT_TRUE(session.Synchronize().ok());
  }
}

TEST(CudaSessionTest, AHyperparameterMayChangeBetweenRecordedSteps) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  Session on_cpu = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  Session on_gpu = NewSession(program, *gpu);
  for (Session* session : {&on_cpu, &on_gpu}) {
    const MethodHandle step = *session->FindMethod("train_step");
    std::vector<Tensor> results(static_cast<size_t>(session->NumResults(step)));
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(session->SetHyperparameter("lr", 0.01 * (i + 1)).ok());
      ASSERT_TRUE(session->Run(step, Batch(4), absl::MakeSpan(results)).ok());
    }
  }
  EXPECT_THAT(*on_gpu.State("weight")->ToVector<float>(),
              ::testing::Pointwise(::testing::FloatNear(1e-5f), *on_cpu.State("weight")->ToVector<float>()));
}

TEST(CudaSessionTest, RecordedStepsReadTheNewContentsOfTheirArguments) {
  constexpr int kSteps = 5;
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  for (const bool arguments_on_device : {false, true}) {
    const std::unique_ptr<TestDevice> gpu = NewDevice();
    Session on_cpu = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
    Session on_gpu = NewSession(program, *gpu);
    const MethodHandle step = *on_gpu.FindMethod("train_step");
    std::vector<Tensor> results(static_cast<size_t>(on_gpu.NumResults(step)));
    std::vector<Tensor> arguments = Batch(4);
    if (arguments_on_device) {
      for (Tensor& argument : arguments) argument = *argument.ToDevice(gpu->device());
    }
    for (size_t i = 0; i < kSteps; ++i) {
      const std::vector<Tensor> batch = Batch(4, i);
      for (size_t a = 0; a < batch.size(); ++a) {
        const Tensor& to = arguments[a];
        ASSERT_TRUE(to.device().CopyFromHost(to.address(), batch[a].address(), batch[a].storage()->bytes()).ok());
      }
      const absl::Status status = on_gpu.Run(step, arguments, absl::MakeSpan(results));
      ASSERT_TRUE(status.ok()) << status;
      const auto expected = on_cpu.Run("train_step", batch);
      ASSERT_TRUE(expected.ok()) << expected.status();
      EXPECT_NEAR(*results.back().Item<float>(), *expected->back().Item<float>(), 1e-5) << "step " << i;
    }
    EXPECT_THAT(*on_gpu.State("weight")->ToVector<float>(),
                ::testing::Pointwise(::testing::FloatNear(1e-5f), *on_cpu.State("weight")->ToVector<float>()));
    ExpectGraphLaunches(*gpu, kSteps - 1);
  }
}

TEST(CudaSessionTest, AllProductsOfADeviceShareOneHandleOfCublasLt) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "cuBLASLt does not count handles";
  constexpr int kSteps = 5000;  // too long a sum for the kernel of small products
  const std::string steps = absl::StrCat(kSteps);
  ProgramBuilder program;
  for (const char* const name : {"once", "twice"}) {
    MethodBuilder m = program.AddMethod(name);
    const uint32_t a = m.Input("a", DType::kFloat32, {"2", steps});
    const uint32_t b = m.Input("b", DType::kFloat32, {steps, "3"});
    const uint32_t y = m.Matmul(a, b, {"2", "3"});
    m.Output("y", y);
    if (absl::string_view(name) == "twice") m.Output("z", m.Matmul(m.Permute(b, {1, 0}), b, {"3", "3"}));
  }
  const std::shared_ptr<const Program> loaded = program.Load();
  const std::vector<Tensor> arguments = {*Tensor::Zeros(DType::kFloat32, {2, kSteps}),
                                         *Tensor::Zeros(DType::kFloat32, {kSteps, 3})};
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  std::vector<Session> sessions;
  for (int i = 0; i < 2; ++i) {
    sessions.push_back(NewSession(loaded, *gpu));
    for (const char* const method : {"once", "twice"}) {
      const auto results = sessions.back().Run(method, arguments);
      ASSERT_TRUE(results.ok()) << results.status();
    }
  }
  ASSERT_TRUE(sessions[0].Synchronize().ok());
  EXPECT_GE(gpu->simulated()->cublaslt().num_products(), 2 * 3);
  EXPECT_EQ(gpu->simulated()->cublaslt().num_handles(), 1);
}

TEST(CudaSessionTest, OutOfMemoryLeavesTheSessionUsable) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "only a simulated GPU fails on demand";
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(LinearRegression().Load(), *gpu);
  ASSERT_TRUE(session.Run("train_step", Batch(4)).ok());  // allocates what the libraries need
  const std::vector<float> before = *session.State("weight")->ToVector<float>();
  gpu->simulated()->gpu().FailAllocation(1);
  const absl::Status status = session.Run("train_step", Batch(64)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("bytes needed"));
  EXPECT_EQ(*session.State("weight")->ToVector<float>(), before);
  EXPECT_TRUE(session.Run("train_step", Batch(64)).ok());
  EXPECT_NE(*session.State("weight")->ToVector<float>(), before);
}

TEST(CudaSessionTest, EffectsSeeTheValuesOfTheDevice) {
  ProgramBuilder program;
  const uint32_t state = program.AddState("s", State::BUFFER, kFour, {0, 0, 0, 0});
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, kFour);
  const uint32_t twice = m.Pointwise(kFour, {x}, [](ExprBuilder& b) { return b.Add(0, 0); });
  const uint32_t positive = m.Pointwise(kFour, {x}, [](ExprBuilder& b) {
    return b.Apply(serialization::FN_GT, {0, b.Constant(DType::kFloat32, 0)});
  });
  Op print;
  print.mutable_effect()->set_kind(Effect::PRINT);
  print.mutable_effect()->set_name("twice");
  m.AddOp(print, {twice}, {});
  Op assertion;
  assertion.mutable_effect()->set_kind(Effect::ASSERT);
  assertion.mutable_effect()->set_name("positive");
  m.AddOp(assertion, {positive}, {});
  m.Update(state, twice);

  std::vector<std::string> printed;
  EffectHandlers handlers;
  handlers.Set(EffectKind::kPrint, [&printed](const EffectEvent& event) {
    printed.push_back(EffectText(event));
    return absl::OkStatus();
  });
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = NewSession(program.Load(), *gpu, handlers);
  ASSERT_TRUE(session.Run("run", {*Tensor::From<float>({1, 2, 3, 4}, {4})}).ok());
  EXPECT_THAT(printed, ElementsAre(HasSubstr("[2, 4, 6, 8]")));
  const absl::Status status = session.Run("run", {*Tensor::From<float>({1, -2, 3, 4}, {4})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("positive"));
  EXPECT_THAT(*session.State("s")->ToVector<float>(), ElementsAre(2, 4, 6, 8));
}

TEST(CudaSessionTest, CompiledKernelsAreKeptForLaterProcesses) {
  const std::string folder = absl::StrCat(::testing::TempDir(), "/kept_kernels");
  int64_t kernels = 0;
  for (const bool is_first : {true, false}) {
    const std::unique_ptr<TestDevice> gpu = NewDevice({.kernel_cache = folder});
    Session session = NewSession(CountedGather(), *gpu);
    const auto results = session.Run("run", {*Tensor::From<int64_t>({3, 0}, {2})});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_THAT(*(*results)[0].ToVector<float>(), ElementsAre(4, 1));
    const cuda::KernelLibrary::Statistics& statistics = gpu->device().kernels().statistics();
    if (is_first) kernels = statistics.compiled;
    EXPECT_GT(kernels, 0);
    EXPECT_EQ(statistics.compiled, is_first ? kernels : 0);
    EXPECT_EQ(statistics.from_cache, is_first ? 0 : kernels);
  }
}

}  // namespace
}  // namespace cotan::testing
