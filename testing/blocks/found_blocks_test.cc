// SPDX-License-Identifier: Apache-2.0

// Layers of archives that become blocks without a declaration (CompileOptions.find_blocks): compiled artifacts beside
// those with the layers written out, and beside LibTorch eager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/number.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/interpreter.h"
#include "aot/frontend/pt2/model.h"
#include "aot/frontend/pt2/module_runs.h"
#include "aot/frontend/pt2/program_builder.h"
#include "aot/frontend/pt2/run_schedule.h"
#include "aot/memory/fit_memory.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "serialization/container/container.h"
#include "testing/blocks/block_counts.h"
#include "testing/blocks/exported_stack.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

namespace pt2 = aot::pt2;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using CallCounts = std::map<std::string, int>;
using TensorMap = std::map<std::string, torch::Tensor>;
using Tensors = std::vector<torch::Tensor>;

pt2::Model Load(const pt2::ArchiveFiles& files) {
  static int num_files = 0;
  auto model = pt2::Model::Load(pt2::WriteArchive(absl::StrCat("found", num_files++, ".pt2"), files));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

aot::CompileOptions TrainingOptions(bool find_blocks) {
  aot::CompileOptions options;
  options.loss.output = 0;
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.05, .momentum = 0.9}};
  options.find_blocks = find_blocks;
  options.outline_repeats = false;  // calls are those of the trace
  return options;
}

aot::CompiledModel Compile(const pt2::Model& model, const aot::CompileOptions& options) {
  auto compiled = aot::CompilePt2(model, *model.ExampleInputs(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

std::vector<Tensor> Arguments(const Tensors& tensors) {
  std::vector<Tensor> arguments;
  for (const torch::Tensor& tensor : tensors) arguments.push_back(*ToCotan(tensor));
  return arguments;
}

Session MakeSession(const aot::CompiledModel& model) {
  Session session = *Session::Create(*Program::LoadBytes(model.bytes()), {.kernels = &CpuKernels(), .threads = 1});
  const bool draws = session.Rng().ok();
  EXPECT_TRUE(!draws || session.SetRng(RngState{}).ok());
  return session;
}

TensorMap StatesOf(const Session& session) {
  TensorMap states;
  for (const serialization::State& state : session.program().artifact().states()) {
    if (state.role() != serialization::State::CONSTANT) states[state.name()] = *ToTorch(*session.State(state.name()));
  }
  return states;
}

// Without blocks, the embedding is fused with the sum that is the gradient of the first norm, which then adds in
// another order. All other values have the same bits.
bool IsFusedWithTheEmbedding(const std::string& name) { return absl::StrContains(name, "layers.0.norm1."); }

void ExpectSameBits(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const double difference = (actual.at(name) - tensor).abs().max().item<double>();
    EXPECT_EQ(actual.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_LE(difference, IsFusedWithTheEmbedding(name) ? 1e-6 : 0) << name;
  }
}

using Batches = std::function<Tensors(int step)>;

// Trains two artifacts with the same batches and expects the same losses, gradients and states.
void ExpectSameSteps(const aot::CompiledModel& actual, const aot::CompiledModel& expected, const Batches& batch,
                     int steps = 3) {
  Session session = MakeSession(actual), reference = MakeSession(expected);
  for (int step = 0; step < steps; ++step) {
    const auto results = session.Run("train_step", Arguments(batch(step)));
    const auto expected_results = reference.Run("train_step", Arguments(batch(step)));
    ASSERT_TRUE(results.ok() && expected_results.ok()) << results.status() << expected_results.status();
    EXPECT_TRUE(torch::equal(*ToTorch((*results)[0]), *ToTorch((*expected_results)[0]))) << step;
    ExpectSameBits(StatesOf(session), StatesOf(reference));
    // The next step begins with the same bits, also of what this one may have rounded in another way.
    for (const auto& [name, tensor] : StatesOf(reference)) {
      if (!IsFusedWithTheEmbedding(name)) continue;
      ASSERT_TRUE(session.SetState(name, *ToCotan(tensor)).ok()) << name;
    }
  }
  for (Session* each : {&session, &reference}) {
    ASSERT_TRUE(each->Run("forward", Arguments(batch(9))).ok());
    ASSERT_TRUE(each->Run("backward", Arguments({torch::ones({})})).ok());
  }
  TensorMap gradients, expected_gradients;
  for (const auto& [name, state] : StatesOf(reference)) {
    if (!reference.Gradient(name).ok()) continue;
    gradients[name] = *ToTorch(*session.Gradient(name));
    expected_gradients[name] = *ToTorch(*reference.Gradient(name));
  }
  EXPECT_FALSE(gradients.empty());
  ExpectSameBits(gradients, expected_gradients);
}

// Expects the loss and the gradients of parameters of LibTorch eager, and the buffers after the call.
void ExpectEager(const aot::CompiledModel& compiled, const pt2::Model& model, const Tensors& batch) {
  Session session = MakeSession(compiled);
  Tensors states;
  for (const aot::InitialState& state : model.states()) {
    states.push_back(state.value.clone().set_requires_grad(state.requires_grad));
  }
  const torch::Tensor loss = model.function()(states, batch)[0];
  loss.backward();
  const auto results = session.Run("forward", Arguments(batch));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(torch::allclose(*ToTorch((*results)[0]), loss.detach(), 1e-5, 1e-6));
  ASSERT_TRUE(session.Run("backward", Arguments({torch::ones({})})).ok());
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = model.states()[i].name;
    if (states[i].requires_grad()) {
      EXPECT_TRUE(torch::allclose(*ToTorch(*session.Gradient(name)), states[i].grad(), 1e-4, 1e-6)) << name;
    } else {
      EXPECT_TRUE(torch::allclose(*ToTorch(*session.State(name)), states[i], 1e-5, 1e-6)) << name;
    }
  }
}

Batches TokensOf(const ExportedStackOptions& options, int64_t rows = 0) {
  return [options, rows](int step) {
    const at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(step));
    const std::vector<int64_t> sizes = {rows == 0 ? options.batch : rows, options.time};
    const torch::Tensor tokens = torch::randint(0, options.vocabulary, sizes, generator, torch::kLong);
    return Tensors{tokens, torch::randint(0, options.vocabulary, sizes, generator, torch::kLong)};
  };
}

TEST(FoundStackTest, StepsHaveTheBitsOfTheModelWithoutBlocks) {
  for (const double dropout : {0.0, 0.1}) {
    const ExportedStackOptions options{.dropout = dropout};
    const pt2::Model model = Load(ExportedStack(options));
    const aot::CompiledModel blocks = Compile(model, TrainingOptions(true));
    EXPECT_THAT(blocks.inlined_blocks(), IsEmpty());
    const CallCounts calls = CountBlocks(blocks).calls;
    EXPECT_EQ(calls.at("forward"), options.layers);
    EXPECT_EQ(calls.at("backward"), options.layers);
    ExpectSameSteps(blocks, Compile(model, TrainingOptions(false)), TokensOf(options));
  }
}

TEST(FoundStackTest, GradientsMatchEager) {
  const ExportedStackOptions options;
  const pt2::Model model = Load(ExportedStack(options));
  ExpectEager(Compile(model, TrainingOptions(true)), model, TokensOf(options)(0));
}

TEST(FoundStackTest, LayersMayHaveFusedAttention) {
  const ExportedStackOptions options;
  const pt2::Model model = Load(ExportedStack(options));
  aot::CompileOptions with_blocks = TrainingOptions(true), without = TrainingOptions(false);
  with_blocks.tracing.attention = without.tracing.attention = aot::AttentionForm::kFused;
  const aot::CompiledModel blocks = Compile(model, with_blocks);
  EXPECT_THAT(blocks.inlined_blocks(), IsEmpty());
  EXPECT_EQ(CountBlocks(blocks).calls.at("backward"), options.layers);
  const serialization::Artifact stored = StoredArtifact(blocks);
  int attentions = 0;
  for (const serialization::Method& block : stored.blocks()) {
    attentions +=
        CountOps(block, serialization::Op::kAttention) + CountOps(block, serialization::Op::kAttentionBackward);
  }
  EXPECT_EQ(attentions, 2);  // of the only layer
  ExpectSameSteps(blocks, Compile(model, without), TokensOf(options));
  ExpectEager(blocks, model, TokensOf(options)(0));
}

TEST(FoundStackTest, BatchesMayBeDynamic) {
  for (const double dropout : {0.0, 0.1}) {
    const ExportedStackOptions options{.dropout = dropout, .has_dynamic_batch = true};
    const pt2::Model model = Load(ExportedStack(options));
    const aot::CompiledModel blocks = Compile(model, TrainingOptions(true));
    EXPECT_EQ(CountBlocks(blocks).calls.at("forward"), options.layers);
    const aot::CompiledModel plain = Compile(model, TrainingOptions(false));
    // One step: the second one would spread the difference in the first norm.
    for (const int64_t rows : {32, 2, 7}) ExpectSameSteps(blocks, plain, TokensOf(options, rows), /*steps=*/1);
  }
}

int64_t PeakOf(const aot::CompiledModel& model, const aot::MemoryTarget& target) {
  const auto memory = aot::MeasureMemory(ArtifactFile::Parse(model.bytes())->artifact(), target);
  EXPECT_TRUE(memory.ok()) << memory.status();
  int64_t peak = 0;
  for (const aot::MethodMemory& method : *memory) peak = std::max(peak, method.after);
  return peak;
}

TEST(FoundStackTest, FitsIntoMemory) {
  const ExportedStackOptions stack{.dropout = 0.1};
  const pt2::Model model = Load(ExportedStack(stack));
  const aot::CompiledModel plain = Compile(model, TrainingOptions(true));
  const aot::MemoryTarget target{.kernels = &CpuKernels(), .threads = 1};
  aot::CompileOptions options = TrainingOptions(true);
  options.max_memory = aot::MemoryLimit{PeakOf(plain, target) * 93 / 100, target};
  const aot::CompiledModel limited = Compile(model, options);
  EXPECT_LE(PeakOf(limited, target), options.max_memory->bytes);
  ExpectSameSteps(limited, plain, TokensOf(stack));
}

// The method eval is another archive; its layers are blocks of their own.
TEST(FoundStackTest, EvalHasBlocksToo) {
  ExportedStackOptions options{.dropout = 0.1};
  const pt2::Model model = Load(ExportedStack(options));
  options.train = false;
  const pt2::Model eval = Load(ExportedStack(options));
  const Tensors batch = TokensOf(options)(3);
  const auto compiled = aot::CompilePt2(model, *model.ExampleInputs(), TrainingOptions(true), &eval);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(CountBlocks(*compiled).calls.at("eval"), options.layers);
  Session session = MakeSession(*compiled);
  const auto results = session.Run("eval", Arguments(batch));
  ASSERT_TRUE(results.ok()) << results.status();
  Tensors states;
  for (const aot::InitialState& state : eval.states()) states.push_back(state.value.clone());
  EXPECT_TRUE(torch::allclose(*ToTorch((*results)[0]), eval.function()(states, batch)[0], 1e-5, 1e-6));
}

TEST(FoundStackTest, ALayerAddsFewBytesAndNoBlock) {
  std::map<int64_t, BlockCounts> counts, plain;
  for (const int64_t layers : {2, 12}) {
    const pt2::Model model = Load(ExportedStack({.layers = layers, .dropout = 0.1}));
    aot::CompileOptions options = TrainingOptions(true);
    counts[layers] = CountBlocks(Compile(model, options));
    options.find_blocks = false;
    plain[layers] = CountBlocks(Compile(model, options));
  }
  EXPECT_GT(counts[2].blocks, 1);
  EXPECT_EQ(counts[12].blocks, counts[2].blocks);
  EXPECT_LT((counts[12].program_bytes - counts[2].program_bytes) * 5, plain[12].program_bytes - plain[2].program_bytes);
}

TEST(FoundStackTest, ArchivesWithoutModulesAreCompiledAsTheyAre) {
  const pt2::Model model = Load(ExportedStack({.has_module_stacks = false}));
  EXPECT_EQ(Compile(model, TrainingOptions(true)).bytes(), Compile(model, TrainingOptions(false)).bytes());
}

// Of equal layers, one may have an adapter: no layer becomes a block.
TEST(FoundStackTest, ModelsWithAdaptersHaveNoBlocks) {
  const pt2::Model model = Load(ExportedStack({}));
  aot::CompileOptions options = TrainingOptions(true);
  options.module.lora = {.modules = {"layers.1.expand"}, .rank = 2, .alpha = 4};
  const aot::CompiledModel compiled = Compile(model, options);
  EXPECT_EQ(CountBlocks(compiled).calls["forward"], 0);
  options.find_blocks = false;
  EXPECT_EQ(compiled.bytes(), Compile(model, options).bytes());
}

std::string Unary(pt2::ProgramBuilder& b, const std::string& op, const std::string& x) {
  return b.Op(absl::StrCat("aten.", op, ".default"), {{"self", pt2::Value(x)}});
}

std::string Product(pt2::ProgramBuilder& b, const std::string& x, const std::string& weight) {
  return b.Op("aten.mm.default", {{"self", pt2::Value(x)}, {"mat2", pt2::Value(weight)}});
}

// Eleven nodes.
std::string Chain(pt2::ProgramBuilder& b, std::string x) {
  for (const char* op : {"sin", "tanh", "sigmoid", "cos", "neg", "exp", "sin", "cos", "tanh", "neg", "sigmoid"})
    x = Unary(b, op, x);
  return x;
}

using Layer = std::function<std::string(pt2::ProgramBuilder& b, const std::string& path, const std::string& x)>;

// Calls the module `path`, whose result is a f32[4, 3].
std::string InModule(pt2::ProgramBuilder& b, const std::string& path, const std::string& x, const Layer& layer) {
  b.Enter(path, "models.Layer");
  std::string result = layer(b, path, x);
  b.Leave();
  b.Describe(result, DType::kFloat32, {"4", "3"});
  return result;
}

// sum(cos(layer(layer(layer(x @ weight))))) of x f32[4, 3].
pt2::Model StackOf(const Layer& layer, int count = 3) {
  pt2::ProgramBuilder b;
  std::string x = Product(b, b.Input("x", DType::kFloat32, {"4", "3"}), b.Parameter("weight", {3, 3}));
  b.Describe(x, DType::kFloat32, {"4", "3"});
  for (int i = 0; i < count; ++i) x = InModule(b, absl::StrCat("layers.", i), x, layer);
  b.Output(Unary(b, "sum", Unary(b, "cos", x)));
  return Load(b.Files());
}

Tensors Matrix(int seed) {
  return {torch::rand({4, 3}, at::detail::createCPUGenerator(static_cast<uint64_t>(seed))) - 0.5};
}

// Compiles the model with blocks and expects the number of calls in "forward", the steps of the model without blocks,
// and those of eager.
aot::CompiledModel ExpectCalls(const pt2::Model& model, int calls) {
  aot::CompiledModel blocks = Compile(model, TrainingOptions(true));
  EXPECT_EQ(CountBlocks(blocks).calls["forward"], calls);
  ExpectSameSteps(blocks, Compile(model, TrainingOptions(false)), Matrix);
  ExpectEager(blocks, model, Matrix(5));
  return blocks;
}

TEST(FoundBlocksTest, LayersWriteTheirOwnBuffers) {
  const pt2::Model model = StackOf([](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    const std::string weight = b.Parameter(path + ".bn.weight", {3}), bias = b.Parameter(path + ".bn.bias", {3});
    const std::string mean = b.Buffer(path + ".bn.running_mean", {3}), var = b.Buffer(path + ".bn.running_var", {3}, 1);
    const std::string count = b.Buffer(path + ".bn.count", {});
    b.Op("aten.add_.Tensor", {{"self", pt2::Value(count)}, {"other", pt2::Int(1)}});
    const std::string normal = b.Op("aten.batch_norm.default", {{"input", pt2::Value(x)},
                                                                {"weight", pt2::Value(weight)},
                                                                {"bias", pt2::Value(bias)},
                                                                {"running_mean", pt2::Value(mean)},
                                                                {"running_var", pt2::Value(var)},
                                                                {"training", pt2::Bool(true)},
                                                                {"momentum", pt2::Float(0.1)},
                                                                {"eps", pt2::Float(1e-5)},
                                                                {"cudnn_enabled", pt2::Bool(false)}});
    return Chain(b, Product(b, normal, b.Parameter(path + ".weight", {3, 3})));
  });
  const aot::CompiledModel blocks = ExpectCalls(model, 3);
  EXPECT_THAT(blocks.inlined_blocks(), IsEmpty());
  Session session = MakeSession(blocks);
  ASSERT_TRUE(session.Run("train_step", Arguments(Matrix(0))).ok());
  for (const char* name : {"layers.0.bn.count", "layers.2.bn.count"}) {
    EXPECT_EQ(ToTorch(*session.State(name))->item<float>(), 1) << name;
  }
}

TEST(FoundBlocksTest, LayersThatDifferInANumberAreOtherBlocks) {
  const double factors[] = {0.5, 0.75, 0.5, 0.75};
  int next = 0;
  const pt2::Model model = StackOf(
      [&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
        const std::string y = Chain(b, Product(b, x, b.Parameter(path + ".weight", {3, 3})));
        return b.Op("aten.mul.Scalar", {{"self", pt2::Value(y)}, {"other", pt2::Float(factors[next++])}});
      },
      4);
  aot::CompileOptions options = TrainingOptions(true);
  options.methods = {.train_step = false, .eval = false};
  EXPECT_EQ(CountBlocks(Compile(model, options)).blocks, 4);  // two forwards and two backwards
  ExpectCalls(model, 4);
}

TEST(FoundBlocksTest, LayersThatReturnAViewOfTheirInputAreInlinedWithTheReason) {
  pt2::ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"4", "3"});
  for (int i = 0; i < 3; ++i) {
    std::string alias;
    const std::string y =
        InModule(b, absl::StrCat("layers.", i), x, [&](auto&, const std::string& path, const auto& in) {
          alias = Unary(b, "alias", in);
          return Chain(b, Product(b, in, b.Parameter(path + ".weight", {3, 3})));
        });
    x = b.Op("aten.add.Tensor", {{"self", pt2::Value(alias)}, {"other", pt2::Value(y)}});
    b.Describe(x, DType::kFloat32, {"4", "3"});
  }
  b.Output(Unary(b, "sum", x));
  const aot::CompiledModel inlined = ExpectCalls(Load(b.Files()), 0);
  ASSERT_THAT(inlined.inlined_blocks(), SizeIs(3));
  EXPECT_THAT(inlined.inlined_blocks(), Each(HasSubstr("shares memory with an input")));
}

TEST(FoundBlocksTest, LayersThatWriteToTheirInputAreInlinedWithTheReason) {
  const pt2::Model model = StackOf([&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    const std::string weight = b.Parameter(path + ".weight", {3, 3});
    return Unary(b, "neg", Chain(b, Product(b, Unary(b, "relu_", Unary(b, "alias", x)), weight)));
  });
  const aot::CompiledModel inlined = ExpectCalls(model, 0);
  EXPECT_THAT(inlined.inlined_blocks(), SizeIs(3));
  EXPECT_THAT(inlined.inlined_blocks(), Each(HasSubstr("in-place")));  // of what requires grad
}

TEST(FoundBlocksTest, LayersMayShareAWeight) {
  bool is_first = true;
  const pt2::Model model = StackOf([&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    const std::string name = path + ".weight";
    const std::string weight = is_first ? b.Parameter(name, {3, 3}) : b.Tie(name, "layers.0.weight");
    is_first = false;
    return Chain(b, Product(b, Product(b, x, weight), b.Parameter(path + ".other", {3, 3})));
  });
  EXPECT_THAT(ExpectCalls(model, 3).inlined_blocks(), IsEmpty());
}

// In the second layer, both weights are one: its gradient is the sum of two.
TEST(FoundBlocksTest, LayersWithATiedWeightAreOtherBlocks) {
  int next = 0;
  const pt2::Model model = StackOf(
      [&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
        const bool is_tied = next++ % 2 == 1;
        const std::string first = b.Parameter(path + ".first", {3, 3});
        const std::string second =
            is_tied ? b.Tie(path + ".second", path + ".first") : b.Parameter(path + ".second", {3, 3});
        return Chain(b, Product(b, Product(b, x, first), second));
      },
      4);
  aot::CompileOptions options = TrainingOptions(true);
  options.methods = {.train_step = false, .eval = false};
  EXPECT_EQ(CountBlocks(Compile(model, options)).blocks, 4);
  ExpectCalls(model, 4);
}

// Towers of layers: both towers are calls of one block, which calls one of the layer.
TEST(FoundBlocksTest, BlocksOfBlocks) {
  const auto layer = [](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
    return Chain(b, Product(b, x, b.Parameter(path + ".weight", {3, 3})));
  };
  const pt2::Model model = StackOf(
      [&](pt2::ProgramBuilder& b, const std::string& path, const std::string& x) {
        std::string y = x;
        for (int i = 0; i < 2; ++i) y = InModule(b, absl::StrCat(path, ".layers.", i), y, layer);
        return Unary(b, "tanh", y);
      },
      2);
  aot::CompileOptions options = TrainingOptions(true);
  options.methods = {.train_step = false, .eval = false};
  const aot::CompiledModel compiled = Compile(model, options);
  const serialization::Artifact artifact = StoredArtifact(compiled);
  int calls_of_blocks = 0;
  for (const serialization::Method& block : artifact.blocks()) {
    calls_of_blocks += CountOps(block, serialization::Op::kCall);
  }
  EXPECT_EQ(artifact.blocks_size(), 4);
  EXPECT_EQ(calls_of_blocks, 4);  // in the forward and backward of the tower
  ExpectCalls(model, 2);
}

// A number that may differ from call to call is an argument of the block.
TEST(FoundBlocksTest, NumbersAreArguments) {
  pt2::ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"4", "3"});
  for (int i = 0; i < 2; ++i) {
    x = InModule(b, absl::StrCat("layers.", i), x,
                 [](pt2::ProgramBuilder& p, const std::string&, const std::string& y) {
                   return Chain(p, p.Op("aten.mul.Tensor", {{"self", pt2::Value(y)}, {"other", pt2::Size("n")}}));
                 });
  }
  b.Output(x);
  const auto program = pt2::ParseExportedProgram(b.Files()[0].second, "model.json");
  ASSERT_TRUE(program.ok()) << program.status();
  const pt2::Schedule schedule = pt2::FindModuleRuns(*program, {});
  const auto function = [&](const Tensors& inputs) {
    pt2::Environment values = {{"x", inputs[0]}, {"n", aot::ToSymInt(inputs[1], "n")}};
    pt2::RunSchedule(schedule, values);
    return Tensors{pt2::ValueOf(pt2::Name{x}, values).toTensor()};
  };
  const torch::Tensor input = Matrix(1)[0];
  const auto compiled = aot::CompileFunction(aot::TensorFunction(function), {input, aot::Number(int64_t{3})}, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_THAT(compiled->inlined_blocks(), IsEmpty());
  EXPECT_EQ(CountBlocks(*compiled).calls.at("forward"), 2);
  Session session = MakeSession(*compiled);
  for (const int64_t n : {3, 7, -2}) {
    const torch::Tensor number = torch::tensor(n);
    const auto results = session.Run("forward", Arguments({input, number}));
    ASSERT_TRUE(results.ok()) << results.status();
    const auto layer = [&](const torch::Tensor& y) {
      return (y * n).sin().tanh().sigmoid().cos().neg().exp().sin().cos().tanh().neg().sigmoid();
    };
    EXPECT_TRUE(torch::allclose(*ToTorch((*results)[0]), layer(layer(input)), 1e-5, 1e-6)) << n;
  }
}

TEST(FoundBlocksTest, LayersThatReturnANumberAreInlinedWithTheReason) {
  pt2::ProgramBuilder b;
  std::string x = b.Input("x", DType::kFloat32, {"4", "3"});
  for (int i = 0; i < 2; ++i) {
    std::string size;
    const std::string y =
        InModule(b, absl::StrCat("layers.", i), x, [&](auto&, const std::string& path, const std::string& in) {
          const std::string z = Chain(b, Product(b, in, b.Parameter(path + ".weight", {3, 3})));
          size = b.NumberOp("aten.sym_size.int", {{"self", pt2::Value(z)}, {"dim", pt2::Int(0)}}, "", 4);
          return z;
        });
    x = b.Op("aten.expand.default", {{"self", pt2::Value(y)}, {"size", pt2::Sizes({size, "3"})}});
    b.Describe(x, DType::kFloat32, {"4", "3"});
  }
  b.Output(Unary(b, "sum", x));
  const aot::CompiledModel inlined = ExpectCalls(Load(b.Files()), 0);
  EXPECT_THAT(inlined.inlined_blocks(), Each(HasSubstr("it returns a number, 'sym_size")));
  EXPECT_THAT(inlined.inlined_blocks(), SizeIs(2));
}

}  // namespace
}  // namespace cotan::testing
