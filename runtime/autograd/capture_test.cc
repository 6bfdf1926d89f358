// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/capture.h"

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

TEST(CaptureTest, SizesAboveOneAreNotPartOfTheKey) {
  CaptureRecord a, b;
  a.Sizes({2, 5});
  b.Sizes({3, 7});
  EXPECT_EQ(a.key(), b.key());
  EXPECT_NE(a.sizes(), b.sizes());
}

TEST(CaptureTest, RankZerosAndOnesArePartOfTheKey) {
  CaptureRecord a, b, c, d;
  a.Sizes({2, 5});
  b.Sizes({1, 5});
  c.Sizes({0, 5});
  d.Sizes({5});
  EXPECT_NE(a.key(), b.key());
  EXPECT_NE(a.key(), c.key());
  EXPECT_NE(b.key(), c.key());
  EXPECT_NE(a.key(), d.key());
}

TEST(CaptureTest, ClearDropsAllTensors) {
  CaptureRecord record;
  const Tensor tensor = Vector({1});
  record.AddInput(tensor);
  record.Size(3);
  record.Clear();
  EXPECT_EQ(tensor.storage().use_count(), 1);
  EXPECT_TRUE(record.key().empty());
  EXPECT_TRUE(record.sizes().empty());
}

}  // namespace
}  // namespace cotan::autograd
