// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/onednn_blocklist.h"

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

constexpr absl::string_view kBrgemm = "brg_matmul:avx512_core";

MatmulGeometry Dense(int64_t m, int64_t n, int64_t k) {
  return {.m = m, .n = n, .k = k, .a = {k, 1}, .b = {n, 1}, .c = {n, 1}, .batch = {}};
}

TEST(OneDnnBlocklistTest, VectorsWithGaps) {
  EXPECT_FALSE(IsMiscomputedByOneDnn(Dense(1, 8, 16), kBrgemm));
  MatmulGeometry row = Dense(1, 8, 16);
  row.a.column = 2;
  EXPECT_TRUE(IsMiscomputedByOneDnn(row, kBrgemm));
  EXPECT_FALSE(IsMiscomputedByOneDnn(row, "gemm:jit:f32"));
  EXPECT_FALSE(IsMiscomputedByOneDnn(row, "brg:avx512_core"));  // oneDNN 2.6
  MatmulGeometry column = Dense(8, 1, 16);
  EXPECT_FALSE(IsMiscomputedByOneDnn(column, kBrgemm));
  column.c.row = 2;
  EXPECT_TRUE(IsMiscomputedByOneDnn(column, kBrgemm));
}

TEST(OneDnnBlocklistTest, SeveralBatchLoops) {
  MatmulGeometry geometry = Dense(4, 8, 16);
  geometry.batch = {{3, 64, 128, 32}};
  EXPECT_FALSE(IsMiscomputedByOneDnn(geometry, kBrgemm));
  geometry.batch.insert(geometry.batch.begin(), {2, 192, 0, 96});
  EXPECT_TRUE(IsMiscomputedByOneDnn(geometry, kBrgemm));
}

}  // namespace
}  // namespace cotan::cpu
