// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/saved_tensor_hooks.h"

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

SavedTensorHooks Kept() {
  return {.pack = [](const Tensor& value) -> absl::StatusOr<PackedData> { return std::make_shared<Tensor>(value); },
          .unpack = [](const PackedData& packed) -> absl::StatusOr<Tensor> {
            return *static_cast<const Tensor*>(packed.get());
          }};
}

TEST(SavedTensorHooksTest, TheInnermostScopeApplies) {
  EXPECT_EQ(SavedTensorHooksScope::Current(), nullptr);
  const SavedTensorHooksScope outer(Kept());
  const SavedTensorHooks* const hooks = SavedTensorHooksScope::Current();
  {
    const SavedTensorHooksScope inner(Kept());
    EXPECT_NE(SavedTensorHooksScope::Current(), hooks);
  }
  EXPECT_EQ(SavedTensorHooksScope::Current(), hooks);
}

TEST(SavedTensorHooksTest, AScopeWithoutHooksSwitchesThoseAroundItOff) {
  const SavedTensorHooksScope outer(Kept());
  {
    const SavedTensorHooksScope none({});
    EXPECT_EQ(SavedTensorHooksScope::Current(), nullptr);
  }
  EXPECT_NE(SavedTensorHooksScope::Current(), nullptr);
}

TEST(SavedTensorHooksTest, BothFunctionsAreNeeded) {
  SavedTensorHooks hooks = Kept();
  hooks.unpack = nullptr;
  EXPECT_THAT(PackedTensor::Pack(hooks, Vector({1})).status(),
              Fails(absl::StatusCode::kInvalidArgument, "has no function 'unpack'"));
  const SavedTensorHooksScope scope({.pack = nullptr, .unpack = Kept().unpack});
  ASSERT_NE(SavedTensorHooksScope::Current(), nullptr);
  EXPECT_THAT(PackedTensor::Pack(*SavedTensorHooksScope::Current(), Vector({1})).status(),
              Fails(absl::StatusCode::kInvalidArgument, "has no function 'pack'"));
}

TEST(SavedTensorHooksTest, WhatWasPackedIsUnpacked) {
  const auto packed = PackedTensor::Pack(Kept(), Vector({1, 2}));
  ASSERT_TRUE(packed.ok());
  EXPECT_THAT(ToVector(*packed->Unpack()), ElementsAre(1, 2));
}

TEST(SavedTensorHooksTest, AnotherSizeIsRefused) {
  SavedTensorHooks hooks = Kept();
  hooks.unpack = [](const PackedData&) -> absl::StatusOr<Tensor> { return Vector({1, 2, 3}); };
  const auto packed = PackedTensor::Pack(hooks, Vector({1, 2}));
  EXPECT_THAT(packed->Unpack().status(),
              Fails(absl::StatusCode::kInvalidArgument, "an unpack hook returned f32[3] for a saved value f32[2]"));
}

TEST(SavedTensorHooksTest, ErrorsOfHooksAreReturned) {
  SavedTensorHooks hooks = Kept();
  hooks.pack = [](const Tensor&) -> absl::StatusOr<PackedData> { return absl::AbortedError("full"); };
  EXPECT_THAT(PackedTensor::Pack(hooks, Vector({1})).status(), Fails(absl::StatusCode::kAborted, "full"));
}

}  // namespace
}  // namespace cotan::autograd
