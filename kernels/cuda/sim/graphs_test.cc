// SPDX-License-Identifier: Apache-2.0

// Captures and graphs.
#include <algorithm>
#include <thread>

#include "kernels/cuda/sim/sim_gpu_fixture.h"

namespace cotan::cuda::sim {
namespace {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr unsigned kCount = 64;
constexpr size_t kBytes = kCount * sizeof(float);

class GraphsTest : public SimGpuTest, public ::testing::WithParamInterface<uint64_t> {
 protected:
  void SetUp() override {
    Start({.seed = GetParam()});
    LoadModule();
    stream_ = CreateStream();
    other_ = CreateStream();
    event_ = CreateEvent();
    joined_ = CreateEvent();
    x_ = Put(std::vector<float>(kCount, 1));
    y_ = Put(std::vector<float>(kCount, 0));
    z_ = Put(std::vector<float>(kCount, 0));
    in_ = AllocateHost(kCount);
    out_ = AllocateHost(kCount);
    std::fill_n(in_, kCount, 1.0f);
  }

  void TearDown() override {
    cu_->cuCtxSynchronize();
    for (const CUdeviceptr address : {x_, y_, z_}) {
      if (address != 0) Free(address);
    }
    for (float* memory : {in_, out_}) cu_->cuMemFreeHost(memory);
    if (exec_ != nullptr) cu_->cuGraphExecDestroy(exec_);
    if (graph_ != nullptr) cu_->cuGraphDestroy(graph_);
    cu_->cuEventDestroy_v2(event_);
    cu_->cuEventDestroy_v2(joined_);
    cu_->cuStreamDestroy_v2(stream_);
    cu_->cuStreamDestroy_v2(other_);
    cu_->cuModuleUnload(module_);
    SimGpuTest::TearDown();
  }

  void Begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL) {
    ASSERT_EQ(cu_->cuStreamBeginCapture_v2(stream_, mode), CUDA_SUCCESS);
  }
  void End() {
    ASSERT_EQ(cu_->cuStreamEndCapture(stream_, &graph_), CUDA_SUCCESS) << gpu_->LastViolation();
    ASSERT_EQ(cu_->cuGraphInstantiateWithFlags(&exec_, graph_, 0), CUDA_SUCCESS) << gpu_->LastViolation();
  }
  // in -> x, y = x + 1, y -> out.
  void CaptureStep() {
    Begin();
    ASSERT_EQ(cu_->cuMemcpyHtoDAsync_v2(x_, in_, kBytes, stream_), CUDA_SUCCESS);
    ASSERT_EQ(Add(x_, y_, kCount, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cu_->cuMemcpyDtoHAsync_v2(out_, y_, kBytes, stream_), CUDA_SUCCESS);
    End();
  }
  void RunGraph() {
    ASSERT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_SUCCESS) << gpu_->LastViolation();
    ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS) << gpu_->LastViolation();
  }
  std::vector<CUgraphNode> Nodes() {
    size_t count = 0;
    EXPECT_EQ(cu_->cuGraphGetNodes(graph_, nullptr, &count), CUDA_SUCCESS);
    std::vector<CUgraphNode> nodes(count);
    EXPECT_EQ(cu_->cuGraphGetNodes(graph_, nodes.data(), &count), CUDA_SUCCESS);
    return nodes;
  }
  std::vector<float> Out() const { return {out_, out_ + kCount}; }

  // Begins a capture, expects `result` from `call`, and that the capture has failed.
  template <typename Call>
  void ExpectInvalidates(Call call, CUresult result) {
    Begin();
    EXPECT_EQ(call(), result) << gpu_->LastViolation();
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_EQ(cu_->cuStreamIsCapturing(stream_, &status), CUDA_SUCCESS);
    EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
    EXPECT_EQ(Add(x_, y_, kCount, stream_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CUgraph graph = nullptr;
    EXPECT_EQ(cu_->cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS);
  }

  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr, joined_ = nullptr;
  CUdeviceptr x_ = 0, y_ = 0, z_ = 0;
  float* in_ = nullptr;
  float* out_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
};

TEST_P(GraphsTest, ReplaysReadHostMemoryWhenTheyAreLaunched) {
  CaptureStep();
  EXPECT_EQ(gpu_->statistics().kernels.size(), 0);
  EXPECT_EQ(gpu_->statistics().kernel_launches, 0);
  for (const float value : {1.0f, 5.0f}) {
    std::fill_n(in_, kCount, value);
    RunGraph();
    EXPECT_THAT(Out(), Each(value + 1));
  }
  const Statistics statistics = gpu_->statistics();
  EXPECT_EQ(statistics.graph_launches, 2);
  EXPECT_EQ(statistics.graph_nodes, 6);
  EXPECT_EQ(statistics.kernels.at("add").runs, 2);
  EXPECT_EQ(statistics.kernels.at("add").counters.global_load_bytes, 2 * kBytes);
}

TEST_P(GraphsTest, HostMemoryThatIsReusedTooEarlyIsFound) {
  CaptureStep();
  ASSERT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_SUCCESS);
  in_[0] = 100;
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("the host changed"));
}

TEST_P(GraphsTest, ResultsThatAreReadTooEarlyAreNotThere) {
  CaptureStep();
  RunGraph();
  ASSERT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_SUCCESS);
  EXPECT_NE(out_[0], 2);
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(out_[0], 2);
}

// `add` does not wait for earlier work.
TEST_P(GraphsTest, NodesBeginEarlyAsTheyWereCaptured) {
  CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                             .reserved = 0,
                             .value = {.programmaticStreamSerializationAllowed = 1}};
  CUlaunchConfig config = Blocks(2, 32);
  config.hStream = stream_;
  config.attrs = &early;
  config.numAttrs = 1;
  unsigned n = kCount;
  void* parameters[] = {&x_, &y_, &n};
  Begin();
  ASSERT_EQ(cu_->cuLaunchKernelEx(&config, Function("add"), parameters, nullptr), CUDA_SUCCESS);
  End();
  CUDA_KERNEL_NODE_PARAMS_v2 kernel = {};
  kernel.func = Function("add");
  kernel.gridDimX = kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.blockDimX = 32;
  kernel.kernelParams = parameters;
  ASSERT_EQ(cu_->cuGraphExecKernelNodeSetParams_v2(exec_, Nodes()[0], &kernel), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("accesses global memory before griddepcontrol.wait"));
}

TEST_P(GraphsTest, NodesAreListedAndChanged) {
  CaptureStep();
  const std::vector<CUgraphNode> nodes = Nodes();
  ASSERT_EQ(nodes.size(), 3);
  const CUgraphNodeType types[] = {CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_KERNEL, CU_GRAPH_NODE_TYPE_MEMCPY};
  for (size_t i = 0; i < 3; ++i) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    ASSERT_EQ(cu_->cuGraphNodeGetType(nodes[i], &type), CUDA_SUCCESS);
    EXPECT_EQ(type, types[i]);
  }
  unsigned n = kCount;
  void* parameters[] = {&x_, &z_, &n};
  CUDA_KERNEL_NODE_PARAMS_v2 kernel = {};
  kernel.func = Function("add");
  kernel.gridDimX = 2;
  kernel.gridDimY = kernel.gridDimZ = kernel.blockDimY = kernel.blockDimZ = 1;
  kernel.blockDimX = 32;
  kernel.kernelParams = parameters;
  ASSERT_EQ(cu_->cuGraphExecKernelNodeSetParams_v2(exec_, nodes[1], &kernel), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_EQ(cu_->cuGraphExecKernelNodeSetParams_v2(exec_, nodes[0], &kernel), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  CUDA_MEMCPY3D_v2 copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = z_;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out_;
  copy.WidthInBytes = kBytes / 2;
  copy.Height = copy.Depth = 1;
  ASSERT_EQ(cu_->cuGraphExecMemcpyNodeSetParams(exec_, nodes[2], &copy, context_), CUDA_SUCCESS)
      << gpu_->LastViolation();
  EXPECT_EQ(cu_->cuGraphExecMemcpyNodeSetParams(exec_, nodes[0], &copy, context_),
            CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  out_[kCount - 1] = 77;
  RunGraph();
  EXPECT_EQ(out_[0], 2);
  EXPECT_EQ(out_[kCount - 1], 77);
  EXPECT_THAT(Get(z_, kCount), Each(2));
  EXPECT_THAT(Get(y_, kCount), Each(0));
}

TEST_P(GraphsTest, FreedMemoryIsFoundAtTheNextLaunch) {
  CaptureStep();
  RunGraph();
  Free(y_);
  y_ = 0;
  EXPECT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), AllOf(HasSubstr("kernel add"), HasSubstr("memory that was freed")));
}

TEST_P(GraphsTest, UnloadedModuleIsFoundAtTheNextLaunch) {
  CaptureStep();
  UnloadModule();
  EXPECT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("whose module was unloaded"));
}

TEST_P(GraphsTest, BranchesJoin) {
  Begin();
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(Add(x_, y_, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(x_, z_, kCount, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventRecord(joined_, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamWaitEvent(stream_, joined_, 0), CUDA_SUCCESS);
  ASSERT_EQ(Add(z_, x_, kCount, stream_), CUDA_SUCCESS);
  End();
  EXPECT_EQ(cu_->cuEventQuery(event_), CUDA_ERROR_CAPTURED_EVENT);
  RunGraph();
  RunGraph();
  EXPECT_THAT(Get(x_, kCount), Each(5));
  EXPECT_THAT(Get(y_, kCount), Each(4));
}

TEST_P(GraphsTest, MissingEventBetweenBranchesIsFound) {
  Begin();
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(Add(x_, y_, kCount, stream_), CUDA_SUCCESS);
  ASSERT_EQ(Add(y_, z_, kCount, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventRecord(joined_, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamWaitEvent(stream_, joined_, 0), CUDA_SUCCESS);
  End();
  ASSERT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_THAT(gpu_->LastViolation(), AllOf(HasSubstr("nothing orders the two"), HasSubstr("branch 1 of a graph")));
}

TEST_P(GraphsTest, UnjoinedBranchIsRefused) {
  Begin();
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(Add(x_, z_, kCount, other_), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph_, nullptr);
}

TEST_P(GraphsTest, CaptureEndsWhereItBegan) {
  EXPECT_EQ(cu_->cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(cu_->cuStreamBeginCapture_v2(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  Begin();
  EXPECT_EQ(cu_->cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_ERROR_ILLEGAL_STATE);
  ASSERT_EQ(cu_->cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamWaitEvent(other_, event_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuStreamEndCapture(other_, &graph_), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  EXPECT_EQ(cu_->cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  Begin();
  std::thread([&] {
    EXPECT_EQ(cu_->cuCtxSetCurrent(context_), CUDA_SUCCESS);
    EXPECT_EQ(cu_->cuStreamEndCapture(stream_, &graph_), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  End();
}

TEST_P(GraphsTest, CapturesKeepOutsideWorkOut) {
  ASSERT_EQ(cu_->cuEventRecord(event_, other_), CUDA_SUCCESS);
  ExpectInvalidates([&] { return cu_->cuStreamWaitEvent(stream_, event_, 0); }, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  Begin();
  ASSERT_EQ(cu_->cuStreamBeginCapture_v2(other_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuEventRecord(event_, other_), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuStreamWaitEvent(stream_, event_, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  for (const CUstream stream : {stream_, other_}) {
    EXPECT_EQ(cu_->cuStreamEndCapture(stream, &graph_), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
}

TEST_P(GraphsTest, ForbiddenCallsInvalidateACapture) {
  const CUresult unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  CUdeviceptr address = 0;
  void* memory = nullptr;
  CUmodule module = nullptr;
  ExpectInvalidates([&] { return cu_->cuMemAlloc_v2(&address, 4); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuMemFree_v2(x_); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuMemHostAlloc(&memory, 4, 0); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuStreamSynchronize(stream_); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuStreamQuery(stream_); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuCtxSynchronize(); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuModuleLoadData(&module, kPtx); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuMemcpyHtoD_v2(x_, in_, 4); }, unsupported);
  ExpectInvalidates([&] { return cu_->cuEventQuery(joined_); }, unsupported);
  ASSERT_EQ(cu_->cuStreamDestroy_v2(stream_), CUDA_SUCCESS);
  stream_ = CreateStream(CU_STREAM_DEFAULT);
  ExpectInvalidates([&] { return Add(x_, y_, kCount, nullptr); }, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
}

TEST_P(GraphsTest, RelaxedCapturesAllowAllocation) {
  Begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  Free(Allocate(4));
  EXPECT_EQ(cu_->cuStreamSynchronize(other_), CUDA_SUCCESS);
  End();
  Begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  std::thread([&] {
    EXPECT_EQ(cu_->cuCtxSetCurrent(context_), CUDA_SUCCESS);
    Free(Allocate(4));
  }).join();
  CUgraph graph = nullptr;
  ASSERT_EQ(cu_->cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  EXPECT_EQ(cu_->cuGraphDestroy(graph), CUDA_SUCCESS);
}

TEST_P(GraphsTest, HostFunctionsAreReplayed) {
  Begin();
  ASSERT_EQ(gpu_->EnqueueHostFunction(stream_, "product",
                                      [x = x_](DeviceMemory& memory) {
                                        const auto view = memory.ViewForWrite(x, kBytes);
                                        if (!view.ok()) return view.status();
                                        auto* values = reinterpret_cast<float*>(*view);
                                        for (unsigned i = 0; i < kCount; ++i) values[i] *= 3;
                                        return absl::OkStatus();
                                      }),
            absl::OkStatus());
  End();
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  ASSERT_EQ(cu_->cuGraphNodeGetType(Nodes()[0], &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);
  RunGraph();
  RunGraph();
  EXPECT_THAT(Get(x_, kCount), Each(9));
  EXPECT_EQ(gpu_->statistics().host_functions.at("product"), 2);
}

TEST_P(GraphsTest, LaunchesFollowOneAnother) {
  CaptureStep();
  ASSERT_EQ(cu_->cuGraphLaunch(exec_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuGraphLaunch(exec_, other_), CUDA_SUCCESS);
  ASSERT_EQ(cu_->cuStreamSynchronize(other_), CUDA_SUCCESS) << gpu_->LastViolation();
  EXPECT_EQ(gpu_->statistics().kernels.at("add").runs, 2);
  ASSERT_EQ(cu_->cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

TEST_P(GraphsTest, PageableMemoryIsRefused) {
  std::vector<float> values(kCount);
  Begin();
  EXPECT_EQ(cu_->cuMemcpyHtoDAsync_v2(x_, values.data(), kBytes, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(gpu_->LastViolation(), HasSubstr("not pinned"));
  End();
}

INSTANTIATE_TEST_SUITE_P(Seeds, GraphsTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace cotan::cuda::sim
