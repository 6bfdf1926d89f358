// SPDX-License-Identifier: Apache-2.0

// The common part of the tests of SimGpu: a device with a context, kernels, and calls in short.
#ifndef COTAN_KERNELS_CUDA_SIM_SIM_GPU_FIXTURE_H_
#define COTAN_KERNELS_CUDA_SIM_SIM_GPU_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/driver/driver_table.h"
#include "kernels/cuda/sim/sim_gpu.h"

namespace cotan::cuda::sim {

// add(x, y, n): y[i] = x[i] + 1 for i < n. each(y): every block writes all y[thread]. load4(x, y): y[0] is the first of
// the four floats at x. big: 16 KiB of static shared memory, and dynamic. counter: a variable, 42.
inline constexpr char kPtx[] = R"(.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter = 42;
.visible .global .align 8 .u64 pointer = generic(counter)+4;
.visible .const .align 4 .f32 table[2] = {0f3F800000, 0f40000000};
.visible .entry add(.param .u64 x, .param .u64 y, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<3>; .reg .b64 %rd<6>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
mad.lo.u32 %r5, %r2, %r3, %r4;
setp.ge.u32 %p1, %r5, %r1;
@%p1 ret;
mul.wide.u32 %rd3, %r5, 4;
add.u64 %rd4, %rd1, %rd3;
add.u64 %rd5, %rd2, %rd3;
ld.global.f32 %f1, [%rd4];
add.rn.f32 %f2, %f1, 0f3F800000;
st.global.f32 [%rd5], %f2;
ret;
}
.visible .entry each(.param .u64 y) {
.reg .b32 %r<2>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [y]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r1;
ret;
}
.visible .entry load4(.param .u64 x, .param .u64 y) {
.reg .f32 %f<5>; .reg .b64 %rd<3>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1];
st.global.f32 [%rd2], %f1;
ret;
}
.extern .shared .align 16 .b8 dynamic[];
.visible .entry big() .maxntid 64, 1, 1 {
.shared .align 16 .b8 tile[16384];
.reg .b32 %r<3>;
mov.u32 %r1, tile; mov.u32 %r2, %tid.x; st.shared.u32 [%r1], 1;
ret;
}
.visible .entry unknown() { wgmma.fence.sync.aligned; ret; }
)";

class SimGpuTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void TearDown() override {
    gpu_.reset();
    EXPECT_EQ(end_, expected_end_);
  }

  // Replaces the device.
  void Start(SimGpu::Options options) {
    using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)
    options.on_violation = [this](absl::string_view text) { end_ = std::string(text); };
    gpu_ = std::make_unique<SimGpu>(std::move(options));
    cu_ = &gpu_->table();
    ASSERT_EQ(cu_->cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cu_->cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cu_->cuCtxSetCurrent(context_), CUDA_SUCCESS);
  }

  void LoadModule() { ASSERT_EQ(cu_->cuModuleLoadData(&module_, kPtx), driver::CUDA_SUCCESS) << gpu_->LastViolation(); }
  void UnloadModule() { EXPECT_EQ(cu_->cuModuleUnload(module_), driver::CUDA_SUCCESS) << gpu_->LastViolation(); }

  driver::CUfunction Function(const char* name) {
    driver::CUfunction function = nullptr;
    EXPECT_EQ(cu_->cuModuleGetFunction(&function, module_, name), driver::CUDA_SUCCESS) << gpu_->LastViolation();
    return function;
  }

  // Returns a launch of one-dimensional blocks in the default stream.
  static driver::CUlaunchConfig Blocks(unsigned blocks, unsigned threads, unsigned shared_bytes = 0) {
    return {.gridDimX = blocks,
            .gridDimY = 1,
            .gridDimZ = 1,
            .blockDimX = threads,
            .blockDimY = 1,
            .blockDimZ = 1,
            .sharedMemBytes = shared_bytes,
            .hStream = nullptr,
            .attrs = nullptr,
            .numAttrs = 0};
  }
  // Launches `blocks` blocks of 32 threads.
  driver::CUresult Launch(const char* name, unsigned blocks, driver::CUstream stream, std::vector<void*> parameters) {
    driver::CUlaunchConfig config = Blocks(blocks, 32);
    config.hStream = stream;
    return cu_->cuLaunchKernelEx(&config, Function(name), parameters.data(), nullptr);
  }
  driver::CUresult Add(driver::CUdeviceptr x, driver::CUdeviceptr y, unsigned n, driver::CUstream stream) {
    return Launch("add", (n + 31) / 32, stream, {&x, &y, &n});
  }

  driver::CUdeviceptr Allocate(size_t bytes) {
    driver::CUdeviceptr address = 0;
    EXPECT_EQ(cu_->cuMemAlloc_v2(&address, bytes), driver::CUDA_SUCCESS) << gpu_->LastViolation();
    return address;
  }
  // Returns the address of a copy of `values`.
  driver::CUdeviceptr Put(const std::vector<float>& values) {
    const driver::CUdeviceptr address = Allocate(values.size() * sizeof(float));
    EXPECT_EQ(cu_->cuMemcpyHtoD_v2(address, values.data(), values.size() * sizeof(float)), driver::CUDA_SUCCESS);
    return address;
  }
  std::vector<float> Get(driver::CUdeviceptr address, size_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(cu_->cuMemcpyDtoH_v2(values.data(), address, count * sizeof(float)), driver::CUDA_SUCCESS)
        << gpu_->LastViolation();
    return values;
  }
  void Free(driver::CUdeviceptr address) { cu_->cuMemFree_v2(address); }

  float* AllocateHost(size_t count) {
    void* memory = nullptr;
    EXPECT_EQ(cu_->cuMemHostAlloc(&memory, count * sizeof(float), 0), driver::CUDA_SUCCESS);
    return static_cast<float*>(memory);
  }
  driver::CUstream CreateStream(unsigned flags = driver::CU_STREAM_NON_BLOCKING) {
    driver::CUstream stream = nullptr;
    EXPECT_EQ(cu_->cuStreamCreate(&stream, flags), driver::CUDA_SUCCESS);
    return stream;
  }
  driver::CUevent CreateEvent() {
    driver::CUevent event = nullptr;
    EXPECT_EQ(cu_->cuEventCreate(&event, 0), driver::CUDA_SUCCESS);
    return event;
  }

  std::string ErrorText(driver::CUresult result) { return std::string(cu_->ToStatus(result, "call").message()); }

  std::unique_ptr<SimGpu> gpu_;
  const driver::DriverTable* cu_ = nullptr;
  driver::CUcontext context_ = nullptr;
  driver::CUmodule module_ = nullptr;
  std::string end_;           // What the device reported when it ended.
  std::string expected_end_;  // What it has to.
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_SIM_GPU_FIXTURE_H_
