// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/sim_gpu.h"

#include <cstring>
#include <thread>

#include "kernels/cuda/sim/sim_gpu_fixture.h"

namespace cotan::cuda::sim {
namespace {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST_F(SimGpuTest, FillsTheWholeTable) {
#define COTAN_CUDA_EXPECT_FUNCTION(name, parameters) EXPECT_TRUE(cu_->name != nullptr) << #name;
  COTAN_CUDA_DRIVER_FUNCTIONS(COTAN_CUDA_EXPECT_FUNCTION)
#undef COTAN_CUDA_EXPECT_FUNCTION
}

TEST_F(SimGpuTest, DescribesTheDevice) {
  Start({.compute_capability = 100, .multiprocessors = 7, .memory_bytes = 4096, .name = "A long name"});
  int value = 0;
  ASSERT_EQ(cu_->cuDeviceGetCount(&value), CUDA_SUCCESS);
  EXPECT_EQ(value, 1);
  char name[7];
  ASSERT_EQ(cu_->cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "A long");
  ASSERT_EQ(cu_->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 10);
  ASSERT_EQ(cu_->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0), CUDA_SUCCESS);
  EXPECT_EQ(value, 7);
  EXPECT_EQ(cu_->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cu_->cuDeviceGet(&value, 1), CUDA_ERROR_INVALID_DEVICE);
  const CUdeviceptr x = Allocate(1024);
  size_t free_bytes = 0, total_bytes = 0;
  ASSERT_EQ(cu_->cuMemGetInfo_v2(&free_bytes, &total_bytes), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes, 3072);
  EXPECT_EQ(total_bytes, 4096);
  CUdeviceptr y = 0;
  EXPECT_EQ(cu_->cuMemAlloc_v2(&y, 4096), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cu_->ToStatus(CUDA_ERROR_OUT_OF_MEMORY, "call").code(), absl::StatusCode::kResourceExhausted);
  Free(x);
}

TEST_F(SimGpuTest, CallsNeedInitAndAContextOfTheThread) {
  const SimGpu gpu({});
  int count = 0;
  EXPECT_EQ(gpu.table().cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
  ASSERT_EQ(gpu.table().cuInit(0), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(gpu.table().cuMemAlloc_v2(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(gpu.table().cuCtxSetCurrent(context_), CUDA_ERROR_INVALID_CONTEXT);  // Of another device.
  std::thread([&] {
    EXPECT_EQ(cu_->cuMemAlloc_v2(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_THAT(gpu_->LastViolation(), HasSubstr("call cuCtxSetCurrent"));
    EXPECT_EQ(cu_->cuCtxSetCurrent(context_), CUDA_SUCCESS);
    Free(Allocate(4));
  }).join();
  CUcontext current = nullptr;
  ASSERT_EQ(cu_->cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
  EXPECT_EQ(cu_->cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuMemAlloc_v2(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cu_->cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuMemAlloc_v2(&address, 4), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(SimGpuTest, ReportsLeaks) {
  Allocate(24);
  AllocateHost(2);
  CreateStream();
  expected_end_ =
      "1 blocks of device memory leak: the block 'allocation 1' of 24 bytes\n"
      "1 blocks of pinned host memory leak: 'host allocation 1' of 8 bytes\n"
      "1 streams leak\n";
}

TEST_F(SimGpuTest, ReportsViolationsThatNoCallReturned) {
  LoadModule();
  const CUstream stream = CreateStream();
  const CUdeviceptr x = Put({1}), y = Allocate(4);
  ASSERT_EQ(Add(x, y, 1, stream), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuModuleUnload(module_), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("kernel add of the module is queued"));
  Free(x);
  Free(y);
  ASSERT_EQ(cu_->cuStreamDestroy_v2(stream), CUDA_SUCCESS);
  gpu_.reset();
  EXPECT_THAT(end_, AllOf(HasSubstr("1 modules leak"), HasSubstr("queued work failed: kernel add, PTX line")));
  end_.clear();
}

TEST_F(SimGpuTest, InjectsFaults) {
  gpu_->FailAllocation(2);
  const CUdeviceptr x = Allocate(4);
  CUdeviceptr y = 0;
  EXPECT_EQ(cu_->cuMemAlloc_v2(&y, 4), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_THAT(ErrorText(CUDA_ERROR_OUT_OF_MEMORY), HasSubstr("cuMemAlloc_v2 fails by request"));
  y = Allocate(4);
  gpu_->FailCall("cuMemFree_v2", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cu_->cuMemFree_v2(x), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(cu_->cuMemFree_v2(x), CUDA_SUCCESS);
  Free(y);
  EXPECT_EQ(gpu_->statistics().allocations, 2);
  EXPECT_EQ(gpu_->statistics().calls.at("cuMemAlloc_v2"), 3);
  gpu_->ResetStatistics();
  EXPECT_EQ(gpu_->statistics().allocations, 0);
}

TEST_F(SimGpuTest, RefusesWrongAddresses) {
  const CUdeviceptr x = Put({1, 2});
  float values[3] = {};
  EXPECT_EQ(cu_->cuMemcpyDtoH_v2(values, x, 12), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("outside of a block"));
  EXPECT_EQ(cu_->cuMemcpyHtoD_v2(x, reinterpret_cast<void*>(x), 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_->cuMemFree_v2(x + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_->cuMemFreeHost(values), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_->cuMemcpyDtoH_v2(values, x, 0), CUDA_SUCCESS);
  Free(x);
  EXPECT_EQ(cu_->cuMemFree_v2(x), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("the freed block"));
  EXPECT_EQ(cu_->cuStreamSynchronize(reinterpret_cast<CUstream>(64)), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SimGpuTest, CopiesOfUndefinedBytesAreFound) {
  const CUdeviceptr x = Allocate(8);
  float values[2] = {};
  EXPECT_EQ(cu_->cuMemcpyDtoH_v2(values, x, 8), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("of which nothing wrote the byte"));
  Free(x);
  gpu_.reset();
  Start({.check_unwritten_copies = false});
  values[0] = 3;
  const CUdeviceptr y = Allocate(8);
  ASSERT_EQ(cu_->cuMemcpyHtoD_v2(y, values, 4), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuMemcpyDtoH_v2(values, y, 8), CUDA_SUCCESS);
  EXPECT_EQ(values[0], 3);
  EXPECT_NE(values[1], values[1]);  // NaN.
  Free(y);
}

TEST_F(SimGpuTest, LoadsModules) {
  LoadModule();
  CUdeviceptr counter = 0, pointer = 0;
  size_t bytes = 0;
  ASSERT_EQ(cu_->cuModuleGetGlobal_v2(&counter, &bytes, module_, "counter"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4);
  unsigned value = 0;
  ASSERT_EQ(cu_->cuMemcpyDtoH_v2(&value, counter, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 42);
  ASSERT_EQ(cu_->cuModuleGetGlobal_v2(&pointer, nullptr, module_, "pointer"), CUDA_SUCCESS);
  CUdeviceptr target = 0;
  ASSERT_EQ(cu_->cuMemcpyDtoH_v2(&target, pointer, 8), CUDA_SUCCESS);
  EXPECT_EQ(target, counter + 4);
  EXPECT_EQ(cu_->cuModuleGetGlobal_v2(&counter, &bytes, module_, "add"), CUDA_ERROR_NOT_FOUND);
  CUfunction function = nullptr, again = nullptr;
  EXPECT_EQ(cu_->cuModuleGetFunction(&function, module_, "nothing"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cu_->cuModuleGetFunction(&function, module_, "unknown"), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("wgmma.fence"));
  ASSERT_EQ(cu_->cuModuleGetFunction(&function, module_, "add"), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuModuleGetFunction(&again, module_, "add"), CUDA_SUCCESS);
  EXPECT_EQ(function, again);
  UnloadModule();
  const CUlaunchConfig one = Blocks(1, 1);
  EXPECT_EQ(cu_->cuLaunchKernelEx(&one, function, nullptr, nullptr), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(SimGpuTest, RefusesImagesForOtherDevices) {
  CUmodule module = nullptr;
  EXPECT_EQ(cu_->cuModuleLoadData(&module,
                                  "\x7f"
                                  "ELF\2"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(cu_->cuModuleLoadData(&module, "no PTX"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(cu_->cuModuleLoadData(&module, ".version 8.0\n.target sm_100\n.address_size 64\n"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("the PTX is for sm_100"));
  EXPECT_EQ(cu_->cuModuleLoadData(&module, ".version 8.0\n.target sm_90a\n.address_size 64\n"), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuModuleLoadData(&module, ".version 8.0\n.target sm_80a\n.address_size 64\n"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
}

TEST_F(SimGpuTest, SharedMemoryNeedsAnOptIn) {
  LoadModule();
  const CUfunction big = Function("big");
  int value = 0;
  ASSERT_EQ(cu_->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, big), CUDA_SUCCESS);
  EXPECT_EQ(value, 16384);
  ASSERT_EQ(cu_->cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, big), CUDA_SUCCESS);
  EXPECT_EQ(value, 64);
  const auto launch = [&](unsigned threads, unsigned shared) {
    const CUlaunchConfig config = Blocks(1, threads, shared);
    return cu_->cuLaunchKernelEx(&config, big, nullptr, nullptr);
  };
  EXPECT_EQ(launch(1, 32768), CUDA_SUCCESS);
  EXPECT_EQ(launch(65, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(1, 32769), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("call cuFuncSetAttribute"));
  const CUfunction_attribute attribute = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(cu_->cuFuncSetAttribute(big, attribute, 211 * 1024 + 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cu_->cuFuncSetAttribute(big, attribute, 211 * 1024), CUDA_SUCCESS);
  EXPECT_EQ(launch(1, 211 * 1024), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_SUCCESS) << gpu_->LastViolation();
  UnloadModule();
}

TEST_F(SimGpuTest, RefusesWrongLaunches) {
  LoadModule();
  const CUdeviceptr x = Put({1, 2}), y = Allocate(8);
  CUdeviceptr from = x, to = y;
  unsigned n = 2;
  void* parameters[] = {&from, &to, &n, nullptr};
  const CUfunction add = Function("add");
  const auto launch = [&](const CUlaunchConfig& config, void** arguments) {
    return cu_->cuLaunchKernelEx(&config, add, arguments, nullptr);
  };
  EXPECT_EQ(launch(Blocks(1, 1025), parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(Blocks(0, 32), parameters), CUDA_ERROR_INVALID_VALUE);
  CUlaunchConfig high = Blocks(1, 32);
  high.gridDimY = 65536;
  EXPECT_EQ(launch(high, parameters), CUDA_ERROR_INVALID_VALUE);
  CUlaunchAttribute cluster = {.id = static_cast<CUlaunchAttributeID>(4), .reserved = 0, .value = {}};
  CUlaunchConfig other = Blocks(1, 32);
  other.attrs = &cluster;
  other.numAttrs = 1;
  EXPECT_EQ(launch(other, parameters), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("no attribute 4"));
  // Too few parameters.
  EXPECT_EQ(launch(Blocks(1, 32), nullptr), CUDA_ERROR_INVALID_VALUE);
  void* two[] = {&from, &to, nullptr};
  EXPECT_EQ(launch(Blocks(1, 32), two), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("it takes 3 parameters, and number 2 (from 0) is missing"));
  void* garbage[] = {&from, &to, reinterpret_cast<void*>(16)};
  EXPECT_EQ(launch(Blocks(1, 32), garbage), CUDA_ERROR_INVALID_VALUE);
  // Parameters are copied at the launch.
  ASSERT_EQ(launch(Blocks(1, 32), parameters), CUDA_SUCCESS);
  from = to = n = 0;
  EXPECT_EQ(Get(y, 2), (std::vector<float>{2, 3}));
  EXPECT_EQ(gpu_->statistics().kernel_launches, 1);
  Free(x);
  Free(y);
  UnloadModule();
}

TEST_F(SimGpuTest, KernelsThatBeginEarlyWaitForEarlierWork) {
  constexpr char kWaits[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry waits(.param .u64 y) {
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [y];
griddepcontrol.wait;
st.global.u32 [%rd1], 7;
ret;
}
.visible .entry writes(.param .u64 y) {
.reg .b64 %rd<2>;
ld.param.u64 %rd1, [y];
st.global.u32 [%rd1], 8;
griddepcontrol.wait;
ret;
}
)";
  ASSERT_EQ(cu_->cuModuleLoadData(&module_, kWaits), CUDA_SUCCESS) << gpu_->LastViolation();
  CUdeviceptr y = Allocate(4);
  void* parameters[] = {&y};
  CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                             .reserved = 0,
                             .value = {.programmaticStreamSerializationAllowed = 1}};
  CUlaunchConfig config = Blocks(1, 1);
  config.hStream = CreateStream();
  config.attrs = &early;
  config.numAttrs = 1;
  ASSERT_EQ(cu_->cuLaunchKernelEx(&config, Function("waits"), parameters, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuCtxSynchronize(), CUDA_SUCCESS) << gpu_->LastViolation();
  early.value.programmaticStreamSerializationAllowed = 0;
  ASSERT_EQ(cu_->cuLaunchKernelEx(&config, Function("writes"), parameters, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuCtxSynchronize(), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_EQ(gpu_->statistics().kernels.at("waits").early_runs, 1);
  EXPECT_EQ(gpu_->statistics().kernels.at("writes").early_runs, 0);
  Free(y);
  ASSERT_EQ(cu_->cuStreamDestroy_v2(config.hStream), CUDA_SUCCESS);
  UnloadModule();

  Start({.compute_capability = 80});
  LoadModule();
  early.value.programmaticStreamSerializationAllowed = 1;
  config.hStream = nullptr;
  EXPECT_EQ(cu_->cuLaunchKernelEx(&config, Function("add"), nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_->cuLaunchKernelEx(&config, Function("big"), nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cu_->cuModuleLoadData(&module_, kWaits), CUDA_ERROR_NO_BINARY_FOR_GPU);
  UnloadModule();
}

TEST_F(SimGpuTest, FindsFaultsOfKernels) {
  for (const uint64_t seed : {0, 5}) {
    Start({.seed = seed});
    LoadModule();
    CUdeviceptr x = Put({1, 2, 3, 4, 5, 6, 7, 8}), y = Allocate(128);
    CUdeviceptr unaligned = x + 4;
    const CUlaunchConfig one = Blocks(1, 1);
    ASSERT_EQ(cu_->cuLaunchKernelEx(&one, Function("load4"), std::vector<void*>{&unaligned, &y}.data(), nullptr),
              CUDA_SUCCESS);
    EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_ERROR_MISALIGNED_ADDRESS);
    EXPECT_THAT(ErrorText(CUDA_ERROR_MISALIGNED_ADDRESS),
                AllOf(HasSubstr("kernel load4, PTX line "), HasSubstr("misaligned access of 16 bytes")));
    Free(x);
    Free(y);
    cu_->cuModuleUnload(module_);
    gpu_.reset();
    Start({.seed = seed});
    LoadModule();
    y = Allocate(128);
    ASSERT_EQ(Launch("each", 2, nullptr, {&y}), CUDA_SUCCESS);
    EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    EXPECT_THAT(gpu_->LastViolation(), AllOf(HasSubstr("kernel each"), HasSubstr("race: writes what block ")));
    Free(y);
    cu_->cuModuleUnload(module_);
    gpu_.reset();
    EXPECT_EQ(end_, "");
  }
}

TEST_F(SimGpuTest, AnotherLaunchIsCheckedForRacesAgain) {
  Start({.race_checks = 1});
  LoadModule();
  CUdeviceptr y = Allocate(128);
  ASSERT_EQ(Launch("each", 1, nullptr, {&y}), CUDA_SUCCESS);
  ASSERT_EQ(Launch("each", 1, nullptr, {&y}), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(Launch("each", 2, nullptr, {&y}), CUDA_SUCCESS);  // another grid
  EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("race: writes what block "));
  Free(y);
  cu_->cuModuleUnload(module_);
  gpu_.reset();
}

TEST_F(SimGpuTest, NoLaunchIsCheckedForRacesIfNoneShallBe) {
  Start({.race_checks = -1});
  LoadModule();
  CUdeviceptr y = Allocate(128);
  ASSERT_EQ(Launch("each", 2, nullptr, {&y}), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_SUCCESS);
  Free(y);
  cu_->cuModuleUnload(module_);
  gpu_.reset();
}

TEST_F(SimGpuTest, SeveralDevicesAreSeparate) {
  SimGpu other({.on_violation = [](absl::string_view) {}});
  CUcontext context = nullptr;
  ASSERT_EQ(other.table().cuInit(0), CUDA_SUCCESS);
  ASSERT_EQ(other.table().cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(other.table().cuCtxSetCurrent(context), CUDA_SUCCESS);
  const CUstream stream = CreateStream();
  EXPECT_EQ(other.table().cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
  const CUdeviceptr x = Put({1});
  float value = 0;
  EXPECT_EQ(other.table().cuMemcpyDtoH_v2(&value, x, 4), CUDA_ERROR_INVALID_VALUE);
  Free(x);
  EXPECT_EQ(cu_->cuStreamDestroy_v2(stream), CUDA_SUCCESS);
}

}  // namespace
}  // namespace cotan::cuda::sim
