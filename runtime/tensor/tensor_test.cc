// SPDX-License-Identifier: Apache-2.0

#include "runtime/tensor/tensor.h"

#include <complex>
#include <cstdint>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;

Tensor Matrix() { return *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3}); }

TEST(TensorTest, ValuesAreReadBackInRowMajorOrder) {
  const Tensor tensor = Matrix();
  EXPECT_EQ(tensor.ToString(), "f32[2,3]");
  EXPECT_THAT(*tensor.ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(TensorTest, CopiesOfAHandleShareMemory) {
  const Tensor tensor = Matrix();
  const Tensor other = tensor;
  other.data<float>()[0] = 9;
  EXPECT_EQ(tensor.data<float>()[0], 9);
  const Tensor clone = *tensor.Clone();
  clone.data<float>()[0] = 7;
  EXPECT_EQ(tensor.data<float>()[0], 9);
}

TEST(TensorTest, TransposedViewIsCopiedElementByElement) {
  const Tensor tensor = Matrix();
  const Tensor transposed =
      *Tensor::InStorage(tensor.storage(), DType::kFloat32, {.sizes = {3, 2}, .strides = {1, 3}, .offset = 0});
  EXPECT_THAT(*transposed.ToVector<float>(), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_TRUE(transposed.Contiguous()->is_contiguous());
  EXPECT_EQ(tensor.Contiguous()->address(), tensor.address());
}

TEST(TensorTest, ReadingsAreUndoneByCopies) {
  using Complex = std::complex<float>;
  const Tensor tensor = *Tensor::From<Complex>({{1, 2}, {3, -4}}, {2});
  const Tensor conjugate = tensor.WithConjNegBits({.conjugate = true});
  EXPECT_FALSE(conjugate.is_plain());
  EXPECT_EQ(conjugate.data<Complex>(), nullptr) << "the numbers in memory are not its elements";
  EXPECT_THAT(*conjugate.ToVector<Complex>(), ElementsAre(Complex(1, -2), Complex(3, 4)));
  EXPECT_EQ(conjugate.ToString(), "c64[2] conjugate");
  const Tensor copy = *conjugate.ResolveConjNeg();
  EXPECT_TRUE(copy.is_plain());
  EXPECT_NE(copy.storage(), tensor.storage());
  EXPECT_THAT(*tensor.WithConjNegBits({.conjugate = true, .negate = true}).ToVector<Complex>(),
              ElementsAre(Complex(-1, 2), Complex(-3, -4)));
  EXPECT_THAT(*Matrix().WithConjNegBits({.negate = true}).ToVector<float>(), ElementsAre(-1, -2, -3, -4, -5, -6));
  EXPECT_TRUE(Matrix().WithConjNegBits({.conjugate = true}).is_plain()) << "real numbers are their own conjugates";
  EXPECT_EQ(Tensor::Scalar<int64_t>(1)->WithConjNegBits({.negate = true}).Clone().status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST(TensorTest, BorrowedMemoryIsUsedInPlace) {
  std::vector<int64_t> values = {4, 5};
  const Tensor tensor = *Tensor::Borrow(absl::MakeSpan(values), {2});
  EXPECT_EQ(tensor.address(), values.data());
  values[1] = 6;
  EXPECT_THAT(*tensor.ToVector<int64_t>(), ElementsAre(4, 6));
}

TEST(TensorTest, MisalignedMemoryIsRefused) {
  alignas(8) char bytes[16] = {};
  auto* odd = reinterpret_cast<float*>(bytes + 1);
  EXPECT_EQ(Tensor::Borrow(absl::MakeSpan(odd, 1), {1}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorTest, EmptyAndScalarTensors) {
  const Tensor empty = *Tensor::Empty(DType::kFloat32, {3, 0});
  EXPECT_EQ(empty.num_elements(), 0);
  EXPECT_THAT(*empty.ToVector<float>(), ElementsAre());
  const Tensor scalar = *Tensor::Scalar<double>(2.5);
  EXPECT_EQ(scalar.layout().rank(), 0);
  EXPECT_EQ(*scalar.Item<double>(), 2.5);
}

TEST(TensorTest, WrongTypeOrCountIsAnError) {
  const Tensor tensor = Matrix();
  EXPECT_EQ(tensor.data<double>(), nullptr);
  EXPECT_EQ(tensor.ToVector<double>().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(tensor.Item<float>().status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(Tensor::From<float>({1, 2}, {3}).ok());
  EXPECT_FALSE(Tensor::Empty(DType::kUndefined, {1}).ok());
  EXPECT_FALSE(Tensor().Clone().ok());
  EXPECT_EQ(Tensor().ToString(), "undefined");
}

TEST(TensorTest, GeometryOutsideTheStorageIsRefused) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const Tensor tensor = Matrix();
  const std::vector<StridedLayout> outside = {
      {.sizes = {7}, .strides = {1}, .offset = 0},    {.sizes = {1}, .strides = {1}, .offset = 6},
      {.sizes = {2}, .strides = {1}, .offset = -1},   {.sizes = {2}, .strides = {-1}, .offset = 3},
      {.sizes = {2}, .strides = {kMax}, .offset = 1}, {.sizes = {kMax, 2}, .strides = {kMax, 1}, .offset = 0},
      {.sizes = {2, 2}, .strides = {1}, .offset = 0},
  };
  for (const StridedLayout& layout : outside) {
    EXPECT_EQ(Tensor::InStorage(tensor.storage(), DType::kFloat32, layout).status().code(),
              absl::StatusCode::kInvalidArgument)
        << ToString(layout);
  }
  EXPECT_FALSE(Tensor::Empty(DType::kFloat64, {kMax, 2}).ok());
  EXPECT_FALSE(Tensor::Empty(DType::kFloat64, {-1}).ok());
}

}  // namespace
}  // namespace cotan
