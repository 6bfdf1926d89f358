// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/random_ops.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "aot/aotautograd/tracer.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"
#include "aot/decompositions/rewrites.h"
#include "aot/ir/text.h"
#include "base/philox.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kSeed = 11;

absl::StatusOr<TracedProgram> TraceDraws(const TensorFunction& function, const Tensors& inputs) {
  return Trace(function, {}, inputs, {.name = "f", .seed = kSeed});
}

// Returns the result of the function for ones.
at::Tensor ResultOf(const std::function<at::Tensor(const at::Tensor&)>& function, at::IntArrayRef sizes) {
  const auto traced = TraceDraws([&](const Tensors& in) -> Tensors { return {function(in[0])}; }, {at::ones(sizes)});
  EXPECT_TRUE(traced.ok()) << traced.status();
  return traced.ok() ? FromTensorData(traced->reference.outputs[0]) : at::Tensor();
}

// Returns `count` draws from block `first` on.
at::Tensor Draws(int64_t count, uint64_t first) {
  std::vector<float> draws;
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t index = static_cast<uint64_t>(i);
    draws.push_back(UniformFloat(Philox(kSeed, first + index / 4).lane[index % 4]));
  }
  return at::tensor(draws);
}

TEST(RandomOpsTest, DropoutTakesItsSliceOfTheCounter) {
  const at::Tensor result = ResultOf(
      [](const at::Tensor& x) {
        const at::Tensor first = at::dropout(x, 0.25, true);  // blocks 0, 1
        return at::dropout(x, 0.5, true) + 0 * first;         // blocks 2, 3
      },
      {6});
  EXPECT_TRUE(result.equal(at::ge(Draws(6, 2), 0.5).to(at::kFloat) * 2));
}

TEST(RandomOpsTest, SlicesAreRecorded) {
  const auto traced = TraceDraws(
      [](const Tensors& in) -> Tensors {
        const at::Tensor first = at::rand_like(in[0]);
        return {first + at::rand({2, 3})};
      },
      {at::ones({2, 3})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_EQ(traced->rng_blocks, SymInt(4));
  EXPECT_EQ(PrintGraph(traced->graph), R"(graph @f {
  %0: f32[2,3] = user_input 0 "input.0"
  %1: i64[2] = rng_state 0 "rng"
  %2: f32[2,3] = cotan.random_uniform.default(%1, [2, 3], 0)
  %3: f32[2,3] = cotan.random_uniform.default(%1, [2, 3], 2)
  %4: f32[2,3] = aten.add.Tensor(%2, %3, 1)
  user_output 0 "output.0" = %4
}
)");
}

TEST(RandomOpsTest, DropoutThatDropsNothingIsTheInput) {
  for (const auto& [p, train] : {std::pair(0.0, true), std::pair(0.5, false)}) {
    const auto traced =
        TraceDraws([p = p, train = train](const Tensors& in) -> Tensors { return {at::dropout(in[0], p, train)}; },
                   {at::ones({4})});
    ASSERT_TRUE(traced.ok()) << traced.status();
    EXPECT_TRUE(traced->graph.nodes().empty());
    EXPECT_EQ(traced->rng_blocks, SymInt(0));
  }
}

TEST(RandomOpsTest, DropoutOfEverythingIsZero) {
  EXPECT_TRUE(ResultOf([](const at::Tensor& x) { return at::dropout(x, 1.0, true); }, {4}).equal(at::zeros({4})));
}

TEST(RandomOpsTest, FeatureDropoutDropsWholeChannels) {
  const at::Tensor result = ResultOf([](const at::Tensor& x) { return at::feature_dropout(x, 0.5, true); }, {8, 8, 5});
  EXPECT_TRUE(result.amax(-1).equal(result.amin(-1)));
  EXPECT_TRUE((result == 0).any().item<bool>());
  EXPECT_TRUE((result == 2).any().item<bool>());
}

TEST(RandomOpsTest, InPlaceFormsWriteTheirArgument) {
  const at::Tensor result = ResultOf(
      [](const at::Tensor& x) {
        at::Tensor y = x * 1;
        at::dropout_(y, 0.5, true);
        return y;
      },
      {8});
  EXPECT_TRUE(result.equal(at::ge(Draws(8, 0), 0.5).to(at::kFloat) * 2));
}

// In every layout, with and without elements.
TEST(RandomOpsTest, ResultsLieInMemoryAsInLibTorch) {
  using Op = at::Tensor (*)(const at::Tensor&);
  const std::pair<const char*, Op> ops[] = {
      {"rand_like", [](const at::Tensor& x) { return at::rand_like(x); }},
      {"rand_like, contiguous",
       [](const at::Tensor& x) { return at::rand_like(x, at::TensorOptions(), at::MemoryFormat::Contiguous); }},
      {"randn_like", [](const at::Tensor& x) { return at::randn_like(x, at::kDouble); }},
      {"randint_like", [](const at::Tensor& x) { return at::randint_like(x, 5); }},
      {"bernoulli", [](const at::Tensor& x) { return at::bernoulli(x); }},
      {"bernoulli.p", [](const at::Tensor& x) { return at::bernoulli(x, 0.5); }},
      {"normal.Tensor_float", [](const at::Tensor& x) { return at::normal(x, 1.0); }},
      {"normal.float_Tensor", [](const at::Tensor& x) { return at::normal(1.0, x); }},
      {"normal.Tensor_Tensor", [](const at::Tensor& x) { return at::normal(x, x); }},
      {"rrelu", [](const at::Tensor& x) { return at::rrelu(x, 0.1, 0.2, true); }},
      {"rrelu, evaluated", [](const at::Tensor& x) { return at::rrelu(x, 0.1, 0.2, false); }},
      {"dropout", [](const at::Tensor& x) { return at::dropout(x, 0.5, true); }},
      {"feature_dropout", [](const at::Tensor& x) { return at::feature_dropout(x, 0.5, true); }},
      {"alpha_dropout", [](const at::Tensor& x) { return at::alpha_dropout(x, 0.5, true); }},
      {"native_dropout", [](const at::Tensor& x) { return std::get<0>(at::native_dropout(x, 0.5, true)); }},
      {"native_dropout's mask", [](const at::Tensor& x) { return std::get<1>(at::native_dropout(x, 0.5, true)); }},
  };
  const at::Tensor x = at::ones({2, 3, 4, 5});
  const at::Tensor empty = at::ones({0, 3});
  const Tensors inputs = {x,
                          x.to(at::MemoryFormat::ChannelsLast),
                          x.transpose(1, 3),
                          x.slice(3, 1, 3),
                          x.slice(1, 0, 1).expand({2, 6, 4, 5}),
                          empty.t(),
                          empty.slice(1, 1, 3),
                          empty.expand({2, 0, 3})};
  RegisterRewrites();
  for (const auto& [name, op] : ops) {
    for (const at::Tensor& input : inputs) {
      const absl::string_view text = name;
      // Without elements it copies nothing and has its argument's strides.
      if (absl::StartsWith(text, "rrelu") && input.numel() == 0) continue;
      const at::Tensor expected = op(input);
      Recorder recorder;
      recorder.rng_state = at::tensor({int64_t{1}, int64_t{0}}, at::kLong);
      const RecordingScope scope(recorder);
      const c10::impl::IncludeDispatchKeyGuard keys(kRewriteKey);
      const at::Tensor result = op(input);
      EXPECT_EQ(result.sizes(), expected.sizes()) << name;
      EXPECT_EQ(result.strides(), expected.strides()) << name << " of " << input.sizes() << input.strides();
      EXPECT_EQ(result.scalar_type(), expected.scalar_type()) << name;
    }
  }
}

struct Distribution {
  const char* name;
  std::function<at::Tensor(const at::Tensor&)> draw;
  double mean, deviation;
};

// Mean and standard deviation of 40,000 draws.
TEST(RandomOpsTest, DistributionsHaveTheirMoments) {
  const std::vector<Distribution> all = {
      {"rand_like", [](const at::Tensor& x) { return at::rand_like(x); }, 0.5, 0.2887},
      {"randn_like", [](const at::Tensor& x) { return at::randn_like(x); }, 0, 1},
      {"randn", [](const at::Tensor& x) { return at::randn(x.sizes()); }, 0, 1},
      {"bernoulli.p", [](const at::Tensor& x) { return at::bernoulli(x, 0.3); }, 0.3, 0.4583},
      {"bernoulli", [](const at::Tensor& x) { return at::bernoulli(x * 0.2); }, 0.2, 0.4},
      {"bernoulli_.float", [](const at::Tensor& x) { return (x * 1).bernoulli_(0.3); }, 0.3, 0.4583},
      {"uniform_", [](const at::Tensor& x) { return (x * 1).uniform_(-1, 3); }, 1, 1.1547},
      {"normal_", [](const at::Tensor& x) { return (x * 1).normal_(2, 3); }, 2, 3},
      {"normal", [](const at::Tensor& x) { return at::normal(x * 5, 2.0); }, 5, 2},
      {"normal of tensors", [](const at::Tensor& x) { return at::normal(x[0] * 5, x * 2); }, 5, 2},
      {"exponential_", [](const at::Tensor& x) { return (x * 1).exponential_(2); }, 0.5, 0.5},
      {"randint", [](const at::Tensor& x) { return at::randint(2, 6, x.sizes()).to(at::kFloat); }, 3.5, 1.118},
      {"alpha_dropout", [](const at::Tensor& x) { return at::alpha_dropout(at::randn_like(x), 0.3, true); }, 0, 1},
      {"native_dropout", [](const at::Tensor& x) { return std::get<0>(at::native_dropout(x, 0.2, true)); }, 1, 0.5},
  };
  for (const Distribution& distribution : all) {
    const at::Tensor result = ResultOf(distribution.draw, {200, 200});
    EXPECT_NEAR(result.mean().item<double>(), distribution.mean, 0.05) << distribution.name;
    EXPECT_NEAR(result.std().item<double>(), distribution.deviation, 0.05) << distribution.name;
  }
}

TEST(RandomOpsTest, WhatIsDrawnByATensorHasAGradientOfZeroAsInLibTorch) {
  const std::vector<std::function<at::Tensor(const at::Tensor&)>> draws = {
      [](const at::Tensor& p) { return at::bernoulli(p); },
      [](const at::Tensor& p) {
        return at::bernoulli(at::zeros({2, 3}), p);
      },
      [](const at::Tensor& p) { return at::zeros({3}).bernoulli_(p); },
      [](const at::Tensor& p) { return (p * 1).normal_(); },
      [](const at::Tensor& p) { return at::normal(p, 2.0); },
      [](const at::Tensor& p) { return at::normal(1.0, p); },
      [](const at::Tensor& p) { return at::normal(p, p.detach()); },
  };
  for (size_t i = 0; i < draws.size(); ++i) {
    SCOPED_TRACE(i);
    const at::Tensor p = at::rand({3}).requires_grad_();
    EXPECT_TRUE(draws[i](p).requires_grad());
    const auto traced = Trace([&](const Tensors& in) { return Tensors{draws[i](in[0])}; }, {}, {p},
                              {.name = "f", .backward = TraceOptions::Backward::kOutputs, .seed = kSeed});
    ASSERT_TRUE(traced.ok()) << traced.status();
    ASSERT_EQ(traced->reference.gradients.size(), 1u);
    EXPECT_TRUE(FromTensorData(traced->reference.gradients[0]).equal(at::zeros({3})));
  }
}

TEST(RandomOpsTest, GradientOfComplexBernoulliDrawsIsInvalidArgument) {
  const at::Tensor p = at::zeros({0, 3}, at::kComplexFloat).requires_grad_();
  EXPECT_THROW(at::bernoulli(p), c10::Error);
  const auto traced = Trace([](const Tensors& in) { return Tensors{at::bernoulli(in[0])}; }, {}, {p},
                            {.name = "f", .backward = TraceOptions::Backward::kOutputs, .seed = kSeed});
  EXPECT_TRUE(absl::IsInvalidArgument(traced.status())) << traced.status();
  EXPECT_THAT(std::string(traced.status().message()), HasSubstr("aten.bernoulli has no gradient"));
}

TEST(RandomOpsTest, DrawsHaveTheMomentsOfTheirDistribution) {
  const at::Tensor log_normal = ResultOf([](const at::Tensor& x) { return (x * 1).log_normal_(0.5, 0.25); }, {20000});
  EXPECT_NEAR(log_normal.log().mean().item<double>(), 0.5, 0.01);
  EXPECT_NEAR(log_normal.log().std().item<double>(), 0.25, 0.01);
  const at::Tensor cauchy = ResultOf([](const at::Tensor& x) { return (x * 1).cauchy_(3, 2); }, {20000});
  EXPECT_NEAR(cauchy.median().item<double>(), 3, 0.1);
  EXPECT_NEAR(((cauchy - 3).abs() < 2).to(at::kFloat).mean().item<double>(), 0.5, 0.02);  // quartiles at 3 +- 2
  const at::Tensor geometric = ResultOf([](const at::Tensor& x) { return (x * 1).geometric_(0.25); }, {20000});
  EXPECT_NEAR(geometric.mean().item<double>(), 4, 0.1);
  EXPECT_NEAR((geometric == 1).to(at::kFloat).mean().item<double>(), 0.25, 0.02);
  EXPECT_GE(geometric.min().item<double>(), 1);
}

TEST(RandomOpsTest, MultinomialDrawsByWeight) {
  const at::Tensor weights = at::tensor({0.0f, 1.0f, 0.0f, 3.0f, 0.0f});
  const auto count = [](const at::Tensor& drawn) { return at::bincount(drawn.flatten(), {}, 5).to(at::kFloat); };
  const at::Tensor with =
      ResultOf([&](const at::Tensor& x) { return at::multinomial(x * weights, 4000, /*replacement=*/true); }, {2, 5});
  ASSERT_EQ(with.sizes(), (std::vector<int64_t>{2, 4000}));
  EXPECT_TRUE(at::allclose(count(with) / 8000, weights / 4, 0, 0.02)) << count(with);
  // Both rows draw both indices of weight, and more often the heavier one first.
  const at::Tensor without = ResultOf([&](const at::Tensor& x) { return at::multinomial(x * weights, 2); }, {4000, 5});
  EXPECT_TRUE(std::get<0>(without.sort(-1)).equal(at::tensor({1, 3}, at::kLong).expand({4000, 2})));
  EXPECT_TRUE(at::allclose(count(without.select(1, 0)) / 4000, weights / 4, 0, 0.02));
  EXPECT_EQ(ResultOf([&](const at::Tensor& x) { return at::multinomial(x, 3); }, {5}).dim(), 1);
}

TEST(RandomOpsTest, ArgumentsOfDistributionsAreChecked) {
  const auto error_of = [](const TensorFunction& function) {
    return std::string(TraceDraws(function, {at::ones({4})}).status().message());
  };
  EXPECT_THAT(error_of([](const Tensors& in) -> Tensors { return {at::multinomial(in[0], 5)}; }),
              HasSubstr("cannot draw 5 of 4 without replacement"));
  EXPECT_THAT(error_of([](const Tensors& in) -> Tensors { return {(in[0] * 1).geometric_(1)}; }),
              HasSubstr("p to be in (0, 1), but got p=1"));
  EXPECT_THAT(error_of([](const Tensors& in) -> Tensors { return {(in[0] * 1).cauchy_(0, 0)}; }),
              HasSubstr("found sigma=0"));
  EXPECT_THAT(error_of([](const Tensors& in) -> Tensors { return {(in[0] * 1).log_normal_(0, -1)}; }),
              HasSubstr("found std=-1"));
}

TEST(RandomOpsTest, WideRangesHaveMoreBitsThanOneDraw) {
  constexpr int64_t kLow = -100, kHigh = int64_t{1} << 40;
  const at::Tensor drawn = ResultOf(
      [](const at::Tensor& x) { return at::randint_like(x, kLow, kHigh, at::TensorOptions(at::kLong)); }, {256});
  EXPECT_GE(drawn.min().item<int64_t>(), kLow);
  EXPECT_LT(drawn.max().item<int64_t>(), kHigh);
  EXPECT_GT(drawn.max().item<int64_t>(), kHigh / 2);
  EXPECT_TRUE(((drawn - kLow).remainder(1 << 16) != 0).any().item<bool>());
}

TEST(RandomOpsTest, SmallRangesOfLargeIntegersAreDrawnExactly) {
  for (const int64_t low : {(int64_t{1} << 40) + 1, -(int64_t{1} << 40) - 5}) {
    const at::Tensor drawn = ResultOf(
        [low](const at::Tensor& x) { return at::randint_like(x, low, low + 4, at::TensorOptions(at::kLong)); }, {256});
    EXPECT_EQ(drawn.min().item<int64_t>(), low);
    EXPECT_EQ(drawn.max().item<int64_t>(), low + 3);
  }
}

TEST(RandomOpsTest, RandomInPlaceDrawsWhatTheDtypeHas) {
  for (const auto& [dtype, largest] : {std::pair(at::kBool, 1), std::pair(at::kByte, 255), std::pair(at::kChar, 127)}) {
    const at::Tensor drawn = ResultOf(
        [type = dtype](const at::Tensor& x) { return at::empty_like(x, at::TensorOptions(type)).random_(); }, {2048});
    EXPECT_EQ(drawn.scalar_type(), dtype);
    EXPECT_EQ(drawn.to(at::kLong).min().item<int64_t>(), 0);
    EXPECT_EQ(drawn.to(at::kLong).max().item<int64_t>(), largest);
  }
}

TEST(RandomOpsTest, OpsWithoutACounterBasedFormAreUnimplemented) {
  const auto error_of = [](const TensorFunction& function) {
    return std::string(TraceDraws(function, {at::ones({4})}).status().message());
  };
  EXPECT_THAT(error_of([](const Tensors& in) -> Tensors { return {at::poisson(in[0])}; }),
              HasSubstr("aten.poisson.default: it draws random numbers"));
  at::Generator generator = at::detail::createCPUGenerator(1);
  EXPECT_THAT(error_of([&](const Tensors& in) -> Tensors { return {in[0] + at::rand({4}, generator)}; }),
              HasSubstr("aten.rand: it draws from a generator of its own"));
  EXPECT_THAT(error_of([](const Tensors& in) -> Tensors { return {in[0] + at::randint(int64_t{1} << 50, {4})}; }),
              HasSubstr("aten.randint: its range is wider than 2^48"));
  EXPECT_THAT(error_of([](const Tensors& in) -> Tensors { return {at::empty_like(in[0], at::kLong).random_()}; }),
              HasSubstr("aten.random_: its range is wider than 2^48"));
}

}  // namespace
}  // namespace cotan::aot
