// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/product_cases.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

std::vector<float> Random(int64_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<float> value(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) x = value(random);
  return values;
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
                            std::mt19937_64& random) {
  ProductCase p;
  p.geometry = MakeProductGeometry(batch, m, k, n, a_columns, b_columns, gap);
  const BatchLoop loop = p.geometry.batch[0];
  if (batch == 1) p.geometry.batch.clear();
  p.a = Random(batch * loop.a, random);
  p.b = Random(batch * loop.b, random);
  p.c = Random(batch * loop.c, random);
  p.bias = Random(n, random);
  return p;
}

std::vector<float> Multiply(const ProductCase& p, Addend addend, ProductFactory factory, int threads) {
  const std::unique_ptr<Kernel> kernel = factory(p.geometry, addend, threads);
  if (kernel == nullptr) return {};
  std::vector<float> c = p.c;
  const void* inputs[] = {p.a.data(), p.b.data(), p.bias.data()};
  void* outputs[] = {c.data()};
  const size_t bytes = kernel->scratch_bytes();
  void* const scratch = *HostDevice().Allocate(bytes);
  EXPECT_TRUE(kernel->Run({const_cast<void* const*>(inputs), outputs, scratch}).ok());
  HostDevice().Free(scratch, bytes);
  return c;
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
        ASSERT_NEAR(result[at], sum, testing::kMatmul * std::numeric_limits<float>::epsilon() * magnitude)
            << item << " " << i << " " << j;
        expected[at] = result[at];
      }
    }
  }
  EXPECT_EQ(result, expected) << "elements between the rows changed";
  for (int threads : {2, 3, 7}) EXPECT_EQ(Multiply(p, addend, factory, threads), result) << threads << " threads";
}

}  // namespace cotan::cpu
