// SPDX-License-Identifier: Apache-2.0

// What ranks exchange in a compiled step, and when, and which slots of the optimizer each has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/execution/program.h"
#include "serialization/schema/program.pb.h"
#include "testing/distributed/parallel_model.h"

namespace cotan::testing {
namespace {

using serialization::Collective;
using serialization::Op;
using serialization::State;

constexpr int64_t kBatch = 4;
// Of Perceptron(): weights and biases.
constexpr int64_t kElements = 24 * 12 + 24 + 16 * 24 + 16 + 5 * 16 + 5;
constexpr size_t kParameters = 6;

int64_t ElementsOf(const serialization::TensorType& type) {
  int64_t elements = 1;
  for (const std::string& size : type.sizes()) elements *= std::stoll(size);
  return elements;
}

std::shared_ptr<const Program> Compile(const aot::DataParallelOptions& parallel) {
  aot::OptimizerConfig adam;
  adam.options = aot::AdamOptions{.lr = 0.01};
  const auto program = Program::Load(CompileParallel(Perceptron(), kBatch, adam, parallel));
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

// What ranks exchange in "train_step". Positions are those of ops.
struct Exchanges {
  std::vector<std::vector<int64_t>> buckets;  // elements of each member
  std::vector<int> starts;                    // of buckets that are sent while ops run
  std::vector<int> waits;
  std::vector<int> products;  // matrix products of the forward and the backward
};

void AddOp(const serialization::Method& method, int position, Collective::Function function, Exchanges& exchanges) {
  const Op& op = method.ops(position);
  if (op.has_matmul()) exchanges.products.push_back(position);
  if (!op.has_collective()) return;
  const Collective& collective = op.collective();
  if (collective.function() == Collective::WAIT) exchanges.waits.push_back(position);
  if (collective.function() != function || !collective.mean()) return;
  if (collective.starts()) exchanges.starts.push_back(position);
  std::vector<int64_t>& bucket = exchanges.buckets.emplace_back();
  for (const uint32_t input : op.inputs()) {
    bucket.push_back(ElementsOf(method.values(static_cast<int>(input)).type()));
  }
}

// Returns the means that the collectives with `function` form.
Exchanges ExchangesOf(const Program& program, Collective::Function function) {
  Exchanges exchanges;
  for (const serialization::Method& method : program.artifact().methods()) {
    if (method.name() != "train_step") continue;
    for (int i = 0; i < method.ops_size(); ++i) AddOp(method, i, function, exchanges);
  }
  return exchanges;
}

int64_t SumOf(const std::vector<int64_t>& values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

TEST(CompiledStepTest, OneBucketHasAllGradientsThatFit) {
  const auto program = Compile({.bucket_bytes = 1 << 20});
  const Exchanges exchanges = ExchangesOf(*program, Collective::ALL_REDUCE);
  ASSERT_EQ(exchanges.buckets.size(), 1u);
  EXPECT_EQ(exchanges.buckets[0].size(), kParameters + 1);  // and the loss
  EXPECT_EQ(SumOf(exchanges.buckets[0]), kElements + 1);
}

TEST(CompiledStepTest, GradientsThatDoNotFitTogetherHaveBucketsOfTheirOwn) {
  const auto program = Compile({.bucket_bytes = 1});
  const Exchanges exchanges = ExchangesOf(*program, Collective::ALL_REDUCE);
  EXPECT_EQ(exchanges.buckets.size(), kParameters + 1);
  for (const std::vector<int64_t>& bucket : exchanges.buckets) EXPECT_EQ(bucket.size(), 1u);
}

TEST(CompiledStepTest, BucketsHaveAtMostTheGivenBytesOrOneGradient) {
  constexpr int64_t kBytes = 512;
  const auto program = Compile({.bucket_bytes = kBytes});
  const Exchanges exchanges = ExchangesOf(*program, Collective::ALL_REDUCE);
  // Two weights are larger than a bucket; what comes before, between and after them fits into one each.
  EXPECT_LE(exchanges.buckets.size(), 5u);
  int64_t elements = 0;
  for (const std::vector<int64_t>& bucket : exchanges.buckets) {
    const int64_t sum = SumOf(bucket);
    EXPECT_TRUE(sum * static_cast<int64_t>(sizeof(float)) <= kBytes || bucket.size() == 1) << sum << " elements";
    elements += sum;
  }
  EXPECT_EQ(elements, kElements + 1);
}

TEST(CompiledStepTest, EarlyBucketsAreSentBeforeTheLastProductsOfTheBackward) {
  const auto program = Compile({.bucket_bytes = 512});
  const Exchanges exchanges = ExchangesOf(*program, Collective::ALL_REDUCE);
  ASSERT_EQ(exchanges.starts.size(), exchanges.buckets.size());
  ASSERT_EQ(exchanges.waits.size(), exchanges.starts.size());
  ASSERT_FALSE(exchanges.products.empty());
  // The first bucket has the gradients of the last layer: products of the two layers before it follow.
  const auto in_between = std::count_if(exchanges.products.begin(), exchanges.products.end(), [&](int position) {
    return position > exchanges.starts.front() && position < exchanges.starts.back();
  });
  EXPECT_GE(in_between, 2);
  EXPECT_GT(exchanges.waits.front(), exchanges.products.back());
  EXPECT_GT(exchanges.waits.front(), exchanges.starts.back());
}

// The elements and the number of a program's slots of one kind.
struct Slots {
  int64_t elements = 0;
  int64_t count = 0;
};

Slots SlotsOf(const Program& program, const std::string& kind) {
  Slots slots;
  for (const State& state : program.artifact().states()) {
    if (state.role() != State::OPTIMIZER_SLOT || !absl::EndsWith(state.name(), absl::StrCat(".", kind))) continue;
    slots.elements += ElementsOf(state.type());
    ++slots.count;
  }
  return slots;
}

TEST(CompiledStepTest, EachRankHasItsShareOfTheSlots) {
  const auto whole = Compile({.bucket_bytes = 1024});
  for (const int ranks : {2, 4}) {
    const auto sharded = Compile({.bucket_bytes = 1024, .shard_optimizer = true, .ranks = ranks});
    const Exchanges exchanges = ExchangesOf(*sharded, Collective::REDUCE_SCATTER);
    EXPECT_GT(exchanges.buckets.size(), 1u);
    for (const std::string kind : {"exp_avg", "exp_avg_sq"}) {
      EXPECT_EQ(SlotsOf(*whole, kind).elements, kElements);
      const Slots slots = SlotsOf(*sharded, kind);
      EXPECT_EQ(static_cast<size_t>(slots.count), exchanges.buckets.size());
      // All shards of a bucket have one size: the last ranks may have some elements more than there are.
      EXPECT_GE(slots.elements * ranks, kElements) << kind;
      EXPECT_LT(slots.elements * ranks, kElements + slots.count * ranks) << kind;
    }
  }
}

}  // namespace
}  // namespace cotan::testing
