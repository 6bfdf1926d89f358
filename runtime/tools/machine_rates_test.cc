// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/machine_rates.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/test_kernels.h"

namespace cotan::tools {
namespace {

using ::testing::HasSubstr;

TEST(MachineRatesTest, MoreWorkTakesLonger) {
  const absl::StatusOr<MachineRates> rates =
      MachineRates::Measure(testing::TestKernels(), /*threads=*/1, {DType::kFloat32});
  ASSERT_TRUE(rates.ok()) << rates.status();
  const double copy = rates->BoundNs({.bytes = 1 << 20}, DType::kFloat32);
  EXPECT_GT(copy, 0);
  EXPECT_GT(rates->BoundNs({.bytes = 1 << 22}, DType::kFloat32), copy);
  EXPECT_GT(rates->BoundNs({.bytes = 1 << 20, .flops = 1'000'000}, DType::kFloat32), copy);
  EXPECT_EQ(rates->BoundNs({}, DType::kFloat32), 0);
  EXPECT_THAT(rates->ToString(), HasSubstr("f32 "));
  EXPECT_THAT(rates->ToString(), HasSubstr(" GB/s of 16 KiB"));
}

TEST(MachineRatesTest, OperationsOfADTypeWithoutARateCountNothing) {
  const absl::StatusOr<MachineRates> rates = MachineRates::Measure(testing::TestKernels(), /*threads=*/1, {});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_EQ(rates->BoundNs({.flops = 1'000'000}, DType::kFloat64), 0);
}

TEST(MachineRatesTest, ABinaryWithoutKernelsHasNoRates) {
  const absl::StatusOr<MachineRates> rates = MachineRates::Measure(KernelRegistry(), 1, {DType::kFloat32});
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_EQ(rates->BoundNs({.bytes = 1000, .flops = 1000}, DType::kFloat32), 0);
}

}  // namespace
}  // namespace cotan::tools
