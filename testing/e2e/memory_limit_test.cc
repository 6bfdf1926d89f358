// SPDX-License-Identifier: Apache-2.0

// Checks that programs under a memory limit have bitwise equal results and stay within the limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aot/memory/fit_memory.h"
#include "kernels/cpu/register_cpu.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using TensorMap = std::map<std::string, torch::Tensor>;

constexpr uint64_t kSeed = 11;

aot::MemoryTarget Target() { return {.kernels = &CpuKernels(), .threads = 1}; }

void ExpectSameBits(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_TRUE(torch::equal(actual.at(name), tensor)) << name;
  }
}

struct Batch {
  torch::Tensor input, label;
};

struct LimitCase {
  std::string model;
  double share = 1;  // of the memory that the largest method needs without a limit
};

std::ostream& operator<<(std::ostream& out, const LimitCase& c) { return out << c.model << " at " << c.share; }

class MemoryLimitTest : public ::testing::TestWithParam<LimitCase> {
 protected:
  MemoryLimitTest() : model_(*FindModel(GetParam().model)), generator_(at::detail::createCPUGenerator(kSeed)) {}

  Batch Draw() { return {model_.make_input(generator_), model_.make_label(generator_)}; }

  absl::StatusOr<std::unique_ptr<CompiledTrainer>> Compile(int64_t limit, std::vector<aot::DynamicDim> dynamic = {}) {
    CompiledTrainerOptions options;
    options.seed = kSeed;
    options.optimizer.options = aot::SgdOptions{.lr = 0.01, .momentum = 0.9};
    options.dynamic_dims = std::move(dynamic);
    if (limit > 0) options.max_memory = aot::MemoryLimit{limit, Target()};
    const Batch batch = Draw();
    return CompiledTrainer::Create(model_, batch.input, batch.label, options);
  }

  // Returns the peak of the method that needs the most memory.
  static int64_t Needed(CompiledTrainer& trainer) {
    const auto memory = aot::MeasureMemory(trainer.session().program().artifact(), Target());
    EXPECT_TRUE(memory.ok()) << memory.status();
    int64_t bytes = 0;
    for (const aot::MethodMemory& method : *memory) bytes = std::max(bytes, method.after);
    return bytes;
  }

  // Returns the memory that the session holds for the methods that have run.
  static int64_t Held(CompiledTrainer& trainer) {
    const Session& session = trainer.session();
    int64_t saved = 0;
    for (const serialization::Method& method : session.program().artifact().methods()) {
      for (int i = method.outputs_size() - static_cast<int>(method.num_saved()); i < method.outputs_size(); ++i) {
        const serialization::TensorType& type = method.values(static_cast<int>(method.outputs(i))).type();
        int64_t bytes = static_cast<int64_t>(ByteSize(static_cast<DType>(type.dtype())));
        for (const std::string& size : type.sizes()) bytes *= std::stoll(size);
        saved += bytes;
      }
    }
    return session.arena_bytes() + saved;
  }

  const ModelCase& model_;
  at::Generator generator_;
};

TEST_P(MemoryLimitTest, StepsHaveTheSameBitsInLessMemory) {
  auto plain = Compile(0);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto limit = static_cast<int64_t>(GetParam().share * static_cast<double>(Needed(**plain)));
  auto limited = Compile(limit);
  ASSERT_TRUE(limited.ok()) << limited.status();
  EXPECT_LE(Needed(**limited), limit);
  for (int step = 0; step < 3; ++step) {
    const Batch batch = Draw();
    const auto expected = (*plain)->Step(batch.input, batch.label);
    const auto loss = (*limited)->Step(batch.input, batch.label);
    ASSERT_TRUE(expected.ok() && loss.ok()) << expected.status() << loss.status();
    EXPECT_EQ(*loss, *expected);
    ExpectSameBits(*(*limited)->States(), *(*plain)->States());
  }
  EXPECT_LE((*limited)->session().arena_bytes(), limit);
}

TEST_P(MemoryLimitTest, ForwardAndBackwardHaveTheSameBitsInLessMemory) {
  auto plain = Compile(0);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto limit = static_cast<int64_t>(GetParam().share * static_cast<double>(Needed(**plain)));
  auto limited = Compile(limit);
  ASSERT_TRUE(limited.ok()) << limited.status();
  for (int call = 0; call < 2; ++call) {
    const Batch batch = Draw();
    const auto expected = (*plain)->Gradients(batch.input, batch.label);
    const auto gradients = (*limited)->Gradients(batch.input, batch.label);
    ASSERT_TRUE(expected.ok() && gradients.ok()) << expected.status() << gradients.status();
    ExpectSameBits(*gradients, *expected);
    ExpectSameBits(*(*limited)->States(), *(*plain)->States());  // running statistics
  }
  EXPECT_LE(Held(**limited), limit);
  EXPECT_GT(Held(**plain), limit);
  const torch::Tensor input = Draw().input;
  EXPECT_TRUE(torch::equal(*(*limited)->Predict(input), *(*plain)->Predict(input)));
}

TEST_P(MemoryLimitTest, WhatCannotFitIsRefusedWithWhatIsReached) {
  const auto limited = Compile(4096);
  ASSERT_EQ(limited.status().code(), absl::StatusCode::kResourceExhausted) << limited.status();
  EXPECT_THAT(limited.status().message(), HasSubstr("the limit of 4.0 KiB cannot be kept: 'train_step' needs "));
  EXPECT_THAT(limited.status().message(), HasSubstr("with recomputation"));
}

// Values that take little time to compute again, on a known target.

struct CheapOpsCase {
  std::string model;
  DType autocast = DType::kUndefined;
  double share = 1;  // of the arena of a step, at most
};

class CheapOpsTest : public ::testing::TestWithParam<CheapOpsCase> {};

TEST_P(CheapOpsTest, StepsHaveTheSameBitsInLessMemory) {
  const ModelCase& model = *FindModel(GetParam().model);
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator), label = model.make_label(generator);
  CompiledTrainerOptions options;
  options.seed = kSeed;
  options.autocast = GetParam().autocast;
  options.optimizer.options = aot::SgdOptions{.lr = 0.01, .momentum = 0.9};
  auto plain = CompiledTrainer::Create(model, input, label, options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  options.memory_target = Target();
  auto smaller = CompiledTrainer::Create(model, input, label, options);
  ASSERT_TRUE(smaller.ok()) << smaller.status();
  for (int step = 0; step < 3; ++step) {
    const auto expected = (*plain)->Step(input, label);
    const auto loss = (*smaller)->Step(input, label);
    ASSERT_TRUE(expected.ok() && loss.ok()) << expected.status() << loss.status();
    EXPECT_EQ(*loss, *expected);
    ExpectSameBits(*(*smaller)->States(), *(*plain)->States());
  }
  const auto arena = [](CompiledTrainer& trainer) { return static_cast<double>(trainer.session().arena_bytes()); };
  EXPECT_LE(arena(**smaller), GetParam().share * arena(**plain));
  const auto expected = (*plain)->Gradients(input, label);
  const auto gradients = (*smaller)->Gradients(input, label);
  ASSERT_TRUE(expected.ok() && gradients.ok()) << expected.status() << gradients.status();
  ExpectSameBits(*gradients, *expected);
}

TEST_P(CheapOpsTest, ALimitThatCheapOpsKeepRepeatsTheseAlone) {
  const ModelCase& model = *FindModel(GetParam().model);
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const torch::Tensor input = model.make_input(generator), label = model.make_label(generator);
  CompiledTrainerOptions options;
  options.seed = kSeed;
  options.autocast = GetParam().autocast;
  options.optimizer.options = aot::SgdOptions{.lr = 0.01, .momentum = 0.9};
  options.memory_target = Target();
  auto without_limit = CompiledTrainer::Create(model, input, label, options);
  ASSERT_TRUE(without_limit.ok()) << without_limit.status();
  options.memory_target.reset();
  options.max_memory = {int64_t{1} << 30, Target()};
  auto limited = CompiledTrainer::Create(model, input, label, options);
  ASSERT_TRUE(limited.ok()) << limited.status();
  ASSERT_TRUE((*without_limit)->Step(input, label).ok() && (*limited)->Step(input, label).ok());
  EXPECT_EQ((*limited)->session().arena_bytes(), (*without_limit)->session().arena_bytes());
}

// In bf16 the arena has f32 copies of a convolution's operands on processors that have no fast products of bf16.
INSTANTIATE_TEST_SUITE_P(Models, CheapOpsTest,
                         ::testing::Values(CheapOpsCase{"mlp"}, CheapOpsCase{"gpt", DType::kUndefined, 0.8},
                                           CheapOpsCase{"dropout_gpt"}, CheapOpsCase{"resnet", DType::kUndefined, 0.7},
                                           CheapOpsCase{"resnet", DType::kBFloat16, 0.8}),
                         [](const auto& info) {
                           return info.param.model + (info.param.autocast == DType::kBFloat16 ? "_bf16" : "");
                         });

INSTANTIATE_TEST_SUITE_P(Models, MemoryLimitTest,
                         ::testing::Values(LimitCase{"mlp", 0.95}, LimitCase{"cnn", 0.75}, LimitCase{"gpt", 0.62},
                                           LimitCase{"dropout_gpt", 0.55}, LimitCase{"resnet", 0.6}),
                         [](const auto& info) { return info.param.model; });

class DynamicMemoryLimitTest : public MemoryLimitTest {};

TEST_P(DynamicMemoryLimitTest, HoldsAtTheLargestSizes) {
  const std::vector<aot::DynamicDim> dims = {{0, 0, "batch", 2, 32}, {1, 0, "batch * 16"}};
  auto plain = Compile(0, dims);
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto limit = static_cast<int64_t>(GetParam().share * static_cast<double>(Needed(**plain)));
  auto limited = Compile(limit, dims);
  ASSERT_TRUE(limited.ok()) << limited.status();
  for (const int64_t rows : {32, 5, 2}) {
    Batch batch = Draw();
    while (batch.input.size(0) < rows) {
      const Batch more = Draw();
      batch = {torch::cat({batch.input, more.input}), torch::cat({batch.label, more.label})};
    }
    batch = {batch.input.narrow(0, 0, rows), batch.label.narrow(0, 0, rows * 16)};
    const auto expected = (*plain)->Step(batch.input, batch.label);
    const auto loss = (*limited)->Step(batch.input, batch.label);
    ASSERT_TRUE(expected.ok() && loss.ok()) << expected.status() << loss.status();
    EXPECT_EQ(*loss, *expected) << rows;
    ExpectSameBits(*(*limited)->States(), *(*plain)->States());
  }
  EXPECT_LE((*limited)->session().arena_bytes(), limit);
  EXPECT_GT((*limited)->session().arena_bytes(), 0);
}

TEST_P(DynamicMemoryLimitTest, RejectsDimensionsWithoutAMaximum) {
  const auto limited = Compile(1 << 20, {{0, 0, "batch", 2}, {1, 0, "batch * 16"}});
  ASSERT_EQ(limited.status().code(), absl::StatusCode::kInvalidArgument) << limited.status();
  EXPECT_THAT(limited.status().message(), HasSubstr("'batch' has no maximum"));
}

INSTANTIATE_TEST_SUITE_P(Models, DynamicMemoryLimitTest, ::testing::Values(LimitCase{"dropout_gpt", 0.75}),
                         [](const auto& info) { return info.param.model; });

}  // namespace
}  // namespace cotan::testing
