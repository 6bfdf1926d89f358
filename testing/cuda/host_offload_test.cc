// SPDX-License-Identifier: Apache-2.0

// Saved-tensor hooks that keep values on the host, compiled into training steps and into forward and backward, on a
// simulated GPU and on the CPU.
#include "runtime/autograd/host_offload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "aot/memory/fit_memory.h"
#include "aot/saved_tensor_hooks/hook_pairs.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/executable.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan::testing {
namespace {

using cuda::testing::SimDevice;
using ::testing::Contains;
using Tensors = std::vector<torch::Tensor>;

constexpr int64_t kBatch = 64, kWidth = 48;
constexpr int kLayers = 6;
constexpr int64_t kActivation = kBatch * kWidth * static_cast<int64_t>(sizeof(float));

// --- training steps ------------------------------------------------------------------

torch::nn::Sequential Layers() {
  torch::manual_seed(3);
  torch::nn::Sequential layers;
  for (int i = 0; i < kLayers; ++i) {
    layers->push_back(torch::nn::Linear(kWidth, kWidth));
    layers->push_back(torch::nn::Tanh());
  }
  return layers;
}

aot::CompileOptions TrainOptions(const aot::SavedTensorHooks& hooks) {
  aot::CompileOptions options;
  options.loss.function = [](const auto& outputs, const auto& targets) {
    return torch::mse_loss(outputs[0], targets[0]);
  };
  options.loss.targets = {torch::zeros({kBatch, kWidth})};
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1, .momentum = 0.9}};
  options.debug.store_references = false;
  options.saved_tensor_hooks = hooks;
  return options;
}

std::shared_ptr<const Program> CompiledLayers(const aot::CompileOptions& options) {
  const absl::StatusOr<aot::CompiledModel> model =
      aot::CompileModule(Layers, {torch::zeros({kBatch, kWidth})}, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *Program::LoadBytes(model->bytes());
}

Tensor Values(int64_t rows, int64_t columns, int seed) {
  std::vector<float> values(static_cast<size_t>(rows * columns));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 37 + static_cast<size_t>(seed)) % 101) / 50 - 1;
  return *Tensor::From<float>(values, {rows, columns});
}

std::string BytesOf(const Tensor& tensor) {
  const Tensor host = *tensor.ToHost();
  return {static_cast<const char*>(host.address()), host.storage()->bytes()};
}

// The results and states of training steps, and what a step needed.
struct Training {
  std::vector<std::string> bits;
  PlanSummary plan;
  int64_t device_bytes = 0;      // held after the steps
  int64_t moved_to_host = 0;     // by the last step
  int64_t graph_launches = 0;    // of the last step
  int64_t synchronizations = 0;  // of the last step
};

constexpr int kSteps = 4;

void RunSteps(Session& session, Device& device, int64_t rows, Training& training,
              const std::function<void()>& before_last) {
  const MethodHandle step = *session.FindMethod("train_step");
  const std::vector<Tensor> arguments = {*Values(rows, kWidth, 1).ToDevice(device),
                                         *Values(rows, kWidth, 2).ToDevice(device)};
  std::vector<Tensor> results(static_cast<size_t>(session.NumResults(step)));
  for (int i = 0; i < kSteps; ++i) {
    if (i == kSteps - 1) before_last();
    const absl::Status status = session.Run(step, arguments, absl::MakeSpan(results));
    ASSERT_TRUE(status.ok()) << status;
  }
  training.plan = *session.Summary(step);
}

void KeepBits(const Session& session, Training& training) {
  for (const serialization::State& state : session.program().artifact().states()) {
    training.bits.push_back(BytesOf(*session.State(state.name())));
  }
}

Training TrainOnGpu(const std::shared_ptr<const Program>& program, bool records_work, int64_t rows = kBatch) {
  const std::unique_ptr<SimDevice> gpu = *SimDevice::Create({.records_work = records_work, .keeps_freed_memory = true});
  Session session = *Session::Create(program, {.kernels = &CudaKernels(), .device = &gpu->device(), .threads = 1});
  Training training;
  cuda::sim::Statistics before;
  RunSteps(session, gpu->device(), rows, training, [&] {
    EXPECT_TRUE(session.Synchronize().ok());
    before = gpu->gpu().statistics();
  });
  training.synchronizations = gpu->gpu().statistics().synchronizations - before.synchronizations;
  training.graph_launches = gpu->gpu().statistics().graph_launches - before.graph_launches;
  EXPECT_TRUE(session.Synchronize().ok());
  training.moved_to_host = gpu->gpu().statistics().to_host.bytes - before.to_host.bytes;
  size_t available = 0, total = 0;
  EXPECT_EQ(gpu->device().driver().cuMemGetInfo_v2(&available, &total), cuda::driver::CUDA_SUCCESS);
  training.device_bytes = static_cast<int64_t>(total - available);
  KeepBits(session, training);
  return training;
}

Training TrainOnCpu(const std::shared_ptr<const Program>& program, int64_t rows = kBatch) {
  Session session = *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
  Training training;
  RunSteps(session, HostDevice(), rows, training, [] {});
  KeepBits(session, training);
  return training;
}

TEST(HostOffloadTest, ATrainingStepNeedsLessDeviceMemoryAndHasTheSameBits) {
  const std::shared_ptr<const Program> plain = CompiledLayers(TrainOptions({}));
  const std::shared_ptr<const Program> offloaded = CompiledLayers(TrainOptions(aot::HostOffloadHooks()));
  for (const bool records_work : {false, true}) {
    SCOPED_TRACE(records_work);
    const Training kept = TrainOnGpu(plain, records_work);
    const Training moved = TrainOnGpu(offloaded, records_work);
    EXPECT_EQ(moved.bits, kept.bits);
    EXPECT_EQ(moved.synchronizations, 0);
    EXPECT_EQ(moved.graph_launches, records_work ? 1 : 0);
    EXPECT_EQ(kept.plan.host_bytes, 0);
    EXPECT_EQ(kept.moved_to_host, 0);
    // The result of each layer but the last is saved once.
    EXPECT_GE(moved.plan.host_bytes, (kLayers - 1) * kActivation);
    EXPECT_GE(moved.moved_to_host, (kLayers - 1) * kActivation);
    EXPECT_LE(moved.moved_to_host, (kLayers + 1) * kActivation);
    EXPECT_GE(kept.plan.arena_bytes - moved.plan.arena_bytes, (kLayers - 3) * kActivation);
    EXPECT_GE(kept.device_bytes - moved.device_bytes, (kLayers - 3) * kActivation);
  }
}

TEST(HostOffloadTest, TheSameArtifactRunsOnTheCpuWithoutCopies) {
  const Training kept = TrainOnCpu(CompiledLayers(TrainOptions({})));
  const Training moved = TrainOnCpu(CompiledLayers(TrainOptions(aot::HostOffloadHooks())));
  EXPECT_EQ(moved.bits, kept.bits);
  EXPECT_EQ(moved.plan.host_bytes, 0);
  EXPECT_EQ(moved.plan.num_steps, kept.plan.num_steps);
  EXPECT_EQ(moved.plan.arena_bytes, kept.plan.arena_bytes);
}

TEST(HostOffloadTest, SizesMayBeDynamic) {
  aot::CompileOptions options = TrainOptions(aot::HostOffloadHooks());
  options.dynamic_dims = {{0, 0, "batch", 2, 256}, {1, 0, "batch", 2, 256}};
  const std::shared_ptr<const Program> offloaded = CompiledLayers(options);
  options.saved_tensor_hooks = {};
  const std::shared_ptr<const Program> plain = CompiledLayers(options);
  for (const int64_t rows : {kBatch, kBatch / 2}) {
    const Training kept = TrainOnGpu(plain, /*records_work=*/true, rows);
    const Training moved = TrainOnGpu(offloaded, /*records_work=*/true, rows);
    EXPECT_EQ(moved.bits, kept.bits) << rows;
    EXPECT_GE(moved.plan.host_bytes, (kLayers - 1) * kActivation * rows / kBatch);
    EXPECT_EQ(TrainOnCpu(offloaded, rows).bits, TrainOnCpu(plain, rows).bits) << rows;
  }
}

// The limit counts memory of the device: without values on the host, ops have to be repeated to keep it.
TEST(HostOffloadTest, AMemoryLimitDoesNotCountValuesOnTheHost) {
  const auto num_ops = [](const Program& program) {
    return program.method(*program.FindMethod("train_step")).ops_size();
  };
  const std::shared_ptr<const Program> plain = CompiledLayers(TrainOptions({}));
  aot::CompileOptions options = TrainOptions(aot::HostOffloadHooks());
  const std::shared_ptr<const Program> moved = CompiledLayers(options);
  int64_t needed = 0;
  const auto memory = aot::MeasureMemory(moved->artifact(), {.kernels = &CpuKernels()});
  ASSERT_TRUE(memory.ok()) << memory.status();
  for (const aot::MethodMemory& method : *memory) needed = std::max(needed, method.after);
  options.max_memory = aot::MemoryLimit{.bytes = needed, .target = {.kernels = &CpuKernels()}};
  const std::shared_ptr<const Program> limited = CompiledLayers(options);
  EXPECT_EQ(num_ops(*limited), num_ops(*moved));
  EXPECT_EQ(TrainOnGpu(limited, /*records_work=*/true).bits, TrainOnGpu(plain, /*records_work=*/true).bits);
  options.saved_tensor_hooks = {};
  const auto repeated = aot::CompileModule(Layers, {torch::zeros({kBatch, kWidth})}, options);
  if (repeated.ok()) {
    EXPECT_GT(num_ops(**Program::LoadBytes(repeated->bytes())), num_ops(*plain));
  } else {
    EXPECT_EQ(repeated.status().code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(HostOffloadTest, PackedValuesMayWaitOnTheHost) {
  aot::SavedTensorHooks hooks = aot::Int8Hooks();
  const Training packed = TrainOnGpu(CompiledLayers(TrainOptions(hooks)), /*records_work=*/true);
  hooks.on_host = true;
  const Training moved = TrainOnGpu(CompiledLayers(TrainOptions(hooks)), /*records_work=*/true);
  EXPECT_EQ(moved.bits, packed.bits);
  EXPECT_GE(moved.moved_to_host, (kLayers - 1) * kActivation / 4);
  EXPECT_LE(moved.moved_to_host, (kLayers + 1) * kActivation / 4);
}

TEST(HostOffloadTest, WithoutHostMemoryTheCallFailsAndTheNextOneRuns) {
  const std::shared_ptr<const Program> program = CompiledLayers(TrainOptions(aot::HostOffloadHooks()));
  const std::unique_ptr<SimDevice> gpu = *SimDevice::Create({});
  Session session = *Session::Create(program, {.kernels = &CudaKernels(), .device = &gpu->device(), .threads = 1});
  const std::vector<Tensor> arguments = {*Values(kBatch, kWidth, 1).ToDevice(gpu->device()),
                                         *Values(kBatch, kWidth, 2).ToDevice(gpu->device())};
  gpu->gpu().FailCall("cuMemHostAlloc", 1, cuda::driver::CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(session.Run("train_step", arguments).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(session.Run("train_step", arguments).ok());
  EXPECT_TRUE(session.Synchronize().ok());
}

// --- forward and backward ------------------------------------------------------------

Tensors Perceptron(const Tensors& in) {
  const torch::Tensor hidden = at::tanh(at::matmul(in[0], in[1]));
  return {at::tanh(at::matmul(hidden, in[2])).sum()};
}

constexpr int64_t kOuter = 64, kInner = 128;

std::shared_ptr<const Program> CompiledPerceptron(const aot::SavedTensorHooks& hooks) {
  aot::CompileOptions options;
  options.debug.store_references = false;
  options.saved_tensor_hooks = hooks;
  const auto example = [](int64_t rows, int64_t columns) { return torch::ones({rows, columns}).requires_grad_(true); };
  const absl::StatusOr<aot::CompiledModel> model = aot::CompileFunction(
      Perceptron, {example(kBatch, kOuter), example(kOuter, kInner), example(kInner, kOuter)}, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *Program::LoadBytes(model->bytes());
}

struct PairRun {
  std::vector<std::string> gradients;
  int64_t held_bytes = 0;   // of device memory without the arena, between forward and backward
  int64_t moved_bytes = 0;  // to the host in the forward
};

struct PairOptions {
  bool captured = false;
  bool has_hooks = false;  // of the training program, too
};

PairRun RunPerceptron(const std::shared_ptr<const Program>& program, const PairOptions& options) {
  EXPECT_TRUE(CompiledAutograd::Reset().ok());
  const std::unique_ptr<SimDevice> gpu = *SimDevice::Create({});
  PairRun run;
  {
    Session session = *Session::Create(program, {.kernels = &CudaKernels(), .device = &gpu->device(), .threads = 1});
    Function function = *Function::Create(session, "forward");
    const auto leaf = [&](int64_t rows, int64_t columns) {
      return *Variable::Leaf(*Values(rows, columns, 5).ToDevice(gpu->device()));
    };
    const std::vector<Variable> leaves = {leaf(kBatch, kOuter), leaf(kOuter, kInner), leaf(kInner, kOuter)};
    const int64_t moved = gpu->gpu().statistics().to_host.bytes;
    const auto forward = [&] {
      if (!options.has_hooks) return function.Call(leaves);
      const autograd::SavedTensorHooksScope scope(autograd::OffloadToHost(*gpu->device().pinned_memory()));
      return function.Call(leaves);
    };
    for (int i = 0; i < 3; ++i) {
      const auto results = forward();
      EXPECT_TRUE(results.ok()) << results.status();
      EXPECT_TRUE(session.Synchronize().ok());
      size_t available = 0, total = 0;
      EXPECT_EQ(gpu->device().driver().cuMemGetInfo_v2(&available, &total), cuda::driver::CUDA_SUCCESS);
      if (i == 0) run.held_bytes = static_cast<int64_t>(total - available) - session.arena_bytes();
      if (i == 0) run.moved_bytes = gpu->gpu().statistics().to_host.bytes - moved;
      const CompiledAutograd scope =
          options.captured ? CompiledAutograd() : CompiledAutograd(CompiledAutograd::kDisabled);
      for (const bool retain : {true, false}) {
        const absl::Status status =
            autograd::Backward({std::get<Variable>((*results)[0])}, {}, session.ops(), {.retain_graph = retain});
        EXPECT_TRUE(status.ok()) << status;
      }
    }
    for (const Variable& each : leaves) run.gradients.push_back(BytesOf(each.grad().tensor()));
  }
  EXPECT_TRUE(CompiledAutograd::Reset().ok());
  return run;
}

TEST(HostOffloadTest, SavedValuesOfAForwardWaitOnTheHost) {
  const std::shared_ptr<const Program> plain = CompiledPerceptron({});
  const std::shared_ptr<const Program> offloaded = CompiledPerceptron(aot::HostOffloadHooks());
  constexpr int64_t kActivations = kBatch * (kInner + kOuter) * static_cast<int64_t>(sizeof(float));
  const PairRun kept = RunPerceptron(plain, {});
  EXPECT_LT(kept.moved_bytes, 1024);
  for (const bool captured : {false, true}) {
    for (const bool has_hooks : {false, true}) {
      SCOPED_TRACE(::testing::Message() << captured << has_hooks);
      const PairRun moved = RunPerceptron(offloaded, {captured, has_hooks});
      EXPECT_EQ(moved.gradients, kept.gradients);
      EXPECT_GE(moved.moved_bytes, kActivations);
      EXPECT_GE(kept.held_bytes - moved.held_bytes, kActivations);
    }
  }
}

TEST(HostOffloadTest, ThePlanTakesSavedValuesInPinnedMemoryOnly) {
  const std::shared_ptr<const Program> program = CompiledPerceptron(aot::HostOffloadHooks());
  const std::unique_ptr<SimDevice> gpu = *SimDevice::Create({});
  const ExecutionTarget target = {.kernels = &CudaKernels(), .device = &gpu->device(), .threads = 1};
  const auto forward = *Executable::Make(*program, *program->FindMethod("forward"), {}, target);
  EXPECT_THAT(forward->plan().outputs_on_host, Contains(true));
  const auto backward = *Executable::Make(*program, *program->FindMethod("backward"), {}, target);
  const int first = program->method(*program->FindMethod("forward")).outputs_size() -
                    static_cast<int>(program->method(*program->FindMethod("forward")).num_saved());
  for (size_t i = static_cast<size_t>(first); i < forward->plan().outputs.size(); ++i) {
    const auto input = static_cast<int>(i) - first;
    EXPECT_EQ(forward->plan().outputs_on_host[i], backward->plan().inputs_on_host[static_cast<size_t>(input)]);
    if (!forward->plan().outputs_on_host[i]) continue;
    Tensor saved;
    ASSERT_TRUE(forward->SetOutput(static_cast<int>(i), saved).ok());
    EXPECT_EQ(&saved.device(), &HostDevice());
    EXPECT_EQ(saved.storage()->pinned(), gpu->device().pinned_memory());
    EXPECT_TRUE(backward->SetInput(input, saved).ok());
    for (Device* const device : {&HostDevice(), static_cast<Device*>(&gpu->device())}) {
      const Tensor elsewhere = *Tensor::Empty(saved.dtype(), saved.sizes(), *device);
      EXPECT_EQ(backward->SetInput(input, elsewhere).code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

}  // namespace
}  // namespace cotan::testing
