// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/tensor_type.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::TensorType;
using ::testing::ElementsAre;

TensorType Type(DType dtype, std::initializer_list<const char*> sizes, std::initializer_list<uint32_t> dim_order = {}) {
  TensorType type;
  type.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  for (const char* size : sizes) type.add_sizes(size);
  for (uint32_t dim : dim_order) type.add_dim_order(dim);
  return type;
}

TEST(TensorTypeTest, ListsAreEvaluatedForTheSymbols) {
  const TensorType type = Type(DType::kFloat32, {"4", "(s0 * 2)", "s1"});
  EXPECT_THAT(*EvaluateSizes(type.sizes(), {3, 5}), ElementsAre(4, 6, 5));
  EXPECT_EQ(EvaluateSizes(type.sizes(), {3}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TensorTypeTest, SymbolsOutsideTheListAreRefused) {
  EXPECT_TRUE(ParseSize("max(s0, (s1 + 1))", 2).ok());
  const absl::Status status = ParseSize("max(s0, (s1 + 1))", 1).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("uses s1"), absl::string_view::npos) << status;
  EXPECT_FALSE(ParseSize("", 1).ok());
  EXPECT_FALSE(ParseSize("s0 ", 1).ok());
}

TEST(TensorTypeTest, UnknownDTypesAreUndefined) {
  EXPECT_EQ(ToDType(serialization::DTYPE_F32), DType::kFloat32);
  EXPECT_EQ(ToDType(static_cast<serialization::DTypeProto>(256 + 9)), DType::kUndefined);
  EXPECT_EQ(ToDType(static_cast<serialization::DTypeProto>(-1)), DType::kUndefined);
}

TEST(TensorTypeTest, ElementsAreBounded) {
  EXPECT_EQ(BoundedElements({}), 1);
  EXPECT_EQ(BoundedElements({2, 0, 3}), 0);
  EXPECT_EQ(BoundedElements({kMaxElements}), kMaxElements);
  EXPECT_EQ(BoundedElements({kMaxElements, 2}), -1);
  EXPECT_EQ(BoundedElements({0, kMaxElements, 2}), -1);
  EXPECT_EQ(BoundedElements({-1}), -1);
  EXPECT_EQ(BoundedElements({0, std::numeric_limits<int64_t>::max()}), -1);
}

TEST(TensorTypeTest, DimOrderGivesStrides) {
  const TensorType type = Type(DType::kFloat32, {"2", "3", "4", "5"}, {0, 2, 3, 1});
  ASSERT_TRUE(CheckTensorType(type, 0).ok());
  EXPECT_THAT(DenseLayout(type, {})->strides, ElementsAre(60, 1, 15, 3));
  EXPECT_EQ(TensorTypeText(type), "f32[2,3,4,5]{0,2,3,1}");
}

TEST(TensorTypeTest, MalformedTypesAreRefused) {
  EXPECT_FALSE(CheckTensorType(TensorType(), 0).ok());
  EXPECT_FALSE(CheckTensorType(Type(DType::kFloat32, {"-1"}), 0).ok());
  EXPECT_FALSE(CheckTensorType(Type(DType::kFloat32, {"9223372036854775807"}), 0).ok());
  EXPECT_FALSE(CheckTensorType(Type(DType::kFloat32, {"2", "3"}, {0}), 0).ok());
  EXPECT_FALSE(CheckTensorType(Type(DType::kFloat32, {"2", "3"}, {1, 1}), 0).ok());
  EXPECT_FALSE(CheckTensorType(Type(DType::kFloat32, {"2", "3"}, {0, 2}), 0).ok());
  TensorType deep = Type(DType::kFloat32, {});
  for (int i = 0; i <= kMaxRank; ++i) deep.add_sizes("1");
  EXPECT_FALSE(CheckTensorType(deep, 0).ok());
  EXPECT_FALSE(DenseLayout(Type(DType::kFloat32, {"s0"}), {-4}).ok());
}

}  // namespace
}  // namespace cotan
