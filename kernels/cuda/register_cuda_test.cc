// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/register_cuda.h"

#include <memory>
#include <utility>
#include <vector>

#include "base/philox.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/matmul_cases.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cuda {
namespace {

using serialization::Op;

TEST(RegisterCudaKernels, RejectsASecondTime) {
  KernelRegistry registry;
  EXPECT_TRUE(RegisterCudaKernels(registry).ok());
  EXPECT_EQ(RegisterCudaKernels(registry).code(), absl::StatusCode::kAlreadyExists);
}

TEST(RegisterCudaKernels, FactoriesRejectTheHost) {
  KernelRegistry registry;
  ASSERT_TRUE(RegisterCudaKernels(registry).ok());
  const OpRequest request = MatmulRequest({Contiguous({2, 2}), Contiguous({2, 2})}, Contiguous({2, 2}));
  const KernelFactory factory = registry.Find(DeviceType::kCuda, Op::kMatmul, DType::kFloat32).value();
  EXPECT_EQ(factory(request.For(nullptr)).status().code(), absl::StatusCode::kInvalidArgument);
}

class KernelsOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<CudaDevice>> device = CudaDevice::Create();
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    ASSERT_TRUE(RegisterCudaKernels(registry_).ok());
  }

  // Runs the only op of `request` on the GPU; the first output starts as
  // zeros and has `output_size` elements.
  absl::StatusOr<std::vector<float>> Run(const OpRequest& request, const std::vector<std::vector<float>>& inputs,
                                         size_t output_size) {
    const KernelFactory factory = registry_.Find(DeviceType::kCuda, request.op.kind_case(), DType::kFloat32).value();
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = factory(request.For(device_.get()));
    if (!kernel.ok()) return kernel.status();
    std::vector<std::pair<void*, size_t>> allocated;
    const auto allocate = [&](size_t bytes) {
      void* memory = bytes == 0 ? nullptr : device_->Allocate(bytes).value();
      allocated.emplace_back(memory, bytes);
      return memory;
    };
    const auto upload = [&](const std::vector<float>& values) {
      void* memory = allocate(values.size() * sizeof(float));
      EXPECT_TRUE(device_->CopyFromHost(memory, values.data(), values.size() * sizeof(float)).ok());
      return memory;
    };
    std::vector<void*> input_pointers;
    for (const std::vector<float>& input : inputs) input_pointers.push_back(upload(input));
    std::vector<float> result(output_size);
    void* output = upload(result);
    const absl::Status status = (*kernel)->Run(
        {.inputs = input_pointers.data(), .outputs = &output, .scratch = allocate((*kernel)->scratch_bytes())});
    EXPECT_TRUE(device_->CopyToHost(result.data(), output, output_size * sizeof(float)).ok());
    for (const auto& [memory, bytes] : allocated) device_->Free(memory, bytes);
    if (!status.ok()) return status;
    return result;
  }

  std::unique_ptr<CudaDevice> device_;
  KernelRegistry registry_;
};

TEST_F(KernelsOnGpu, MatmulComputesWhatTheOpDefines) {
  for (const MatmulCase& test : MatmulCases()) {
    SCOPED_TRACE(test.name);
    const OpRequest request = MatmulRequest(test.inputs, test.output);
    std::vector<std::vector<float>> inputs;
    for (const StridedLayout& layout : test.inputs)
      inputs.push_back(TestValues(layout, static_cast<int>(inputs.size())));
    absl::StatusOr<std::vector<float>> result = Run(request, inputs, StorageExtent(test.output));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(*result, ExpectedMatmul(request, inputs));
  }
}

// relu(a @ b + row).
TEST_F(KernelsOnGpu, AnEpilogueFollowsItsProduct) {
  OpRequest request = MatmulRequest({Contiguous({5, 7}), Contiguous({7, 4}), Contiguous({4})}, Contiguous({5, 4}));
  std::vector<std::vector<float>> inputs;
  for (const TensorSpec& spec : request.inputs) {
    inputs.push_back(TestValues(spec.layout, static_cast<int>(inputs.size())));
  }
  std::vector<float> expected = ExpectedMatmul(request, inputs);
  for (float& value : expected) value = value < 0 ? 0.0f : value;
  testing::ExprBuilder b({5, 4});
  const int product = b.Input(0, DType::kFloat32), row = b.Input(1, DType::kFloat32);
  b.Output(b.Apply(serialization::FN_RELU, {b.Add(product, row)}));
  *request.op.mutable_matmul()->mutable_epilogue() = b.expr();
  absl::StatusOr<std::vector<float>> result = Run(request, inputs, 20);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, expected);
}

TEST_F(KernelsOnGpu, MatmulOfNoTermsIsZero) {
  const OpRequest request = MatmulRequest({Contiguous({3, 0}), Contiguous({0, 4})}, Contiguous({3, 4}));
  absl::StatusOr<std::vector<float>> result = Run(request, {{}, {}}, 12);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result, std::vector<float>(12));
}

// relu(x * y + row), with rounding after each step as on the CPU.
TEST_F(KernelsOnGpu, ExpressionEqualsTheHostBitForBit) {
  constexpr int kRows = 300, kColumns = 1000;
  testing::ExprBuilder b({kRows, kColumns});
  const int x = b.Input(0, DType::kFloat32), y = b.Input(1, DType::kFloat32), row = b.Input(2, DType::kFloat32);
  b.Output(b.Apply(serialization::FN_RELU, {b.Add(b.Mul(x, y), row)}));
  const TensorSpec matrix{DType::kFloat32, Contiguous({kRows, kColumns})};
  const OpRequest request{
      .op = b.Build(), .inputs = {matrix, matrix, {DType::kFloat32, Contiguous({kColumns})}}, .outputs = {matrix}};
  std::vector<std::vector<float>> inputs(3);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < kRows * kColumns; ++j) inputs[i].push_back(UniformFloat(Philox(i, j).lane[0]) - 0.5f);
  }
  for (int j = 0; j < kColumns; ++j) inputs[2].push_back(UniformFloat(Philox(2, j).lane[0]) - 0.5f);

  absl::StatusOr<std::vector<float>> result = Run(request, inputs, kRows * kColumns);
  ASSERT_TRUE(result.ok()) << result.status();
  for (int j = 0; j < kRows * kColumns; ++j) {
    const volatile float rounded = inputs[0][j] * inputs[1][j];
    const float expected = rounded + inputs[2][j % kColumns];
    ASSERT_EQ((*result)[j], expected < 0 ? 0.0f : expected) << j;
  }
}

}  // namespace
}  // namespace cotan::cuda
