// SPDX-License-Identifier: Apache-2.0

#include "aot/saved_tensor_hooks/hook_pairs.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* name;
  int64_t bytes;  // of 1024 packed values of f32
  double error;   // largest, relative to the largest magnitude
};

constexpr Case kCases[] = {
    {"bf16", 2048, 0x1p-8},     {"fp8_e4m3", 1024, 0x1p-4},        {"fp8_e4m3_scaled", 1028, 0x1p-4},
    {"fp8_e5m2", 1024, 0x1p-3}, {"fp8_e5m2_scaled", 1028, 0x1p-3}, {"int8", 1028, 0.5 / 127 + 1e-6}};

// Values from -largest to largest.
at::Tensor Values(double largest) { return at::linspace(-largest, largest, 1024); }

TEST(HookPairsTest, EachPairSavesFewBytesWithASmallError) {
  for (const Case& c : kCases) {
    const absl::StatusOr<SavedTensorHooks> hooks = ParseSavedTensorHooks(c.name);
    ASSERT_TRUE(hooks.ok()) << hooks.status();
    EXPECT_EQ(hooks->cache_key, c.name);
    EXPECT_EQ(hooks->min_elements, kMinPackedElements);
    const at::Tensor x = Values(3.7);
    const PackedValue packed = hooks->pack(x);
    int64_t bytes = 0;
    for (const at::Tensor& tensor : packed.tensors) bytes += static_cast<int64_t>(tensor.nbytes());
    EXPECT_EQ(bytes, c.bytes) << c.name;
    const at::Tensor unpacked = hooks->unpack(packed);
    EXPECT_EQ(unpacked.scalar_type(), at::kFloat) << c.name;
    EXPECT_LE((unpacked - x).abs().max().item<double>(), c.error * 3.7) << c.name;
  }
}

TEST(HookPairsTest, AScaleKeepsWhatTheFormatAloneCannotHold) {
  for (const double largest : {1e-6, 1e6}) {
    const at::Tensor x = Values(largest);
    for (const char* name : {"fp8_e4m3_scaled", "fp8_e5m2_scaled", "int8"}) {
      const SavedTensorHooks hooks = *ParseSavedTensorHooks(name);
      EXPECT_LE((hooks.unpack(hooks.pack(x)) - x).abs().max().item<double>(), 0x1p-3 * largest) << name;
    }
    const SavedTensorHooks plain = *ParseSavedTensorHooks("fp8_e4m3");
    EXPECT_GT((plain.unpack(plain.pack(x)) - x).abs().max().item<double>(), 0.2 * largest);
  }
}

TEST(HookPairsTest, ZerosStayZerosAndOtherDtypesComeBack) {
  for (const Case& c : kCases) {
    const SavedTensorHooks hooks = *ParseSavedTensorHooks(c.name);
    EXPECT_TRUE(hooks.unpack(hooks.pack(at::zeros({4}))).equal(at::zeros({4}))) << c.name;
    for (const at::ScalarType dtype : {at::kHalf, at::kBFloat16, at::kDouble}) {
      EXPECT_EQ(hooks.unpack(hooks.pack(at::ones({4}, dtype))).scalar_type(), dtype) << c.name;
    }
  }
}

TEST(HookPairsTest, ValuesThatWouldNotBecomeSmallerAreLeftAlone) {
  const at::Tensor x = at::ones({4}, at::kBFloat16);
  EXPECT_EQ(BFloat16Hooks().pack(x).tensors[0].data_ptr(), x.data_ptr());
}

TEST(HookPairsTest, OnlyThePairForTheHostKeepsValuesThere) {
  for (const Case& c : kCases) EXPECT_FALSE(ParseSavedTensorHooks(c.name)->on_host) << c.name;
  const SavedTensorHooks hooks = *ParseSavedTensorHooks("host:no_static");
  EXPECT_TRUE(hooks.on_host);
  EXPECT_EQ(hooks.cache_key, "host");
  EXPECT_EQ(hooks.filter, HookFilter::kNoStatic);
  EXPECT_EQ(hooks.min_elements, kMinPackedElements);
  const at::Tensor x = Values(3.7);
  EXPECT_TRUE(hooks.unpack(hooks.pack(x)).equal(x));
}

TEST(HookPairsTest, NamesAreParsedWithTheirFilters) {
  EXPECT_EQ(ParseSavedTensorHooks("int8")->filter, HookFilter::kDonated);
  EXPECT_EQ(ParseSavedTensorHooks("int8:donated")->filter, HookFilter::kDonated);
  EXPECT_EQ(ParseSavedTensorHooks("int8:no_static")->filter, HookFilter::kNoStatic);
  EXPECT_EQ(ParseSavedTensorHooks("bf16:all")->filter, HookFilter::kAll);
  for (const char* text : {"", "int4", "int8:", "int8:some", "int8:all:all"}) {
    const absl::Status status = ParseSavedTensorHooks(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("fp8_e4m3_scaled")) << text;
  }
}

}  // namespace
}  // namespace cotan::aot
