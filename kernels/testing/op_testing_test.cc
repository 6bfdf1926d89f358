// SPDX-License-Identifier: Apache-2.0

#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::testing {
namespace {

TEST(HostTensorTest, ValuesFollowTheStrides) {
  HostTensor tensor(DType::kInt16, StridedLayout{{2, 3}, {1, 4}});
  tensor.SetValues({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor.Values(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(static_cast<const int16_t*>(tensor.data())[1], 4);
  EXPECT_EQ(tensor.bytes().size(), 2u * 10);
}

TEST(HostTensorTest, RandomLayoutsHoldAllElements) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    HostTensor tensor(DType::kFloat32, RandomLayout({2, 3, 4}, random, i % 2 == 0, false));
    std::vector<double> values(24);
    for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<double>(k);
    tensor.SetValues(values);
    EXPECT_EQ(tensor.Values(), values);
  }
}

TEST(ExprBuilderTest, InfersDTypes) {
  ExprBuilder b({4});
  const int x = b.Input(0, DType::kFloat32);
  const int positive = b.Apply(serialization::FN_GT, {x, b.Constant(DType::kFloat32, 0)});
  b.Output(b.Apply(serialization::FN_SELECT, {positive, x, x}));
  EXPECT_EQ(b.dtype(positive), DType::kBool);
  EXPECT_EQ(b.dtype(3), DType::kFloat32);
  EXPECT_EQ(b.Build().expr().outputs(0), 3u);
}

}  // namespace
}  // namespace cotan::testing
