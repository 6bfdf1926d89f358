// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/call_argument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <initializer_list>
#include <limits>

#include "base/dtype.h"

namespace cotan {
namespace {

using serialization::TensorType;

TensorType Type(serialization::DTypeProto dtype, std::initializer_list<const char*> sizes = {}) {
  TensorType type;
  type.set_dtype(dtype);
  for (const char* size : sizes) type.add_sizes(size);
  return type;
}

TEST(CallArgumentTest, NumbersKeepTheirValue) {
  EXPECT_EQ(*TensorOfNumber(0.1, Type(serialization::DTYPE_F64), "a")->Item<double>(), 0.1);
  EXPECT_TRUE(std::isnan(*TensorOfNumber(std::nan(""), Type(serialization::DTYPE_F64), "a")->Item<double>()));
  EXPECT_EQ(*TensorOfNumber(0.1, Type(serialization::DTYPE_F32), "a")->Item<float>(), 0.1f);
  const int64_t large = std::numeric_limits<int64_t>::min() + 1;
  EXPECT_EQ(*TensorOfNumber(large, Type(serialization::DTYPE_I64), "n")->Item<int64_t>(), large);
  EXPECT_EQ(*TensorOfNumber(true, Type(serialization::DTYPE_BOOL), "b")->Item<bool>(), true);
}

TEST(CallArgumentTest, AnIntegerIsADoubleIfThatHoldsIt) {
  EXPECT_EQ(*TensorOfNumber(int64_t{-3}, Type(serialization::DTYPE_F64), "a")->Item<double>(), -3);
  const absl::Status inexact = TensorOfNumber((int64_t{1} << 53) + 1, Type(serialization::DTYPE_F64), "a").status();
  EXPECT_EQ(inexact.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(inexact.message(), "argument 'a': f64 cannot hold 9007199254740993");
  EXPECT_FALSE(TensorOfNumber(std::numeric_limits<int64_t>::max(), Type(serialization::DTYPE_F64), "a").ok());
  EXPECT_FALSE(TensorOfNumber(int64_t{16777217}, Type(serialization::DTYPE_F32), "a").ok());
}

TEST(CallArgumentTest, AnIntegerThatDecidesSizesIsAnEmptyTensor) {
  const Tensor size = *TensorOfNumber(int64_t{5}, Type(serialization::DTYPE_I64, {"s0", "0"}), "n");
  EXPECT_EQ(size.ToString(), "i64[5,0]");
  EXPECT_FALSE(TensorOfNumber(int64_t{-1}, Type(serialization::DTYPE_I64, {"s0", "0"}), "n").ok());
}

TEST(CallArgumentTest, OtherKindsAreRefusedByTheNameOfTheInput) {
  EXPECT_EQ(TensorOfNumber(0.5, Type(serialization::DTYPE_I64), "n").status().message(),
            "argument 'n': expected i64[], got the number 0.5");
  EXPECT_EQ(TensorOfNumber(int64_t{2}, Type(serialization::DTYPE_F32, {"4"}), "x").status().message(),
            "argument 'x': expected f32[4], got the integer 2");
  EXPECT_EQ(TensorOfNumber(true, Type(serialization::DTYPE_F64), "a").status().message(),
            "argument 'a': expected f64[], got a bool");
  EXPECT_FALSE(TensorOfNumber(int64_t{1}, Type(serialization::DTYPE_BOOL), "b").ok());
}

}  // namespace
}  // namespace cotan
