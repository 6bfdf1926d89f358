// SPDX-License-Identifier: Apache-2.0

// Transformers from archives, whose layers become blocks without a declaration (CompileOptions.find_blocks).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <vector>

#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "aot/memory/fit_memory.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"
#include "serialization/container/container.h"
#include "testing/blocks/block_counts.h"
#include "testing/blocks/exported_stack.h"
#include "testing/blocks/found_blocks.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

namespace pt2 = aot::pt2;
using ::testing::IsEmpty;

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
    options.find_blocks = aot::FindBlocks::kOff;
    plain[layers] = CountBlocks(Compile(model, options));
  }
  EXPECT_GT(counts[2].blocks, 1);
  EXPECT_EQ(counts[12].blocks, counts[2].blocks);
  EXPECT_LT((counts[12].program_bytes - counts[2].program_bytes) * 2, plain[12].program_bytes - plain[2].program_bytes);
  EXPECT_LT(counts[12].program_bytes, 2 * counts[2].program_bytes);
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
  options.find_blocks = aot::FindBlocks::kOff;
  EXPECT_EQ(compiled.bytes(), Compile(model, options).bytes());
}

}  // namespace
}  // namespace cotan::testing
