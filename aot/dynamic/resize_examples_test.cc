// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/resize_examples.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>

#include "absl/status/status.h"
#include "aot/capture/non_leaf.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

const DynamicShapes kShapes{{{"batch", 1, 64, 4}}, {{SymInt::Symbol(0), 2}, {SymInt::Symbol(0)}}};

TEST(ResizeExamplesTest, ExamplesAreCutOrRepeated) {
  const at::Tensor x = at::arange(8, at::kFloat).view({4, 2}).requires_grad_();
  const at::Tensor y = at::arange(4, at::kLong);
  const auto small = ResizeExamples({x, y}, kShapes, {3});
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ((*small)[0].sizes(), (at::IntArrayRef{3, 2}));
  EXPECT_TRUE((*small)[0].requires_grad());
  EXPECT_TRUE((*small)[0].is_leaf());
  const auto large = ResizeExamples({x, y}, kShapes, {6});
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ((*large)[1].size(0), 6);
  EXPECT_EQ((*large)[1][5].item<int64_t>(), 1);
  EXPECT_EQ((*large)[0][4][1].item<float>(), 1);
  EXPECT_FALSE((*large)[1].requires_grad());
}

TEST(ResizeExamplesTest, NoGradientGoesThroughViewsMadeUnderNoGrad) {
  const at::Tensor x = at::ones({4, 2}).requires_grad_();
  const at::Tensor view = [&] {
    const at::NoGradGuard no_grad;
    return x.view({4, 2});
  }();
  const auto large = ResizeExamples({view}, {kShapes.symbols, {kShapes.sizes[0]}}, {6});
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ((*large)[0].sizes(), (at::IntArrayRef{6, 2}));
  EXPECT_TRUE(PassesNoGradient((*large)[0]));
}

TEST(ResizeExamplesTest, DimensionsKeepTheirOrderInMemory) {
  const DynamicShapes shapes{{{"batch", 1, 64, 2}, {"side", 1, 64, 3}},
                             {{SymInt::Symbol(0), 4, SymInt::Symbol(1), SymInt::Symbol(1)},
                              {SymInt::Symbol(0), SymInt::Symbol(1)},
                              {SymInt::Symbol(1), SymInt::Symbol(0)}}};
  const at::Tensor image = at::ones({2, 4, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor expanded = at::ones({3}).expand({2, 3});
  const at::Tensor part = at::ones({2, 8}).narrow(1, 0, 3).t();
  const auto large = ResizeExamples({image, expanded, part}, shapes, {5, 7});
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ((*large)[0].sizes(), (at::IntArrayRef{5, 4, 7, 7}));
  EXPECT_TRUE((*large)[0].is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_EQ((*large)[1].strides(), (at::IntArrayRef{0, 1}));
  EXPECT_EQ((*large)[2].strides(), (at::IntArrayRef{1, 12}));  // as [3,2] in {1,8}: 5 elements between columns
}

TEST(ResizeExamplesTest, MemoryIsSharedByEqualExamplesOnly) {
  const at::Tensor x = at::ones({4, 2});
  const DynamicShapes twice{kShapes.symbols, {kShapes.sizes[0], kShapes.sizes[0]}};
  const auto same = ResizeExamples({x, x}, twice, {7});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE((*same)[0].is_same((*same)[1]));
  const absl::Status status = ResizeExamples({x, x.view({4, 2})}, twice, {7}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("examples 0 and 1 share memory"));
  const DynamicShapes one_fixed{kShapes.symbols, {kShapes.sizes[0], {4, 2}}};
  EXPECT_FALSE(ResizeExamples({x, x.view({4, 2})}, one_fixed, {7}).ok());
  const DynamicShapes both_fixed{{}, {{4, 2}, {2, 4}}};
  const auto shared = ResizeExamples({x, x.view({2, 4})}, both_fixed, {});
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_TRUE((*shared)[0].is_alias_of((*shared)[1]));
  EXPECT_THAT(std::string(ResizeExamples({at::ones({0, 2})}, kShapes, {7}).status().message()),
              HasSubstr("example 0 is empty"));
}

}  // namespace
}  // namespace cotan::aot
