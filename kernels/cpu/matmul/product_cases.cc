// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/product_cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/half.h"
#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

std::vector<float> Random(int64_t count, DType dtype, std::mt19937_64& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) {
    x = value(random);
    if (dtype == DType::kBFloat16) x = BFloat16ToFloat(FloatToBFloat16(x));
  }
  return values;
}

// Runs the kernel on matrices of T and returns the memory of the result.
template <typename T>
std::vector<T> Run(Kernel& kernel, const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& bias,
                   std::vector<T> c) {
  const void* inputs[] = {a.data(), b.data(), bias.data()};
  void* outputs[] = {c.data()};
  const size_t bytes = kernel.scratch_bytes();
  void* const scratch = *HostDevice().Allocate(bytes);
  EXPECT_TRUE(kernel.Run({const_cast<void* const*>(inputs), outputs, scratch}).ok());
  HostDevice().Free(scratch, bytes);
  return c;
}

std::vector<uint16_t> ToBFloat16(const std::vector<float>& values) {
  std::vector<uint16_t> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), FloatToBFloat16);
  return result;
}

std::vector<float> ToFloat(const std::vector<uint16_t>& values) {
  std::vector<float> result(values.size());
  std::transform(values.begin(), values.end(), result.begin(), BFloat16ToFloat);
  return result;
}

}  // namespace

MatmulGeometry MakeProductGeometry(int64_t batch, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns,
                                   int64_t gap) {
  MatmulGeometry g;
  g.m = m;
  g.k = k;
  g.n = n;
  g.a = a_columns ? MatrixStrides{1, m + gap} : MatrixStrides{k + gap, 1};
  g.b = b_columns ? MatrixStrides{1, k + gap} : MatrixStrides{n + gap, 1};
  g.c = {n + gap, 1};
  g.batch.push_back({batch, (m + gap) * (k + gap), (k + gap) * (n + gap), m * (n + gap)});
  return g;
}

ProductCase MakeProductCase(int64_t batch, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns, int64_t gap,
                            std::mt19937_64& random, DType dtype) {
  ProductCase p;
  p.dtype = dtype;
  p.geometry = MakeProductGeometry(batch, m, k, n, a_columns, b_columns, gap);
  const BatchLoop loop = p.geometry.batch[0];
  if (batch == 1) p.geometry.batch.clear();
  p.a = Random(batch * loop.a, dtype, random);
  p.b = Random(batch * loop.b, dtype, random);
  p.c = Random(batch * loop.c, dtype, random);
  p.bias = Random(n, dtype, random);
  return p;
}

std::vector<float> Multiply(const ProductCase& p, Addend addend, ProductFactory factory, int threads) {
  const std::unique_ptr<Kernel> kernel = factory(p.geometry, addend, threads);
  if (kernel == nullptr) return {};
  if (p.dtype == DType::kFloat32) return Run(*kernel, p.a, p.b, p.bias, p.c);
  return ToFloat(Run(*kernel, ToBFloat16(p.a), ToBFloat16(p.b), ToBFloat16(p.bias), ToBFloat16(p.c)));
}

void ExpectProduct(const ProductCase& p, Addend addend, ProductFactory factory) {
  SCOPED_TRACE(::testing::Message() << p.geometry.m << " " << p.geometry.k << " " << p.geometry.n << " a "
                                    << p.geometry.a.row << "," << p.geometry.a.column << " b " << p.geometry.b.row
                                    << "," << p.geometry.b.column << " addend " << static_cast<int>(addend));
  const std::vector<float> result = Multiply(p, addend, factory, 1);
  ASSERT_EQ(result.size(), p.c.size()) << "no kernel was made";
  const MatmulGeometry& g = p.geometry;
  std::vector<float> expected = p.c;
  for (int64_t item = 0; item < g.BatchSize(); ++item) {
    const BatchLoop loop = g.batch.empty() ? BatchLoop{1, 0, 0, 0} : g.batch[0];
    for (int64_t i = 0; i < g.m; ++i) {
      for (int64_t j = 0; j < g.n; ++j) {
        const auto at = static_cast<size_t>(item * loop.c + i * g.c.row + j);
        double sum = addend == Addend::kNone   ? 0.0
                     : addend == Addend::kBias ? p.bias[static_cast<size_t>(j)]
                                               : expected[at];
        double magnitude = std::abs(sum);
        for (int64_t k = 0; k < g.k; ++k) {
          const double product =
              static_cast<double>(p.a[static_cast<size_t>(item * loop.a + i * g.a.row + k * g.a.column)]) *
              static_cast<double>(p.b[static_cast<size_t>(item * loop.b + k * g.b.row + j * g.b.column)]);
          sum += product;
          magnitude += std::abs(product);
        }
        const double rounding = p.dtype == DType::kBFloat16 ? std::abs(sum) / 256 : 0;
        ASSERT_NEAR(result[at], sum, rounding + testing::kMatmul * std::numeric_limits<float>::epsilon() * magnitude)
            << item << " " << i << " " << j;
        expected[at] = result[at];
      }
    }
  }
  EXPECT_EQ(result, expected) << "elements between the rows changed";
  for (int threads : {2, 3, 7}) EXPECT_EQ(Multiply(p, addend, factory, threads), result) << threads << " threads";
}

}  // namespace cotan::cpu
