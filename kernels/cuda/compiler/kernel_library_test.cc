// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/compiler/kernel_library.h"

#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/compiler/kernel_cache.h"
#include "kernels/cuda/sim/sim_gpu.h"
#include "kernels/cuda/source/device_library.h"

namespace cotan::cuda {
namespace {

constexpr nvrtc::CompileTarget kTarget = {nvrtc::ImageKind::kPtx, 90};

const KernelSource kSource = {"extern \"C\" __global__ void nothing() {}\n", "nothing"};

// Returns what a new library did to load kSource with the cache in `folder`.
KernelLibrary::Statistics Load(const driver::DriverTable& driver, const std::string& folder) {
  KernelLibrary library(
      driver, {.compute_capability = kTarget.compute_capability, .cache_folder = folder, .compiles_to_ptx = true});
  const absl::StatusOr<LoadedKernel> kernel = library.Load(kSource);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return library.statistics();
}

// As one of a later toolkit.
TEST(KernelLibraryTest, AKeptImageThatTheDriverRefusesIsCompiledAgain) {
  const std::string folder = ::testing::TempDir() + "/refused_image";
  ASSERT_TRUE(KernelCache(folder).Store(*ExpandIncludes(kSource.text), kTarget, "no PTX").ok());
  const sim::SimGpu gpu({});
  const driver::DriverTable& driver = gpu.table();
  driver::CUcontext context = nullptr;
  ASSERT_EQ(driver.cuInit(0), driver::CUDA_SUCCESS);
  ASSERT_EQ(driver.cuDevicePrimaryCtxRetain(&context, 0), driver::CUDA_SUCCESS);
  ASSERT_EQ(driver.cuCtxSetCurrent(context), driver::CUDA_SUCCESS);

  const KernelLibrary::Statistics first = Load(driver, folder);
  EXPECT_EQ(first.from_cache, 0);
  EXPECT_EQ(first.compiled, 1);
  const KernelLibrary::Statistics second = Load(driver, folder);
  EXPECT_EQ(second.from_cache, 1);
  EXPECT_EQ(second.compiled, 0);
  EXPECT_EQ(driver.cuDevicePrimaryCtxRelease_v2(0), driver::CUDA_SUCCESS);
}

}  // namespace
}  // namespace cotan::cuda
