// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "aot/cache/compiler_revision.h"
#include "aot/compile.h"
#include "aot/ir/size_estimate.h"

namespace cotan::aot {
namespace {

using Kind = CacheOutcome::Kind;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using Tensors = std::vector<at::Tensor>;

// Returns the folder of a new cache for each test.
class CompiledModelCacheTest : public ::testing::Test {
 protected:
  CompiledModelCacheTest()
      : folder_(::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(folder_);
    options_.cache_dir = folder_;
    options_.loss.output = 0;
    options_.optimizer = OptimizerConfig{SgdOptions{.lr = 0.1, .momentum = 0.9}, {}, {}, {}, {}};
  }

  // A layer and the mean of its square.
  absl::StatusOr<CompiledModel> Compile(int64_t features = 3) {
    struct Net : torch::nn::Module {
      explicit Net(int64_t features) : layer(register_module("layer", torch::nn::Linear(4, features))) {}
      torch::Tensor forward(torch::Tensor x) { return layer(x).square().mean(); }
      torch::nn::Linear layer;
    };
    return CompileModule([=] { return std::make_shared<Net>(features); }, Tensors{torch::ones({2, 4})}, options_);
  }

  std::string folder_;
  CompileOptions options_;
};

TEST_F(CompiledModelCacheTest, TheSecondCompileIsAHitWithTheSameBytes) {
  const auto first = Compile();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->cache().kind, Kind::kMiss);
  const auto second = Compile();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->cache().kind, Kind::kHit);
  EXPECT_TRUE(second->bytes() == first->bytes());
  ASSERT_EQ(second->methods().size(), first->methods().size());
  EXPECT_EQ(second->methods()[0].name, "train_step");
  EXPECT_EQ(second->methods()[0].traced_ops, first->methods()[0].traced_ops);

  options_.cache_dir.clear();
  const auto without = Compile();
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->cache().kind, Kind::kDisabled);
  EXPECT_TRUE(without->bytes() == first->bytes());
}

TEST_F(CompiledModelCacheTest, AnotherModelOptimizerOrSeedIsAMiss) {
  ASSERT_TRUE(Compile().ok());
  EXPECT_EQ(Compile(5)->cache().kind, Kind::kMiss);
  options_.optimizer->options = SgdOptions{.lr = 0.2, .momentum = 0.9};
  EXPECT_EQ(Compile()->cache().kind, Kind::kMiss);
  options_.module.seed = 7;
  EXPECT_EQ(Compile()->cache().kind, Kind::kMiss);
  options_.module.frozen = {"layer.bias"};
  EXPECT_EQ(Compile()->cache().kind, Kind::kMiss);
  options_.methods.eval = false;
  EXPECT_EQ(Compile()->cache().kind, Kind::kMiss);
  EXPECT_EQ(Compile()->cache().kind, Kind::kHit);
}

TEST_F(CompiledModelCacheTest, AnotherDeterministicModeIsAMiss) {
  ASSERT_TRUE(Compile().ok());
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  const auto deterministic = Compile();
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
  ASSERT_TRUE(deterministic.ok()) << deterministic.status();
  EXPECT_EQ(deterministic->cache().kind, Kind::kMiss);
  EXPECT_EQ(Compile()->cache().kind, Kind::kHit);
}

// The graph does not depend on the grad mode, because the example requires no grad.
absl::StatusOr<CompiledModel> CompileDouble(const CompileOptions& options) {
  return CompileFunction([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {torch::ones({3})}, options);
}

TEST_F(CompiledModelCacheTest, AnotherGradModeIsAMiss) {
  CompileOptions options;
  options.cache_dir = folder_;
  const auto with_grad = CompileDouble(options);
  ASSERT_TRUE(with_grad.ok()) << with_grad.status();
  const at::NoGradGuard no_grad;
  const auto without_grad = CompileDouble(options);
  ASSERT_TRUE(without_grad.ok()) << without_grad.status();
  EXPECT_EQ(without_grad->cache().kind, Kind::kMiss);
  EXPECT_TRUE(without_grad->bytes() == CompileDouble(CompileOptions())->bytes());
  EXPECT_FALSE(without_grad->bytes() == with_grad->bytes());
}

TEST_F(CompiledModelCacheTest, AnInputThatNoGradientGoesThroughIsAMiss) {
  CompileOptions options;
  options.cache_dir = folder_;
  const auto leaf = [] { return torch::ones({3}).requires_grad_(true); };
  // The graphs are equal, because the function does not read its second input.
  const auto compile = [&](const at::Tensor& second, const CompileOptions& options) {
    return CompileFunction([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {leaf(), second}, options);
  };
  const at::Tensor view_made_under_no_grad = [&] {
    const at::NoGradGuard no_grad;
    return leaf().view({3});
  }();
  ASSERT_TRUE(compile(leaf().clone(), options).ok());
  const auto compiled = compile(view_made_under_no_grad, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->cache().kind, Kind::kMiss);
  EXPECT_TRUE(compiled->bytes() == compile(view_made_under_no_grad, CompileOptions())->bytes());
}

TEST_F(CompiledModelCacheTest, OtherUsualSizesAreAMiss) {
  ASSERT_TRUE(Compile().ok());
  {
    const UsualSizesScope scope({{.traced = 2, .usual = 1000}});
    EXPECT_EQ(Compile()->cache().kind, Kind::kMiss);
    EXPECT_EQ(Compile()->cache().kind, Kind::kHit);
  }
  {
    const UsualSizesScope scope({{.traced = 2, .usual = 3000}});
    EXPECT_EQ(Compile()->cache().kind, Kind::kMiss);
  }
  EXPECT_EQ(Compile()->cache().kind, Kind::kHit);
}

TEST_F(CompiledModelCacheTest, TheCompilerKnowsItsRevision) {
  EXPECT_THAT(std::string(CompilerRevision()), MatchesRegex("[0-9a-f]{64}"));
}

TEST_F(CompiledModelCacheTest, ADamagedEntryIsCompiledAgainAndReplaced) {
  const auto first = Compile();
  ASSERT_TRUE(first.ok()) << first.status();
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  const auto second = Compile();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->cache().kind, Kind::kDamaged);
  EXPECT_THAT(second->cache().reason, HasSubstr("does not match its digest"));
  EXPECT_TRUE(second->bytes() == first->bytes());
  EXPECT_EQ(Compile()->cache().kind, Kind::kHit);
}

TEST_F(CompiledModelCacheTest, ADumpBypassesIt) {
  ASSERT_TRUE(Compile().ok());
  options_.debug.dump_dir = folder_ + "/dump";
  const auto dumped = Compile();
  ASSERT_TRUE(dumped.ok()) << dumped.status();
  EXPECT_EQ(dumped->cache().kind, Kind::kBypassed);
  EXPECT_THAT(dumped->cache().reason, HasSubstr("dump_dir"));
  EXPECT_FALSE(std::filesystem::is_empty(options_.debug.dump_dir));
}

TEST_F(CompiledModelCacheTest, APolicyOfSavedValuesBypassesIt) {
  ASSERT_TRUE(Compile().ok());
  options_.save_policy = [](const Graph&, const Node&) { return SavePolicy::kRecompute; };
  const auto compiled = Compile();
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->cache().kind, Kind::kBypassed);
  EXPECT_THAT(compiled->cache().reason, HasSubstr("save_policy"));
}

TEST_F(CompiledModelCacheTest, AFolderThatCannotBeMadeIsAnError) {
  options_.cache_dir = "/proc/none";
  EXPECT_THAT(std::string(Compile().status().message()), HasSubstr("compile cache '/proc/none'"));
}

TEST_F(CompiledModelCacheTest, SizesOfADynamicDimensionAreFoundEachForItself) {
  options_.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "batch", .min = 1, .max = 64}};
  const auto first = Compile();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->cache().kind, Kind::kMiss);
  const auto second = Compile();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->cache().kind, Kind::kHit);
  EXPECT_TRUE(second->bytes() == first->bytes());
}

}  // namespace
}  // namespace cotan::aot
