// SPDX-License-Identifier: Apache-2.0

// Eigen takes memory from malloc() where a product or a temporary is larger than it expects. The linker replaces
// malloc() by the function below (--wrap), which counts.
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cpu/linear_algebra/linear_algebra.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"

namespace {

int g_allocations = 0;

// Not inlined: the compiler would warn that free() does not match operator new.
[[gnu::noinline]] void Free(void* memory) { std::free(memory); }

}  // namespace

extern "C" {
void* __real_malloc(size_t bytes);                 // NOLINT: the linker's name
void* __real_realloc(void* memory, size_t bytes);  // NOLINT
void* __real_calloc(size_t count, size_t bytes);   // NOLINT
void* __wrap_malloc(size_t bytes) {                // NOLINT
  ++g_allocations;
  return __real_malloc(bytes);
}
void* __wrap_realloc(void* memory, size_t bytes) {  // NOLINT
  ++g_allocations;
  return __real_realloc(memory, bytes);
}
void* __wrap_calloc(size_t count, size_t bytes) {  // NOLINT
  ++g_allocations;
  return __real_calloc(count, bytes);
}
}

void* operator new(size_t bytes) { return __wrap_malloc(bytes == 0 ? 1 : bytes); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }

namespace cotan::cpu {
namespace {

using serialization::LinearAlgebra;
using serialization::Op;
using testing::HostTensor;

// The sizes of the operands of a function on a matrix of 300 rows.
struct Case {
  LinearAlgebra::Function function;
  std::vector<DimVector> inputs, outputs;
};

TEST(AllocationTest, RunAllocatesNothing) {
  constexpr int64_t kN = 300;
  const DimVector square = {kN, kN}, vector = {kN};
  const std::vector<Case> cases = {
      {LinearAlgebra::EIGH, {square}, {vector, square}},
      {LinearAlgebra::SVD, {square}, {vector, square, square}},
      {LinearAlgebra::QR, {square}, {square, square}},
      {LinearAlgebra::LU, {square}, {square, vector, {}}},
      {LinearAlgebra::CHOLESKY, {square}, {square, {}}},
      {LinearAlgebra::LU_SOLVE, {square, vector, square}, {square}},
      {LinearAlgebra::TRIANGULAR_SOLVE, {square, square}, {square}},
  };
  std::mt19937_64 random(testing::TestSeed());
  for (const Case& c : cases) {
    Op op;
    op.mutable_linear_algebra()->set_function(c.function);
    SCOPED_TRACE(LinearAlgebra::Function_Name(c.function));
    std::vector<HostTensor> inputs, outputs;
    for (const DimVector& sizes : c.inputs) {
      inputs.push_back(sizes.size() == 2 ? testing::RandomTensor(DType::kFloat64, testing::DenseLayout(sizes), random)
                                         : HostTensor(DType::kInt32, sizes, std::vector<double>(kN, kN)));
    }
    if (c.function == LinearAlgebra::CHOLESKY) {
      std::vector<double> values = inputs[0].Values();
      for (size_t i = 0; i < kN; ++i) values[i * kN + i] += kN;
      inputs[0].SetValues(values);
    }
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const bool is_integer = i > 0 && (c.function == LinearAlgebra::LU || c.function == LinearAlgebra::CHOLESKY);
      outputs.emplace_back(is_integer ? DType::kInt32 : DType::kFloat64, c.outputs[i]);
    }
    std::vector<TensorSpec> in_specs, out_specs;
    std::vector<void*> in, out;
    for (HostTensor& tensor : inputs) in_specs.push_back(tensor.spec()), in.push_back(tensor.data());
    for (HostTensor& tensor : outputs) out_specs.push_back(tensor.spec()), out.push_back(tensor.data());
    const auto kernel = MakeLinearAlgebra({.op = op, .inputs = in_specs, .outputs = out_specs, .symbols = {}});
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    std::vector<char> scratch((*kernel)->scratch_bytes() + 64);
    void* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
    const int before = g_allocations;
    EXPECT_GT(before, 0);
    ASSERT_TRUE((*kernel)->Run({in.data(), out.data(), aligned}).ok());
    EXPECT_EQ(g_allocations - before, 0);
  }
}

}  // namespace
}  // namespace cotan::cpu
