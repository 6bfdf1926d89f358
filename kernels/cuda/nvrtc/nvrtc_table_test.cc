// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/nvrtc/nvrtc_table.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan::cuda::nvrtc {
namespace {

constexpr absl::string_view kKernel = R"(extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= 2; })";

TEST(NvrtcTest, CompilesToPtxAndToMachineCodeWithoutAGpu) {
  const absl::StatusOr<std::string> ptx = Compile(kKernel, {ImageKind::kPtx, 90});
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_TRUE(absl::StrContains(*ptx, ".entry scale"));
  const absl::StatusOr<std::string> cubin = Compile(kKernel, {ImageKind::kCubin, 90});
  ASSERT_TRUE(cubin.ok()) << cubin.status();
  EXPECT_EQ(cubin->substr(1, 3), "ELF");
  EXPECT_EQ(*Compile(kKernel, {ImageKind::kCubin, 90}), *cubin);
}

TEST(NvrtcTest, ErrorsHaveTheCompilersLog) {
  const absl::Status status = Compile("__global__ void f() { undeclared = 1; }", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(absl::StrContains(status.message(), "undeclared")) << status;
}

}  // namespace
}  // namespace cotan::cuda::nvrtc
