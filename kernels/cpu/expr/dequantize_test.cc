// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/dequantize.h"

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/quantized_case.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT
using cotan::testing::ExprBuilder;
using cotan::testing::HostTensor;
using cotan::testing::MakeQuantizedMatrix;
using cotan::testing::QuantizedMatrix;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;

constexpr DType kF32 = DType::kFloat32;

absl::StatusOr<std::unique_ptr<Kernel>> MakeByTiles(const KernelRequest& request) { return MakeExprWith(request, {}); }

absl::StatusOr<std::unique_ptr<Kernel>> MakeAlone(const KernelRequest& request) {
  const absl::StatusOr<ExprProgram> program = ResolveExpr(request);
  if (!program.ok()) return program.status();
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakeDequantize(*program, request, MakeByTiles);
  if (kernel.ok() && *kernel == nullptr) return absl::UnimplementedError("not covered");
  return kernel;
}

// Expects the bits of the engine for all expressions, in rows that are `gap` elements longer in memory.
void ExpectTheSameBits(QuantizedMatrix matrix, int threads, int64_t gap = 0) {
  StridedLayout layout = {matrix.sizes, ContiguousStrides(matrix.sizes), 0};
  layout.strides[0] += gap;
  HostTensor expected(kF32, layout);
  HostTensor actual(kF32, layout);
  std::vector<HostTensor*> inputs;
  for (HostTensor& input : matrix.inputs) inputs.push_back(&input);
  absl::Status status = RunOp(MakeByTiles, matrix.op, inputs, {&expected});
  ASSERT_TRUE(status.ok()) << status;
  status = RunOp(MakeAlone, matrix.op, inputs, {&actual}, threads);
  ASSERT_TRUE(status.ok()) << status << " for " << cotan::testing::ToText(matrix.op.expr());
  EXPECT_TRUE(std::equal(actual.bytes().begin(), actual.bytes().end(), expected.bytes().begin()));
}

TEST(DequantizeTest, RowsAndGroupsOfAnySize) {
  std::mt19937_64 random(TestSeed());
  for (const int bits : {8, 4}) {
    for (const int64_t group : {2, 6, 16, 32, 34, 128}) {
      for (const int64_t groups : {1, 3}) {
        const auto rows = static_cast<int64_t>(1 + random() % 9);
        SCOPED_TRACE(::testing::Message()
                     << bits << " bits, " << rows << " rows of " << groups << " groups of " << group);
        ExpectTheSameBits(MakeQuantizedMatrix(rows, group * groups, bits, group, random), 1);
        ExpectTheSameBits(MakeQuantizedMatrix(rows, group * groups, bits, group, random, /*gap=*/5), 1, /*gap=*/3);
      }
    }
  }
}

TEST(DequantizeTest, ThreadsShareRows) {
  std::mt19937_64 random(TestSeed());
  for (const int bits : {8, 4}) ExpectTheSameBits(MakeQuantizedMatrix(1000, 768, bits, 32, random), 3);
}

TEST(DequantizeTest, OtherInstructionsForTheSameIntegers) {
  std::mt19937_64 random(TestSeed());
  // u8 with a zero point.
  ExprBuilder b({7, 40});
  const int integer = b.Cast(b.Input(0, DType::kUInt8), DType::kInt32);
  const int shifted = b.Sub(integer, b.Constant(DType::kInt32, 128));
  b.Output(b.Mul(b.Input(1, kF32), b.Cast(shifted, kF32)));
  QuantizedMatrix matrix = MakeQuantizedMatrix(7, 40, 8, 40, random);
  HostTensor data(DType::kUInt8, {7, 40});
  cotan::testing::FillRandom(data, random, 0, 256);
  ExpectTheSameBits({b.Build(), {std::move(data), std::move(matrix.inputs[1])}, {7, 40}}, 1);
  ExpectTheSameBits(MakeQuantizedMatrix(5, 96, 4, 32, random, 0, cotan::testing::HalvesBy::kPosition), 1);
}

TEST(DequantizeTest, OtherShiftsAreData) {
  std::mt19937_64 random(TestSeed());
  for (const std::vector<double>& shifts : {std::vector<double>{4, 0}, {0, 3}, {4, 4}}) {
    QuantizedMatrix matrix = MakeQuantizedMatrix(5, 96, 4, 32, random);
    matrix.inputs[2].SetValues(shifts);
    ExpectTheSameBits(std::move(matrix), 1);
  }
}

// Expects that the engine for all expressions is left to compute `op`.
void ExpectNotCovered(const serialization::Op& op, HostTensor data, HostTensor factor, HostTensor out) {
  EXPECT_EQ(RunOp(MakeAlone, op, {&data, &factor}, {&out}).code(), absl::StatusCode::kUnimplemented)
      << cotan::testing::ToText(op.expr());
  EXPECT_TRUE(RunOp(MakeExpr, op, {&data, &factor}, {&out}).ok());
}

TEST(DequantizeTest, OtherExpressionsAreNotCovered) {
  const auto op = [](auto value) {
    ExprBuilder b({4, 8});
    const int integer = b.Cast(b.Input(0, DType::kInt8), kF32);
    b.Output(value(b, integer, b.Input(1, kF32)));
    return b.Build();
  };
  const HostTensor data(DType::kInt8, {4, 8}, std::vector<double>(32, 3));
  const HostTensor factor(kF32, {4, 1}, std::vector<double>(4, 2));
  const HostTensor out(kF32, {4, 8});
  ExpectNotCovered(op([](ExprBuilder& b, int x, int s) { return b.Add(x, s); }), data, factor, out);
  ExpectNotCovered(op([](ExprBuilder& b, int x, int s) { return b.Mul(b.Mul(x, x), s); }), data, factor, out);
  ExpectNotCovered(op([](ExprBuilder& b, int x, int s) { return b.Mul(b.Apply(FN_EXP, {x}), s); }), data, factor, out);
  ExpectNotCovered(op([](ExprBuilder& b, int x, int s) { return b.Mul(b.Mul(x, b.Constant(kF32, 2)), s); }), data,
                   factor, out);
  // A factor per column, and bytes that are not dense along the rows.
  const auto plain = op([](ExprBuilder& b, int x, int s) { return b.Mul(x, s); });
  ExpectNotCovered(plain, data, HostTensor(kF32, StridedLayout{{4, 8}, {0, 1}}),
                   HostTensor(kF32, StridedLayout{{4, 8}, {1, 4}}));
}

}  // namespace
}  // namespace cotan::cpu::expr
