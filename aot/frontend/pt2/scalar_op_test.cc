// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/scalar_op.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace cotan::aot::pt2 {
namespace {

using c10::IValue;

TEST(ScalarOpTest, ComputesAsPythonDoes) {
  EXPECT_EQ(RunScalarOp("_operator.add", {2, 3}).toInt(), 5);
  EXPECT_EQ(RunScalarOp("_operator.sub", {2, 3}).toInt(), -1);
  EXPECT_EQ(RunScalarOp("_operator.mul", {2, 1.5}).toDouble(), 3.0);
  EXPECT_EQ(RunScalarOp("_operator.floordiv", {-7, 2}).toInt(), -4);
  EXPECT_EQ(RunScalarOp("_operator.floordiv", {7, 2}).toInt(), 3);
  EXPECT_EQ(RunScalarOp("_operator.mod", {-7, 3}).toInt(), 2);
  EXPECT_EQ(RunScalarOp("_operator.mod", {7, -3}).toInt(), -2);
  EXPECT_EQ(RunScalarOp("_operator.truediv", {7, 2}).toDouble(), 3.5);
  EXPECT_EQ(RunScalarOp("_operator.pow", {3, 4}).toInt(), 81);
  EXPECT_EQ(RunScalarOp("_operator.neg", {5}).toInt(), -5);
  EXPECT_TRUE(RunScalarOp("_operator.ge", {5, 5}).toBool());
  EXPECT_EQ(RunScalarOp("torch.sym_max", {5, 7}).toInt(), 7);
  EXPECT_EQ(RunScalarOp("torch.sym_ite", {true, 5, 7}).toInt(), 5);
  EXPECT_EQ(RunScalarOp("math.ceil", {3.25}).toInt(), 4);
  EXPECT_EQ(RunScalarOp("math.floor", {-3.25}).toInt(), -4);
  EXPECT_EQ(RunScalarOp("torch.sym_int", {-3.75}).toInt(), -3);
}

TEST(ScalarOpTest, KnowsItsOps) {
  EXPECT_TRUE(IsScalarOp("_operator.mul"));
  EXPECT_FALSE(IsScalarOp("_operator.matmul"));
  EXPECT_FALSE(IsScalarOp("torch.ops.aten.mul.Tensor"));
}

TEST(ScalarOpTest, ThrowsWhereThereIsNoResult) {
  EXPECT_THROW(RunScalarOp("_operator.floordiv", {1, 0}), std::invalid_argument);
  EXPECT_THROW(RunScalarOp("_operator.mod", {1, 0}), std::invalid_argument);
  EXPECT_THROW(RunScalarOp("_operator.add", {1}), std::invalid_argument);
  EXPECT_THROW(RunScalarOp("_operator.add", {1, "two"}), std::invalid_argument);
  EXPECT_THROW(RunScalarOp("_operator.pow", {10, 100}), std::invalid_argument);
}

TEST(ScalarOpTest, ResultsBeyond64BitsAreErrors) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  const auto refused = [](const char* op, const std::vector<IValue>& operands) {
    EXPECT_THROW(RunScalarOp(op, operands), std::invalid_argument) << op;
  };
  refused("_operator.add", {kMax, 1});
  refused("_operator.sub", {kMin, 1});
  refused("_operator.mul", {kMax, 2});
  refused("_operator.neg", {kMin});
  refused("_operator.floordiv", {kMin, -1});
  refused("_operator.pow", {2, kMax});
  refused("math.ceil", {1e300});
  refused("torch.sym_int", {std::numeric_limits<double>::quiet_NaN()});
  EXPECT_EQ(RunScalarOp("_operator.floordiv", {kMax, -1}).toInt(), -kMax);
  EXPECT_EQ(RunScalarOp("_operator.mod", {kMin, -1}).toInt(), 0);
  EXPECT_EQ(RunScalarOp("_operator.pow", {-1, kMax}).toInt(), -1);
  EXPECT_EQ(RunScalarOp("_operator.pow", {2, 62}).toInt(), int64_t{1} << 62);
}

}  // namespace
}  // namespace cotan::aot::pt2
