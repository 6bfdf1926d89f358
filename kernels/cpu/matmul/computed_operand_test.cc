// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/computed_operand.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/matmul/matmul.h"
#include "kernels/cpu/matmul/operand_blocks.h"
#include "kernels/cpu/portable/portable.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/quantized_case.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using testing::ErrorInUnits;
using testing::ExprBuilder;
using testing::HostTensor;
using testing::MakeQuantizedMatrix;
using testing::QuantizedMatrix;
using testing::RandomTensor;
using testing::TestSeed;

constexpr DType kF32 = DType::kFloat32;

using PairFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const ComputedOperandRequest& request);

// A product whose right matrix [k, n] is a quantized one, or its transpose.
struct Case {
  serialization::Op product;
  HostTensor left;
  std::vector<HostTensor> addend;  // none or one
  QuantizedMatrix right;
  StridedLayout right_layout;  // as the product reads it
  StridedLayout result;
};

// `group` is the number of elements with one factor.
Case MakeCase(int64_t m, int64_t k, int64_t n, bool transposed, int bits, int64_t group, std::mt19937_64& random) {
  Case made = {.product = {},
               .left = RandomTensor(kF32, {{m, k}, {k + 3, 1}, 0}, random),
               .addend = {},
               .right = transposed ? MakeQuantizedMatrix(n, k, bits, group, random, /*gap=*/1)
                                   : MakeQuantizedMatrix(k, n, bits, group, random, /*gap=*/1),
               .right_layout = {{k, n}, transposed ? DimVector{1, k} : DimVector{n, 1}, 0},
               .result = {{m, n}, {n + 2, 1}, 0}};
  made.product.mutable_matmul();
  return made;
}

// Runs a kernel that is prepared for the inputs; its scratch is filled with NaN.
absl::Status RunKernel(Kernel& kernel, const std::vector<void*>& inputs, HostTensor& output) {
  const size_t bytes = std::max<size_t>(kernel.scratch_bytes(), 64);
  void* const scratch = *HostDevice().Allocate(bytes);
  std::memset(scratch, 0xff, bytes);
  void* outputs[] = {output.data()};
  const absl::Status status = kernel.Run({inputs.data(), outputs, scratch});
  HostDevice().Free(scratch, bytes);
  return status;
}

struct Requests {
  std::vector<TensorSpec> product_inputs;
  std::vector<TensorSpec> expression_inputs;
  TensorSpec value;
  TensorSpec result;
  KernelRequest product;
  KernelRequest expression;

  Requests(const Case& made, int threads)
      : product_inputs{made.left.spec(), {kF32, made.right_layout}},
        value{kF32, {made.right.sizes, ContiguousStrides(made.right.sizes), 0}},
        result{kF32, made.result},
        product{.op = made.product, .inputs = {}, .outputs = {&result, 1}, .symbols = {}, .threads = threads},
        expression{.op = made.right.op, .inputs = {}, .outputs = {&value, 1}, .symbols = {}, .threads = threads} {
    for (const HostTensor& addend : made.addend) product_inputs.push_back(addend.spec());
    product.inputs = product_inputs;
    for (const HostTensor& input : made.right.inputs) expression_inputs.push_back(input.spec());
    expression.inputs = expression_inputs;
  }
  Requests(const Requests&) = delete;

  ComputedOperandRequest Pair() const { return {.product = product, .expression = expression}; }
};

// Returns the result of both ops by one kernel.
HostTensor Paired(Case& made, PairFactory make, int threads) {
  const Requests requests(made, threads);
  HostTensor result(kF32, made.result);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = make(requests.Pair());
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  std::vector<void*> inputs = {made.left.data()};
  for (HostTensor& addend : made.addend) inputs.push_back(addend.data());
  for (HostTensor& input : made.right.inputs) inputs.push_back(input.data());
  const absl::Status status = RunKernel(**kernel, inputs, result);
  EXPECT_TRUE(status.ok()) << status;
  return result;
}

// Returns the result of the ops, one after the other.
HostTensor Separate(Case& made, KernelFactory multiply) {
  const Requests requests(made, 1);
  HostTensor value(kF32, made.right.sizes);
  HostTensor result(kF32, made.result);
  std::vector<void*> right;
  for (HostTensor& input : made.right.inputs) right.push_back(input.data());
  EXPECT_TRUE(RunKernel(**MakeExpr(requests.expression), right, value).ok());
  std::vector<void*> inputs = {made.left.data(), value.data()};
  for (HostTensor& addend : made.addend) inputs.push_back(addend.data());
  EXPECT_TRUE(RunKernel(**multiply(requests.product), inputs, result).ok());
  return result;
}

void ExpectSameBits(const HostTensor& actual, const HostTensor& expected) {
  EXPECT_TRUE(std::equal(actual.bytes().begin(), actual.bytes().end(), expected.bytes().begin()));
}

bool HasAvx512() {
#ifdef __x86_64__
  return __builtin_cpu_supports("avx512f");
#else
  return false;
#endif
}

void ExpectProduct(Case made) {
  ASSERT_TRUE(TakesComputedOperand(Requests(made, 1).Pair()));
  const HostTensor portable = Separate(made, MakePortableMatmul);
  ExpectSameBits(Paired(made, MakePortableMatmulOfComputedOperand, 1), portable);
  ExpectSameBits(Paired(made, MakePortableMatmulOfComputedOperand, 3), portable);
  const HostTensor separate = Separate(made, MakeMatmul);
  const HostTensor paired = Paired(made, MakeMatmulOfComputedOperand, 1);
  if (HasAvx512() && made.left.layout().sizes[0] >= 48) ExpectSameBits(paired, separate);
  EXPECT_LE(ErrorInUnits(paired, separate.Values()), testing::kMatmul);
  for (const int threads : {2, 3, 7}) ExpectSameBits(Paired(made, MakeMatmulOfComputedOperand, threads), paired);
}

TEST(ComputedOperandTest, IntegersOfAnySizeBothWays) {
  std::mt19937_64 random(TestSeed());
  const auto size = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 24; ++i) {
    const int bits = i % 2 == 0 ? 8 : 4;
    const int64_t group = std::vector<int64_t>{2, 32, 48, 96}[random() % 4];
    const int64_t columns = group * size(500 / group, 1400 / group);
    const int64_t rows = size(90, 700);
    const int64_t m = i % 3 == 0 ? size(1, 47) : size(48, 130);
    const bool transposed = i % 4 < 2;
    const bool by_rows = bits == 8 && random() % 2 == 0;
    SCOPED_TRACE(::testing::Message() << bits << " bits, " << m << " x " << rows << " x " << columns << ", groups of "
                                      << group << (transposed ? ", transposed" : "") << (by_rows ? ", by rows" : ""));
    ExpectProduct(MakeCase(m, transposed ? columns : rows, transposed ? rows : columns, transposed, bits,
                           by_rows ? columns : group, random));
  }
}

TEST(ComputedOperandTest, AddendsOfRowsAndMatrices) {
  std::mt19937_64 random(TestSeed());
  for (const DimVector& sizes : {DimVector{200}, DimVector{60, 200}, DimVector{60, 1}}) {
    Case made = MakeCase(60, 640, 200, true, 4, 32, random);
    made.addend.push_back(RandomTensor(kF32, testing::DenseLayout(sizes), random));
    ExpectProduct(std::move(made));
  }
}

TEST(ComputedOperandTest, OneMatrixForABatch) {
  std::mt19937_64 random(TestSeed());
  for (const bool rows_are_one_matrix : {true, false}) {
    Case made = MakeCase(50, 640, 96, true, 8, 640, random);
    const DimVector strides =
        rows_are_one_matrix ? DimVector{50 * 640, 640, 1} : DimVector{640, 3 * 640, 1};  // [3, 50, 640]
    made.left = RandomTensor(kF32, {{3, 50, 640}, strides, 0}, random);
    made.result = {{3, 50, 96}, {50 * 96, 96, 1}, 0};
    ExpectProduct(std::move(made));
  }
}

TEST(ComputedOperandTest, ALeftMatrixOfAnyStridesIsPacked) {
  std::mt19937_64 random(TestSeed());
  Case made = MakeCase(50, 640, 96, true, 8, 640, random);
  made.left = RandomTensor(kF32, {{50, 640}, {1300, 2}, 0}, random);
  ExpectProduct(std::move(made));
}

TEST(ComputedOperandTest, AnyPointwiseExpressionIsComputed) {
  std::mt19937_64 random(TestSeed());
  Case made = MakeCase(64, 200, 300, false, 8, 300, random);
  ExprBuilder b({200, 300});
  const int weight = b.Cast(b.Input(0, DType::kInt8), kF32);
  b.Output(b.Add(b.Apply(serialization::FN_TANH, {weight}), b.Input(1, kF32)));
  made.right.op = b.Build();
  made.right.inputs[1] = RandomTensor(kF32, {{300}, {2}, 0}, random);  // one per column, broadcast along the rows
  ExpectProduct(std::move(made));
}

// A group of a whole row: the position selects half of a byte, so that rows are not cut.
TEST(ComputedOperandTest, PositionsAreNotCut) {
  std::mt19937_64 random(TestSeed());
  Case made = MakeCase(64, 640, 96, true, 4, 640, random);
  made.right = MakeQuantizedMatrix(96, 640, 4, 640, random, 0, testing::HalvesBy::kPosition);
  const auto blocks = FindOperandBlocks(Requests(made, 1).Pair());
  ASSERT_TRUE(blocks.has_value());
  EXPECT_EQ(blocks->depth, 640);
  EXPECT_EQ(blocks->k.dim, -1);
  ExpectProduct(made);
}

TEST(ComputedOperandTest, BlocksStayInTheSecondLevelCache) {
  std::mt19937_64 random(TestSeed());
  for (const bool transposed : {false, true}) {
    const Case made = MakeCase(128, 3072, 2304, transposed, 4, 32, random);
    const auto kernel = MakeMatmulOfComputedOperand(Requests(made, 1).Pair());
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    EXPECT_LE((*kernel)->scratch_bytes(), size_t{512} << 10);
  }
}

TEST(ComputedOperandTest, OtherPairsAreNotTaken) {
  std::mt19937_64 random(TestSeed());
  const auto takes = [](const Case& made) { return TakesComputedOperand(Requests(made, 1).Pair()); };
  const Case plain = MakeCase(64, 640, 96, true, 8, 640, random);
  EXPECT_TRUE(takes(plain));
  EXPECT_FALSE(takes(MakeCase(64, 64, 96, true, 8, 64, random))) << "no larger than a block";
  Case by_columns = plain;
  by_columns.result = {{64, 96}, {1, 64}, 0};
  EXPECT_FALSE(takes(by_columns)) << "a result that is stored by columns";
  Case repeated = plain;
  repeated.left = RandomTensor(kF32, {{2, 64, 640}, {0, 640, 1}, 0}, random);
  repeated.result = {{2, 64, 96}, {64 * 96, 96, 1}, 0};
  EXPECT_FALSE(takes(repeated)) << "the same product twice";
  Case random_weight = plain;
  ExprBuilder b({96, 640});
  b.Output(b.Random(0));
  random_weight.right.op = b.Build();
  random_weight.right.inputs[0] = HostTensor(DType::kInt64, {2});
  EXPECT_FALSE(takes(random_weight)) << "random numbers";
  EXPECT_EQ(MakeMatmulOfComputedOperand(Requests(by_columns, 1).Pair()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cpu
