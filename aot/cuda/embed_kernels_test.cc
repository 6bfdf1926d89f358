// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/embed_kernels.h"

#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/session.h"
#include "runtime/testing/program_builder.h"
#include "serialization/container/container.h"

namespace cotan::aot {
namespace {

using cuda::testing::SimDevice;
using testing::MethodBuilder;
using testing::ProgramBuilder;

TEST(EmbedKernelsTest, ASessionTakesAllKernelsFromTheFile) {
  absl::StatusOr<std::string> bytes =
      EmbedCudaKernels(testing::LinearRegression().Bytes(), {.compute_capabilities = {90}, .sizes = {{2}}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  absl::StatusOr<std::shared_ptr<const Program>> program = Program::LoadBytes(*std::move(bytes));
  ASSERT_TRUE(program.ok()) << program.status();
  const std::unique_ptr<SimDevice> gpu = *SimDevice::Create({});
  Session session = *Session::Create(*program, {.kernels = &CudaKernels(), .device = &gpu->device()});
  const auto results = session.Run(
      "train_step", {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3}), *Tensor::From<float>({1, 0, 0, 1}, {2, 2})});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(session.Synchronize().ok());
  EXPECT_GT(gpu->device().kernels().statistics().from_images, 0);
  EXPECT_EQ(gpu->device().kernels().statistics().compiled, 0);
}

TEST(EmbedKernelsTest, ImagesAreForTheGivenArchitecturesAndPtxForTheHighest) {
  const absl::StatusOr<std::string> bytes =
      EmbedCudaKernels(testing::LinearRegression().Bytes(), {.compute_capabilities = {80, 90}, .sizes = {{2}}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(*bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_GT(file->artifact().cuda_kernels().kernels_size(), 0);
  for (const serialization::CudaKernel& kernel : file->artifact().cuda_kernels().kernels()) {
    ASSERT_EQ(kernel.images_size(), 3);
    EXPECT_FALSE(kernel.images(0).is_ptx());
    EXPECT_EQ(kernel.images(0).compute_capability(), 80);
    EXPECT_EQ(kernel.images(1).compute_capability(), 90);
    EXPECT_TRUE(kernel.images(2).is_ptx());
    EXPECT_EQ(kernel.images(2).compute_capability(), 90);
    EXPECT_EQ(file->segment(kernel.images(1).segment()).substr(1, 3), "ELF");
  }
}

TEST(EmbedKernelsTest, KernelsOfAnotherCompilationAreReplaced) {
  const CudaKernelOptions options = {.compute_capabilities = {90}, .sizes = {{2}}};
  const absl::StatusOr<std::string> once = EmbedCudaKernels(testing::LinearRegression().Bytes(), options);
  ASSERT_TRUE(once.ok()) << once.status();
  EXPECT_EQ(*EmbedCudaKernels(*once, options), *once);
}

// For any number of ranks: sizes of groups are not part of a kernel's text.
TEST(EmbedKernelsTest, CollectivesHaveKernels) {
  using serialization::Collective;
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"4", "4"});
  const uint32_t token = m.AddValue(DType::kBool, {"0"});
  const uint32_t y = m.AddValue(DType::kFloat32, {"4", "4"});
  serialization::Op op;
  op.mutable_collective()->set_function(Collective::ALL_REDUCE);
  op.mutable_collective()->set_starts(true);
  m.AddOp(op, {x}, {token});
  op.mutable_collective()->set_function(Collective::WAIT);
  op.mutable_collective()->set_starts(false);
  m.AddOp(op, {token}, {y});
  m.Output("y", y);
  const absl::StatusOr<std::string> bytes =
      EmbedCudaKernels(program.Bytes(), {.compute_capabilities = {90}, .sizes = {DimVector()}});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(*bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  std::string texts;
  for (const serialization::CudaKernel& kernel : file->artifact().cuda_kernels().kernels()) texts += kernel.text();
  for (const char* const kernel : {"pack_bucket(", "mark_error(", "sum_shards(", "unpack_bucket("}) {
    EXPECT_NE(texts.find(kernel), std::string::npos) << kernel;
  }
}

TEST(EmbedKernelsTest, AllOpsWithoutAKernelAreNamed) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kInt8, {"4", "4"});
  for (int i = 0; i < 2; ++i) {
    const uint32_t y = m.AddValue(DType::kInt8, {"4", "4"});
    serialization::Op op;
    op.mutable_matmul();
    m.AddOp(op, {x, x}, {y}).set_source("aten.mm");
    m.Output("y", y);
  }
  const std::string bytes = program.Bytes();
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = CheckCudaKernels(file->artifact(), {DimVector()});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_NE(status.message().find("2 ops"), std::string::npos) << status;
  EXPECT_NE(status.message().find("op 0 from aten.mm"), std::string::npos) << status;
  EXPECT_NE(status.message().find("op 1 from aten.mm"), std::string::npos) << status;
}

TEST(EmbedKernelsTest, ALargeDecompositionIsRefusedWithTheReason) {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"40", "40"});
  const uint32_t y = m.AddValue(DType::kFloat32, {"40"});
  serialization::Op op;
  op.mutable_linear_algebra()->set_function(serialization::LinearAlgebra::EIGH);
  m.AddOp(op, {x}, {y}).set_source("aten._linalg_eigh");
  m.Output("y", y);
  const std::string bytes = program.Bytes();
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = CheckCudaKernels(file->artifact(), {DimVector()});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_NE(status.message().find("op 0 from aten._linalg_eigh"), std::string::npos) << status;
  EXPECT_NE(status.message().find("matrices of up to 32 rows"), std::string::npos) << status;
}

}  // namespace
}  // namespace cotan::aot
