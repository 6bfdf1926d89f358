// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/onednn/primitive.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "base/denormal_mode.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/run_without_team.h"

namespace cotan::cpu::onednn {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PrimitiveTest, ErrorsNameTheCall) {
  EXPECT_TRUE(ToStatus(dnnl_success, "f()").ok());
  const absl::Status refused = ToStatus(dnnl_unimplemented, "f()");
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(refused.message(), "oneDNN: unimplemented from f()");
  EXPECT_EQ(ToStatus(dnnl_out_of_memory, "f()").code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ToStatus(dnnl_invalid_arguments, "f()").code(), absl::StatusCode::kInternal);
}

TEST(PrimitiveTest, TheVersionIsThatOfTheLibrary) { EXPECT_EQ(MajorVersion(), dnnl_version()->major); }

TEST(PrimitiveTest, TypesThatOneDnnLacksAreRejected) {
  EXPECT_EQ(*DataType(DType::kFloat32), dnnl_f32);
  EXPECT_THAT(DataType(DType::kFloat64).status().message(), HasSubstr("f64"));
  const DimVector many(13, 1);
  EXPECT_THAT(StridedMemory(DType::kFloat32, many, many).status().message(), HasSubstr("13 dimensions"));
}

TEST(PrimitiveTest, ReorderRunsAsAKernel) {
  const auto rows = StridedMemory(DType::kFloat32, {2, 3}, {3, 1});
  const auto columns = StridedMemory(DType::kFloat32, {2, 3}, {1, 2});
  ASSERT_TRUE(rows.ok() && columns.ok());
  EXPECT_FALSE(*rows == *columns);
  const auto kernel = MakeReorder(*rows, *columns, /*threads=*/1);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  ASSERT_EQ((*kernel)->scratch_bytes(), 0U);
  float from[] = {1, 2, 3, 4, 5, 6};
  float to[6] = {};
  void* in = from;
  void* out = to;
  ASSERT_TRUE((*kernel)->Run({&in, &out, nullptr}).ok());
  EXPECT_THAT(to, ElementsAre(1, 4, 2, 5, 3, 6));
}

TEST(PrimitiveTest, ReorderRunsWithAndWithoutItsTeam) {
  constexpr int64_t kRows = 300;
  constexpr int64_t kColumns = 500;
  const auto rows = StridedMemory(DType::kFloat32, {kRows, kColumns}, {kColumns, 1});
  const auto columns = StridedMemory(DType::kFloat32, {kRows, kColumns}, {1, kRows});
  ASSERT_TRUE(rows.ok() && columns.ok());
  const auto kernel = MakeReorder(*rows, *columns, /*threads=*/2);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> from(kRows * kColumns);
  std::iota(from.begin(), from.end(), 0.0F);
  std::vector<char> scratch((*kernel)->scratch_bytes());
  const auto expect_reordered = [&] {
    std::vector<float> to(from.size());
    void* in = from.data();
    void* out = to.data();
    const ScopedThreads threads(2);
    ASSERT_TRUE((*kernel)->Run({&in, &out, scratch.data()}).ok());
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        const float value = to[static_cast<size_t>(column * kRows + row)];
        ASSERT_EQ(value, static_cast<float>(row * kColumns + column)) << row << ", " << column;
      }
    }
  };
  expect_reordered();
  RunWithoutTeam(expect_reordered);
  expect_reordered();
}

TEST(PrimitiveTest, ProductOnATeamFlushesSubnormalNumbersIfTheCallerDoes) {
  constexpr int64_t kSize = 512;
  constexpr int64_t kDepth = 16;
  const auto a = StridedMemory(DType::kFloat32, {kSize, kDepth}, {kDepth, 1});
  const auto b = StridedMemory(DType::kFloat32, {kDepth, kSize}, {kSize, 1});
  const auto c = StridedMemory(DType::kFloat32, {kSize, kSize}, {kSize, 1});
  const auto attr = MakeAttr();
  ASSERT_TRUE(a.ok() && b.ok() && c.ok() && attr.ok());
  const ScopedThreads threads(2);
  const auto desc = MakeMatmulDesc(*a, *b, MemoryLayout(), *c, attr->get(), [](absl::string_view) { return true; });
  ASSERT_TRUE(desc.ok()) << desc.status();
  const auto kernel = MakePrimitive(desc->get(), {{DNNL_ARG_SRC, *a}, {DNNL_ARG_WEIGHTS, *b}}, {{DNNL_ARG_DST, *c}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  std::vector<float> a_values(kSize * kDepth, 0x1p-70F);
  std::vector<float> b_values(kDepth * kSize, 0x1p-70F);
  std::vector<char> scratch((*kernel)->scratch_bytes());
  const auto count_zeros = [&](bool flush) {
    std::vector<float> values(kSize * kSize, 1.0F);
    void* in[] = {a_values.data(), b_values.data()};
    void* out = values.data();
    {
      const ScopedDenormalMode mode(flush);
      EXPECT_TRUE((*kernel)->Run({in, &out, scratch.data()}).ok());
    }
    return std::count(values.begin(), values.end(), 0.0F);
  };
  EXPECT_EQ(count_zeros(false), 0);
  EXPECT_EQ(count_zeros(true), kSize * kSize);
  EXPECT_EQ(count_zeros(false), 0);
}

}  // namespace
}  // namespace cotan::cpu::onednn
