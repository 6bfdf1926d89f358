// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cpu/register_portable.h"

namespace cotan {
namespace {

TEST(RegisterTest, BothSetsHaveEveryOpOfEveryFloatOrIndex) {
  KernelRegistry cpu;
  KernelRegistry portable;
  ASSERT_TRUE(RegisterCpuKernels(cpu).ok());
  ASSERT_TRUE(RegisterPortableKernels(portable).ok());
  const std::vector<DType> floats = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
  const std::vector<DType> indexes = {DType::kInt32, DType::kInt64};
  const std::vector<DType> full_floats = {DType::kFloat32, DType::kFloat64};  // as in LibTorch
  for (const OpKind kind : AllOpKinds()) {
    const bool is_index = kind == OpKind::kCheckedIndex, is_full = kind == OpKind::kLinearAlgebra;
    for (const DType dtype : is_index ? indexes : is_full ? full_floats : floats) {
      EXPECT_TRUE(cpu.Find(DeviceType::kCpu, kind, dtype).ok()) << OpKindName(kind) << " " << DTypeName(dtype);
      EXPECT_TRUE(portable.Find(DeviceType::kCpu, kind, dtype).ok()) << OpKindName(kind) << " " << DTypeName(dtype);
    }
  }
}

TEST(RegisterTest, TwoSetsInOneRegistryAreRejected) {
  KernelRegistry registry;
  ASSERT_TRUE(RegisterCpuKernels(registry).ok());
  EXPECT_EQ(RegisterPortableKernels(registry).code(), absl::StatusCode::kAlreadyExists);
}

}  // namespace
}  // namespace cotan
