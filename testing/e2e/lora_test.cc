// SPDX-License-Identifier: Apache-2.0

// Fine-tuning by low-rank adapters, of modules and of archives: compiled training steps beside LibTorch eager with the
// same adapters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/blocks/block.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "nlohmann/json.hpp"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/session/safetensors.h"
#include "runtime/tools/adapters.h"
#include "runtime/tools/commands.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/gated_archive.h"

namespace cotan::testing {
namespace {

namespace nn = torch::nn;
using ::testing::HasSubstr;
using TensorMap = std::map<std::string, torch::Tensor>;

constexpr int64_t kWidth = 8;
constexpr double kScaling = 1.5;  // alpha 6, rank 4

// Gated projections. With `adapters`, q_proj and v_proj also have theirs, by the formula of the paper.
struct Gated : nn::Module {
  Gated() : out(register_module("out", nn::Linear(kWidth, kWidth))) {
    q_proj = register_module("q_proj", nn::Linear(kWidth, kWidth));
    v_proj = register_module("v_proj", nn::Linear(nn::LinearOptions(kWidth, kWidth).bias(false)));
    norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({kWidth})));
  }

  torch::Tensor Project(const std::string& name, nn::Linear layer, const torch::Tensor& x) {
    torch::Tensor y = layer(x);
    if (adapters == nullptr) return y;
    const torch::Tensor down = x.matmul(adapters->at(name + ".lora_A.weight").t());
    return y + kScaling * down.matmul(adapters->at(name + ".lora_B.weight").t());
  }

  torch::Tensor forward(torch::Tensor x) {
    const torch::Tensor h = norm(Project("q_proj", q_proj, x) * Project("v_proj", v_proj, x).sigmoid());
    // As models from Python call it.
    return at::linear(h, out->weight, out->bias) + x;
  }

  TensorMap* adapters = nullptr;
  nn::Linear out, q_proj{nullptr}, v_proj{nullptr};
  nn::LayerNorm norm{nullptr};
};

// Inputs with `rank` dimensions: LibTorch calls other products for matrices than for batches of them.
torch::Tensor Input(int64_t rank, int seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  return rank == 2 ? torch::randn({6, kWidth}) : torch::randn({3, 5, kWidth});
}

aot::CompileOptions Options(std::vector<std::string> modules) {
  aot::CompileOptions options;
  options.module.seed = 3;
  options.module.lora = {.modules = std::move(modules), .rank = 4, .alpha = 6};
  options.loss.function = [](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return torch::mse_loss(outputs[0], targets[0]);
  };
  options.optimizer = aot::OptimizerConfig{aot::AdamW()};
  std::get<aot::AdamOptions>(options.optimizer->options).lr = 0.05;
  return options;
}

absl::StatusOr<aot::CompiledModel> CompileGated(aot::CompileOptions options, int64_t rank = 3) {
  options.loss.targets = {Input(rank, 0)};
  return aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Gated>(); }), {Input(rank, 0)}, options);
}

// Compiles the archive of Gated without adapters, which is that of the method "eval", too.
absl::StatusOr<aot::CompiledModel> CompileArchive(aot::CompileOptions options, int64_t rank, LinearForm form) {
  COTAN_ASSIGN_OR_RETURN(const aot::pt2::Model model, aot::pt2::Model::Load(WriteGatedArchive(kWidth, rank, form)));
  options.loss.targets = {Input(rank, 0)};
  return aot::CompilePt2(model, {Input(rank, 0)}, options, &model);
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

bool IsAdapter(const std::string& name) {
  return absl::StrContains(name, ".lora_A.") || absl::StrContains(name, ".lora_B.");
}

std::vector<Tensor> Arguments(const std::vector<torch::Tensor>& tensors) {
  std::vector<Tensor> arguments;
  for (const torch::Tensor& tensor : tensors) arguments.push_back(*ToCotan(tensor));
  return arguments;
}

// The eager model with the states of a session.
class Eager {
 public:
  explicit Eager(const TensorMap& states) {
    const torch::NoGradGuard no_grad;
    for (auto& item : model_.named_parameters()) {
      item.value().copy_(states.at(item.key()));
      item.value().set_requires_grad(false);
    }
    for (const auto& [name, value] : states) {
      if (!IsAdapter(name) || absl::StartsWith(name, "optimizer.")) continue;
      adapters_[name] = value.clone().set_requires_grad(true);
    }
    model_.adapters = &adapters_;
    std::vector<torch::Tensor> trained;
    for (const auto& [name, adapter] : adapters_) trained.push_back(adapter);
    optimizer_ = std::make_unique<torch::optim::AdamW>(trained, torch::optim::AdamWOptions(0.05));
  }

  torch::Tensor Loss(const torch::Tensor& input, const torch::Tensor& target) {
    return torch::mse_loss(model_.forward(input), target);
  }

  double Step(const torch::Tensor& input, const torch::Tensor& target) {
    optimizer_->zero_grad();
    const torch::Tensor loss = Loss(input, target);
    loss.backward();
    optimizer_->step();
    return loss.item<double>();
  }

  const TensorMap& adapters() const { return adapters_; }
  Gated& model() { return model_; }

 private:
  Gated model_;
  TensorMap adapters_;
  std::unique_ptr<torch::optim::AdamW> optimizer_;
};

// Expects that five steps train the adapters of both projections as eager does, and nothing else.
void ExpectStepsOfEager(const aot::CompiledModel& model, int64_t rank) {
  Session session = MakeSession(model);
  const TensorMap before = StatesOf(session);
  Eager eager(before);
  ASSERT_EQ(eager.adapters().size(), 4);
  for (int step = 1; step <= 5; ++step) {
    const torch::Tensor input = Input(rank, step), target = Input(rank, step + 100);
    const auto results = session.Run("train_step", Arguments({input, target}));
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_NEAR(ToTorch(results->back())->item<double>(), eager.Step(input, target), 1e-5) << "step " << step;
  }
  const TensorMap after = StatesOf(session);
  for (const auto& [name, expected] : eager.adapters()) {
    EXPECT_TRUE(torch::allclose(after.at(name), expected.detach(), 1e-3, 1e-4)) << name;
    EXPECT_GT((after.at(name) - before.at(name)).abs().max().item<double>(), 0.01) << name << " is not trained";
  }
  for (const auto& item : eager.model().named_parameters()) {
    EXPECT_TRUE(after.at(item.key()).equal(before.at(item.key()))) << item.key() << " changed";
  }
  const auto predicted = session.Run("eval", Arguments({Input(rank, 9)}));
  ASSERT_TRUE(predicted.ok()) << predicted.status();
  EXPECT_TRUE(
      torch::allclose(*ToTorch(predicted->front()), eager.model().forward(Input(rank, 9)).detach(), 1e-3, 1e-4));
}

class LoraTest : public ::testing::TestWithParam<int64_t> {};

INSTANTIATE_TEST_SUITE_P(Ranks, LoraTest, ::testing::Values(2, 3));

TEST_P(LoraTest, StepsEqualThoseOfEagerWithTheSameAdapters) {
  const auto model = CompileGated(Options({"*_proj"}), GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectStepsOfEager(*model, GetParam());
}

TEST_P(LoraTest, StepsOfAnArchiveEqualThoseOfEager) {
  const auto model = CompileArchive(Options({"*_proj"}), GetParam(), LinearForm::kOp);
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectStepsOfEager(*model, GetParam());
}

TEST(LoraArchiveTest, ProductsWithTransposedWeightsAreLinearLayers) {
  const auto model = CompileArchive(Options({"*_proj"}), 2, LinearForm::kProduct);
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectStepsOfEager(*model, 2);
}

TEST_P(LoraTest, GradientsAreThoseOfTheAdaptersOnly) {
  const auto model = CompileGated(Options({"q_proj"}), GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = MakeSession(*model);
  Eager eager(StatesOf(session));
  const torch::Tensor input = Input(GetParam(), 1), target = Input(GetParam(), 2);
  const auto outputs = session.Run("forward", Arguments({input}));
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  const torch::Tensor output = ToTorch(outputs->front())->requires_grad_();
  torch::mse_loss(output, target).backward();
  ASSERT_TRUE(session.Run("backward", Arguments({output.grad()})).ok());
  TensorMap adapters = eager.adapters();
  adapters["v_proj.lora_A.weight"] = adapters["v_proj.lora_B.weight"] = torch::zeros({kWidth, kWidth});
  eager.model().adapters = &adapters;
  eager.Loss(input, target).backward();
  int compared = 0;
  for (const serialization::State& state : session.program().artifact().states()) {
    EXPECT_EQ(state.requires_grad(), IsAdapter(state.name()) && state.role() == serialization::State::PARAMETER)
        << state.name();
    if (!state.requires_grad()) continue;
    const torch::Tensor gradient = *ToTorch(*session.Gradient(state.name()));
    EXPECT_TRUE(torch::allclose(gradient, adapters.at(state.name()).grad(), 1e-4, 1e-6)) << state.name();
    ++compared;
  }
  EXPECT_EQ(compared, 2);
}

TEST(LoraStatesTest, TheModelStaysAsItWasAndHasNoSlots) {
  const auto model = CompileGated(Options({"*_proj"}));
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = MakeSession(*model);
  const TensorMap before = StatesOf(session);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(session.Run("train_step", Arguments({Input(3, step), Input(3, step + 9)})).ok());
  }
  int unchanged = 0;
  for (const auto& [name, value] : StatesOf(session)) {
    if (absl::StartsWith(name, "optimizer.")) {
      EXPECT_TRUE(IsAdapter(name) || !absl::StrContains(name, "weight")) << name << " is a slot of a frozen parameter";
    } else if (!IsAdapter(name)) {
      EXPECT_TRUE(value.equal(before.at(name))) << name << " changed";
      ++unchanged;
    }
  }
  EXPECT_GE(unchanged, 9);  // 7 parameters, 2 scalings
}

TEST(LoraStatesTest, NewAdaptersChangeNothingAndDependOnTheSeed) {
  const auto plain = CompileGated(Options({}));
  const auto adapted = CompileGated(Options({"*_proj"}));
  ASSERT_TRUE(plain.ok()) << plain.status();
  ASSERT_TRUE(adapted.ok()) << adapted.status();
  Session a = MakeSession(*plain), b = MakeSession(*adapted);
  const auto expected = a.Run("eval", Arguments({Input(3, 1)}));
  const auto actual = b.Run("eval", Arguments({Input(3, 1)}));
  ASSERT_TRUE(expected.ok() && actual.ok());
  EXPECT_TRUE(ToTorch(actual->front())->equal(*ToTorch(expected->front())));
  const TensorMap states = StatesOf(b);
  const torch::Tensor down = states.at("q_proj.lora_A.weight");
  EXPECT_EQ(down.sizes(), (std::vector<int64_t>{4, kWidth}));
  EXPECT_LE(down.abs().max().item<double>(), 1 / std::sqrt(static_cast<double>(kWidth)));
  EXPECT_GT(down.abs().max().item<double>(), 0.2);
  EXPECT_FALSE(down.equal(states.at("v_proj.lora_A.weight")));
  EXPECT_EQ(states.at("q_proj.lora_scaling").item<double>(), kScaling);
  aot::CompileOptions other = Options({"*_proj"});
  other.module.seed = 4;
  EXPECT_FALSE(StatesOf(MakeSession(*CompileGated(other))).at("q_proj.lora_A.weight").equal(down));
  EXPECT_EQ(CompileGated(Options({"*_proj"}))->bytes(), adapted->bytes());
}

TEST(LoraStatesTest, ChosenParametersAreTrainedToo) {
  aot::CompileOptions options = Options({"q_proj"});
  options.module.lora.trained = {"norm.*"};
  const auto model = CompileGated(options);
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = MakeSession(*model);
  const TensorMap before = StatesOf(session);
  ASSERT_TRUE(session.Run("train_step", Arguments({Input(3, 1), Input(3, 2)})).ok());
  const TensorMap after = StatesOf(session);
  EXPECT_FALSE(after.at("norm.weight").equal(before.at("norm.weight")));
  EXPECT_TRUE(after.at("out.weight").equal(before.at("out.weight")));
}

// Returns the tensors of a safetensors file as torch tensors.
TensorMap ReadFile(const std::string& path) {
  const MappedFile file = *MappedFile::Open(path);
  const absl::StatusOr<SafetensorsFile> parsed = ParseSafetensors(file.bytes());
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  TensorMap tensors;
  for (const SafetensorsEntry& entry : parsed->tensors) {
    EXPECT_EQ(entry.dtype, DType::kFloat32) << entry.name;
    const std::vector<int64_t> sizes(entry.sizes.begin(), entry.sizes.end());
    tensors[entry.name] = torch::from_blob(const_cast<char*>(entry.bytes.data()), sizes).clone();
  }
  return tensors;
}

// Its first matrix is that of the head as well.
struct Tied : nn::Module {
  Tied() : words(register_module("words", nn::Linear(nn::LinearOptions(kWidth, kWidth).bias(false)))) {
    q_proj = register_module("q_proj", nn::Linear(kWidth, kWidth));
    head = register_parameter("head", words->weight);
  }
  torch::Tensor forward(torch::Tensor x) { return at::linear(q_proj(words(x)), head); }
  nn::Linear words, q_proj{nullptr};
  torch::Tensor head;
};

TEST(LoraStatesTest, ATiedParameterIsChosenByEachOfItsNames) {
  for (const std::string name : {"head", "words.weight"}) {
    aot::CompileOptions options = Options({"q_proj"});
    options.module.lora.trained = {name};
    options.loss.targets = {Input(2, 0)};
    const auto model =
        aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Tied>(); }), {Input(2, 0)}, options);
    ASSERT_TRUE(model.ok()) << model.status();
    Session session = MakeSession(*model);
    TensorMap before = StatesOf(session);
    ASSERT_TRUE(session.Run("train_step", Arguments({Input(2, 1), Input(2, 2)})).ok());
    TensorMap after = StatesOf(session);
    EXPECT_FALSE(after.at("head").equal(before.at("head"))) << name;
  }
}

// A trained session and its state.
class LoraExportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    aot::CompileOptions options = Options({"*_proj"});
    options.module.lora.trained = {"norm.*"};
    session_ = std::make_unique<Session>(MakeSession(*CompileGated(options)));
    for (int step = 0; step < 3; ++step) {
      ASSERT_TRUE(session_->Run("train_step", Arguments({Input(3, step), Input(3, step + 9)})).ok());
    }
  }

  std::unique_ptr<Session> session_;
};

TEST_F(LoraExportTest, AdaptersHaveTheNamesOfPeft) {
  const absl::Status status = tools::SaveAdapters(*session_, ::testing::TempDir());
  ASSERT_TRUE(status.ok()) << status;
  const TensorMap file = ReadFile(absl::StrCat(::testing::TempDir(), "/adapter_model.safetensors"));
  const TensorMap states = StatesOf(*session_);
  ASSERT_EQ(file.size(), 6);
  for (const std::string name : {"q_proj.lora_A.weight", "q_proj.lora_B.weight", "v_proj.lora_A.weight",
                                 "v_proj.lora_B.weight", "norm.weight", "norm.bias"}) {
    EXPECT_TRUE(file.at("base_model.model." + name).equal(states.at(name))) << name;
  }
  std::ifstream config(absl::StrCat(::testing::TempDir(), "/adapter_config.json"));
  const nlohmann::json json = nlohmann::json::parse(config);
  EXPECT_EQ(json["r"], 4);
  EXPECT_EQ(json["lora_alpha"], 6);
  EXPECT_EQ(json["target_modules"], (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(json["modules_to_save"], std::vector<std::string>{"norm"});
}

TEST_F(LoraExportTest, AMergedModelNeedsNoAdapters) {
  const absl::Status status = tools::SaveMerged(*session_, ::testing::TempDir());
  ASSERT_TRUE(status.ok()) << status;
  const TensorMap file = ReadFile(absl::StrCat(::testing::TempDir(), "/model.safetensors"));
  Gated merged;
  const torch::NoGradGuard no_grad;
  ASSERT_EQ(file.size(), merged.parameters().size());
  for (auto& item : merged.named_parameters()) item.value().copy_(file.at(item.key()));
  const auto expected = session_->Run("eval", Arguments({Input(3, 50)}));
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_TRUE(torch::allclose(merged.forward(Input(3, 50)), *ToTorch(expected->front()), 1e-4, 1e-5));
  EXPECT_FALSE(file.at("q_proj.weight").equal(StatesOf(*session_).at("q_proj.weight")));
}

TEST(LoraArchiveTest, TheToolWritesTrainedAdaptersWithTheNamesOfPeft) {
  const auto model = CompileArchive(Options({"*_proj"}), 3, LinearForm::kOp);
  ASSERT_TRUE(model.ok()) << model.status();
  const std::string folder = absl::StrCat(::testing::TempDir(), "/archive_adapters");
  std::filesystem::create_directory(folder);
  const std::string artifact = absl::StrCat(folder, "/gated.cotan"), checkpoint = absl::StrCat(folder, "/tuned");
  ASSERT_TRUE(model->Save(artifact).ok());
  Session session = MakeSession(*model);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(session.Run("train_step", Arguments({Input(3, step), Input(3, step + 9)})).ok());
  }
  ASSERT_TRUE(session.SaveCheckpoint(checkpoint).ok());
  const std::string from = absl::StrCat("--checkpoint=", checkpoint), to = absl::StrCat("--out=", folder);
  const std::vector<const char*> arguments = {"adapters", artifact.c_str(), from.c_str(), to.c_str()};
  std::ostringstream text;
  const absl::Status status = tools::RunCommand(
      arguments,
      [](absl::string_view) -> absl::StatusOr<tools::Backend> { return tools::Backend{.kernels = &CpuKernels()}; },
      text);
  ASSERT_TRUE(status.ok()) << status;
  const TensorMap file = ReadFile(absl::StrCat(folder, "/adapter_model.safetensors"));
  const TensorMap states = StatesOf(session);
  ASSERT_EQ(file.size(), 4);
  for (const std::string name :
       {"q_proj.lora_A.weight", "q_proj.lora_B.weight", "v_proj.lora_A.weight", "v_proj.lora_B.weight"}) {
    EXPECT_TRUE(file.at("base_model.model." + name).equal(states.at(name))) << name;
  }
}

enum class Kind { kInlined, kBlocks, kKeyed };

// The same layers as blocks, or not.
template <Kind kKind>
struct Stack : nn::Module {
  Stack() {
    for (const char* name : {"a", "b", "c"}) layers.push_back(register_module(name, nn::Linear(kWidth, kWidth)));
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
absl::StatusOr<aot::CompiledModel> CompileStack(const std::vector<std::string>& adapted = {"a", "b", "c"}) {
  aot::CompileOptions options = Options(adapted);
  options.loss.targets = {Input(2, 0)};
  return aot::CompileModule(aot::AdaptFactory([] { return std::make_shared<Stack<kKind>>(); }), {Input(2, 0)}, options);
}

TEST(LoraBlocksTest, BlocksHaveAdaptersToo) {
  const auto inlined = CompileStack<Kind::kInlined>();
  ASSERT_TRUE(inlined.ok()) << inlined.status();
  Session plain = MakeSession(*inlined);
  for (const auto& model : {CompileStack<Kind::kBlocks>(), CompileStack<Kind::kKeyed>()}) {
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_FALSE(model->inlined_blocks().empty());  // docs/blocks.md
    Session session = MakeSession(*model);
    for (int step = 0; step < 3; ++step) {
      for (Session* each : {&plain, &session}) {
        ASSERT_TRUE(each->Run("train_step", Arguments({Input(2, step), Input(2, step + 9)})).ok());
      }
    }
    const TensorMap expected = StatesOf(plain);
    for (const auto& [name, value] : StatesOf(session)) EXPECT_TRUE(value.equal(expected.at(name))) << name;
    plain = MakeSession(*inlined);
  }
}

// The layers call the same ops.
TEST(LoraBlocksTest, OneOfSeveralEqualBlocksMayHaveAnAdapter) {
  const auto inlined = CompileStack<Kind::kInlined>({"b"});
  ASSERT_TRUE(inlined.ok()) << inlined.status();
  for (const auto& model : {CompileStack<Kind::kBlocks>({"b"}), CompileStack<Kind::kKeyed>({"b"})}) {
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(model->inlined_blocks(), ::testing::ElementsAre(HasSubstr("block 'b': 'weight' has an adapter")));
    Session plain = MakeSession(*inlined), session = MakeSession(*model);
    for (int step = 0; step < 3; ++step) {
      for (Session* each : {&plain, &session}) {
        ASSERT_TRUE(each->Run("train_step", Arguments({Input(2, step), Input(2, step + 9)})).ok());
      }
    }
    const TensorMap expected = StatesOf(plain);
    for (const auto& [name, value] : StatesOf(session)) EXPECT_TRUE(value.equal(expected.at(name))) << name;
  }
}

TEST(LoraRefusalsTest, NamesPatternsThatFitNoLinearLayer) {
  EXPECT_THAT(CompileGated(Options({"k_proj"})).status().message(),
              HasSubstr("the pattern 'k_proj' matches no layer with a matrix as its weight; there are out, q_proj"));
  EXPECT_THAT(CompileGated(Options({"norm"})).status().message(), HasSubstr("'norm' is not a linear layer"));
  aot::CompileOptions options = Options({"q_proj"});
  options.module.lora.rank = 0;
  EXPECT_THAT(CompileGated(options).status().message(), HasSubstr("rank 0 is below 1"));
  options = Options({"q_proj"});
  options.module.lora.trained = {"head.*"};
  EXPECT_THAT(CompileGated(options).status().message(), HasSubstr("'head.*' matches no parameter"));
}

TEST(LoraRefusalsTest, NamesLayersThatAreNoProducts) {
  const auto factory = aot::AdaptFactory([] { return nn::Sequential(nn::Embedding(5, 4), nn::Linear(4, 2)); });
  aot::CompileOptions options;
  options.module.lora.modules = {"0", "1"};
  const absl::Status status = aot::CompileModule(factory, {torch::zeros({3}, torch::kLong)}, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("the adapter of '0'"));
  EXPECT_THAT(status.message(), ::testing::Not(HasSubstr("the adapter of '1'")));
}

}  // namespace
}  // namespace cotan::testing
