// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/strided_storage.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace cotan::aot::pt2 {
namespace {

TEST(StridedStorageTest, CopiesBytes) {
  const auto storage = StorageFromBytes(std::string("\x01\x00\x02\x00", 4), DType::kInt16);
  ASSERT_TRUE(storage.ok()) << storage.status();
  EXPECT_TRUE(storage->equal(at::tensor({1, 2}, at::kShort)));
  EXPECT_EQ(StorageFromBytes("", DType::kFloat64)->numel(), 0);
  EXPECT_EQ(StorageFromBytes("abc", DType::kInt16).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StorageFromBytes("abc", DType::kUndefined).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(StridedStorageTest, ViewsWhatLiesWithin) {
  const at::Tensor storage = at::arange(6);
  EXPECT_TRUE(ViewOfStorage(storage, {{2, 2}, {1, 2}, 1})->equal(at::tensor({1, 3, 2, 4}, at::kLong).view({2, 2})));
  EXPECT_EQ(ViewOfStorage(storage, {{0}, {1}, 0})->numel(), 0);
}

TEST(StridedStorageTest, RefusesWhatLeavesTheStorage) {
  const at::Tensor storage = at::arange(6);
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  const std::vector<StridedLayout> refused = {{{7}, {1}, 0},
                                              {{2}, {6}, 0},
                                              {{1}, {1}, 6},
                                              {{2}, {kHuge}, 0},
                                              {{kHuge, 4}, {0, 0}, 0},
                                              {{2}, {1}, kHuge},
                                              {{2}, {-1}, 3},
                                              {{1}, {1}, -1},
                                              // LibTorch throws if the product of the other sizes exceeds int64.
                                              {{0, kHuge, 4}, {1, 1, 1}, 0},
                                              {DimVector(65, 1), DimVector(65, 1), 0}};
  for (const StridedLayout& layout : refused) {
    EXPECT_EQ(ViewOfStorage(storage, layout).status().code(), absl::StatusCode::kInvalidArgument) << ToString(layout);
  }
}

}  // namespace
}  // namespace cotan::aot::pt2
