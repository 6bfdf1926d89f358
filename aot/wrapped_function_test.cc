// SPDX-License-Identifier: Apache-2.0

#include "aot/wrapped_function.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <string>

#include "wrappers/low_rank.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

using Pair = LowRank<at::Tensor>;

Pair MakePair() { return {.a = torch::rand({3, 2}), .b = torch::rand({2, 3})}; }

TEST(CompileWrappedTest, PlainFunctionsAreCompiledAsEver) {
  const auto wrapped = CompileWrapped([](const at::Tensor& x) { return x * 2; }, std::make_tuple(torch::ones({2})), {});
  const auto plain = CompileFunction(
      [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> { return {in[0] * 2}; }, {torch::ones({2})}, {});
  ASSERT_TRUE(wrapped.ok() && plain.ok()) << wrapped.status() << plain.status();
  EXPECT_EQ(wrapped->bytes(), plain->bytes());
}

TEST(CompileWrappedTest, ResultsThatChangeTheirStructureAreRefused) {
  int calls = 0;
  const WrappedFunction function = [&calls](const std::vector<WrappedTensor>& in) -> std::vector<WrappedTensor> {
    if (++calls == 1) return {in[0]};
    return {in[0].parts()[0].value, in[0].parts()[1].value};
  };
  const absl::Status status = CompileWrappedFunction(function, {Wrap(MakePair())}, {}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("returned other wrapper types when it was called again"));
}

TEST(CompileWrappedTest, TheCacheTellsWrapperTypesApart) {
  CompileOptions options;
  options.cache_dir = ::testing::TempDir() + "/wrapped";
  std::filesystem::remove_all(options.cache_dir);
  const Pair pair = MakePair();
  const auto compile_pair = [&] {
    return CompileWrapped([](const Pair& x) { return x.a.mm(x.b); }, std::make_tuple(pair), options);
  };
  const auto first = compile_pair();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->cache().kind, CacheOutcome::Kind::kMiss);
  const auto second = compile_pair();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->cache().kind, CacheOutcome::Kind::kHit);
  EXPECT_TRUE(second->bytes() == first->bytes());
  const auto plain = CompileWrapped([](const at::Tensor& a, const at::Tensor& b) { return a.mm(b); },
                                    std::make_tuple(pair.a, pair.b), options);
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->cache().kind, CacheOutcome::Kind::kMiss);
}

TEST(CompileWrappedTest, DynamicDimensionsNeedTheWayToWrap) {
  CompileOptions options;
  options.dynamic_dims.push_back({.argument = 0, .dim = 0, .symbol = "rows", .min = 2});
  const auto dynamic =
      CompileWrapped([](const Pair& pair) { return pair.a * 2; }, std::make_tuple(MakePair()), options);
  EXPECT_TRUE(dynamic.ok()) << dynamic.status();
  const WrappedFunction function = [](const std::vector<WrappedTensor>& in) { return in; };
  const absl::Status status = CompileWrappedFunction(function, {Wrap(MakePair())}, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use CompileWrapped()"));
}

}  // namespace
}  // namespace cotan::aot
