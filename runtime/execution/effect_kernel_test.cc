// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/effect_kernel.h"

#include <cstring>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Effect;
using ::testing::ElementsAre;

Effect MakeEffect(Effect::Kind kind) {
  Effect effect;
  effect.set_kind(kind);
  effect.set_name("e");
  return effect;
}

// Host memory with another DeviceType, which counts copies to the host.
class OtherDevice final : public Device {
 public:
  DeviceType type() const override { return DeviceType::kCuda; }
  absl::StatusOr<void*> Allocate(size_t bytes) override { return HostDevice().Allocate(bytes); }
  void Free(void* memory, size_t bytes) override { HostDevice().Free(memory, bytes); }
  absl::Status CopyFromHost(void* to, const void* from, size_t bytes) override { return Copy(to, from, bytes); }
  absl::Status CopyToHost(void* to, const void* from, size_t bytes) override {
    ++copies_to_host;
    return Copy(to, from, bytes);
  }
  absl::Status Copy(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }

  int copies_to_host = 0;
};

TEST(EffectKernelTest, KindsAreThoseOfTheProgram) {
  EXPECT_EQ(KindOf(MakeEffect(Effect::PRINT)), EffectKind::kPrint);
  EXPECT_EQ(KindOf(MakeEffect(Effect::METRIC)), EffectKind::kMetric);
  EXPECT_EQ(KindOf(MakeEffect(Effect::ASSERT)), EffectKind::kAssert);
}

TEST(EffectKernelTest, StridedValuesOfAnyDeviceComeRowMajor) {
  OtherDevice other;
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  const TensorSpec columns = {DType::kFloat32, {.sizes = {3, 2}, .strides = {1, 3}}};
  for (Device* device : {&HostDevice(), static_cast<Device*>(&other)}) {
    std::vector<float> seen;
    EffectHandlers handlers;
    handlers.Set(EffectKind::kPrint, [&seen](const EffectEvent& event) {
      seen = *event.value.ToVector<float>();
      return absl::OkStatus();
    });
    const auto kernel = PrepareEffect(MakeEffect(Effect::PRINT), columns, *device, &handlers);
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    void* const input = memory.data();
    ASSERT_TRUE((*kernel)->Run({.inputs = &input}).ok());
    EXPECT_THAT(seen, ElementsAre(1, 4, 2, 5, 3, 6));
  }
  EXPECT_EQ(other.copies_to_host, 1);
}

TEST(EffectKernelTest, OnlyAssertionsNeedNoHandler) {
  const TensorSpec flag = {DType::kBool, {}};
  EXPECT_EQ(PrepareEffect(MakeEffect(Effect::METRIC), flag, HostDevice(), nullptr).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(PrepareEffect(MakeEffect(Effect::ASSERT), flag, HostDevice(), nullptr).ok());
}

}  // namespace
}  // namespace cotan
