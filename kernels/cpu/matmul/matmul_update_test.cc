// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_update.h"

#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/matmul_epilogue.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using testing::DenseLayout;
using testing::ErrorInUnits;
using testing::ExprBuilder;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

constexpr DType kF32 = DType::kFloat32;

// Returns the epilogue of SGD with weight decay and momentum. Inputs: gradient, parameter, momentum, then the
// three factors. Outputs: momentum, parameter.
serialization::Expr SgdExpr(int64_t m, int64_t n) {
  ExprBuilder b({m, n});
  const int parameter = b.Input(1, kF32);
  const int decayed = b.Add(b.Input(0, kF32), b.Mul(b.Input(3, kF32), parameter));
  const int momentum = b.Add(b.Mul(b.Input(4, kF32), b.Input(2, kF32)), decayed);
  b.Output(momentum);
  b.Output(b.Sub(parameter, b.Mul(b.Input(5, kF32), momentum)));
  return b.expr();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeUpdate(const KernelRequest& request) {
  const absl::StatusOr<MatmulParts> parts = TakeApartMatmul(request);
  if (!parts.ok()) return parts.status();
  const absl::StatusOr<ExprProgram> program = ResolveExpr(parts->Epilogue(request));
  if (!program.ok()) return program.status();
  std::unique_ptr<Kernel> kernel = MakeMatmulUpdate(request, *program);
  if (kernel == nullptr) return absl::UnimplementedError("not covered");
  return kernel;
}

// Returns the layout of rows that are followed by a gap.
StridedLayout Padded(int64_t rows, int64_t columns, int64_t gap) { return {{rows, columns}, {columns + gap, 1}, 0}; }

class MatmulUpdateTest : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return;
#endif
    GTEST_SKIP() << "the machine has no AVX-512";
  }

  void Expect(int64_t m, int64_t n, int64_t k, bool a_by_columns, int64_t gap) {
    SCOPED_TRACE(::testing::Message() << m << " x " << n << " x " << k);
    serialization::Op op;
    *op.mutable_matmul()->mutable_epilogue() = SgdExpr(m, n);
    const DimVector columns = {1, 0};
    HostTensor a = RandomTensor(kF32, DenseLayout({m, k}, a_by_columns ? columns : DimVector{}), random_);
    HostTensor b = RandomTensor(kF32, Padded(k, n, gap), random_);
    HostTensor parameter = RandomTensor(kF32, Padded(m, n, gap), random_);
    HostTensor momentum = RandomTensor(kF32, Padded(m, n, 0), random_);
    HostTensor decay(kF32, {}, {0.1});
    HostTensor factor(kF32, {}, {0.9});
    HostTensor rate(kF32, {}, {0.3});
    const std::vector<HostTensor*> inputs = {&a, &b, &parameter, &momentum, &decay, &factor, &rate};
    HostTensor expected[2] = {{kF32, Padded(m, n, 0)}, {kF32, Padded(m, n, gap)}};
    ASSERT_TRUE(RunOp(reference::MakeMatmul, op, inputs, {&expected[0], &expected[1]}).ok());
    HostTensor first[2] = {{kF32, Padded(m, n, 0)}, {kF32, Padded(m, n, gap)}};
    const absl::Status status = RunOp(MakeUpdate, op, inputs, {&first[0], &first[1]});
    ASSERT_TRUE(status.ok()) << status;
    for (int i = 0; i < 2; ++i) {
      EXPECT_LE(ErrorInUnits(first[i], expected[i].Values()), testing::kMatmul);
      EXPECT_TRUE(GapsAreUntouched(first[i]));
    }
    for (const int threads : {2, 3, 5}) {
      HostTensor again[2] = {{kF32, Padded(m, n, 0)}, {kF32, Padded(m, n, gap)}};
      ASSERT_TRUE(RunOp(MakeUpdate, op, inputs, {&again[0], &again[1]}, threads).ok());
      for (int i = 0; i < 2; ++i) EXPECT_EQ(first[i].bytes(), again[i].bytes()) << threads << " threads";
    }
    ASSERT_TRUE(RunOp(MakeUpdate, op, inputs, {&momentum, &parameter}).ok());
    EXPECT_EQ(momentum.bytes(), first[0].bytes());
    EXPECT_EQ(parameter.Values(), first[1].Values());
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_F(MatmulUpdateTest, EqualsTheReferenceForAllSizesInAndOutOfPlace) {
  for (int i = 0; i < 200; ++i) {
    Expect(static_cast<int64_t>(random_() % 30), static_cast<int64_t>(random_() % 120),
           static_cast<int64_t>(random_() % 40), random_() % 2 == 0, static_cast<int64_t>(random_() % 3));
  }
}

TEST_F(MatmulUpdateTest, LargeUpdateIsSharedAmongThreads) { Expect(260, 784, 32, true, 0); }

TEST_F(MatmulUpdateTest, SumOverNothingLeavesTheUpdate) { Expect(9, 50, 0, false, 0); }

TEST_F(MatmulUpdateTest, OutputInTheMemoryOfALaterStepsInputIsRead) {
  // out 0 = product + x1 is stored in the memory of x2, which out 1 = out 0 + x2 still reads.
  ExprBuilder b({8, 48});
  const int sum = b.Add(b.Input(0, kF32), b.Input(1, kF32));
  b.Output(sum);
  b.Output(b.Add(sum, b.Input(2, kF32)));
  serialization::Op op;
  *op.mutable_matmul()->mutable_epilogue() = b.expr();
  HostTensor left = RandomTensor(kF32, DenseLayout({8, 4}), random_);
  HostTensor right = RandomTensor(kF32, DenseLayout({4, 48}), random_);
  HostTensor x1 = RandomTensor(kF32, DenseLayout({8, 48}), random_);
  HostTensor x2 = RandomTensor(kF32, DenseLayout({8, 48}), random_);
  HostTensor expected[2] = {{kF32, DenseLayout({8, 48})}, {kF32, DenseLayout({8, 48})}};
  ASSERT_TRUE(RunOp(MakeUpdate, op, {&left, &right, &x1, &x2}, {&expected[0], &expected[1]}).ok());
  HostTensor last(kF32, DenseLayout({8, 48}));
  ASSERT_TRUE(RunOp(MakeUpdate, op, {&left, &right, &x1, &x2}, {&x2, &last}).ok());
  EXPECT_EQ(x2.bytes(), expected[0].bytes());
  EXPECT_EQ(last.bytes(), expected[1].bytes());
}

TEST_F(MatmulUpdateTest, RightMatrixByColumnsIsNotCovered) {
  serialization::Op op;
  *op.mutable_matmul()->mutable_epilogue() = SgdExpr(8, 8);
  HostTensor a = RandomTensor(kF32, DenseLayout({8, 8}), random_);
  HostTensor b = RandomTensor(kF32, DenseLayout({8, 8}, {1, 0}), random_);
  HostTensor scalar(kF32, {}, {1});
  HostTensor out[2] = {{kF32, DenseLayout({8, 8})}, {kF32, DenseLayout({8, 8})}};
  const absl::Status status = RunOp(MakeUpdate, op, {&a, &b, &a, &a, &scalar, &scalar, &scalar}, {&out[0], &out[1]});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace cotan::cpu
