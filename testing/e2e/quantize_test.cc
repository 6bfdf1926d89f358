// SPDX-License-Identifier: Apache-2.0

// Adapters on a base of small integers: compiled training steps beside LibTorch eager with the dequantized weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/blocks/block.h"
#include "aot/compile.h"
#include "aot/memory/fit_memory.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/execution/step_threads.h"
#include "runtime/session.h"
#include "runtime/tools/adapters.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;
using TensorMap = std::map<std::string, torch::Tensor>;

constexpr int64_t kWords = 24;
constexpr int64_t kWidth = 64;
constexpr double kScaling = 2;  // alpha 8, rank 4

// An embedding, whose table is the last product, too, a convolution and projections.
struct Words : nn::Module {
  Words() {
    words = register_module("words", nn::Embedding(kWords, kWidth));
    conv = register_module("conv", nn::Conv1d(nn::Conv1dOptions(kWidth, kWidth, 3).padding(1)));
    gate = register_module("gate", nn::Linear(kWidth, kWidth));
    up = register_module("up", nn::Linear(nn::LinearOptions(kWidth, kWidth).bias(false)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  }

  torch::Tensor forward(torch::Tensor indices) {
    torch::Tensor x = words(indices);
    x = x + conv(x.transpose(1, 2)).transpose(1, 2);
    torch::Tensor g = gate(x);
    if (adapters != nullptr) {
      g = g +
          kScaling * x.matmul(adapters->at("gate.lora_A.weight").t()).matmul(adapters->at("gate.lora_B.weight").t());
    }
    x = norm(x + at::linear(x, up->weight) * g.sigmoid());
    return x.matmul(words->weight.t());
  }

  TensorMap* adapters = nullptr;
  nn::Embedding words{nullptr};
  nn::Conv1d conv{nullptr};
  nn::Linear gate{nullptr}, up{nullptr};
  nn::LayerNorm norm{nullptr};
};

torch::Tensor Indices(int seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return torch::randint(kWords, {3, 7});
}

torch::Tensor Loss(const torch::Tensor& logits, const torch::Tensor& targets) {
  return torch::cross_entropy_loss(logits.reshape({-1, kWords}), targets.reshape({-1}));
}

aot::CompileOptions Options(aot::QuantizeOptions quantize) {
  aot::CompileOptions options;
  options.module.seed = 3;
  options.module.lora = {.modules = {"gate"}, .rank = 4, .alpha = 8};
  options.module.quantize = std::move(quantize);
  options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return Loss(outputs[0], targets[0]);
  };
  options.loss.targets = {Indices(0)};
  options.optimizer = aot::OptimizerConfig{aot::AdamW()};
  std::get<aot::AdamOptions>(options.optimizer->options).lr = 0.05;
  return options;
}

absl::StatusOr<aot::CompiledModel> CompileWords(const aot::CompileOptions& options) {
  return aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Words>(); }), {Indices(0)}, options);
}

Session MakeSession(const aot::CompiledModel& model) {
  return *Session::Create(*Program::LoadBytes(model.bytes()), {.kernels = &CpuKernels(), .threads = 1});
}

TensorMap StatesOf(const Session& session) {
  TensorMap states;
  for (const serialization::State& state : session.program().artifact().states()) {
    states[state.name()] = *ToTorch(*session.State(state.name()));
  }
  return states;
}

std::vector<Tensor> Arguments(const std::vector<torch::Tensor>& tensors) {
  std::vector<Tensor> arguments;
  for (const torch::Tensor& tensor : tensors) arguments.push_back(*ToCotan(tensor));
  return arguments;
}

// Returns integer * factor, element by element, as the layout of aot::QuantizedWeight says.
torch::Tensor Dequantized(const torch::Tensor& data, const torch::Tensor& scale, at::IntArrayRef sizes) {
  const bool packed = data.scalar_type() == torch::kByte;
  torch::Tensor result = torch::empty(sizes);
  const int64_t rows = sizes[0], columns = result.numel() / rows, group = columns / scale.size(1);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t half = group / 2;
      const int64_t stored = data[i][packed ? j / group * half + j % half : j].item<int64_t>();
      const int64_t integer = !packed ? stored : (j % group < half ? stored % 16 : stored / 16) - 8;
      result.view({rows, columns})[i][j] = static_cast<float>(integer) * scale[i][j / group].item<float>();
    }
  }
  return result;
}

// Sets the parameters of `model` to the states of a session; quantized ones to their values.
void SetParameters(const TensorMap& states, nn::Module& model) {
  const torch::NoGradGuard no_grad;
  for (auto& item : model.named_parameters()) {
    const torch::Tensor& state = states.at(item.key());
    const auto scale = states.find(item.key() + "_scale");
    item.value().copy_(scale == states.end() ? state : Dequantized(state, scale->second, item.value().sizes()));
    item.value().set_requires_grad(false);
  }
}

struct QuantizeCase {
  const char* name;
  aot::QuantizeOptions options;
  double error;  // largest error of a weight, as a share of the largest weight of its group
};

class QuantizeTest : public ::testing::TestWithParam<QuantizeCase> {};

INSTANTIATE_TEST_SUITE_P(
    Types, QuantizeTest,
    ::testing::Values(QuantizeCase{"Int8Rows", {.parameters = {"*.weight"}, .bits = 8}, 0.5 / 127},
                      QuantizeCase{"Int8Groups", {.parameters = {"*.weight"}, .bits = 8, .group = 16}, 0.5 / 127},
                      QuantizeCase{"Int4", {.parameters = {"*.weight"}, .bits = 4}, 0.5 / 7}),
    [](const auto& info) { return info.param.name; });

TEST_P(QuantizeTest, StepsEqualThoseOfEagerWithTheDequantizedWeights) {
  const auto model = CompileWords(Options(GetParam().options));
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = MakeSession(*model);
  const TensorMap before = StatesOf(session);
  Words eager;
  SetParameters(before, eager);
  TensorMap adapters;
  for (const std::string name : {"gate.lora_A.weight", "gate.lora_B.weight"}) {
    adapters[name] = before.at(name).clone().set_requires_grad(true);
  }
  eager.adapters = &adapters;
  torch::optim::AdamW optimizer({adapters.at("gate.lora_A.weight"), adapters.at("gate.lora_B.weight")},
                                torch::optim::AdamWOptions(0.05));
  for (int step = 1; step <= 4; ++step) {
    const auto results = session.Run("train_step", Arguments({Indices(step), Indices(step + 100)}));
    ASSERT_TRUE(results.ok()) << results.status();
    optimizer.zero_grad();
    const torch::Tensor loss = Loss(eager.forward(Indices(step)), Indices(step + 100));
    loss.backward();
    optimizer.step();
    EXPECT_NEAR(ToTorch(results->back())->item<double>(), loss.item<double>(), 2e-5) << "step " << step;
  }
  const TensorMap after = StatesOf(session);
  for (const auto& [name, expected] : adapters) {
    EXPECT_TRUE(torch::allclose(after.at(name), expected.detach(), 1e-3, 1e-4)) << name;
  }
  for (const char* name : {"words.weight", "conv.weight", "gate.weight", "up.weight"}) {
    EXPECT_TRUE(after.at(name).equal(before.at(name))) << name << " changed";
  }
  const auto predicted = session.Run("eval", Arguments({Indices(9)}));
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  EXPECT_TRUE(torch::allclose(*ToTorch(predicted->front()), eager.forward(Indices(9)).detach(), 1e-3, 1e-4));
}

TEST_P(QuantizeTest, WeightsAreTheNearestIntegers) {
  const auto model = CompileWords(Options(GetParam().options));
  const auto plain = CompileWords(Options({}));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(plain.ok()) << plain.status();
  const TensorMap states = StatesOf(MakeSession(*model)), original = StatesOf(MakeSession(*plain));
  for (const char* name : {"words.weight", "conv.weight", "gate.weight", "up.weight"}) {
    const torch::Tensor& weight = original.at(name);
    const torch::Tensor& scale = states.at(absl::StrCat(name, "_scale"));
    const torch::Tensor error = (Dequantized(states.at(name), scale, weight.sizes()) - weight).abs();
    const auto in_groups = [&](const torch::Tensor& t) { return t.reshape({weight.size(0), scale.size(1), -1}); };
    const torch::Tensor largest = in_groups(weight.abs()).amax(2, /*keepdim=*/true);
    EXPECT_TRUE((in_groups(error) <= largest * GetParam().error * 1.001).all().item<bool>()) << name;
    const int64_t elements = weight.numel();
    EXPECT_EQ(states.at(name).nbytes(), static_cast<size_t>(elements * GetParam().options.bits / 8)) << name;
  }
  EXPECT_EQ(states.at("norm.weight").scalar_type(), torch::kFloat);  // a vector
}

TEST_P(QuantizeTest, NoDequantizedWeightIsSavedForTheBackward) {
  const auto model = CompileWords(Options(GetParam().options));
  ASSERT_TRUE(model.ok()) << model.status();
  const Session session = MakeSession(*model);
  int checked = 0;
  for (const serialization::Method& method : session.program().artifact().methods()) {
    if (method.num_saved() == 0) continue;
    for (int i = method.outputs_size() - static_cast<int>(method.num_saved()); i < method.outputs_size(); ++i) {
      const serialization::TensorType& type = method.values(static_cast<int>(method.outputs(i))).type();
      int64_t elements = 1;
      for (const std::string& size : type.sizes()) elements *= std::stoll(size);
      EXPECT_LT(elements, kWords * kWidth) << type.ShortDebugString();
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

// Layers whose weights are large beside their activations.
struct Deep : nn::Module {
  Deep() {
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(register_module(absl::StrCat("layer", i), nn::Linear(kSize, kSize)));
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    for (nn::Linear& layer : layers) x = layer(x).tanh();
    return x;
  }
  static constexpr int kLayers = 4;
  static constexpr int64_t kSize = 640;
  static constexpr int64_t kWeightBytes = kSize * kSize * 4;
  std::vector<nn::Linear> layers;
};

absl::StatusOr<aot::CompiledModel> CompileDeep(int bits, int64_t rows) {
  aot::CompileOptions options = Options({.parameters = {"*.weight"}, .bits = bits});
  options.module.lora.modules = {"layer*"};
  options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return torch::mse_loss(outputs[0], targets[0]);
  };
  options.loss.targets = {torch::zeros({rows, Deep::kSize})};
  return aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Deep>(); }),
                            {torch::zeros({rows, Deep::kSize})}, options);
}

TEST(QuantizeMemoryTest, AStepHoldsNoDequantizedWeight) {
  for (const int bits : {8, 4}) {
    const auto model = CompileDeep(bits, 2);
    ASSERT_TRUE(model.ok()) << model.status();
    const Session session = MakeSession(*model);
    const auto memory = aot::MeasureMemory(session.program().artifact(), {.kernels = &CpuKernels(), .threads = 1});
    ASSERT_TRUE(memory.ok()) << memory.status();
    for (const aot::MethodMemory& method : *memory) {
      EXPECT_LT(method.after, Deep::kWeightBytes / 2) << method.name << ", " << bits << " bits";
    }
  }
}

// The kernels of CpuKernels() for single ops.
const KernelRegistry& KernelsOfSingleOps() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    for (const OpKind kind : AllOpKinds()) {
      for (int i = static_cast<int>(DType::kBool); i <= static_cast<int>(DType::kFloat8E5m2); ++i) {
        const auto factory = CpuKernels().Find(DeviceType::kCpu, kind, static_cast<DType>(i));
        if (!factory.ok()) continue;
        EXPECT_TRUE(kernels->Register(DeviceType::kCpu, kind, static_cast<DType>(i), *factory).ok());
      }
    }
    return kernels;
  }();
  return registry;
}

// Returns the results of three training steps and the states after them.
TensorMap ThreeSteps(Session& session, int64_t rows) {
  TensorMap tensors;
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(static_cast<uint64_t>(step));
    const auto results =
        session.Run("train_step", Arguments({torch::randn({rows, Deep::kSize}), torch::randn({rows, Deep::kSize})}));
    EXPECT_TRUE(results.ok()) << results.status();
    for (size_t i = 0; results.ok() && i < results->size(); ++i) {
      tensors[absl::StrCat("result ", i, " of step ", step)] = ToTorch((*results)[i])->clone();
    }
  }
  for (const auto& [name, state] : StatesOf(session)) tensors[name] = state.clone();
  return tensors;
}

TEST(QuantizeMemoryTest, ProductsDequantizeInBlocksWithTheSameBits) {
  constexpr int64_t kRows = 64;  // enough for the own product of processors with AVX-512
  for (const int bits : {8, 4}) {
    const auto model = CompileDeep(bits, kRows);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto program = *Program::LoadBytes(model->bytes());
    Session whole = *Session::Create(program, {.kernels = &KernelsOfSingleOps(), .threads = 1});
    const TensorMap expected = ThreeSteps(whole, kRows);
    const PlanSummary before = *whole.Summary(*whole.FindMethod("train_step"));
    for (const int threads : {1, StepThreads(2), StepThreads(3)}) {
      Session session = *Session::Create(program, {.kernels = &CpuKernels(), .threads = threads});
      const TensorMap actual = ThreeSteps(session, kRows);
      for (const auto& [name, tensor] : expected) {
        const bool is_same = actual.at(name).equal(tensor);
        const bool is_close = torch::allclose(actual.at(name).to(torch::kFloat), tensor.to(torch::kFloat), 1e-4, 1e-5);
        EXPECT_TRUE(__builtin_cpu_supports("avx512f") ? is_same : is_close) << name << ", " << threads << " threads";
      }
      const PlanSummary after = *session.Summary(*session.FindMethod("train_step"));
      const auto memory = aot::MeasureMemory(program->artifact(), {.kernels = &CpuKernels(), .threads = threads});
      ASSERT_TRUE(memory.ok()) << memory.status();
      for (const aot::MethodMemory& method : *memory) {
        if (method.name != "train_step") continue;
        EXPECT_EQ(method.after, after.arena_bytes) << threads << " threads";
      }
      // Forward of all layers, and backward of all but the first, whose input needs no gradient.
      EXPECT_EQ(after.num_steps, before.num_steps - (2 * Deep::kLayers - 1));
      EXPECT_LT(after.arena_bytes, before.arena_bytes - (threads == 1 ? Deep::kWeightBytes / 2 : 0));
    }
  }
}

enum class Kind { kInlined, kBlocks, kKeyed };

// The same layers as blocks, or not.
template <Kind kKind>
struct Stack : nn::Module {
  Stack() {
    for (const char* name : {"a", "b", "c"}) layers.push_back(register_module(name, nn::Linear(8, 8)));
  }
  torch::Tensor forward(torch::Tensor x) {
    for (nn::Linear& layer : layers) {
      if constexpr (kKind == Kind::kInlined) x = layer(x);
      if constexpr (kKind == Kind::kBlocks) x = COTAN_BLOCK(*layer, x);
      if constexpr (kKind == Kind::kKeyed) x = aot::CallKeyedBlock("layer", *layer, x);
    }
    return x.tanh();
  }
  std::vector<nn::Linear> layers;
};

template <Kind kKind>
absl::StatusOr<aot::CompiledModel> CompileStack() {
  aot::CompileOptions options;
  options.module.frozen = {"*"};
  options.module.quantize = {.parameters = {"*.weight"}};
  return aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Stack<kKind>>(); }), {torch::zeros({2, 8})},
                            options);
}

TEST(QuantizeBlocksTest, BlocksComputeWithIntegersToo) {
  const auto inlined = CompileStack<Kind::kInlined>();
  ASSERT_TRUE(inlined.ok()) << inlined.status();
  Session plain = MakeSession(*inlined);
  torch::manual_seed(1);
  const torch::Tensor x = torch::randn({2, 8});
  const auto expected = plain.Run("eval", Arguments({x}));
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (const auto& model : {CompileStack<Kind::kBlocks>(), CompileStack<Kind::kKeyed>()}) {
    ASSERT_TRUE(model.ok()) << model.status();
    Session session = MakeSession(*model);
    EXPECT_EQ(StatesOf(session).at("b.weight").scalar_type(), torch::kChar);
    const auto actual = session.Run("eval", Arguments({x}));
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_TRUE(ToTorch(actual->front())->equal(*ToTorch(expected->front())));
    EXPECT_FALSE(model->inlined_blocks().empty());                              // docs/blocks.md
    EXPECT_LT(model->bytes().size(), inlined->bytes().size() + 2 * 3 * 8 * 8);  // no weight is a constant in f32
  }
}

TEST(QuantizeRefusalsTest, NamesWhatDoesNotFit) {
  const auto refusal = [](aot::QuantizeOptions quantize) {
    return std::string(CompileWords(Options(std::move(quantize))).status().message());
  };
  EXPECT_THAT(refusal({.parameters = {"head.*"}}),
              HasSubstr("the pattern 'head.*' matches no frozen matrix; there are: words.weight, conv.weight"));
  EXPECT_THAT(refusal({.parameters = {"*.lora_A.weight"}}), HasSubstr("matches no frozen matrix"));
  EXPECT_THAT(refusal({.parameters = {"*"}, .bits = 4, .group = 48}),
              HasSubstr("a row of 'words.weight' has 64 elements, which are not groups of 48"));
  EXPECT_THAT(refusal({.parameters = {"*"}, .bits = 2}), HasSubstr("2 bits; there are 8 and 4"));
  EXPECT_THAT(refusal({.parameters = {"*"}, .bits = 4, .group = 3}), HasSubstr("even with 4 bits"));
}

TEST(QuantizeRefusalsTest, AModelThatWritesToAWeightIsRefused) {
  struct Writer : nn::Module {
    Writer() : fc(register_module("fc", nn::Linear(4, 4))) {}
    torch::Tensor forward(torch::Tensor x) {
      const torch::NoGradGuard no_grad;
      fc->weight.mul_(2);
      return fc(x);
    }
    nn::Linear fc;
  };
  aot::CompileOptions options;
  options.module.frozen = {"*"};
  options.module.quantize = {.parameters = {"*"}};
  const absl::Status status =
      aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Writer>(); }), {torch::zeros({2, 4})}, options)
          .status();
  EXPECT_THAT(status.message(), HasSubstr("'fc.weight' is quantized and cannot be written"));
}

TEST(QuantizeRefusalsTest, AdaptersAreNotMergedIntoIntegers) {
  const auto model = CompileWords(Options({.parameters = {"gate.weight"}}));
  ASSERT_TRUE(model.ok()) << model.status();
  const Session session = MakeSession(*model);
  EXPECT_TRUE(tools::SaveAdapters(session, ::testing::TempDir()).ok());
  EXPECT_THAT(tools::SaveMerged(session, ::testing::TempDir()).message(), HasSubstr("'gate.weight' is quantized"));
}

}  // namespace
}  // namespace cotan::testing
