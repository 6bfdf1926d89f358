// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/compile_gate/compile_gate.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace cotan::cuda {
namespace {

KernelSource Kernel(absl::string_view parameters, absl::string_view body) {
  return {absl::StrCat("extern \"C\" __global__ void f(", parameters, ") {\n", body, "\n}\n"), "f"};
}

std::vector<KernelResources> Compile(const KernelSource& source) {
  const auto resources = CompileForArchitectures(source);
  EXPECT_TRUE(resources.ok()) << resources.status();
  return resources.ok() ? *resources : std::vector<KernelResources>{};
}

TEST(CompileGateTest, SmallKernelPassesOnEachArchitecture) {
  const std::vector<KernelResources> resources =
      Compile(Kernel("float* x",
                     "__shared__ float tile[32]; tile[threadIdx.x] = x[threadIdx.x]; __syncthreads();"
                     "x[threadIdx.x] = tile[31 - threadIdx.x];"));
  ASSERT_EQ(resources.size(), 4);
  EXPECT_TRUE(CheckResources(resources, 32).ok()) << CheckResources(resources, 32);
  EXPECT_EQ(resources[0].compute_capability, 80);
  EXPECT_EQ(resources[3].compute_capability, 120);
  for (const KernelResources& kernel : resources) {
    EXPECT_EQ(kernel.entry, "f");
    EXPECT_GT(kernel.registers, 2);
    // Newer architectures reserve 1 KiB of each block.
    EXPECT_EQ(kernel.static_shared % 1024, 128);
  }
}

TEST(CompileGateTest, ArrayIndexedAtRunTimeIsFound) {
  const std::vector<KernelResources> resources =
      Compile(Kernel("float* x, const int* index, int n",
                     "float local[40] = {}; for (int i = 0; i < n; ++i) local[index[i]] += x[i]; x[0] = local[n];"));
  ASSERT_EQ(resources.size(), 4);
  for (const KernelResources& kernel : resources) EXPECT_GE(kernel.stack_frame, 160);
  const absl::Status status = CheckResources(resources, 255);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::StrContains(status.message(), "f on sm_100")) << status;
  EXPECT_TRUE(CheckResources(resources, {.stack_frame = 4096}).ok());
  EXPECT_FALSE(CheckResources(resources, {.stack_frame = 159}).ok());
}

// 100 values that are all alive at one time.
std::string ManyValues() {
  return "float v[100];\n#pragma unroll\nfor (int i = 0; i < 100; ++i) v[i] = x[threadIdx.x + 1000 * i];\n"
         "__syncthreads();\n#pragma unroll\nfor (int i = 0; i < 100; ++i)\n"
         "  x[threadIdx.x + 1000 * i] = v[(i * 37 + 11) % 100] - v[i];";
}

TEST(CompileGateTest, ManyRegistersAreFound) {
  const std::vector<KernelResources> resources = Compile(Kernel("float* x", ManyValues()));
  ASSERT_EQ(resources.size(), 4);
  for (const KernelResources& kernel : resources) {
    EXPECT_GE(kernel.registers, 100);
    EXPECT_EQ(kernel.stack_frame, 0);
  }
  EXPECT_TRUE(CheckResources(resources, 255).ok());
  EXPECT_FALSE(CheckResources(resources, 96).ok());
}

TEST(CompileGateTest, SpillsAreFound) {
  KernelSource source = Kernel("float* x", ManyValues());
  source.text.insert(source.text.find("f("), "__launch_bounds__(1024, 2) ");
  const std::vector<KernelResources> resources = Compile(source);
  ASSERT_EQ(resources.size(), 4);
  for (const KernelResources& kernel : resources) {
    if (kernel.compute_capability != 120) {  // 1,536 threads per processor there: the bound is not kept
      EXPECT_GT(kernel.spill_stores, 0);
      EXPECT_GT(kernel.spill_loads, 0);
    }
  }
  EXPECT_FALSE(CheckResources(resources, 255).ok());
  EXPECT_FALSE(CheckResources(resources, {.stack_frame = 4096}).ok());
  EXPECT_TRUE(CheckResources(resources, {.stack_frame = 4096, .spills = 4096}).ok());
}

TEST(CompileGateTest, ErrorsOfTheTextAreReturned) {
  EXPECT_EQ(CompileForArchitectures(Kernel("", "nonsense")).status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(CompileForArchitectures({"#include \"cotan/none.cuh\"\n", "f"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CompileGateTest, EachKernelOfALogIsRead) {
  const auto kernels = ParsePtxasLog(
      "ptxas info    : 8 bytes gmem, 64 bytes cmem[4]\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
      "ptxas info    : Function properties for helper\n"
      "    80 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Function properties for a\n"
      "    16 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n"
      "ptxas info    : Used 40 registers, used 1 barriers, 512 bytes smem, 384 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
      "ptxas info    : Function properties for b\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 12 registers, used 0 barriers\n",
      90);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  ASSERT_EQ(kernels->size(), 2);
  EXPECT_EQ((*kernels)[0].entry, "a");
  EXPECT_EQ((*kernels)[0].registers, 40);
  EXPECT_EQ((*kernels)[0].stack_frame, 16);
  EXPECT_EQ((*kernels)[0].spill_stores, 4);
  EXPECT_EQ((*kernels)[0].spill_loads, 12);
  EXPECT_EQ((*kernels)[0].static_shared, 512);
  EXPECT_EQ((*kernels)[1].registers, 12);
  EXPECT_EQ((*kernels)[1].static_shared, 0);
  EXPECT_EQ(ParsePtxasLog("", 90).status().code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace cotan::cuda
