// SPDX-License-Identifier: Apache-2.0

// Runs of products with a computed operand allocate nothing.
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/device.h"
#include "kernels/cpu/portable/portable.h"
#include "kernels/testing/quantized_case.h"

namespace {

int g_allocations = 0;

// Not inlined: the compiler would warn that free() does not match operator new.
[[gnu::noinline]] void Free(void* memory) { std::free(memory); }

}  // namespace

void* operator new(size_t bytes) {
  ++g_allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }

namespace cotan::cpu {
namespace {

TEST(ComputedOperandAllocationsTest, RunsAllocateNothing) {
  std::mt19937_64 random(testing::TestSeed());
  testing::QuantizedMatrix weight = testing::MakeQuantizedMatrix(96, 640, 4, 32, random);
  const std::vector<float> x(50 * 640);
  std::vector<float> y(50 * 96);
  const std::vector<TensorSpec> expression_inputs = {weight.inputs[0].spec(), weight.inputs[1].spec(),
                                                     weight.inputs[2].spec()};
  const TensorSpec value = {DType::kFloat32, {weight.sizes, ContiguousStrides(weight.sizes), 0}};
  const std::vector<TensorSpec> product_inputs = {{DType::kFloat32, {{50, 640}, {640, 1}, 0}},
                                                  {DType::kFloat32, {{640, 96}, {1, 640}, 0}}};
  const TensorSpec result = {DType::kFloat32, {{50, 96}, {96, 1}, 0}};
  serialization::Op matmul;
  matmul.mutable_matmul();
  const KernelRequest product = {.op = matmul, .inputs = product_inputs, .outputs = {&result, 1}, .symbols = {}};
  const KernelRequest expression = {
      .op = weight.op, .inputs = expression_inputs, .outputs = {&value, 1}, .symbols = {}};
  const auto kernel = MakePortableMatmulOfComputedOperand({.product = product, .expression = expression});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  void* const scratch = *HostDevice().Allocate((*kernel)->scratch_bytes());
  void* inputs[] = {const_cast<float*>(x.data()), weight.inputs[0].data(), weight.inputs[1].data(),
                    weight.inputs[2].data()};
  void* outputs[] = {y.data()};
  const int before = g_allocations;
  EXPECT_GT(before, 0);
  bool ok = true;
  for (int i = 0; i < 3; ++i) ok = ok && (*kernel)->Run({inputs, outputs, scratch}).ok();
  EXPECT_EQ(g_allocations - before, 0);
  EXPECT_TRUE(ok);
  HostDevice().Free(scratch, (*kernel)->scratch_bytes());
}

}  // namespace
}  // namespace cotan::cpu
