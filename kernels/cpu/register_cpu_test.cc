// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/register_cpu.h"

#include <gtest/gtest.h>

namespace cotan {
namespace {

TEST(RegisterCpuTest, EveryKernelIsListedOnce) {
  KernelRegistry registry;
  EXPECT_TRUE(RegisterCpuKernels(registry).ok());
  EXPECT_EQ(RegisterCpuKernels(registry).code(), absl::StatusCode::kAlreadyExists);
}

TEST(RegisterCpuTest, CpuKernelsHasThem) {
  EXPECT_TRUE(CpuKernels().Find(DeviceType::kCpu, OpKind::kMatmul, DType::kFloat32).ok());
  EXPECT_EQ(&CpuKernels(), &CpuKernels());
}

}  // namespace
}  // namespace cotan
