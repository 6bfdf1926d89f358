// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/sim_cudnn.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/cuda/convolution/convolution_problem.h"
#include "kernels/cuda/convolution/cudnn_convolution.h"
#include "kernels/cuda/cudnn/cudnn.h"
#include "kernels/cuda/cudnn/execution_plan.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda::sim {
namespace {

constexpr int64_t kAlignment = 16;

// A forward convolution of [4,32,14,14] with [64,32,3,3], row-major, for which cuDNN wants a workspace in bf16.
ConvolutionProblem SomeProblem(DType dtype) {
  ConvolutionProblem problem;
  problem.dtype = dtype;
  problem.spatial_dims = 2;
  problem.padding = {0, 1, 1};
  const auto operand = [](const DimVector& sizes) {
    return ConvolutionOperand{{sizes, ContiguousStrides(sizes), 0}, KernelArgument()};
  };
  problem.wide = operand({4, 32, 1, 14, 14});
  problem.weights = operand({64, 32, 1, 3, 3});
  problem.narrow = operand({4, 64, 1, 14, 14});
  return problem;
}

size_t Bytes(const ConvolutionOperand& operand, DType dtype) {
  return static_cast<size_t>(StorageExtent(operand.layout)) * ByteSize(dtype);
}

// A device of which memory and cuDNN work; calls run when they are queued.
class SimCudnnTest : public ::testing::Test {
 protected:
  SimCudnnTest() : memory_({.on_leak = [](absl::string_view) {}}) {
    driver_.cuMemAlloc_v2 = [this](driver::CUdeviceptr* address, size_t bytes) {
      *address = *memory_.Allocate(bytes - missing_workspace_bytes_, "workspace");
      return driver::CUDA_SUCCESS;
    };
    driver_.cuMemFree_v2 = [this](driver::CUdeviceptr address) {
      return memory_.Free(address).ok() ? driver::CUDA_SUCCESS : driver::CUDA_ERROR_INVALID_VALUE;
    };
  }

  void SetUp() override {
    absl::StatusOr<std::unique_ptr<SimCudnn>> sim =
        SimCudnn::Create([this](driver::CUstream, absl::string_view, auto function) { return function(memory_); });
    ASSERT_TRUE(sim.ok()) << sim.status();
    sim_ = *std::move(sim);
    absl::StatusOr<std::unique_ptr<Cudnn>> cudnn = Cudnn::Create(sim_->table(), driver_, nullptr);
    ASSERT_TRUE(cudnn.ok()) << cudnn.status();
    cudnn_ = *std::move(cudnn);
  }

  void TearDown() override {
    cudnn_.reset();
    EXPECT_EQ(sim_->num_live_objects(), 0);
  }

  // Allocates the operands of `problem`, filled with zeros except for the result.
  void Place(const ConvolutionProblem& problem) {
    const ConvolutionOperand* operands[] = {&problem.wide, &problem.weights, &problem.narrow};
    for (size_t i = 0; i < 3; ++i) {
      const size_t bytes = Bytes(*operands[i], problem.dtype);
      addresses_[i] = *memory_.Allocate(bytes, "operand " + std::to_string(i));
      if (operands[i] == &problem.Result()) continue;
      ASSERT_TRUE(memory_.Write(addresses_[i], std::vector<std::byte>(bytes)).ok());
    }
  }

  // Plans `problem` and executes it on addresses_.
  absl::Status Execute(const ConvolutionProblem& problem, bool reserve = true) {
    COTAN_ASSIGN_OR_RETURN(ExecutionPlan plan, CudnnConvolution(problem).MakePlan(*cudnn_, kAlignment));
    if (reserve) COTAN_RETURN_IF_ERROR(cudnn_->ReserveWorkspace(plan.workspace_bytes()));
    std::vector<void*> pointers;
    for (const int64_t id : ids_) {
      const uint64_t address = addresses_[(id - 1) % 3];
      pointers.push_back(reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
    }
    return plan.Execute(*cudnn_, ids_, pointers);
  }

  void ExpectFound(const absl::Status& status, absl::string_view text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), text)) << status;
  }

  DeviceMemory memory_;
  driver::DriverTable driver_;
  size_t missing_workspace_bytes_ = 0;
  std::unique_ptr<SimCudnn> sim_;
  std::unique_ptr<Cudnn> cudnn_;
  uint64_t addresses_[3] = {};
  std::vector<int64_t> ids_ = {1, 2, 3};  // of the variant pack
};

TEST_F(SimCudnnTest, ProductOfZerosIsWritten) {
  const ConvolutionProblem problem = SomeProblem(DType::kBFloat16);
  Place(problem);
  ASSERT_TRUE(Execute(problem).ok());
  std::vector<std::byte> result(Bytes(problem.narrow, problem.dtype));
  ASSERT_TRUE(memory_.Read(addresses_[2], absl::MakeSpan(result)).ok());
  EXPECT_EQ(result, std::vector<std::byte>(result.size()));
  EXPECT_EQ(sim_->num_executions(), 1);
}

TEST_F(SimCudnnTest, WorkspaceIsOverwritten) {
  const ConvolutionProblem problem = SomeProblem(DType::kBFloat16);
  Place(problem);
  ASSERT_TRUE(Execute(problem).ok());
  std::byte first{0};
  const auto workspace = reinterpret_cast<uint64_t>(cudnn_->workspace());
  ASSERT_TRUE(memory_.Read(workspace, absl::MakeSpan(&first, 1)).ok());
  EXPECT_NE(first, std::byte{0});
}

TEST_F(SimCudnnTest, MissingWorkspaceIsFound) {
  const ConvolutionProblem problem = SomeProblem(DType::kBFloat16);
  Place(problem);
  ExpectFound(Execute(problem, /*reserve=*/false), "the plan needs a workspace");
}

TEST_F(SimCudnnTest, TooSmallWorkspaceIsFound) {
  const ConvolutionProblem problem = SomeProblem(DType::kBFloat16);
  Place(problem);
  missing_workspace_bytes_ = kLanes * (size_t{1} << 20) - 256;  // of the workspaces of all lanes
  ExpectFound(Execute(problem), "workspace");
}

TEST_F(SimCudnnTest, ShrunkenAllocationsAreFound) {
  for (size_t i = 0; i < 3; ++i) {
    const ConvolutionProblem problem = SomeProblem(DType::kFloat32);
    Place(problem);
    const ConvolutionOperand* operands[] = {&problem.wide, &problem.weights, &problem.narrow};
    const size_t bytes = Bytes(*operands[i], problem.dtype) - sizeof(float);
    addresses_[i] = *memory_.Allocate(bytes, "shrunken operand");
    ASSERT_TRUE(memory_.Write(addresses_[i], std::vector<std::byte>(bytes)).ok());
    ExpectFound(Execute(problem), "shrunken operand");
  }
}

TEST_F(SimCudnnTest, WrongStrideIsFound) {
  ConvolutionProblem problem = SomeProblem(DType::kFloat32);
  Place(problem);
  problem.wide.layout.strides[0] += 1;
  ExpectFound(Execute(problem), "input 0");
}

TEST_F(SimCudnnTest, PointerWithLessAlignmentThanPromisedIsFound) {
  const ConvolutionProblem problem = SomeProblem(DType::kFloat32);
  Place(problem);
  addresses_[0] += 8;
  ExpectFound(Execute(problem), "is not aligned to 16 bytes");
}

TEST_F(SimCudnnTest, ResultOverAnInputIsFound) {
  const ConvolutionProblem problem = SomeProblem(DType::kFloat32);
  Place(problem);
  addresses_[0] = addresses_[2];
  ExpectFound(Execute(problem), "overlaps the result");
}

TEST_F(SimCudnnTest, InputThatNothingWroteIsFound) {
  const ConvolutionProblem problem = SomeProblem(DType::kFloat32);
  Place(problem);
  addresses_[1] = *memory_.Allocate(Bytes(problem.weights, problem.dtype), "unwritten operand");
  ExpectFound(Execute(problem), "unwritten operand");
}

TEST_F(SimCudnnTest, BiasIsAddedToEachChannelAndItsPointerIsNeeded) {
  ConvolutionProblem problem = SomeProblem(DType::kFloat32);
  problem.bias = ConvolutionOperand{{{64}, {1}, 0}, KernelArgument()};
  Place(problem);
  std::vector<float> bias(64);
  for (size_t c = 0; c < bias.size(); ++c) bias[c] = static_cast<float>(c);
  const uint64_t bias_address = *memory_.Allocate(bias.size() * sizeof(float), "bias");
  ASSERT_TRUE(memory_
                  .Write(bias_address, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(bias.data()),
                                                           bias.size() * sizeof(float)))
                  .ok());
  absl::StatusOr<ExecutionPlan> plan = CudnnConvolution(problem).MakePlan(*cudnn_, kAlignment);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_TRUE(cudnn_->ReserveWorkspace(plan->workspace_bytes()).ok());
  constexpr int64_t kBiasIds[] = {1, 2, 3, 4};
  std::vector<void*> pointers;
  for (const uint64_t address : {addresses_[0], addresses_[1], addresses_[2], bias_address}) {
    pointers.push_back(reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
  }
  ExpectFound(plan->Execute(*cudnn_, ids_, absl::MakeConstSpan(pointers).first(3)), "no pointer of tensor 4");
  ASSERT_TRUE(plan->Execute(*cudnn_, kBiasIds, pointers).ok());
  std::vector<float> result(4 * 64 * 14 * 14);
  ASSERT_TRUE(memory_
                  .Read(addresses_[2],
                        absl::MakeSpan(reinterpret_cast<std::byte*>(result.data()), result.size() * sizeof(float)))
                  .ok());
  for (size_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], bias[i / (14 * 14) % 64]) << i;
}

TEST_F(SimCudnnTest, PointersOfOtherTensorsThanThoseOfTheGraphAreFound) {
  const ConvolutionProblem problem = SomeProblem(DType::kFloat32);
  Place(problem);
  ids_ = {1, 2, 3, 9};
  ExpectFound(Execute(problem), "tensor 9, which the graph does not have in memory");
  ids_ = {1, 2, 3, 1};
  ExpectFound(Execute(problem), "two pointers of tensor 1");
}

TEST_F(SimCudnnTest, NullPointerIsFound) {
  const ConvolutionProblem problem = SomeProblem(DType::kFloat32);
  Place(problem);
  addresses_[1] = 0;
  ExpectFound(Execute(problem), "the address 0 of tensor 2");
}

TEST_F(SimCudnnTest, DestroyedHandleAndDescriptorAreFound) {
  const cudnn::CudnnTable& table = sim_->table();
  cudnn::cudnnHandle_t handle = nullptr;
  ASSERT_EQ(table.cudnnCreate(&handle), cudnn::CUDNN_STATUS_SUCCESS);
  ASSERT_EQ(table.cudnnDestroy(handle), cudnn::CUDNN_STATUS_SUCCESS);
  EXPECT_EQ(table.cudnnSetStream(handle, nullptr), cudnn::CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(table.cudnnBackendExecute(handle, nullptr, nullptr), cudnn::CUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(table.cudnnBackendDestroyDescriptor(&handle), cudnn::CUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace cotan::cuda::sim
