// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/registry.h"

#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Op;

absl::StatusOr<std::unique_ptr<Kernel>> MakeUnimplemented(const KernelRequest&) {
  return absl::UnimplementedError("refused");
}

TEST(KernelRegistryTest, FindsWhatIsRegistered) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.Register(DeviceType::kCpu, Op::kMatmul, DType::kFloat32, MakeUnimplemented).ok());
  const absl::StatusOr<KernelFactory> found = registry.Find(DeviceType::kCpu, Op::kMatmul, DType::kFloat32);
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, &MakeUnimplemented);
}

TEST(KernelRegistryTest, WhatIsMissingIsNamed) {
  const absl::Status status = KernelRegistry().Find(DeviceType::kCuda, Op::kMaxPool, DType::kBFloat16).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("no cuda kernel for max_pool of bf16"), absl::string_view::npos) << status;
}

TEST(KernelRegistryTest, TwoKernelsForOneOpAreRejected) {
  KernelRegistry registry;
  ASSERT_TRUE(registry.Register(DeviceType::kCpu, Op::kCopy, DType::kInt8, MakeUnimplemented).ok());
  EXPECT_EQ(registry.Register(DeviceType::kCpu, Op::kCopy, DType::kInt8, MakeUnimplemented).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(registry.Register(DeviceType::kCuda, Op::kCopy, DType::kInt8, MakeUnimplemented).ok());
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeNoGroup(absl::Span<const KernelRequest>) {
  return absl::UnimplementedError("refused");
}

TEST(KernelRegistryTest, ADeviceHasAtMostOneFactoryOfGroups) {
  KernelRegistry registry;
  EXPECT_EQ(registry.FindGroup(DeviceType::kCuda), nullptr);
  ASSERT_TRUE(registry.RegisterGroup(DeviceType::kCuda, MakeNoGroup).ok());
  EXPECT_EQ(registry.FindGroup(DeviceType::kCuda), &MakeNoGroup);
  EXPECT_EQ(registry.FindGroup(DeviceType::kCpu), nullptr);
  EXPECT_EQ(registry.RegisterGroup(DeviceType::kCuda, MakeNoGroup).code(), absl::StatusCode::kAlreadyExists);
}

bool TakesNothing(const ComputedOperandRequest&) { return false; }

TEST(KernelRegistryTest, ADeviceHasKernelsOfComputedOperandsOnce) {
  KernelRegistry registry;
  EXPECT_EQ(registry.FindComputedOperands(DeviceType::kCpu), nullptr);
  ASSERT_TRUE(registry.RegisterComputedOperands(DeviceType::kCpu, {.takes = TakesNothing}).ok());
  ASSERT_NE(registry.FindComputedOperands(DeviceType::kCpu), nullptr);
  EXPECT_EQ(registry.FindComputedOperands(DeviceType::kCpu)->takes, &TakesNothing);
  EXPECT_EQ(registry.FindComputedOperands(DeviceType::kCuda), nullptr);
  EXPECT_EQ(registry.RegisterComputedOperands(DeviceType::kCpu, {}).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace cotan
