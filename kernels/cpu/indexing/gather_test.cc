// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/indexing/gather.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace cotan::cpu {
namespace {

using serialization::Op;
using ::testing::ElementsAre;
using testing::GapsAreUntouched;
using ::testing::HasSubstr;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

Op GatherOp(int64_t dim) {
  Op op;
  op.mutable_gather()->set_dim(dim);
  return op;
}

Op ScatterAddOp(int64_t dim, int64_t padding_index = -1) {
  Op op;
  op.mutable_scatter_add()->set_dim(dim);
  op.mutable_scatter_add()->set_padding_index(padding_index);
  return op;
}

Op ConcatOp(int64_t dim) {
  Op op;
  op.mutable_concat()->set_dim(dim);
  return op;
}

HostTensor Random(DType dtype, const DimVector& sizes, std::mt19937_64& random, double low = -50, double high = 50) {
  return RandomTensor(dtype, RandomLayout(sizes, random, random() % 2 == 0, random() % 2 == 0), random, low, high);
}

// Returns the table's sizes with dimension `dim` replaced by the sizes of the index.
DimVector Replaced(const DimVector& table, size_t dim, const DimVector& index) {
  DimVector sizes(table.begin(), table.begin() + dim);
  sizes.insert(sizes.end(), index.begin(), index.end());
  sizes.insert(sizes.end(), table.begin() + dim + 1, table.end());
  return sizes;
}

TEST(GatherTest, GatherAndItsTransposeOnRandomGeometries) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) {
    const DType dtype = std::array{DType::kFloat32, DType::kFloat64, DType::kInt64, DType::kInt16}[random() % 4];
    DimVector table(1 + random() % 3);
    for (int64_t& size : table) size = 1 + static_cast<int64_t>(random() % 6);
    const size_t dim = random() % table.size();
    DimVector index_sizes(random() % 3);
    for (int64_t& size : index_sizes) size = static_cast<int64_t>(random() % 5);
    const auto size = static_cast<double>(table[dim]);
    HostTensor index = Random(random() % 2 == 0 ? DType::kInt64 : DType::kInt32, index_sizes, random, -size, size);
    const DimVector rows_sizes = Replaced(table, dim, index_sizes);
    const int threads = 1 + static_cast<int>(random() % 3);

    // Row-major positions of the table elements that form the rows.
    int64_t inner = 1;
    for (size_t d = dim + 1; d < table.size(); ++d) inner *= table[d];
    const std::vector<double> where = index.Values();
    const auto count = static_cast<int64_t>(where.size());
    std::vector<int64_t> origin;
    for (int64_t i = 0; i < NumElements(rows_sizes); ++i) {
      auto row = static_cast<int64_t>(where[static_cast<size_t>(i / inner % count)]);
      if (row < 0) row += table[dim];
      origin.push_back((i / inner / count * table[dim] + row) * inner + i % inner);
    }

    HostTensor values = Random(dtype, table, random);
    HostTensor rows(dtype, RandomLayout(rows_sizes, random, true, false));
    ASSERT_TRUE(RunOp(MakeGather, GatherOp(dim), {&values, &index}, {&rows}, threads).ok());
    const std::vector<double> all = values.Values();
    std::vector<double> expected;
    for (int64_t position : origin) expected.push_back(all[static_cast<size_t>(position)]);
    EXPECT_EQ(rows.Values(), expected);
    EXPECT_TRUE(GapsAreUntouched(rows));

    HostTensor gradient = Random(dtype, rows_sizes, random);
    HostTensor initial = Random(dtype, table, random);
    HostTensor sum(dtype, RandomLayout(table, random, true, false));
    const int64_t padding = random() % 2 == 0 ? 0 : -1;
    std::vector<HostTensor*> inputs = {&gradient, &index};
    expected.assign(static_cast<size_t>(NumElements(table)), 0);
    if (random() % 2 == 0) {
      inputs.push_back(&initial);
      expected = initial.Values();
    }
    ASSERT_TRUE(RunOp(MakeScatterAdd, ScatterAddOp(dim, padding), inputs, {&sum}, threads).ok());
    const std::vector<double> added = gradient.Values();
    for (size_t i = 0; i < origin.size(); ++i) {
      const auto at = static_cast<size_t>(origin[i]);
      if (origin[i] / inner % table[dim] == padding) continue;
      expected[at] += added[i];
      if (dtype == DType::kFloat32) expected[at] = static_cast<float>(expected[at]);
    }
    EXPECT_EQ(sum.Values(), expected);
    EXPECT_TRUE(GapsAreUntouched(sum));
  }
}

TEST(GatherTest, ChannelsLastOperandsHaveTheValuesOfRowMajorOnes) {
  std::mt19937_64 random(TestSeed());
  const DimVector channels_last = {0, 2, 3, 1};
  for (const int64_t dim : {0, 1, 2, 3}) {
    const DimVector sizes = {2, 3, 4, 5};
    DimVector rows_sizes = sizes;
    rows_sizes[static_cast<size_t>(dim)] = 7;
    const auto size = static_cast<double>(sizes[static_cast<size_t>(dim)]);
    HostTensor index = RandomTensor(DType::kInt32, testing::DenseLayout({7}), random, -size, size - 1);
    HostTensor table = RandomTensor(DType::kFloat32, testing::DenseLayout(sizes), random);
    HostTensor rows(DType::kFloat32, rows_sizes);
    HostTensor sum(DType::kFloat32, sizes);
    ASSERT_TRUE(RunOp(MakeGather, GatherOp(dim), {&table, &index}, {&rows}).ok());
    ASSERT_TRUE(RunOp(MakeScatterAdd, ScatterAddOp(dim), {&rows, &index}, {&sum}).ok());

    HostTensor same_table(DType::kFloat32, testing::DenseLayout(sizes, channels_last));
    same_table.SetValues(table.Values());
    HostTensor same_rows(DType::kFloat32, testing::DenseLayout(rows_sizes, channels_last));
    HostTensor same_sum(DType::kFloat32, testing::DenseLayout(sizes, channels_last));
    ASSERT_TRUE(RunOp(MakeGather, GatherOp(dim), {&same_table, &index}, {&same_rows}).ok());
    ASSERT_TRUE(RunOp(MakeScatterAdd, ScatterAddOp(dim), {&same_rows, &index}, {&same_sum}).ok());
    EXPECT_EQ(same_rows.Values(), rows.Values()) << dim;
    EXPECT_EQ(same_sum.Values(), sum.Values()) << dim;

    // Of a part of the channels of a larger operand.
    const auto part = [&](const DimVector& part_sizes, const HostTensor& values) {
      StridedLayout layout = testing::DenseLayout(part_sizes, channels_last);
      for (const size_t d : {0, 2, 3}) layout.strides[d] *= 3;
      HostTensor tensor(DType::kFloat32, layout);
      tensor.SetValues(values.Values());
      return tensor;
    };
    HostTensor part_of_table = part(sizes, table);
    HostTensor part_of_rows = part(rows_sizes, rows);
    ASSERT_TRUE(RunOp(MakeGather, GatherOp(dim), {&part_of_table, &index}, {&same_rows}).ok());
    ASSERT_TRUE(RunOp(MakeScatterAdd, ScatterAddOp(dim), {&part_of_rows, &index}, {&same_sum}).ok());
    EXPECT_EQ(same_rows.Values(), rows.Values()) << dim;
    EXPECT_EQ(same_sum.Values(), sum.Values()) << dim;
  }
}

TEST(GatherTest, WideRowsHaveTheSameSumForAnyThreadCount) {
  std::mt19937_64 random(TestSeed());
  HostTensor rows = RandomTensor(DType::kFloat32, testing::DenseLayout({2, 500, 333}), random);
  HostTensor index = RandomTensor(DType::kInt64, testing::DenseLayout({500}), random, 0, 7);
  HostTensor first(DType::kFloat32, {2, 7, 333});
  ASSERT_TRUE(RunOp(MakeScatterAdd, ScatterAddOp(1), {&rows, &index}, {&first}, 1).ok());
  for (int threads : {2, 3, 8}) {
    HostTensor again(DType::kFloat32, {2, 7, 333});
    ASSERT_TRUE(RunOp(MakeScatterAdd, ScatterAddOp(1), {&rows, &index}, {&again}, threads).ok());
    EXPECT_EQ(first.bytes(), again.bytes());
  }
}

TEST(GatherTest, ScatterAddInPlaceKeepsTheInitialValues) {
  HostTensor rows(DType::kFloat32, {2}, {10, 20});
  HostTensor index(DType::kInt64, {2}, {1, 1});
  HostTensor table(DType::kFloat32, {2}, {1, 2});
  ASSERT_TRUE(RunOp(MakeScatterAdd, ScatterAddOp(0), {&rows, &index, &table}, {&table}).ok());
  EXPECT_THAT(table.Values(), ElementsAre(1, 32));
}

TEST(GatherTest, IndexOutOfRangeIsNamed) {
  HostTensor table(DType::kFloat32, {4, 3});
  HostTensor index(DType::kInt64, {2, 2}, {0, -4, 4, 9});
  HostTensor rows(DType::kFloat32, {2, 2, 3});
  const absl::Status gather = RunOp(MakeGather, GatherOp(0), {&table, &index}, {&rows});
  EXPECT_EQ(gather.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(gather.message(), "gather: index[1,0] is 4, outside [-4, 4)");
  HostTensor low(DType::kInt32, {2, 2}, {0, -5, 0, 0});
  EXPECT_EQ(RunOp(MakeScatterAdd, ScatterAddOp(0), {&rows, &low}, {&table}).message(),
            "scatter_add: index[0,1] is -5, outside [-4, 4)");
}

TEST(GatherTest, EmptyTableRejectsEveryIndex) {
  HostTensor table(DType::kFloat32, {0});
  HostTensor index(DType::kInt64, {1}, {0});
  HostTensor rows(DType::kFloat32, {1});
  EXPECT_THAT(RunOp(MakeGather, GatherOp(0), {&table, &index}, {&rows}).message(), HasSubstr("outside [0, 0)"));
}

TEST(ConcatTest, RandomPartsAlongEveryDimension) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 100; ++round) {
    DimVector sizes(1 + random() % 4);
    for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 5);
    const size_t dim = random() % sizes.size();
    int64_t inner = 1;
    for (size_t d = dim + 1; d < sizes.size(); ++d) inner *= sizes[d];
    sizes[dim] = 0;
    std::vector<HostTensor> parts;
    for (uint64_t i = 1 + random() % 4; i > 0; --i) {
      DimVector part = sizes;
      part[dim] = static_cast<int64_t>(random() % 4);
      parts.push_back(Random(DType::kInt32, part, random));
    }
    std::vector<HostTensor*> inputs;
    int64_t outer = 1;
    for (size_t d = 0; d < dim; ++d) outer *= sizes[d];
    for (HostTensor& part : parts) {
      inputs.push_back(&part);
      sizes[dim] += part.layout().sizes[dim];
    }
    std::vector<double> expected;
    for (int64_t o = 0; o < outer; ++o) {
      for (const HostTensor& part : parts) {
        const std::vector<double> values = part.Values();
        const int64_t width = part.layout().sizes[dim] * inner;
        expected.insert(expected.end(), values.begin() + o * width, values.begin() + (o + 1) * width);
      }
    }
    HostTensor output(DType::kInt32, RandomLayout(sizes, random, true, false));
    ASSERT_TRUE(RunOp(MakeConcat, ConcatOp(static_cast<int64_t>(dim)), inputs, {&output}).ok());
    EXPECT_EQ(output.Values(), expected);
    EXPECT_TRUE(GapsAreUntouched(output));
  }
}

TEST(ConcatTest, PartsOfOtherSizesAreRejected) {
  HostTensor a(DType::kFloat32, {2, 3});
  HostTensor output(DType::kFloat32, {2, 4});
  EXPECT_THAT(RunOp(MakeConcat, ConcatOp(1), {&a}, {&output}).message(),
              HasSubstr("concat: the inputs have 3 elements along dim 1"));
}

}  // namespace
}  // namespace cotan::cpu
