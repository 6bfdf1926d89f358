// SPDX-License-Identifier: Apache-2.0

// Order, events and the rules of copies.
#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/sim/sim_gpu_fixture.h"

namespace cotan::cuda::sim {
namespace {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr unsigned kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

// Runs each test with queued order, and with three drawn orders.
class StreamsTest : public SimGpuTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  void SetUp() override {
    Start({.seed = GetParam()});
    LoadModule();
    stream_ = CreateStream();
    other_ = CreateStream();
    event_ = CreateEvent();
  }

  void TearDown() override {
    for (const CUdeviceptr address : owned_) Free(address);
    for (float* memory : host_) cu_->cuMemFreeHost(memory);
    cu_->cuEventDestroy_v2(event_);
    cu_->cuStreamDestroy_v2(stream_);
    cu_->cuStreamDestroy_v2(other_);
    cu_->cuCtxSynchronize();
    cu_->cuModuleUnload(module_);
    SimGpuTest::TearDown();
  }

  CUdeviceptr Device(float value) { return Owned(Put(std::vector<float>(kCount, value))); }
  CUdeviceptr Undefined() { return Owned(Allocate(kBytes)); }
  float* Host(float value) {
    float* memory = AllocateHost(kCount);
    std::fill_n(memory, kCount, value);
    host_.push_back(memory);
    return memory;
  }
  CUdeviceptr Owned(CUdeviceptr address) {
    owned_.push_back(address);
    return address;
  }

  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUevent event_ = nullptr;
  std::vector<CUdeviceptr> owned_;
  std::vector<float*> host_;
};

TEST_P(StreamsTest, WorkRunsWhenItIsDemanded) {
  const CUdeviceptr x = Undefined(), y = Undefined();
  float* in = Host(3);
  float* out = Host(7);
  ASSERT_EQ(cu_->cuMemcpyHtoDAsync_v2(x, in, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuMemcpyDtoHAsync_v2(out, y, kBytes, stream_), CUDA_SUCCESS);
  EXPECT_EQ(gpu_->statistics().kernels.size(), 0);
  // Too early: neither the old content nor the result.
  EXPECT_NE(out[0], 7);
  EXPECT_NE(out[0], 4);
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_THAT(std::vector<float>(out, out + kCount), Each(4));
}

TEST_P(StreamsTest, EventOrdersTwoStreams) {
  const CUdeviceptr x = Device(1), y = Undefined(), z = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(Add(y, z, kCount, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamSynchronize(other_), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_THAT(Get(z, kCount), Each(3));
}

TEST_P(StreamsTest, MissingEventIsFoundInEveryOrder) {
  const CUdeviceptr x = Device(1), y = Device(9), z = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(y, z, kCount, other_), CUDA_SUCCESS);
  const CUresult first = cu_->cuStreamSynchronize(other_);
  const CUresult second = cu_->cuStreamSynchronize(stream_);
  EXPECT_EQ(second, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(first == CUDA_SUCCESS || first == second);
  EXPECT_THAT(ErrorText(second), AllOf(HasSubstr("kernel add"), HasSubstr("nothing orders the two"),
                                       HasSubstr("stream 1"), HasSubstr("stream 2"), HasSubstr("offset 0 of")));
}

TEST_P(StreamsTest, UnorderedReadsAreAllowed) {
  const CUdeviceptr x = Device(1), y = Undefined(), z = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(x, z, kCount, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuCtxSynchronize(), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_EQ(Get(y, kCount), Get(z, kCount));
}

TEST_P(StreamsTest, HostSynchronizationOrdersStreams) {
  const CUdeviceptr x = Device(1), y = Undefined(), z = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(y, z, kCount, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamSynchronize(other_), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_THAT(Get(z, kCount), Each(3));
}

TEST_P(StreamsTest, MissingSynchronizationBeforeABlockingCopyIsFound) {
  // The legacy stream does not wait for non-blocking ones. y has content, which would be copied silently.
  const CUdeviceptr x = Device(1), y = Device(5);
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  std::vector<float> values(kCount);
  const CUresult first = cu_->cuMemcpyDtoH_v2(values.data(), y, kBytes);
  const CUresult second = cu_->cuStreamSynchronize(stream_);
  EXPECT_EQ(second, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_TRUE(first == CUDA_SUCCESS || first == second);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("nothing orders the two"));
}

TEST_P(StreamsTest, LegacyStreamWaitsForBlockingStreams) {
  const CUstream blocking = CreateStream(CU_STREAM_DEFAULT);
  const CUdeviceptr x = Device(1), y = Undefined(), z = Undefined();
  ASSERT_EQ(Add(x, y, kCount, blocking), CUDA_SUCCESS);
  ASSERT_EQ(Add(y, z, kCount, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(Add(z, y, kCount, blocking), CUDA_SUCCESS);
  EXPECT_THAT(Get(y, kCount), Each(4));
  ASSERT_EQ(cu_->cuStreamDestroy_v2(blocking), CUDA_SUCCESS);
}

TEST_P(StreamsTest, HostBufferThatIsReusedTooEarlyIsFound) {
  const CUdeviceptr x = Undefined();
  float* in = Host(1);
  ASSERT_EQ(cu_->cuMemcpyHtoDAsync_v2(x, in, kBytes, stream_), CUDA_SUCCESS);
  in[5] = 2;
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), AllOf(HasSubstr("the host changed"), HasSubstr("at offset 2")));
}

TEST_P(StreamsTest, HostBufferMayBeReusedAfterSynchronization) {
  const CUdeviceptr x = Undefined(), y = Undefined();
  float* slot = Host(1);
  ASSERT_EQ(cu_->cuMemcpyHtoDAsync_v2(x, slot, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  while (cu_->cuEventQuery(event_) == CUDA_ERROR_NOT_READY) {
  }
  std::fill_n(slot, kCount, 2.0f);
  ASSERT_EQ(cu_->cuMemcpyHtoDAsync_v2(y, slot, kBytes, stream_), CUDA_SUCCESS);
  // Results go where the inputs came from.
  ASSERT_EQ(cu_->cuMemcpyDtoHAsync_v2(slot, x, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuMemcpyHtoDAsync_v2(y, slot, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_EQ(slot[0], 1);
  EXPECT_THAT(Get(y, kCount), Each(1));
}

TEST_P(StreamsTest, PageableAsynchronousCopyIsRefused) {
  const CUdeviceptr x = Device(1);
  std::vector<float> values(kCount);
  EXPECT_EQ(cu_->cuMemcpyHtoDAsync_v2(x, values.data(), kBytes, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("host memory that is not pinned"));
  EXPECT_EQ(cu_->cuMemcpyDtoHAsync_v2(values.data(), x, kBytes, stream_), CUDA_ERROR_INVALID_VALUE);
  // Not an error of later calls.
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_P(StreamsTest, PinnedMemoryThatIsFreedTooEarlyIsFound) {
  const CUdeviceptr x = Device(1);
  float* out = AllocateHost(kCount);
  ASSERT_EQ(cu_->cuMemcpyDtoHAsync_v2(out, x, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuMemFreeHost(out), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("freed pinned block"));
}

TEST_P(StreamsTest, DeviceMemoryThatIsFreedTooEarlyIsFound) {
  const CUdeviceptr x = Put(std::vector<float>(kCount, 1)), y = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  Free(x);
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_THAT(ErrorText(CUDA_ERROR_ILLEGAL_ADDRESS), AllOf(HasSubstr("kernel add, PTX line "), HasSubstr("block ("),
                                                           HasSubstr("thread ("), HasSubstr("after they were freed")));
}

TEST_P(StreamsTest, QueriesRunWorkOneByOne) {
  const CUdeviceptr x = Device(1), y = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(y, x, kCount, stream_), CUDA_SUCCESS);
  int queries = 1;
  while (cu_->cuEventQuery(event_) == CUDA_ERROR_NOT_READY) ++queries;
  EXPECT_EQ(queries, 3);
  EXPECT_EQ(gpu_->statistics().kernels.at("add").runs, 1);
  queries = 1;
  while (cu_->cuStreamQuery(stream_) == CUDA_ERROR_NOT_READY) ++queries;
  EXPECT_EQ(queries, 2);
  EXPECT_EQ(gpu_->statistics().synchronizations, 1);  // Of the copy in Device().
}

TEST_P(StreamsTest, EventsMeasureTime) {
  const CUevent start = CreateEvent();
  const CUdeviceptr x = Device(1), y = Undefined();
  float milliseconds = -1;
  EXPECT_EQ(cu_->cuEventElapsedTime_v2(&milliseconds, start, event_), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cu_->cuEventRecord(start, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuEventElapsedTime_v2(&milliseconds, start, event_), CUDA_ERROR_NOT_READY);
  ASSERT_EQ(cu_->cuEventSynchronize(event_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventElapsedTime_v2(&milliseconds, start, event_), CUDA_SUCCESS);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cu_->cuEventDestroy_v2(start), CUDA_SUCCESS);
}

TEST_P(StreamsTest, SetsAndCopiesWithinTheDevice) {
  const CUdeviceptr x = Undefined(), y = Undefined();
  ASSERT_EQ(cu_->cuMemsetD32Async(x, 0x3f800000, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuMemcpyDtoDAsync_v2(y, x, kBytes, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuMemsetD8Async(y, 0, 8, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS);
  const std::vector<float> values = Get(y, kCount);
  EXPECT_EQ(values[0] + values[1], 0);
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), 0.0f), kCount - 2);
  EXPECT_EQ(cu_->cuMemsetD32Async(x + 2, 0, 1, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_->cuMemsetD8Async(x, 0, kBytes + 1, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu_->cuMemcpyDtoDAsync_v2(y, x + 4, kBytes, stream_), CUDA_ERROR_INVALID_VALUE);
}

TEST_P(StreamsTest, HostFunctionsRunInOrder) {
  const CUdeviceptr x = Device(1), y = Undefined();
  ASSERT_EQ(gpu_->EnqueueHostFunction(stream_, "double",
                                      [x](DeviceMemory& memory) {
                                        auto* values = reinterpret_cast<float*>(*memory.ViewForWrite(x, kBytes));
                                        for (unsigned i = 0; i < kCount; ++i) values[i] *= 2;
                                        return absl::OkStatus();
                                      }),
            absl::OkStatus());
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_THAT(Get(y, kCount), Each(3));
  EXPECT_EQ(gpu_->statistics().host_functions.at("double"), 1);
  ASSERT_EQ(
      gpu_->EnqueueHostFunction(stream_, "fails", [](DeviceMemory&) { return absl::UnknownError("no algorithm"); }),
      absl::OkStatus());
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("fails: no algorithm"));
}

TEST_P(StreamsTest, UnorderedHostFunctionIsFound) {
  const CUdeviceptr x = Device(1), y = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(gpu_->EnqueueHostFunction(other_, "product",
                                      [x](DeviceMemory& memory) { return memory.ViewForWrite(x, kBytes).status(); }),
            absl::OkStatus());
  EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), AllOf(HasSubstr("product"), HasSubstr("nothing orders the two")));
}

TEST_P(StreamsTest, ErrorsOfQueuedWorkStay) {
  const CUdeviceptr x = Undefined(), y = Undefined();
  ASSERT_EQ(Add(x, y, kCount, stream_), CUDA_SUCCESS);  // Nothing wrote x.
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_LAUNCH_FAILED);
  CUdeviceptr address = 0;
  EXPECT_EQ(cu_->cuMemAlloc_v2(&address, 4), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(ErrorText(CUDA_ERROR_LAUNCH_FAILED), HasSubstr("nothing wrote the byte at offset "));
  EXPECT_FALSE(gpu_->EnqueueHostFunction(stream_, "f", [](DeviceMemory&) { return absl::OkStatus(); }).ok());
}

INSTANTIATE_TEST_SUITE_P(Seeds, StreamsTest, ::testing::Values(0, 1, 2, 3));

using StreamOrdersTest = SimGpuTest;

TEST_F(StreamOrdersTest, SeedsDrawBothOrdersOfIndependentWork) {
  const auto order_of = [this](uint64_t seed) {
    Start({.seed = seed});
    std::string order;
    std::vector<CUstream> streams;
    for (const char name : {'a', 'b'}) {
      streams.push_back(CreateStream());
      EXPECT_EQ(gpu_->EnqueueHostFunction(streams.back(), std::string(1, name),
                                          [&order, name](DeviceMemory&) {
                                            order += name;
                                            return absl::OkStatus();
                                          }),
                absl::OkStatus());
    }
    EXPECT_EQ(cu_->cuCtxSynchronize(), CUDA_SUCCESS) << gpu_->LastViolation();
    for (const CUstream stream : streams) EXPECT_EQ(cu_->cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    return order;
  };
  EXPECT_EQ(order_of(0), "ab");
  std::set<std::string> orders;
  for (uint64_t seed = 1; seed <= 16; ++seed) orders.insert(order_of(seed));
  EXPECT_THAT(orders, ElementsAre("ab", "ba"));
}

}  // namespace
}  // namespace cotan::cuda::sim
