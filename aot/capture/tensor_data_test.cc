// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/tensor_data.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

TEST(TensorDataTest, EveryDTypeGoesThereAndBack) {
  for (int i = 1; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(ToDType(ToScalarType(dtype)), dtype) << DTypeName(dtype);
    EXPECT_EQ(at::elementSize(ToScalarType(dtype)), ByteSize(dtype)) << DTypeName(dtype);
  }
  EXPECT_EQ(ToDType(at::kQInt8), DType::kUndefined);
}

TEST(TensorDataTest, StoresRowMajor) {
  const at::Tensor transposed = at::arange(6, at::kInt).view({2, 3}).t();
  const TensorData data = ToTensorData(transposed);
  EXPECT_EQ(data.dtype, DType::kInt32);
  EXPECT_EQ(data.sizes, (DimVector{3, 2}));
  const int32_t expected[] = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(data.bytes, std::string(reinterpret_cast<const char*>(expected), sizeof(expected)));
  EXPECT_TRUE(FromTensorData(data).equal(transposed));
}

TEST(TensorDataTest, ScalarsAndEmptyTensors) {
  EXPECT_TRUE(FromTensorData(ToTensorData(at::scalar_tensor(2.5))).equal(at::scalar_tensor(2.5)));
  const at::Tensor empty = FromTensorData(ToTensorData(at::empty({0, 3})));
  EXPECT_EQ(empty.sizes(), (std::vector<int64_t>{0, 3}));
}

TEST(TensorDataTest, TypeHasDtypeAndSizes) {
  const TensorType type = TypeOf(at::zeros({2, 3}, at::kBool));
  EXPECT_EQ(type.dtype, DType::kBool);
  EXPECT_EQ(type.sizes, (SymIntVector{2, 3}));
}

}  // namespace
}  // namespace cotan::aot
