// SPDX-License-Identifier: Apache-2.0

#include "aot/saved_tensor_hooks/traced_pair.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "aot/ir/text.h"
#include "aot/saved_tensor_hooks/hook_pairs.h"

namespace cotan::aot {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const TensorType& Type() {
  static const auto& type = *new TensorType{DType::kFloat32, {4, 3}, {}};
  return type;
}

at::Tensor Same(const at::Tensor& x) { return x; }

// Returns the message with which a pair is refused; the pair must be refused as an invalid argument.
template <typename Pack, typename Unpack>
std::string Refusal(Pack pack, Unpack unpack) {
  const absl::Status status =
      TracePair(MakeSavedTensorHooks(std::move(pack), std::move(unpack)), Type(), "value x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(TracedPairTest, APairBecomesTwoLoweredGraphs) {
  const absl::StatusOr<TracedPair> pair =
      TracePair(Float8Hooks(Float8Format::kE4m3fn, /*scaled=*/false), Type(), "value x");
  ASSERT_TRUE(pair.ok()) << pair.status();
  ASSERT_EQ(pair->pack.outputs().size(), 1u);
  EXPECT_EQ(PrintType(pair->pack.value(pair->pack.outputs()[0].value).type), "f8e4m3fn[4,3]");
  ASSERT_EQ(pair->unpack.inputs().size(), 1u);
  EXPECT_EQ(PrintType(pair->unpack.value(pair->unpack.outputs()[0].value).type), "f32[4,3]");
  EXPECT_EQ(pair->pack.nodes().size(), 1u) << PrintGraph(pair->pack);
  EXPECT_EQ(pair->unpack.nodes().size(), 1u) << PrintGraph(pair->unpack);
}

TEST(TracedPairTest, AHookThatReturnsItsArgumentIsNoOp) {
  const absl::StatusOr<TracedPair> pair = TracePair(MakeSavedTensorHooks(Same, Same), Type(), "value x");
  ASSERT_TRUE(pair.ok()) << pair.status();
  EXPECT_EQ(pair->pack.outputs()[0].value, pair->pack.inputs()[0].value);
  EXPECT_TRUE(pair->unpack.nodes().empty());
}

TEST(TracedPairTest, PackThatWritesToItsArgumentIsRefused) {
  EXPECT_THAT(Refusal(
                  [](const at::Tensor& x) {
                    x.mul_(2);
                    return x;
                  },
                  Same),
              AllOf(HasSubstr("pack of value x"), HasSubstr("modifying its input in place")));
  EXPECT_THAT(Refusal(
                  [](const at::Tensor& x) {
                    x.t().select(0, 1).zero_();
                    return x + 1;
                  },
                  Same),
              HasSubstr("modifying its input in place"));
}

TEST(TracedPairTest, PackMayWriteToWhatItMade) {
  const auto pack = [](const at::Tensor& x) { return x.clone().mul_(2); };
  const auto unpack = [](const at::Tensor& x) { return x.div_(2); };
  EXPECT_TRUE(TracePair(MakeSavedTensorHooks(pack, unpack), Type(), "value x").ok());
}

TEST(TracedPairTest, WhatCannotBeSavedIsRefused) {
  using List = std::vector<at::Tensor>;
  const auto first = [](const List& packed) { return packed[0]; };
  EXPECT_THAT(Refusal([](const at::Tensor&) { return List(); }, first), HasSubstr("pack returned no tensor"));
  EXPECT_THAT(Refusal([](const at::Tensor&) { return List{at::Tensor()}; }, first),
              HasSubstr("pack returned an undefined tensor"));
  EXPECT_THAT(Refusal([](const at::Tensor& x) { return std::pair(7, x.size(0)); },
                      [](const std::pair<int, int64_t>&) { return at::Tensor(); }),
              HasSubstr("pack returned no tensor"));
}

TEST(TracedPairTest, UnpackMustReturnWhatWasSaved) {
  EXPECT_THAT(Refusal([](const at::Tensor& x) { return x.to(at::kBFloat16); }, Same),
              HasSubstr("unpack returned bf16[4,3], but the saved value was f32[4,3]"));
  EXPECT_THAT(Refusal([](const at::Tensor& x) { return x.view({12}); }, Same),
              HasSubstr("unpack returned f32[12], but the saved value was f32[4,3]"));
  EXPECT_THAT(Refusal(Same, [](const at::Tensor&) { return at::Tensor(); }),
              HasSubstr("unpack returned an undefined tensor"));
}

TEST(TracedPairTest, HooksUseOnlyTheirArguments) {
  const at::Tensor table = at::ones({3});
  EXPECT_THAT(Refusal([table](const at::Tensor& x) { return x * table; }, Same),
              HasSubstr("must not use tensors besides its argument"));
  EXPECT_THAT(Refusal(
                  [](const at::Tensor& x) {
                    return x + at::rand({4, 3});
                  },
                  Same),
              HasSubstr("must not draw random numbers"));
}

TEST(TracedPairTest, ElementsCannotDecide) {
  const auto pack = [](const at::Tensor& x) { return x.sum().item<float>() > 0 ? x : -x; };
  EXPECT_EQ(TracePair(MakeSavedTensorHooks(pack, Same), Type(), "value x").status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace cotan::aot
