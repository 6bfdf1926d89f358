// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/portable/portable_gemm.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace cotan::cpu {
namespace {

TEST(PortableGemmTest, AccumulatesBlocksOfALongSum) {
  constexpr int64_t kM = 7;
  constexpr int64_t kN = 150;
  constexpr int64_t kK = 300;
  std::vector<int64_t> a(kM * kK);
  std::vector<int64_t> b(kK * kN);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int64_t>(i % 13) - 6;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int64_t>(i % 17) - 8;
  constexpr int64_t kRow = kN + 3;
  std::vector<int64_t> c(kM * kRow, 5);
  std::vector<char> buffer(PortableGemmBytes(sizeof(int64_t)));
  // a is stored by columns.
  PortableGemm<int64_t>(kM, kN, kK, a.data(), {1, kM}, b.data(), {kN, 1}, c.data(), kRow, true, buffer.data());
  for (int64_t m = 0; m < kM; ++m) {
    for (int64_t n = 0; n < kRow; ++n) {
      int64_t expected = 5;
      for (int64_t k = 0; k < kK && n < kN; ++k) expected += a[k * kM + m] * b[k * kN + n];
      EXPECT_EQ(c[m * kRow + n], expected) << m << ", " << n;
    }
  }
}

}  // namespace
}  // namespace cotan::cpu
