// SPDX-License-Identifier: Apache-2.0

#include "planning/index_range.h"

#include <initializer_list>
#include <string>

#include "base/dtype.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::ExprInstruction;
using serialization::ScalarFn;

// An expression over [6, symbol 0] of one output, its last instruction.
class Program {
 public:
  Program() {
    op_.mutable_expr()->add_domain_sizes("6");
    op_.mutable_expr()->add_domain_sizes("s0");
  }

  uint32_t Add(ScalarFn fn, std::initializer_list<uint32_t> operands, DType dtype = DType::kInt64) {
    ExprInstruction& instruction = *op_.mutable_expr()->add_instructions();
    instruction.set_fn(fn);
    instruction.set_dtype(static_cast<serialization::DTypeProto>(dtype));
    for (const uint32_t operand : operands) instruction.add_operands(operand);
    return static_cast<uint32_t>(op_.expr().instructions_size()) - 1;
  }
  uint32_t Constant(int64_t value, DType dtype = DType::kInt64) {
    const uint32_t at = Add(serialization::FN_CONSTANT, {}, dtype);
    op_.mutable_expr()->mutable_instructions(static_cast<int>(at))->set_int_value(value);
    return at;
  }
  uint32_t Iota(uint32_t dim) {
    const uint32_t at = Add(serialization::FN_IOTA, {});
    op_.mutable_expr()->mutable_instructions(static_cast<int>(at))->set_index(dim);
    return at;
  }
  uint32_t Input(DType dtype = DType::kInt64) { return Add(serialization::FN_INPUT, {}, dtype); }

  IndexRange Range(int64_t symbol = 5) {
    op_.mutable_expr()->clear_outputs();
    op_.mutable_expr()->add_outputs(static_cast<uint32_t>(op_.expr().instructions_size()) - 1);
    return RangeOfOutput(op_, 0, {symbol});
  }

 private:
  serialization::Op op_;
};

TEST(IndexRangeTest, PositionsAreBelowTheSizesOfTheCall) {
  Program fixed;
  fixed.Iota(0);
  EXPECT_EQ(fixed.Range(), (IndexRange{0, 5}));
  Program dynamic;
  dynamic.Iota(1);
  EXPECT_EQ(dynamic.Range(9), (IndexRange{0, 8}));
  EXPECT_EQ(dynamic.Range(0), (IndexRange{0, 0}));
}

// The taps of adaptive_avg_pool2d from 7 to 4 positions: min(7 i / 4 + tap, (7 i + 10) / 4 - 1).
TEST(IndexRangeTest, TapsOfAnAdaptivePoolAreInsideOfTheInput) {
  Program p;
  const uint32_t start = p.Add(serialization::FN_MUL, {p.Iota(0), p.Constant(7)});
  const uint32_t four = p.Constant(4);
  const uint32_t end =
      p.Add(serialization::FN_FLOOR_DIV, {p.Add(serialization::FN_ADD, {start, p.Constant(10)}), four});
  const uint32_t last = p.Add(serialization::FN_SUB, {end, p.Constant(1)});
  const uint32_t first = p.Add(serialization::FN_FLOOR_DIV, {start, four});
  p.Add(serialization::FN_MINIMUM, {p.Add(serialization::FN_ADD, {first, p.Iota(1)}), last});
  EXPECT_EQ(p.Range(3), (IndexRange{0, 10}));  // positions 0 to 5: 35 / 4 + 2 = 10, 45 / 4 - 1 = 10
}

TEST(IndexRangeTest, QuotientsRoundDownOrTowardZero) {
  Program down;
  const uint32_t numbers = down.Add(serialization::FN_SUB, {down.Iota(0), down.Constant(3)});
  down.Add(serialization::FN_FLOOR_DIV, {numbers, down.Constant(2)});
  EXPECT_EQ(down.Range(), (IndexRange{-2, 1}));
  Program to_zero;
  const uint32_t same = to_zero.Add(serialization::FN_SUB, {to_zero.Iota(0), to_zero.Constant(3)});
  to_zero.Add(serialization::FN_TRUNC_DIV, {same, to_zero.Constant(2)});
  EXPECT_EQ(to_zero.Range(), (IndexRange{-1, 1}));
}

TEST(IndexRangeTest, AClampedInputIsBounded) {
  for (const DType dtype : {DType::kInt64, DType::kInt32}) {
    Program p;
    const uint32_t below = p.Add(serialization::FN_MINIMUM, {p.Input(dtype), p.Constant(8, dtype)}, dtype);
    p.Add(serialization::FN_MAXIMUM, {below, p.Constant(0, dtype)}, dtype);
    EXPECT_EQ(p.Range(), (IndexRange{0, 8}));
  }
}

TEST(IndexRangeTest, RemaindersAreBelowTheDivisor) {
  Program p;
  p.Add(serialization::FN_REMAINDER, {p.Input(), p.Constant(4)});
  EXPECT_EQ(p.Range(), (IndexRange{0, 3}));
}

TEST(IndexRangeTest, InputsAndFloatsAreUnknown) {
  Program input;
  input.Add(serialization::FN_ADD, {input.Input(), input.Constant(1)});
  EXPECT_EQ(input.Range(), IndexRange());
  Program cast;
  const uint32_t clamped =
      cast.Add(serialization::FN_MINIMUM, {cast.Input(DType::kFloat32), cast.Input(DType::kFloat32)}, DType::kFloat32);
  cast.Add(serialization::FN_CAST, {clamped});
  EXPECT_EQ(cast.Range(), IndexRange());
}

TEST(IndexRangeTest, WhatMayWrapAroundIsAnyValueOfItsDType) {
  Program narrow;
  narrow.Add(serialization::FN_MUL, {narrow.Constant(1 << 20, DType::kInt32), narrow.Constant(1 << 20, DType::kInt32)},
             DType::kInt32);
  EXPECT_EQ(narrow.Range(), (IndexRange{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()}));
  Program wide;
  wide.Add(serialization::FN_MUL, {wide.Constant(int64_t{1} << 40), wide.Constant(int64_t{1} << 40)});
  EXPECT_EQ(wide.Range(), IndexRange());
}

TEST(IndexRangeTest, ADivisorThatMayBeZeroLeavesTheQuotientUnknown) {
  Program p;
  p.Add(serialization::FN_FLOOR_DIV, {p.Constant(8), p.Iota(0)});
  EXPECT_EQ(p.Range(), IndexRange());
}

}  // namespace
}  // namespace cotan
