// SPDX-License-Identifier: Apache-2.0

// Whole models train on a simulated GPU as on the CPU, in few launches.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/cudnn/cudnn_table.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/sim/cudnn/no_device_driver.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tools/references.h"
#include "testing/cuda/kernel_traffic.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using cuda::testing::SimDevice;

// States smaller than this fraction of the largest of their role are compared on that scale.
constexpr double kSmall = 1e-3;

struct ModelCase {
  std::string name;
  int max_nodes = 0;  // of the graph of a training step
  int steps = 10;     // fewer, unless COTAN_ALL_STEPS is set, where the simulator takes long to interpret a step
};

struct StateValue {
  std::string name;
  serialization::State::Role role;
  std::string bytes;          // row-major
  std::vector<float> values;  // of f32
};

// Returns the largest absolute value of the states with this role: some gradients are zero up to rounding, such as that
// of a bias before batch norm.
double LargestOf(const std::vector<StateValue>& states, serialization::State::Role role) {
  double largest = 0;
  for (const StateValue& state : states) {
    if (state.role != role) continue;
    for (const float value : state.values) largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  return largest;
}

// Returns what ran, for messages: "expr_pointwise 3, ...".
std::string KernelsOf(const cuda::sim::Statistics& counts) {
  std::string text;
  for (const auto& [name, kernel] : counts.kernels) absl::StrAppend(&text, name, " ", kernel.runs, ", ");
  for (const auto& [label, runs] : counts.host_functions) absl::StrAppend(&text, label, " ", runs, ", ");
  absl::StrAppend(&text, "copies ", counts.on_device.count, ", sets ", counts.sets.count);
  return text;
}

// A session with the arguments of the recorded training step.
class Training {
 public:
  Training(const ModelCase& model, const KernelRegistry& kernels, Device* device)
      : program_(*Program::Load(PathOf(model.name), RecordedRuns::kMap)),
        session_(*Session::Create(program_, {.kernels = &kernels, .device = device, .threads = 1})),
        step_(*session_.FindMethod("train_step")),
        results_(static_cast<size_t>(session_.NumResults(step_))) {
    const serialization::Reference& reference = **tools::FindReference(*program_, "train_step");
    arguments_ = *tools::LoadArguments(*program_, reference, HostDevice());
  }

  const Program& program() const { return *program_; }

  // Trains for some steps and returns the losses.
  std::vector<float> Run(int steps) {
    std::vector<float> losses;
    for (int i = 0; i < steps; ++i) {
      const absl::Status status = session_.Run(step_, arguments_, absl::MakeSpan(results_));
      EXPECT_TRUE(status.ok()) << status;
      const absl::StatusOr<float> loss = results_.back().Item<float>();
      EXPECT_TRUE(loss.ok()) << loss.status();
      if (!status.ok() || !loss.ok()) break;
      losses.push_back(*loss);
    }
    return losses;
  }

  std::vector<StateValue> States() const {
    std::vector<StateValue> states;
    for (const serialization::State& state : program_->artifact().states()) {
      const absl::StatusOr<Tensor> value = session_.State(state.name());
      EXPECT_TRUE(value.ok()) << value.status();
      if (!value.ok()) continue;
      const auto bytes = static_cast<size_t>(value->num_elements()) * ByteSize(value->dtype());
      StateValue copy = {state.name(), state.role(), std::string(bytes, '\0'), {}};
      if (bytes > 0) std::memcpy(copy.bytes.data(), value->address(), bytes);
      if (value->dtype() == DType::kFloat32) copy.values = *value->ToVector<float>();
      states.push_back(std::move(copy));
    }
    return states;
  }

 private:
  static std::string PathOf(const std::string& model) {
    return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"), "/testing/cuda/", model,
                        ".cotan");
  }

  std::shared_ptr<const Program> program_;
  Session session_;
  MethodHandle step_;
  std::vector<Tensor> arguments_;
  std::vector<Tensor> results_;
};

// Whether each model trains for all its steps; otherwise for fewer, and races are looked for in the first one.
bool RunsAllSteps() { return std::getenv("COTAN_ALL_STEPS") != nullptr; }

std::unique_ptr<SimDevice> NewDevice(SimDevice::Options options = {}) {
  if (options.race_checks == 0) options.race_checks = RunsAllSteps() ? 3 : 1;
  options.kernel_cache = absl::StrCat(std::getenv("TEST_TMPDIR"), "/kernels");
  absl::StatusOr<std::unique_ptr<SimDevice>> device = SimDevice::Create(options);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

class ModelsOnSimulatedGpu : public ::testing::TestWithParam<ModelCase> {};

// Compares the states after a step, of which the momentum buffers are the gradients. Those that are not f32, such as
// counters and the generator, have to be equal.
void ExpectStatesOfCpu(const std::vector<StateValue>& actual, const std::vector<StateValue>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i].values.empty()) {
      EXPECT_TRUE(actual[i].bytes == expected[i].bytes) << expected[i].name;
      continue;
    }
    const double floor = kSmall * LargestOf(expected, expected[i].role);
    EXPECT_LE(ErrorInEps<float>(actual[i].values, expected[i].values, floor), kModelGradient) << expected[i].name;
  }
}

void ExpectSameBits(const std::vector<StateValue>& actual, const std::vector<StateValue>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(actual[i].bytes == expected[i].bytes) << expected[i].name;
  }
}

// The steps run as a graph and queued launch by launch. The latter run has another order of blocks and warps and a GPU
// with fewer multiprocessors, so that it also shows that two runs give the same bits, on whatever GPU; and its memory
// is used again at once when it is freed, as on a GPU.
TEST_P(ModelsOnSimulatedGpu, TrainAsOnTheCpuWithTheSameBitsRecordedOrQueued) {
  const int steps = RunsAllSteps() ? ModelCase().steps : GetParam().steps;
  const std::unique_ptr<SimDevice> gpu = NewDevice();
  Training recorded(GetParam(), CudaKernels(), &gpu->device());
  std::vector<float> losses = recorded.Run(1);
  const std::vector<StateValue> first_states = recorded.States();
  const std::vector<float> more = recorded.Run(steps - 1);
  losses.insert(losses.end(), more.begin(), more.end());
  const std::vector<StateValue> last_states = recorded.States();

  Training cpu(GetParam(), CpuKernels(), nullptr);
  EXPECT_LE(ErrorInEps<float>({losses[0]}, cpu.Run(1)), kModelLoss);
  ExpectStatesOfCpu(first_states, cpu.States());
  EXPECT_LE(ErrorInEps<float>(more, cpu.Run(steps - 1)), kModelDrift);

  const cuda::sim::Statistics counts = gpu->gpu().statistics();
  ASSERT_EQ(counts.graph_launches, steps - 1);
  const int64_t nodes = counts.graph_nodes / counts.graph_launches;
  EXPECT_LE(nodes, GetParam().max_nodes) << "in " << steps << " steps: " << KernelsOf(counts);
  RecordProperty("graph_nodes", static_cast<int>(nodes));
  RecordProperty("kernels", KernelsOf(counts));

  const std::unique_ptr<SimDevice> other =
      NewDevice({.seed = 7, .multiprocessors = 7, .records_work = false, .keeps_freed_memory = true});
  Training queued(GetParam(), CudaKernels(), &other->device());
  EXPECT_EQ(queued.Run(steps), losses);
  ExpectSameBits(queued.States(), last_states);
  EXPECT_EQ(other->gpu().statistics().graph_launches, 0);
}

// Memory moves each operand of a generated kernel once. (What warps access again comes from the L2 cache.)
TEST_P(ModelsOnSimulatedGpu, GeneratedKernelsMoveTheirOperandsOnce) {
  constexpr double kOnce = 1.1;
  const std::unique_ptr<SimDevice> gpu = NewDevice({.records_work = false, .race_checks = -1});
  std::vector<KernelTraffic> runs;
  const TracedKernels kernels(gpu.get(), &runs);
  Training(GetParam(), kernels.registry(), &gpu->device()).Run(1);
  int generated = 0;
  for (const KernelTraffic& run : runs) {
    if (run.kind != serialization::Op::kExpr) continue;
    ++generated;
    EXPECT_LE(static_cast<double>(run.moved_sectors), kOnce * static_cast<double>(run.operand_sectors))
        << run.name << " " << run.entry;
  }
  EXPECT_GE(generated, 2);
}

// Returns the number of attentions, backwards included, of a program's training step.
int AttentionsOf(const Program& program) {
  const serialization::Method& method = program.method(*program.FindMethod("train_step"));
  return static_cast<int>(std::count_if(method.ops().begin(), method.ops().end(), [](const serialization::Op& op) {
    return op.has_attention() || op.has_attention_backward();
  }));
}

TEST(FusedAttentionOnSimulatedGpu, ProgramsHaveItInTheirStep) {
  for (const char* const name : {"attention_f32", "attention_bf16"}) {
    EXPECT_EQ(AttentionsOf(Training({name}, CpuKernels(), nullptr).program()), 2) << name;
  }
  // Compiled for the CPU, which has it for causal attention of 64 keys.
  EXPECT_EQ(AttentionsOf(Training({"gpt"}, CpuKernels(), nullptr).program()), 8);
}

// Attention in bf16 is cuDNN's, where it is installed: two library calls in the graph of a step.
TEST(FusedAttentionOnSimulatedGpu, TrainsInBFloat16AsOnTheCpu) {
  constexpr int kSteps = 4;
  const absl::Status driver = cuda::sim::LoadNoDeviceDriver();
  ASSERT_TRUE(driver.ok()) << driver;
  const std::unique_ptr<SimDevice> gpu = NewDevice();
  Training recorded({"attention_bf16"}, CudaKernels(), &gpu->device());
  const std::vector<float> losses = recorded.Run(kSteps);
  Training cpu({"attention_bf16"}, CpuKernels(), nullptr);
  const std::vector<float> expected = cpu.Run(kSteps);
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], expected[i], kAutocastGradient * std::abs(expected[i])) << i;
  }
  const cuda::sim::Statistics counts = gpu->gpu().statistics();
  EXPECT_EQ(counts.graph_launches, kSteps - 1);
  int64_t library_attentions = 0;
  for (const auto& [label, runs] : counts.host_functions) {
    if (absl::StartsWith(label, "cudnn ")) library_attentions += runs;
  }
  EXPECT_EQ(library_attentions, cuda::cudnn::CudnnTable::Get().ok() ? 2 * kSteps : 0) << KernelsOf(counts);
}

INSTANTIATE_TEST_SUITE_P(Models, ModelsOnSimulatedGpu,
                         ::testing::Values(ModelCase{"mlp", 12}, ModelCase{"cnn", 22}, ModelCase{"gpt", 115, 3},
                                           ModelCase{"resnet", 49, 2}, ModelCase{"lstm", 19, 5},
                                           ModelCase{"gru", 23, 5}, ModelCase{"attention_f32", 40}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cotan::testing
