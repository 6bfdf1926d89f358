// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_geometry.h"

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::ViewStep;

ViewGeometry Dense(DimVector sizes, DType dtype = DType::kFloat32) {
  const DimVector strides = ContiguousStrides(sizes);
  return {dtype, {.sizes = std::move(sizes), .strides = strides, .offset = 0}};
}

ViewGeometry Strided(DimVector sizes, DimVector strides, int64_t offset = 0, DType dtype = DType::kFloat32) {
  return {dtype, {.sizes = std::move(sizes), .strides = std::move(strides), .offset = offset}};
}

ViewStep View(std::vector<std::string> sizes) {
  ViewStep step;
  step.mutable_view();
  for (std::string& size : sizes) step.mutable_view()->add_sizes(std::move(size));
  return step;
}

ViewStep Slice(uint32_t dim, const std::string& start, const std::string& end, const std::string& stride) {
  ViewStep step;
  step.mutable_slice()->set_dim(dim);
  step.mutable_slice()->set_start(start);
  step.mutable_slice()->set_end(end);
  step.mutable_slice()->set_step(stride);
  return step;
}

std::string Text(const absl::StatusOr<ViewGeometry>& result) {
  return result.ok() ? std::string(DTypeName(result->dtype)) + ToString(result->layout)
                     : std::string(absl::StatusCodeToString(result.status().code()));
}

TEST(ViewGeometryTest, ViewSplitsAndMergesDimensions) {
  EXPECT_EQ(Text(ApplyViewStep(View({"6", "4"}), Dense({2, 3, 4}), {})), "f32[6,4]{4,1}");
  EXPECT_EQ(Text(ApplyViewStep(View({"s0", "1", "12"}), Dense({2, 3, 4}), {2})), "f32[2,1,12]{12,12,1}");
  EXPECT_EQ(Text(ApplyViewStep(View({}), Strided({1, 1}, {5, 7}, 3), {})), "f32[]{}+3");
  // Columns of a matrix: the outer dimension splits, the two do not merge.
  EXPECT_EQ(Text(ApplyViewStep(View({"2", "2", "3"}), Strided({4, 3}, {1, 4}), {})), "f32[2,2,3]{2,1,4}");
  EXPECT_EQ(Text(ApplyViewStep(View({"12"}), Strided({4, 3}, {1, 4}), {})), "FAILED_PRECONDITION");
  EXPECT_EQ(Text(ApplyViewStep(View({"6"}), Strided({2, 3}, {0, 0}), {})), "f32[6]{0}");
  EXPECT_EQ(Text(ApplyViewStep(View({"0", "7"}), Dense({3, 0}), {})), "f32[0,7]{7,1}");
  EXPECT_EQ(Text(ApplyViewStep(View({"3", "2", "1"}), Strided({3, 2}, {1, 3}), {})), "f32[3,2,1]{1,3,3}");
  EXPECT_EQ(Text(ApplyViewStep(View({"1", "3", "2"}), Strided({3, 2}, {1, 3}), {})), "f32[1,3,2]{3,1,3}");
  EXPECT_EQ(Text(ApplyViewStep(View({"3", "1", "1"}), Strided({3, 1}, {1, 5}), {})), "f32[3,1,1]{1,5,5}");
  EXPECT_EQ(Text(ApplyViewStep(View({"5"}), Dense({2, 3}), {})), "INVALID_ARGUMENT");
  EXPECT_EQ(Text(ApplyViewStep(View({"-2", "-3"}), Dense({2, 3}), {})), "INVALID_ARGUMENT");
}

TEST(ViewGeometryTest, PermuteReordersAndRefusesOthers) {
  ViewStep step;
  step.mutable_permute()->add_dims(1);
  step.mutable_permute()->add_dims(0);
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({2, 3}), {})), "f32[3,2]{1,3}");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({2, 3, 4}), {})), "INVALID_ARGUMENT");
  step.mutable_permute()->set_dims(0, 0);
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({2, 3}), {})), "INVALID_ARGUMENT");
  step.mutable_permute()->set_dims(0, 7);
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({2, 3}), {})), "INVALID_ARGUMENT");
}

TEST(ViewGeometryTest, ExpandStretchesOnes) {
  ViewStep step;
  for (const char* size : {"4", "2", "3"}) step.mutable_expand()->add_sizes(size);
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({2, 1}), {})), "f32[4,2,3]{0,1,0}");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({2, 2}), {})), "INVALID_ARGUMENT");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({4, 4, 2, 3}), {})), "INVALID_ARGUMENT");
  step.mutable_expand()->set_sizes(0, "1");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({2, 3}), {})), "f32[1,2,3]{6,3,1}");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({}), {})), "f32[1,2,3]{0,0,0}");
}

TEST(ViewGeometryTest, SliceAndSelectMoveTheOffset) {
  EXPECT_EQ(Text(ApplyViewStep(Slice(0, "1", "s0", "2"), Dense({6, 4}), {6})), "f32[3,4]{8,1}+4");
  EXPECT_EQ(Text(ApplyViewStep(Slice(1, "2", "2", "1"), Dense({6, 4}), {})), "f32[6,0]{4,1}+2");
  EXPECT_EQ(Text(ApplyViewStep(Slice(0, "0", "6", "9000000000000000000"), Dense({6}), {})), "f32[1]{6}");
  for (const ViewStep& bad : {Slice(2, "0", "1", "1"), Slice(0, "-1", "1", "1"), Slice(0, "3", "2", "1"),
                              Slice(0, "0", "7", "1"), Slice(0, "0", "6", "0"), Slice(0, "x", "6", "1")}) {
    EXPECT_EQ(Text(ApplyViewStep(bad, Dense({6, 4}), {})), "INVALID_ARGUMENT") << ViewStepText(bad);
  }
  ViewStep select;
  select.mutable_select()->set_dim(1);
  select.mutable_select()->set_index("3");
  EXPECT_EQ(Text(ApplyViewStep(select, Dense({6, 4}), {})), "f32[6]{4}+3");
  EXPECT_EQ(Text(ApplyViewStep(select, Dense({6, 3}), {})), "INVALID_ARGUMENT");
}

TEST(ViewGeometryTest, AsStridedIsTakenAsGiven) {
  ViewStep step;
  step.mutable_as_strided()->add_sizes("2");
  step.mutable_as_strided()->add_strides("3");
  step.mutable_as_strided()->set_offset("1");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({6}), {})), "f32[2]{3}+1");
  step.mutable_as_strided()->set_strides(0, "-3");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({6}), {})), "INVALID_ARGUMENT");
  step.mutable_as_strided()->set_strides(0, "4611686018427387904");
  EXPECT_EQ(Text(ApplyViewStep(step, Dense({6}), {})), "INVALID_ARGUMENT");
}

TEST(ViewGeometryTest, SqueezeUnsqueezeDiagonalUnfold) {
  ViewStep squeeze;
  squeeze.mutable_squeeze()->add_dims(0);
  squeeze.mutable_squeeze()->add_dims(2);
  EXPECT_EQ(Text(ApplyViewStep(squeeze, Dense({1, 3, 1}), {})), "f32[3]{1}");
  EXPECT_EQ(Text(ApplyViewStep(squeeze, Dense({1, 3, 2}), {})), "INVALID_ARGUMENT");

  ViewStep unsqueeze;
  unsqueeze.mutable_unsqueeze()->set_dim(1);
  EXPECT_EQ(Text(ApplyViewStep(unsqueeze, Dense({2, 3}), {})), "f32[2,1,3]{3,3,1}");
  EXPECT_EQ(Text(ApplyViewStep(unsqueeze, Dense({2, 0}), {})), "f32[2,1,0]{1,0,1}");
  EXPECT_EQ(Text(ApplyViewStep(unsqueeze, Dense({}), {})), "INVALID_ARGUMENT");

  ViewStep diagonal;
  diagonal.mutable_diagonal()->set_dim2(1);
  diagonal.mutable_diagonal()->set_offset(1);
  EXPECT_EQ(Text(ApplyViewStep(diagonal, Dense({3, 4}), {})), "f32[3]{5}+1");
  diagonal.mutable_diagonal()->set_offset(std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Text(ApplyViewStep(diagonal, Dense({3, 4}), {})), "f32[0]{5}");
  diagonal.mutable_diagonal()->set_dim2(0);
  EXPECT_EQ(Text(ApplyViewStep(diagonal, Dense({3, 4}), {})), "INVALID_ARGUMENT");

  ViewStep unfold;
  unfold.mutable_unfold()->set_size(3);
  unfold.mutable_unfold()->set_step(2);
  EXPECT_EQ(Text(ApplyViewStep(unfold, Dense({8}), {})), "f32[3,3]{2,1}");
  unfold.mutable_unfold()->set_size(9);
  EXPECT_EQ(Text(ApplyViewStep(unfold, Dense({8}), {})), "INVALID_ARGUMENT");
}

TEST(ViewGeometryTest, DTypeViewsScaleTheLastDimension) {
  ViewStep to_bytes;
  to_bytes.mutable_dtype_view()->set_dtype(serialization::DTYPE_U8);
  EXPECT_EQ(Text(ApplyViewStep(to_bytes, Strided({2, 3}, {3, 1}, 3), {})), "u8[2,12]{12,1}+12");
  EXPECT_EQ(Text(ApplyViewStep(to_bytes, Strided({2, 3}, {1, 2}), {})), "INVALID_ARGUMENT");
  ViewStep to_double;
  to_double.mutable_dtype_view()->set_dtype(serialization::DTYPE_F64);
  EXPECT_EQ(Text(ApplyViewStep(to_double, Dense({2, 4}), {})), "f64[2,2]{2,1}");
  EXPECT_EQ(Text(ApplyViewStep(to_double, Dense({2, 3}), {})), "INVALID_ARGUMENT");
  ViewStep to_int;
  to_int.mutable_dtype_view()->set_dtype(serialization::DTYPE_I32);
  EXPECT_EQ(Text(ApplyViewStep(to_int, Strided({2, 3}, {1, 2}), {})), "i32[2,3]{1,2}");
}

TEST(ViewGeometryTest, ComplexNumbersAreSeenAsPairs) {
  ViewStep as_real;
  as_real.mutable_view_as_real();
  ViewStep as_complex;
  as_complex.mutable_view_as_complex();
  const ViewGeometry complex = Strided({2, 3}, {1, 2}, 1, DType::kComplex64);
  const absl::StatusOr<ViewGeometry> real = ApplyViewStep(as_real, complex, {});
  EXPECT_EQ(Text(real), "f32[2,3,2]{2,4,1}+2");
  EXPECT_EQ(*ApplyViewStep(as_complex, *real, {}), complex);
  EXPECT_EQ(Text(ApplyViewStep(as_complex, Strided({1, 2}, {3, 1}), {})), "c64[1]{1}");
  EXPECT_EQ(Text(ApplyViewStep(as_complex, Dense({2, 3}), {})), "INVALID_ARGUMENT");
  EXPECT_EQ(Text(ApplyViewStep(as_real, Dense({2}), {})), "INVALID_ARGUMENT");
}

TEST(ViewGeometryTest, UnknownKindsAreRefused) {
  EXPECT_EQ(Text(ApplyViewStep(ViewStep(), Dense({2}), {})), "UNIMPLEMENTED");
  EXPECT_FALSE(CheckViewStep(ViewStep(), 0).ok());
  EXPECT_FALSE(CheckViewStep(View({"s0"}), 0).ok());
  EXPECT_TRUE(CheckViewStep(View({"s0"}), 1).ok());
}

// Returns the offsets of all elements in row-major order.
std::vector<int64_t> Offsets(const StridedLayout& layout) {
  std::vector<int64_t> offsets;
  std::function<void(size_t, int64_t)> walk = [&](size_t dim, int64_t offset) {
    if (dim == layout.sizes.size()) {
      offsets.push_back(offset);
      return;
    }
    for (int64_t i = 0; i < layout.sizes[dim]; ++i) walk(dim + 1, offset + i * layout.strides[dim]);
  };
  walk(0, layout.offset);
  return offsets;
}

// A view has the same elements in the same order, or fails with FailedPrecondition.
TEST(ViewGeometryTest, ViewsOfRandomLayoutsKeepRowMajorOrder) {
  std::mt19937_64 random(testing::TestSeed());
  const auto factors = [&](int64_t count) {
    DimVector sizes;
    while (count > 1) {
      int64_t size = static_cast<int64_t>(random() % static_cast<uint32_t>(count)) + 1;
      while (count % size != 0) --size;
      sizes.push_back(size);
      count /= size;
      if (random() % 4 == 0) sizes.push_back(1);
    }
    return sizes;
  };
  int expressible = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    ViewGeometry source = Dense(factors(24));
    const size_t rank = source.layout.sizes.size();
    for (size_t i = 0; i + 1 < rank && trial % 3 != 0; ++i) {
      const size_t j = i + random() % (rank - i);
      std::swap(source.layout.sizes[i], source.layout.sizes[j]);
      std::swap(source.layout.strides[i], source.layout.strides[j]);
    }
    std::vector<std::string> target;
    for (int64_t size : factors(24)) target.push_back(std::to_string(size));
    const absl::StatusOr<ViewGeometry> result = ApplyViewStep(View(target), source, {});
    if (!result.ok()) {
      ASSERT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition) << result.status();
      ASSERT_FALSE(IsContiguous(source.layout));
      continue;
    }
    ++expressible;
    ASSERT_EQ(Offsets(result->layout), Offsets(source.layout)) << ToString(source.layout);
  }
  EXPECT_GT(expressible, 600);
}

}  // namespace
}  // namespace cotan
