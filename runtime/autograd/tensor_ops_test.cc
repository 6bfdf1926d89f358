// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/tensor_ops.h"

#include <complex>
#include <vector>

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

Tensor Seen(const Tensor& tensor, StridedLayout layout) {
  return *Tensor::InStorage(tensor.storage(), tensor.dtype(), std::move(layout));
}

TEST(TensorOpsTest, MakesZerosAndOnesOfEveryDtype) {
  for (int i = 1; i < kNumDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(DTypeName(dtype));
    const absl::StatusOr<Tensor> zeros = Ops().Zeros(dtype, {2, 3});
    ASSERT_TRUE(zeros.ok()) << zeros.status();
    const auto* bytes = static_cast<const char*>(zeros->storage()->data());
    EXPECT_TRUE(std::all_of(bytes, bytes + zeros->storage()->bytes(), [](char byte) { return byte == 0; }));
    const absl::StatusOr<Tensor> ones = Ops().Ones(dtype, {3});
    ASSERT_TRUE(ones.ok()) << ones.status();
    EXPECT_THAT(ToVector(*Ops().Cast(*ones, DType::kFloat32)), ElementsAre(1, 1, 1));
  }
  EXPECT_EQ(Ops().Zeros(DType::kFloat32, {0, 3})->num_elements(), 0);
}

TEST(TensorOpsTest, CopiesBetweenLayoutsAndBroadcasts) {
  const Tensor from = Count({2, 3});
  const Tensor columns = Seen(*Tensor::Empty(DType::kFloat32, {6}), {.sizes = {2, 3}, .strides = {1, 2}});
  ASSERT_TRUE(Ops().Copy(from, columns).ok());
  EXPECT_EQ(ToVector(columns), ToVector(from));
  EXPECT_THAT(ToVector(Seen(columns, {.sizes = {6}, .strides = {1}})), ElementsAre(0, 3, 1, 4, 2, 5));

  const Tensor rows = *Ops().Zeros(DType::kFloat32, {2, 3});
  ASSERT_TRUE(Ops().Copy(Vector({7, 8, 9}), rows).ok());
  EXPECT_THAT(ToVector(rows), ElementsAre(7, 8, 9, 7, 8, 9));
  EXPECT_THAT(Ops().Copy(Vector({7, 8}), rows),
              Fails(absl::StatusCode::kInvalidArgument, "sizes [2] do not broadcast to [2,3]"));
}

TEST(TensorOpsTest, CastsBetweenRealAndComplex) {
  const Tensor real = Vector({1, 2});
  const Tensor complex = *Ops().Cast(real, DType::kComplex64);
  EXPECT_THAT(*complex.ToVector<std::complex<float>>(),
              ElementsAre(std::complex<float>(1, 0), std::complex<float>(2, 0)));
  const Tensor numbers = *Tensor::From<std::complex<float>>({{1, 5}, {2, 6}}, {2});
  EXPECT_THAT(ToVector(*Ops().Cast(numbers, DType::kFloat32)), ElementsAre(1, 2));
  EXPECT_THAT(*Ops().Cast(numbers, DType::kComplex128)->ToVector<std::complex<double>>(),
              ElementsAre(std::complex<double>(1, 5), std::complex<double>(2, 6)));
  EXPECT_THAT(*Ops().Cast(Vector({0, 2.5f}), DType::kInt64)->ToVector<int64_t>(), ElementsAre(0, 2));
}

TEST(TensorOpsTest, AddsAndSumsComplexNumbers) {
  const Tensor a = *Tensor::From<std::complex<float>>({{1, 5}, {2, 6}}, {2});
  const Tensor sum = *Ops().Add(a, a);
  EXPECT_THAT(*sum.ToVector<std::complex<float>>(),
              ElementsAre(std::complex<float>(2, 10), std::complex<float>(4, 12)));
  EXPECT_EQ(*Ops().SumTo(a, {})->Item<std::complex<float>>(), std::complex<float>(3, 11));
}

TEST(TensorOpsTest, ReadsAndWritesConjugatesAsSuch) {
  using Complex = std::complex<float>;
  const Tensor plain = *Tensor::From<Complex>({{1, 5}, {2, 6}}, {2});
  const Tensor conjugate = *ViewOf(plain, view::Conjugate{});
  EXPECT_THAT(*Ops().Clone(conjugate)->ToVector<Complex>(), ElementsAre(Complex(1, -5), Complex(2, -6)));
  EXPECT_THAT(*Ops().Add(plain, conjugate)->ToVector<Complex>(), ElementsAre(Complex(2, 0), Complex(4, 0)));
  EXPECT_THAT(*Ops().SumTo(conjugate, {})->ToVector<Complex>(), ElementsAre(Complex(3, -11)));
  const Tensor written = *Ops().Zeros(DType::kComplex64, {2});
  ASSERT_TRUE(Ops().Copy(plain, written.WithConjNegBits({.conjugate = true})).ok());
  EXPECT_THAT(*written.ToVector<Complex>(), ElementsAre(Complex(1, -5), Complex(2, -6)));
  ASSERT_TRUE(Ops().AddTo(conjugate, written.WithConjNegBits({.conjugate = true})).ok());
  EXPECT_THAT(*written.ToVector<Complex>(), ElementsAre(Complex(2, 0), Complex(4, 0)));
  EXPECT_TRUE(ViewOf(conjugate, view::Conjugate{})->is_plain());
  EXPECT_THAT(ViewOf(conjugate, view::ViewAsReal{}).status(),
              Fails(absl::StatusCode::kFailedPrecondition, "view a copy of it"));
}

TEST(TensorOpsTest, AddsInPlaceAlsoWhereElementsShareMemory) {
  const Tensor memory = Vector({10, 20, 30, 40});
  ASSERT_TRUE(Ops().AddTo(Vector({1, 2, 3, 4}), memory).ok());
  EXPECT_THAT(ToVector(memory), ElementsAre(11, 22, 33, 44));
  // Windows of two elements: each inner element is in two windows.
  const Tensor windows = Seen(memory, {.sizes = {3, 2}, .strides = {1, 1}});
  ASSERT_TRUE(Ops().AddTo(*Ops().Ones(DType::kFloat32, {3, 2}), windows).ok());
  EXPECT_THAT(ToVector(memory), ElementsAre(12, 24, 35, 45));
  const Tensor repeated = Seen(memory, {.sizes = {5}, .strides = {0}});
  ASSERT_TRUE(Ops().AddTo(Count({5}), repeated).ok());
  EXPECT_THAT(ToVector(memory), ElementsAre(22, 24, 35, 45));
}

TEST(TensorOpsTest, DividesBothPartsOfComplexNumbers) {
  const Tensor numbers = *Tensor::From<std::complex<float>>({{1, 5}, {2, 6}}, {2});
  const Tensor counts = *Tensor::From<std::complex<float>>({{1, 0}, {2, 0}}, {2});
  ASSERT_TRUE(Ops().DivideBy(counts, numbers).ok());
  EXPECT_THAT(*numbers.ToVector<std::complex<float>>(),
              ElementsAre(std::complex<float>(1, 5), std::complex<float>(1, 3)));
}

TEST(TensorOpsTest, SumsWhatBroadcastingStretched) {
  const Tensor x = Count({2, 3});
  EXPECT_THAT(ToVector(*Ops().SumTo(x, {3})), ElementsAre(3, 5, 7));
  EXPECT_THAT(ToVector(*Ops().SumTo(x, {2, 1})), ElementsAre(3, 12));
  EXPECT_THAT(ToVector(*Ops().SumTo(x, {})), ElementsAre(15));
  EXPECT_THAT(ToVector(*Ops().SumTo(Count({1, 3}), {3})), ElementsAre(0, 1, 2));
  EXPECT_THAT(ToVector(*Ops().SumTo(*Tensor::Empty(DType::kFloat32, {0, 2}), {2})), ElementsAre(0, 0));
  EXPECT_EQ(Ops().SumTo(x, {2, 3})->storage(), x.storage());
  EXPECT_THAT(Ops().SumTo(x, {4}).status(), Fails(absl::StatusCode::kInvalidArgument, "do not broadcast"));
}

TEST(TensorOpsTest, KeepsAFewKernels) {
  TensorOps ops(CpuKernels());
  for (int repeat = 0; repeat < 3; ++repeat) {
    ASSERT_TRUE(ops.Add(Count({2, 3}), Count({2, 3})).ok());
    EXPECT_EQ(ops.num_prepared(), 1);
  }
  for (int64_t size = 1; size < 2 * TensorOps::kMaxPrepared; ++size)
    ASSERT_TRUE(ops.Zeros(DType::kFloat32, {size}).ok());
  EXPECT_LE(ops.num_prepared(), TensorOps::kMaxPrepared);
}

TEST(TensorOpsTest, ADtypeWithoutKernelIsAnError) {
  const KernelRegistry empty;
  TensorOps ops(empty);
  EXPECT_THAT(ops.Zeros(DType::kFloat32, {2}).status(), Fails(absl::StatusCode::kNotFound, "expr"));
}

}  // namespace
}  // namespace cotan::autograd
