// SPDX-License-Identifier: Apache-2.0

// Trains a transformer whose layers are blocks, beside the same model without blocks and LibTorch eager.
#include "testing/blocks/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "aot/memory/fit_memory.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tensor.h"
#include "serialization/container/container.h"
#include "testing/blocks/block_counts.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/e2e/philox_dropout.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::IsEmpty;
using TensorMap = std::map<std::string, torch::Tensor>;
using CallCounts = std::map<std::string, int>;

constexpr uint64_t kSeed = 5;
constexpr int64_t kBatch = 4, kTime = 16, kVocabulary = 64;

ModelCase StackOf(int64_t layers, LayerCalls calls, double dropout) {
  TransformerOptions options;
  options.vocabulary = kVocabulary, options.width = 32, options.heads = 2, options.layers = layers;
  options.context = kTime, options.dropout = dropout;
  ModelCase model;
  model.name = "stack";
  model.make_network = [=] { return std::make_shared<Stack>(options, calls); };
  model.loss = [](torch::Tensor output, torch::Tensor label) {
    return torch::nn::functional::cross_entropy(output, label);
  };
  return model;
}

struct Batch {
  torch::Tensor input, label;
};

Batch BatchOf(int seed, int64_t rows = kBatch) {
  const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  return {torch::randint(0, kVocabulary, {rows, kTime}, generator, torch::kLong),
          torch::randint(0, kVocabulary, {rows * kTime}, generator, torch::kLong)};
}

std::unique_ptr<CompiledTrainer> Train(const ModelCase& model, CompiledTrainerOptions options = {}) {
  options.seed = kSeed;
  options.optimizer.options = aot::SgdOptions{.lr = 0.05, .momentum = 0.9};
  const Batch batch = BatchOf(0);
  auto trainer = CompiledTrainer::Create(model, batch.input, batch.label, options);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return trainer.ok() ? *std::move(trainer) : nullptr;
}

// Without blocks, the embedding is fused with the sum that is the gradient of the first norm, which then adds in
// another order. All other values have the same bits.
bool IsFusedWithTheEmbedding(const std::string& name) { return name.find("layer0.norm1.weight") != std::string::npos; }

void ExpectSameBits(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const double difference = (actual.at(name) - tensor).abs().max().item<double>();
    if (IsFusedWithTheEmbedding(name)) {
      EXPECT_LE(difference, 1e-6) << name;
    } else {
      EXPECT_TRUE(torch::equal(actual.at(name), tensor)) << name << " differs by " << difference;
    }
  }
}

void ExpectSameSteps(CompiledTrainer& actual, CompiledTrainer& expected, int64_t rows = kBatch) {
  for (int step = 0; step < 3; ++step) {
    const Batch batch = BatchOf(step, rows);
    const auto loss = actual.Step(batch.input, batch.label);
    const auto expected_loss = expected.Step(batch.input, batch.label);
    ASSERT_TRUE(loss.ok() && expected_loss.ok()) << loss.status() << expected_loss.status();
    EXPECT_EQ(*loss, *expected_loss) << step;
  }
  ExpectSameBits(*actual.States(), *expected.States());
}

class StackTest : public ::testing::TestWithParam<LayerCalls> {};

TEST_P(StackTest, StepsHaveTheBitsOfTheModelWithoutBlocks) {
  for (const double dropout : {0.0, 0.1}) {
    const ModelCase plain = StackOf(4, LayerCalls::kInline, dropout), blocks = StackOf(4, GetParam(), dropout);
    const auto expected = Train(plain), actual = Train(blocks);
    ASSERT_TRUE(expected != nullptr && actual != nullptr);
    ExpectSameSteps(*actual, *expected);
    const Batch batch = BatchOf(9);
    ExpectSameBits(*actual->Gradients(batch.input, batch.label), *expected->Gradients(batch.input, batch.label));
    EXPECT_TRUE(torch::equal(*actual->Predict(batch.input), *expected->Predict(batch.input)));
  }
}

TEST_P(StackTest, StepsMatchEager) {
  for (const double dropout : {0.0, 0.1}) {
    const ModelCase model = StackOf(3, GetParam(), dropout);
    const auto compiled = Train(model);
    ASSERT_NE(compiled, nullptr);
    aot::OptimizerConfig config;
    config.options = aot::SgdOptions{.lr = 0.05, .momentum = 0.9};
    EagerTrainer eager(model, kSeed, config);
    PhiloxDropout philox;
    philox.Seek(0, 0);
    for (int step = 0; step < 4; ++step) {
      const Batch batch = BatchOf(step);
      const auto loss = compiled->Step(batch.input, batch.label);
      ASSERT_TRUE(loss.ok()) << loss.status();
      EXPECT_NEAR(*loss, eager.Step(batch.input, batch.label), 1e-5) << step;
    }
    const TensorMap states = *compiled->States();
    for (const auto& [name, tensor] : eager.States()) {
      EXPECT_TRUE(torch::allclose(states.at(name), tensor, 1e-4, 1e-5)) << name;
    }
  }
}

TEST_P(StackTest, BatchesMayBeDynamic) {
  CompiledTrainerOptions options;
  options.dynamic_dims = {{0, 0, "batch", 2, 32}, {1, 0, "batch * 16"}};
  for (const double dropout : {0.0, 0.1}) {
    const ModelCase plain = StackOf(3, LayerCalls::kInline, dropout), blocks = StackOf(3, GetParam(), dropout);
    const auto expected = Train(plain, options), actual = Train(blocks, options);
    ASSERT_TRUE(expected != nullptr && actual != nullptr);
    for (const int64_t rows : {32, 2, 7}) ExpectSameSteps(*actual, *expected, rows);
  }
}

TEST(UndeclaredStackTest, OutlinedStepsHaveTheSameBits) {
  for (const bool is_dynamic : {false, true}) {
    CompiledTrainerOptions options;
    if (is_dynamic) options.dynamic_dims = {{0, 0, "batch", 2, 32}, {1, 0, "batch * 16"}};
    const ModelCase model = StackOf(4, LayerCalls::kInline, is_dynamic ? 0 : 0.1);
    const auto outlined = Train(model, options);
    options.outline_repeats = false;
    const auto flat = Train(model, options);
    ASSERT_TRUE(outlined != nullptr && flat != nullptr);
    ExpectSameSteps(*outlined, *flat);
    const TensorMap states = *outlined->States(), expected = *flat->States();
    for (const auto& [name, state] : expected) EXPECT_TRUE(torch::equal(states.at(name), state)) << name;
    const Batch batch = BatchOf(9);
    const TensorMap gradients = *outlined->Gradients(batch.input, batch.label);
    const TensorMap expected_gradients = *flat->Gradients(batch.input, batch.label);
    for (const auto& [name, gradient] : expected_gradients) {
      EXPECT_TRUE(torch::equal(gradients.at(name), gradient)) << name;
    }
    EXPECT_EQ(outlined->session().arena_bytes(), flat->session().arena_bytes());
  }
}

TEST_P(StackTest, FitsIntoMemory) {
  const ModelCase model = StackOf(4, GetParam(), 0.1);
  const auto plain = Train(model);
  ASSERT_NE(plain, nullptr);
  const aot::MemoryTarget target{.kernels = &CpuKernels(), .threads = 1};
  const auto memory = aot::MeasureMemory(plain->session().program().artifact(), target);
  ASSERT_TRUE(memory.ok()) << memory.status();
  int64_t needed = 0;
  for (const aot::MethodMemory& method : *memory) needed = std::max(needed, method.after);
  CompiledTrainerOptions options;
  options.max_memory = aot::MemoryLimit{needed * 93 / 100, target};
  const auto limited = Train(model, options);
  ASSERT_NE(limited, nullptr);
  ExpectSameSteps(*limited, *plain);
  EXPECT_LE(limited->session().arena_bytes(), options.max_memory->bytes);
  EXPECT_GT(plain->session().arena_bytes(), options.max_memory->bytes);
}

TEST_P(StackTest, AccumulatedGradientsHaveTheBitsOfTheModelWithoutBlocks) {
  CompiledTrainerOptions options;
  options.accumulate = true;
  const ModelCase plain = StackOf(3, LayerCalls::kInline, 0), blocks = StackOf(3, GetParam(), 0);
  const auto expected = Train(plain, options), actual = Train(blocks, options);
  ASSERT_TRUE(expected != nullptr && actual != nullptr);
  for (CompiledTrainer* trainer : {expected.get(), actual.get()}) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(trainer->Accumulate(BatchOf(i).input, BatchOf(i).label).ok());
    ASSERT_TRUE(trainer->Update().ok());
  }
  ExpectSameBits(*actual->States(), *expected->States());
}

INSTANTIATE_TEST_SUITE_P(Calls, StackTest, ::testing::Values(LayerCalls::kDeclared, LayerCalls::kKeyed),
                         [](const auto& info) { return info.param == LayerCalls::kKeyed ? "Keyed" : "Declared"; });

// --- what is stored --------------------------------------------------------------------

aot::CompiledModel Compile(int64_t layers, LayerCalls calls, bool outlines = false,
                           const std::optional<aot::MemoryLimit>& max_memory = std::nullopt) {
  const ModelCase model = StackOf(layers, calls, 0.1);
  const Batch batch = BatchOf(0);
  aot::CompileOptions options;
  options.loss.function = [&model](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return model.loss(outputs[0], targets[0]);
  };
  options.loss.targets = {batch.label};
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1}};
  options.outline_repeats = outlines;
  options.max_memory = max_memory;
  auto compiled = aot::CompileModule(model.make_network, {batch.input}, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

TEST(StoredStackTest, MethodsShareTheLayer) {
  for (const LayerCalls calls : {LayerCalls::kDeclared, LayerCalls::kKeyed}) {
    const aot::CompiledModel model = Compile(5, calls);
    EXPECT_THAT(model.inlined_blocks(), IsEmpty());
    const BlockCounts counts = CountBlocks(model);
    // A forward that saves, a backward, and a forward of eval. The step updates the 12 parameters of each layer.
    EXPECT_GT(counts.blocks, 3);  // and one for each type of update
    EXPECT_EQ(counts.calls, (CallCounts{{"train_step", 70}, {"forward", 5}, {"backward", 5}, {"eval", 5}}));
  }
}

// Returns the file with the ops of the blocks in place of their calls.
std::string WithoutCalls(const std::string& bytes) {
  const auto file = ArtifactFile::Parse(bytes);
  EXPECT_TRUE(file.ok()) << file.status();
  ArtifactWriter writer;
  EXPECT_TRUE(writer.AddSegmentsOf(*file).ok());
  return *std::move(writer).Serialize(file->artifact());
}

// The bytes, run by the runtime; the generator of the session has the seed 0.
class StoredSession {
 public:
  explicit StoredSession(const std::string& bytes)
      : session_(*Session::Create(*Program::LoadBytes(bytes), {.kernels = &CpuKernels(), .threads = 1})) {
    EXPECT_TRUE(session_.SetRng(RngState{}).ok());
  }

  // Appends the results of a method to `values`.
  void Run(const std::string& method, const std::vector<torch::Tensor>& inputs, std::vector<torch::Tensor>& values) {
    std::vector<Tensor> arguments;
    for (const torch::Tensor& input : inputs) arguments.push_back(*ToCotan(input));
    const auto results = session_.Run(method, arguments);
    ASSERT_TRUE(results.ok()) << method << ": " << results.status();
    for (const Tensor& result : *results) values.push_back(*ToTorch(result));
  }

  // Returns the results of all methods, then states and gradients.
  std::vector<torch::Tensor> Values() {
    std::vector<torch::Tensor> values;
    for (int step = 0; step < 3; ++step) Run("train_step", {BatchOf(step).input, BatchOf(step).label}, values);
    Run("eval", {BatchOf(9).input}, values);
    Run("forward", {BatchOf(9).input}, values);
    Run("backward", {torch::sin(values.back())}, values);
    for (const serialization::State& state : session_.program().artifact().states()) {
      if (state.role() == serialization::State::CONSTANT) continue;
      values.push_back(*ToTorch(*session_.State(state.name())));
      const auto gradient = session_.Gradient(state.name());
      if (gradient.ok()) values.push_back(*ToTorch(*gradient));
    }
    return values;
  }

 private:
  Session session_;
};

TEST(StoredStackTest, CallsHaveTheBitsOfTheOpsThatReplaceThem) {
  for (const LayerCalls calls : {LayerCalls::kDeclared, LayerCalls::kKeyed}) {
    const aot::CompiledModel model = Compile(4, calls);
    EXPECT_GT(StoredArtifact(model).blocks_size(), 0);
    const std::string flat = WithoutCalls(model.bytes());
    EXPECT_EQ(ArtifactFile::Parse(flat, "flat", Calls::kKeep)->artifact().blocks_size(), 0);
    const std::vector<torch::Tensor> values = StoredSession(model.bytes()).Values();
    const std::vector<torch::Tensor> expected = StoredSession(flat).Values();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_TRUE(torch::equal(values[i], expected[i])) << i;
  }
}

// Both kinds of blocks end fusion at the same places.
TEST(StoredStackTest, DeclaredAndKeyedLayersHaveTheSameBits) {
  const std::vector<torch::Tensor> declared = StoredSession(Compile(4, LayerCalls::kDeclared).bytes()).Values();
  const std::vector<torch::Tensor> keyed = StoredSession(Compile(4, LayerCalls::kKeyed).bytes()).Values();
  ASSERT_EQ(declared.size(), keyed.size());
  for (size_t i = 0; i < keyed.size(); ++i) EXPECT_TRUE(torch::equal(declared[i], keyed[i])) << i;
}

TEST(StoredStackTest, ALayerAddsFewBytes) {
  const size_t two = CountBlocks(Compile(2, LayerCalls::kKeyed)).program_bytes;
  const size_t twelve = CountBlocks(Compile(12, LayerCalls::kKeyed)).program_bytes;
  const size_t plain_two = CountBlocks(Compile(2, LayerCalls::kInline)).program_bytes;
  const size_t plain_twelve = CountBlocks(Compile(12, LayerCalls::kInline)).program_bytes;
  EXPECT_LT((twelve - two) * 5, plain_twelve - plain_two);
}

TEST(StoredStackTest, AnUndeclaredLayerAddsFewBytes) {
  const size_t two = CountBlocks(Compile(2, LayerCalls::kInline, /*outlines=*/true)).program_bytes;
  const size_t twelve = CountBlocks(Compile(12, LayerCalls::kInline, /*outlines=*/true)).program_bytes;
  const size_t plain_two = CountBlocks(Compile(2, LayerCalls::kInline)).program_bytes;
  const size_t plain_twelve = CountBlocks(Compile(12, LayerCalls::kInline)).program_bytes;
  EXPECT_LT(two, plain_two);
  EXPECT_LT((twelve - two) * 2, plain_twelve - plain_two);
}

// A limit replaces the calls; what it plans is outlined again.
TEST(StoredStackTest, LayersThatWereFittedIntoMemoryAddFewBytes) {
  const aot::MemoryTarget target{.kernels = &CpuKernels(), .threads = 1};
  for (const LayerCalls calls : {LayerCalls::kInline, LayerCalls::kKeyed}) {
    const auto memory = aot::MeasureMemory(ArtifactFile::Parse(Compile(8, calls).bytes())->artifact(), target);
    ASSERT_TRUE(memory.ok()) << memory.status();
    int64_t needed = 0;
    for (const aot::MethodMemory& method : *memory) needed = std::max(needed, method.after);
    const aot::MemoryLimit limit{needed * 95 / 100, target};
    const aot::CompiledModel flat = Compile(8, calls, /*outlines=*/false, limit);
    const aot::CompiledModel outlined = Compile(8, calls, /*outlines=*/true, limit);
    EXPECT_EQ(CountBlocks(flat).blocks, 0);
    EXPECT_GT(CountBlocks(outlined).calls.at("train_step"), 8);
    EXPECT_LT(CountBlocks(outlined).program_bytes * 2, CountBlocks(flat).program_bytes);
    const auto fitted = aot::MeasureMemory(ArtifactFile::Parse(outlined.bytes())->artifact(), target);
    ASSERT_TRUE(fitted.ok()) << fitted.status();
    for (const aot::MethodMemory& method : *fitted) EXPECT_LE(method.after, limit.bytes) << method.name;
  }
}

}  // namespace
}  // namespace cotan::testing
