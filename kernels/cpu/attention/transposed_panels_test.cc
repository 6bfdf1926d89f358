// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/transposed_panels.h"

#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd/gemm_core.h"

namespace cotan::cpu::attention {
namespace {

TEST(TransposedPanelsTest, AreThoseOfPackPanelsOrUntouched) {
  for (const int64_t depth : {1, 15, 16, 32, 50}) {
    for (const int64_t columns : {1, 16, 31, 32, 70}) {
      const int64_t stride = depth + 3;
      std::vector<float> from(static_cast<size_t>((columns - 1) * stride + depth));  // ends with the last element read
      std::iota(from.begin(), from.end(), 1.0F);
      const auto size = static_cast<size_t>(PackedSize<float>(depth, columns));
      std::vector<float> expected(size, -1), packed(size, -1);
      PackPanels(from.data(), 1, stride, depth, columns, expected.data());
      // Without AVX-512 nothing is packed.
      if (!PackTransposedPanels(from.data(), stride, depth, columns, packed.data())) expected.assign(size, -1);
      EXPECT_EQ(packed, expected) << depth << " x " << columns;
    }
  }
}

}  // namespace
}  // namespace cotan::cpu::attention
