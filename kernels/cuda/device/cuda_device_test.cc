// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/cuda_device.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/cuda_kernel.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/source/device_library.h"
#include "kernels/cuda/testing/sim_device.h"
#include "kernels/cuda/testing/test_device.h"

namespace cotan::cuda {
namespace {

using testing::SimDevice;
using testing::TestDevice;

std::unique_ptr<TestDevice> NewDevice(SimDevice::Options options = {}) {
  absl::StatusOr<std::unique_ptr<TestDevice>> device = TestDevice::Create(options);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

// Returns how often the host waited for a simulated GPU; 0 for a GPU, which is not asked.
int64_t Waits(TestDevice& gpu) {
  return gpu.simulated() == nullptr ? 0 : gpu.simulated()->gpu().statistics().synchronizations;
}

// Memory of a device that is freed at the end.
class Block {
 public:
  Block(CudaDevice& device, size_t bytes) : device_(device), bytes_(bytes), address_(*device.Allocate(bytes)) {}
  ~Block() { device_.Free(address_, bytes_); }
  void* get() const { return address_; }

 private:
  CudaDevice& device_;
  size_t bytes_;
  void* address_;
};

// Adds one to 32 numbers; a negative one is an error.
KernelPlan AddOne() {
  KernelPlan plan;
  KernelLaunch launch;
  launch.source = {R"(#include "cotan/error.cuh"
extern "C" __global__ void add_one(const int* x, int* y, cotan::ErrorRecord* record, unsigned op) {
  cotan::WaitForEarlierWork();
  const int value = x[threadIdx.x];
  if (value < 0) cotan::RecordError(record, op, threadIdx.x, value);
  y[threadIdx.x] = value + 1;
}
)",
                   "add_one"};
  launch.block = {32, 1, 1};
  launch.arguments = {InputArgument(0), OutputArgument(0), ErrorRecordArgument(), FaultIdArgument()};
  plan.steps.push_back(std::move(launch));
  plan.error_at = [](int64_t position, int64_t value) {
    return absl::InvalidArgumentError(absl::StrCat("element ", position, " is ", value));
  };
  return plan;
}

std::vector<int32_t> Numbers(int first) {
  std::vector<int32_t> numbers(32);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

constexpr size_t kBytes = 32 * sizeof(int32_t);

TEST(CudaDeviceTest, CopiesLargerThanTheStagingBuffersArrive) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  std::vector<char> numbers((HostStaging::kSlots + 2) * HostStaging::kBytes + 12345);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<char>(i * 7 + i / 1000);
  const Block a(gpu->device(), numbers.size());
  const Block b(gpu->device(), numbers.size());
  std::vector<char> changed = numbers;
  ASSERT_TRUE(gpu->device().CopyFromHost(a.get(), changed.data(), changed.size()).ok());
  changed.assign(changed.size(), 0);  // the copy is queued, and does not see this
  ASSERT_TRUE(gpu->device().Copy(b.get(), a.get(), numbers.size()).ok());
  std::vector<char> result(numbers.size());
  ASSERT_TRUE(gpu->device().CopyToHost(result.data(), b.get(), result.size()).ok());
  EXPECT_EQ(result, numbers);
}

// With two arguments, as those of a training step.
TEST(CudaDeviceTest, StepsWithArgumentsOnTheHostDoNotWaitForEachOther) {
  for (const uint64_t seed : {0, 1, 2, 3}) {
    const std::unique_ptr<TestDevice> gpu = NewDevice({.seed = seed});
    CudaDevice& device = gpu->device();
    const Block x(device, kBytes);
    const Block ignored(device, kBytes);
    std::vector<std::unique_ptr<Block>> results;
    const absl::StatusOr<std::unique_ptr<Kernel>> kernel = CudaKernel::Create(device, AddOne(), "");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    ASSERT_TRUE(device.Synchronize().ok());
    const int64_t waits = Waits(*gpu);
    constexpr int kSteps = HostStaging::kSlots / 2;
    for (int step = 0; step < kSteps; ++step) {
      results.push_back(std::make_unique<Block>(device, kBytes));
      ASSERT_TRUE(device.CopyFromHost(x.get(), Numbers(step).data(), kBytes).ok());
      ASSERT_TRUE(device.CopyFromHost(ignored.get(), Numbers(step).data(), kBytes).ok());
      void* const input = x.get();
      void* const output = results.back()->get();
      ASSERT_TRUE((*kernel)->Run({.inputs = &input, .outputs = &output}).ok());
    }
    EXPECT_EQ(Waits(*gpu), waits);
    for (int step = 0; step < kSteps; ++step) {
      std::vector<int32_t> result(32);
      ASSERT_TRUE(device.CopyToHost(result.data(), results[static_cast<size_t>(step)]->get(), kBytes).ok());
      EXPECT_EQ(result, Numbers(step + 1)) << "seed " << seed;
    }
  }
}

TEST(CudaDeviceTest, KernelsBehindKernelsBeginEarlyIfTheyWaitForEarlierWorkThemselves) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "a GPU does not count early kernels";
  const auto early_runs = [](const SimDevice::Options& options, bool has_older_image) {
    const std::unique_ptr<TestDevice> gpu = NewDevice(options);
    CudaDevice& device = gpu->device();
    const KernelPlan plan = AddOne();
    if (has_older_image) {
      const KernelSource& source = std::get<KernelLaunch>(plan.steps[0]).source;
      const nvrtc::CompileTarget target = {nvrtc::ImageKind::kPtx, 80};
      const absl::StatusOr<std::string> ptx = nvrtc::Compile(*ExpandIncludes(source.text), target);
      EXPECT_TRUE(ptx.ok()) << ptx.status();
      device.kernels().AddImage(source.text, DeviceLibraryDigest(), target, *ptx);
    }
    const Block x(device, kBytes);
    const Block y(device, kBytes);
    EXPECT_TRUE(device.CopyFromHost(x.get(), Numbers(1).data(), kBytes).ok());
    const absl::StatusOr<std::unique_ptr<Kernel>> kernel = CudaKernel::Create(device, plan, "");
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    void* const input = x.get();
    void* const output = y.get();
    const auto queue = [&]() -> absl::Status {
      const absl::Status first = (*kernel)->Run({.inputs = &input, .outputs = &output});
      return first.ok() ? (*kernel)->Run({.inputs = &input, .outputs = &output}) : first;
    };
    EXPECT_TRUE(queue().ok());
    const absl::StatusOr<std::unique_ptr<RecordedWork>> work = device.Record(queue);
    EXPECT_TRUE(work.ok()) << work.status();
    EXPECT_TRUE((*work)->Run().ok());
    EXPECT_TRUE(device.Synchronize().ok());
    const sim::KernelStatistics counts = gpu->simulated()->gpu().statistics().kernels.at("add_one");
    EXPECT_EQ(counts.runs, 4);
    return counts.early_runs;  // the second one of each pair
  };
  EXPECT_EQ(early_runs({}, false), 2);
  EXPECT_EQ(early_runs({.kernels_begin_early = false}, false), 0);
  EXPECT_EQ(early_runs({.compute_capability = 80}, false), 0);
  EXPECT_EQ(early_runs({}, true), 0);
}

TEST(CudaDeviceTest, KernelsRunWhenSomethingWaits) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  CudaDevice& device = gpu->device();
  const Block x(device, kBytes);
  const Block y(device, kBytes);
  const std::vector<int32_t> numbers = Numbers(5);
  ASSERT_TRUE(device.CopyFromHost(x.get(), numbers.data(), kBytes).ok());
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = CudaKernel::Create(device, AddOne(), "op 3");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  void* const input = x.get();
  void* const output = y.get();
  ASSERT_TRUE((*kernel)->Run({.inputs = &input, .outputs = &output}).ok());
  std::vector<int32_t> result(32);
  ASSERT_TRUE(device.CopyToHost(result.data(), y.get(), kBytes).ok());
  EXPECT_EQ(result, Numbers(6));
  EXPECT_TRUE(device.Synchronize().ok());
}

TEST(CudaDeviceTest, ErrorsOfDataComeOnceFromTheNextCallThatWaits) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  CudaDevice& device = gpu->device();
  const Block x(device, kBytes);
  const Block y(device, kBytes);
  const std::vector<int32_t> numbers = Numbers(-2);
  ASSERT_TRUE(device.CopyFromHost(x.get(), numbers.data(), kBytes).ok());
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = CudaKernel::Create(device, AddOne(), "op 3");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  void* const input = x.get();
  void* const output = y.get();
  ASSERT_TRUE((*kernel)->Run({.inputs = &input, .outputs = &output}).ok());
  const absl::Status status = device.Synchronize();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "op 3: element 0 is -2");
  EXPECT_TRUE(device.Synchronize().ok());

  // An op that is gone still says what went wrong.
  ASSERT_TRUE((*kernel)->Run({.inputs = &input, .outputs = &output}).ok());
  kernel->reset();
  std::vector<int32_t> result(32);
  EXPECT_EQ(device.CopyToHost(result.data(), y.get(), kBytes).message(), "op 3: element 0 is -2");
}

TEST(CudaDeviceTest, RecordedWorkRunsAgainWithNewContents) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  CudaDevice& device = gpu->device();
  const Block x(device, kBytes);
  const Block y(device, kBytes);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = CudaKernel::Create(device, AddOne(), "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  void* const input = x.get();
  void* const output = y.get();
  absl::StatusOr<std::unique_ptr<RecordedWork>> work =
      device.Record([&] { return (*kernel)->Run({.inputs = &input, .outputs = &output}); });
  ASSERT_TRUE(work.ok()) << work.status();
  for (int first : {3, 40}) {
    const std::vector<int32_t> numbers = Numbers(first);
    ASSERT_TRUE(device.CopyFromHost(x.get(), numbers.data(), kBytes).ok());
    ASSERT_TRUE((*work)->Run().ok());
    std::vector<int32_t> result(32);
    ASSERT_TRUE(device.CopyToHost(result.data(), y.get(), kBytes).ok());
    EXPECT_EQ(result, Numbers(first + 1));
  }
  if (SimDevice* const simulated = gpu->simulated(); simulated != nullptr) {
    EXPECT_EQ(simulated->gpu().statistics().graph_launches, 2);
  }
}

// A call of a library that queues one function, and says whether that has run when the operation is destroyed.
class OneCall final : public LibraryCallSpec {
 public:
  struct Seen {
    bool has_run = false;
    bool had_run_at_the_end = false;
  };

  OneCall(sim::SimGpu& gpu, Seen& seen) : gpu_(gpu), seen_(seen) {}

  absl::StatusOr<std::unique_ptr<LibraryOperation>> Prepare(VendorLibraries& libraries) const override {
    return std::make_unique<Operation>(gpu_, libraries, seen_);
  }

 private:
  class Operation final : public LibraryOperation {
   public:
    Operation(sim::SimGpu& gpu, VendorLibraries& libraries, Seen& seen)
        : gpu_(gpu), libraries_(libraries), seen_(seen) {}
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;
    ~Operation() override { seen_.had_run_at_the_end = seen_.has_run; }
    bool owns_code() const override { return true; }

    absl::Status Enqueue(absl::Span<void* const> /*pointers*/) override {
      return gpu_.EnqueueHostFunction(libraries_.stream(), "call", [this](sim::DeviceMemory&) {
        seen_.has_run = true;
        return absl::OkStatus();
      });
    }

   private:
    sim::SimGpu& gpu_;
    VendorLibraries& libraries_;
    Seen& seen_;
  };

  sim::SimGpu& gpu_;
  Seen& seen_;
};

TEST(CudaDeviceTest, AnOperationThatOwnsCodeIsKeptUntilItsWorkHasEnded) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "the library is simulated";
  for (const bool is_recorded : {false, true}) {
    const std::unique_ptr<TestDevice> gpu = NewDevice();
    OneCall::Seen seen;
    KernelPlan plan;
    plan.steps.emplace_back(LibraryCall{std::make_shared<OneCall>(gpu->simulated()->gpu(), seen), {}});
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = CudaKernel::Create(gpu->device(), plan, "");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    if (is_recorded) {
      const auto work = gpu->device().Record([&] { return (*kernel)->Run({}); });
      ASSERT_TRUE(work.ok()) << work.status();
      ASSERT_TRUE((*work)->Run().ok());
    } else {
      ASSERT_TRUE((*kernel)->Run({}).ok());
    }
    EXPECT_FALSE(seen.has_run);
    kernel->reset();
    EXPECT_TRUE(seen.had_run_at_the_end);
  }
}

// Peers that end when the test says so.
class EndingPeers final : public PeerGuard {
 public:
  absl::Status Queue(absl::FunctionRef<absl::Status()> call) override {
    ++num_queued_;
    return Guard(call);
  }
  absl::Status Wait(absl::FunctionRef<absl::Status()> call) override { return Guard(call); }
  void Block(absl::FunctionRef<void()> call) override {
    ++num_blocks_;
    call();
  }
  int64_t num_queued() const override { return num_queued_; }
  int64_t num_blocks() const { return num_blocks_; }
  void End() { error_ = absl::UnavailableError("rank 1 has ended"); }

 private:
  absl::Status Guard(absl::FunctionRef<absl::Status()> call) {
    if (!error_.ok()) return error_;
    return call();
  }

  absl::Status error_;
  int64_t num_queued_ = 0;
  int64_t num_blocks_ = 0;
};

TEST(CudaDeviceTest, NothingIsReadOrRunAfterAPeerHasEnded) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  CudaDevice& device = gpu->device();
  EndingPeers peers;
  ASSERT_TRUE(device.SetPeers(peers).ok());
  EndingPeers others;
  EXPECT_EQ(device.SetPeers(others).code(), absl::StatusCode::kFailedPrecondition);
  const Block x(device, kBytes);
  const Block y(device, kBytes);
  const std::vector<int32_t> numbers = Numbers(0);
  ASSERT_TRUE(device.CopyFromHost(x.get(), numbers.data(), kBytes).ok());
  const absl::StatusOr<std::unique_ptr<RecordedWork>> work =
      device.Record([&] { return peers.Queue([&] { return device.Copy(y.get(), x.get(), kBytes); }); });
  ASSERT_TRUE(work.ok()) << work.status();
  const absl::StatusOr<std::unique_ptr<RecordedWork>> alone =
      device.Record([&] { return device.Copy(y.get(), x.get(), kBytes); });
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_TRUE((*work)->Run().ok());
  std::vector<int32_t> result(32);
  ASSERT_TRUE(device.CopyToHost(result.data(), y.get(), kBytes).ok());
  EXPECT_EQ(result, numbers);
  peers.End();
  EXPECT_TRUE((*alone)->Run().ok());
  const absl::Status ended = absl::UnavailableError("rank 1 has ended");
  EXPECT_EQ((*work)->Run(), ended);
  EXPECT_EQ(device.CopyToHost(result.data(), y.get(), kBytes), ended);
  EXPECT_EQ(device.Synchronize(), ended);
  // Also when the peers are gone.
  device.ClearPeers(others, absl::OkStatus());
  device.ClearPeers(peers, ended);
  EXPECT_EQ(device.CopyToHost(result.data(), y.get(), kBytes), ended);
  EXPECT_EQ(device.Synchronize(), ended);
  EXPECT_EQ(device.SetPeers(others), ended);
}

TEST(CudaDeviceTest, ADeviceWhosePeersAreGoneWorksOn) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  CudaDevice& device = gpu->device();
  EndingPeers peers;
  ASSERT_TRUE(device.SetPeers(peers).ok());
  device.ClearPeers(peers, absl::OkStatus());
  peers.End();
  EXPECT_TRUE(device.Synchronize().ok());
  EXPECT_TRUE(device.SetPeers(peers).ok());
  device.ClearPeers(peers, absl::OkStatus());
}

TEST(CudaDeviceTest, PeersAreToldOfAllCallsThatMayBlock) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  CudaDevice& device = gpu->device();
  EndingPeers peers;
  ASSERT_TRUE(device.SetPeers(peers).ok());
  const auto blocks = [&](absl::FunctionRef<void()> call) {
    const int64_t before = peers.num_blocks();
    call();
    return peers.num_blocks() - before;
  };
  void* memory = nullptr;
  void* pinned = nullptr;
  std::unique_ptr<Kernel> kernel = *CudaKernel::Create(device, AddOne(), "");
  EXPECT_EQ(blocks([&] { memory = *device.Allocate(kBytes); }), 1);
  EXPECT_EQ(blocks([&] { EXPECT_TRUE(device.CopyFromHost(memory, Numbers(0).data(), kBytes).ok()); }), 1);
  EXPECT_EQ(blocks([&] { pinned = *device.AllocateHost(kBytes); }), 1);
  EXPECT_EQ(blocks([&] { device.FreeHost(pinned); }), 1);
  EXPECT_EQ(blocks([&] { device.Free(memory, kBytes); }), 1);
  EXPECT_EQ(blocks([&] { kernel = nullptr; }), 1);
  device.ClearPeers(peers, absl::OkStatus());
}

TEST(CudaDeviceTest, WhatCannotBeRecordedFails) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  const auto work = gpu->device().Record([&] { return gpu->device().Synchronize(); });
  EXPECT_FALSE(work.ok());
  const Block x(gpu->device(), kBytes);  // the device still works
  EXPECT_TRUE(gpu->device().CopyFromHost(x.get(), Numbers(0).data(), kBytes).ok());
  EXPECT_TRUE(gpu->device().Synchronize().ok());
}

TEST(CudaDeviceTest, OutOfMemoryNamesNeedAndHave) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "only a simulated GPU has so little memory";
  const std::unique_ptr<TestDevice> gpu = NewDevice({.memory_bytes = 1 << 20});
  const Block x(gpu->device(), 600 << 10);
  const absl::Status status = gpu->device().Allocate(600 << 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("614400 bytes needed"), std::string::npos) << status;
  EXPECT_NE(status.message().find("614400 in use here"), std::string::npos) << status;
  EXPECT_NE(status.message().find("of 1048576 free"), std::string::npos) << status;
}

TEST(CudaDeviceTest, CopiesToPinnedMemoryAreQueuedAndItsBlocksAreUsedAgain) {
  const std::unique_ptr<TestDevice> gpu = NewDevice({.keeps_freed_memory = true});
  CudaDevice& device = gpu->device();
  const std::vector<int32_t> numbers = Numbers(3);
  const Block from(device, kBytes);
  const Block to(device, kBytes);
  ASSERT_TRUE(device.CopyFromHost(from.get(), numbers.data(), kBytes).ok());
  const int64_t waits = Waits(*gpu);
  void* first = nullptr;
  for (int i = 0; i < 2; ++i) {
    const absl::StatusOr<void*> block = device.AllocateHost(kBytes);
    ASSERT_TRUE(block.ok()) << block.status();
    if (first != nullptr) {
      EXPECT_EQ(*block, first);
    }
    first = *block;
    ASSERT_TRUE(device.QueueCopyToHost(*block, from.get(), kBytes).ok());
    ASSERT_TRUE(device.QueueCopyToDevice(to.get(), *block, kBytes).ok());
    device.FreeHost(*block);  // while the copies are queued
  }
  EXPECT_EQ(Waits(*gpu), waits);
  std::vector<int32_t> result(32);
  ASSERT_TRUE(device.CopyToHost(result.data(), to.get(), kBytes).ok());
  EXPECT_EQ(result, numbers);
}

TEST(CudaDeviceTest, NoMemoryToPinIsAnError) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "only a simulated GPU fails on demand";
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  gpu->simulated()->gpu().FailCall("cuMemHostAlloc", 1, driver::CUDA_ERROR_OUT_OF_MEMORY);
  const absl::Status status = gpu->device().AllocateHost(kBytes).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("128 bytes needed"), std::string::npos) << status;
}

TEST(CudaDeviceTest, AnotherDeviceIsNotACudaDevice) {
  EXPECT_EQ(AsCudaDevice(nullptr).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AsCudaDevice(&HostDevice()).status().code(), absl::StatusCode::kInvalidArgument);
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Device* const device = &gpu->device();
  EXPECT_EQ(*AsCudaDevice(device), &gpu->device());
}

TEST(MemoryCacheTest, AFreedBlockIsUsedAgainForTheSameSize) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  ASSERT_TRUE(gpu->device().Activate().ok());
  MemoryCache cache(gpu->device().driver(), gpu->device().stream(), /*keeps_blocks=*/true);
  const driver::CUdeviceptr first = *cache.Allocate(1000);
  cache.Free(first);
  EXPECT_EQ(cache.bytes_kept(), 1024);
  EXPECT_EQ(*cache.Allocate(1020), first);
  EXPECT_EQ(cache.bytes_in_use(), 1024);
  const driver::CUdeviceptr second = *cache.Allocate(1000);
  EXPECT_NE(second, first);
  cache.Free(first);
  // A much smaller block would waste it.
  const driver::CUdeviceptr third = *cache.Allocate(100);
  EXPECT_NE(third, first);
  cache.Free(second);
  cache.Free(third);
  EXPECT_EQ(cache.bytes_in_use(), 0);
}

TEST(MemoryCacheTest, KeptBlocksAreFreedBeforeMemoryRunsOut) {
  if (TestDevice::IsGpu()) GTEST_SKIP() << "only a simulated GPU has so little memory";
  const std::unique_ptr<TestDevice> gpu = NewDevice({.memory_bytes = 1 << 20});
  ASSERT_TRUE(gpu->device().Activate().ok());
  MemoryCache cache(gpu->device().driver(), gpu->device().stream(), /*keeps_blocks=*/true);
  const driver::CUdeviceptr first = *cache.Allocate(600 << 10);
  cache.Free(first);
  const absl::StatusOr<driver::CUdeviceptr> second = cache.Allocate(700 << 10);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(cache.bytes_kept(), 0);
  cache.Free(*second);
}

}  // namespace
}  // namespace cotan::cuda
