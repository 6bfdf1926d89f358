// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/constant_geometry.h"

#include <gtest/gtest.h>

#include <optional>

namespace cotan::aot {
namespace {

TEST(ConstantGeometryTest, ConvertsThereAndBack) {
  const StridedLayout layout = {{2, 3}, {1, 2}, 4};
  const TensorGeometry geometry = ToGeometry(DType::kFloat32, layout);
  EXPECT_EQ(geometry, (TensorGeometry{DType::kFloat32, {2, 3}, {1, 2}, 4}));
  EXPECT_EQ(ToConstant(geometry), (ViewGeometry{DType::kFloat32, layout}));
}

TEST(ConstantGeometryTest, SymbolicGeometryIsNotConstant) {
  TensorGeometry geometry = ToGeometry(DType::kFloat32, {{2}, {1}, 0});
  geometry.sizes[0] = SymInt::Symbol(0);
  EXPECT_EQ(ToConstant(geometry), std::nullopt);
}

}  // namespace
}  // namespace cotan::aot
