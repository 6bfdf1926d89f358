// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/tensor_geometry.h"

#include "gtest/gtest.h"

namespace cotan {
namespace {

serialization::TensorGeometry Matrix() {
  serialization::TensorGeometry proto;
  proto.set_dtype(serialization::DTYPE_F32);
  proto.add_sizes("2");
  proto.add_sizes("s0");
  proto.add_strides("s0");
  proto.add_strides("1");
  proto.set_offset("4");
  return proto;
}

TEST(TensorGeometry, RoundTrips) {
  absl::StatusOr<TensorGeometry> geometry = TensorGeometry::FromProto(Matrix(), "g");
  ASSERT_TRUE(geometry.ok()) << geometry.status();
  EXPECT_EQ(geometry->ToString(), "f32[2, s0]{s0, 1}+4");
  EXPECT_EQ(geometry->rank(), 2);
  EXPECT_EQ(*TensorGeometry::FromProto(geometry->ToProto(), "g"), *geometry);
}

TEST(TensorGeometry, AnAbsentOffsetIsZero) {
  serialization::TensorGeometry proto = Matrix();
  proto.clear_offset();
  absl::StatusOr<TensorGeometry> geometry = TensorGeometry::FromProto(proto, "g");
  ASSERT_TRUE(geometry.ok()) << geometry.status();
  EXPECT_EQ(geometry->offset, SymInt(0));
  EXPECT_EQ(geometry->ToProto().offset(), "");
}

TEST(TensorGeometry, RefusesStridesThatDoNotFitTheSizes) {
  serialization::TensorGeometry proto = Matrix();
  proto.add_strides("1");
  EXPECT_EQ(TensorGeometry::FromProto(proto, "g").status(),
            absl::InvalidArgumentError("g.strides: 3 strides for 2 sizes"));
}

TEST(TensorGeometry, RefusesDTypesThatAreNone) {
  serialization::TensorGeometry proto = Matrix();
  proto.clear_dtype();
  EXPECT_EQ(TensorGeometry::FromProto(proto, "g").status(), absl::InvalidArgumentError("g.dtype: is not set"));
  proto.set_dtype(static_cast<serialization::DTypeProto>(99));
  EXPECT_EQ(TensorGeometry::FromProto(proto, "g").status(),
            absl::UnimplementedError("g.dtype: 99 is not a known dtype; a newer version may have written it"));
}

TEST(TensorGeometry, EvaluatesToALayout) {
  const TensorGeometry geometry = {
      DType::kFloat32, {2, SymInt::Symbol(0)}, {SymInt::Symbol(0), 1}, SymInt::Symbol(0) - 3};
  const absl::StatusOr<StridedLayout> layout = EvaluateLayout(geometry, {5});
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(ToString(*layout), "[2,5]{5,1}+2");
  EXPECT_FALSE(EvaluateLayout(geometry, {2}).ok());
  EXPECT_FALSE(EvaluateLayout(geometry, {}).ok());
}

}  // namespace
}  // namespace cotan
