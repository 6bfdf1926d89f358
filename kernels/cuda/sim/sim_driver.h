// SPDX-License-Identifier: Apache-2.0

// The driver's functions on simulated hardware. An internal of SimGpu.
#ifndef COTAN_KERNELS_CUDA_SIM_SIM_DRIVER_H_
#define COTAN_KERNELS_CUDA_SIM_SIM_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/driver/driver_table.h"
#include "kernels/cuda/driver/driver_types.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/graph.h"
#include "kernels/cuda/sim/handle_table.h"
#include "kernels/cuda/sim/host_memory.h"
#include "kernels/cuda/sim/module.h"
#include "kernels/cuda/sim/sim_gpu.h"
#include "kernels/cuda/sim/statistics.h"
#include "kernels/cuda/sim/work.h"
#include "kernels/cuda/sim/work_queue.h"

namespace cotan::cuda::sim {

struct Stream {
  unsigned flags = driver::CU_STREAM_DEFAULT;
  int lane = 0;
  Ticket last;  // Of its work.
  // While it takes part in a capture:
  std::shared_ptr<Capture> capture = nullptr;
  std::vector<int> ends = {};  // The nodes that its next node comes after.
};

struct Event {
  unsigned flags = driver::CU_EVENT_DEFAULT;
  // Place of the last record: in a stream,
  Ticket recorded;
  std::shared_ptr<EventStamp> stamp = nullptr;
  // or in a capture.
  std::shared_ptr<Capture> capture = nullptr;
  std::vector<int> nodes = {};
};

// One lock protects all. Functions return driver::CUDA_SUCCESS or what Fail() returns.
class SimDriver {
 public:
  explicit SimDriver(SimGpu::Options options);
  ~SimDriver();

  const driver::DriverTable& table() const { return table_; }
  const SimGpu::Options& options() const { return options_; }
  DeviceMemory& memory() { return memory_; }

  // As the functions of SimGpu.
  std::string LastViolation() const;
  Statistics statistics() const;
  void ResetStatistics();
  void FailCall(absl::string_view function, int64_t n, driver::CUresult result);
  absl::Status EnqueueHostFunction(driver::CUstream stream, absl::string_view label,
                                   std::function<absl::Status(DeviceMemory&)> function);

 private:
  // The requirements of a function on the state before it.
  enum class Needs : uint8_t {
    kNothing,
    kInit,     // cuInit was called.
    kContext,  // And there is a current context and no error of queued work.
    kRelease,  // As kContext; the function is called even if there is an error of queued work, which is returned then.
  };

  // Returns a function of the table: locks, counts, injects faults, and checks `needs`.
  template <typename... Arguments>
  std::function<driver::CUresult(Arguments...)> Wrap(const char* name, Needs needs,
                                                     driver::CUresult (SimDriver::*function)(Arguments...));
  void FillTable();
  void FillStreamsAndGraphs();
  driver::CUresult Enter(const char* name, Needs needs, bool& call);

  // Remembers the text for cuGetErrorString and LastViolation(), and returns `result`.
  driver::CUresult Fail(driver::CUresult result, std::string text);
  driver::CUresult InvalidValue(absl::string_view text) {
    return Fail(driver::CUDA_ERROR_INVALID_VALUE, std::string(text));
  }
  driver::CUresult InvalidHandle(absl::string_view what);
  // Makes an error of queued work that of all later calls.
  driver::CUresult Stick(const absl::Status& status);

  // context_functions.cc
  driver::CUresult Init(unsigned flags);
  driver::CUresult GetVersion(int* version);
  driver::CUresult GetErrorName(driver::CUresult result, const char** name);
  driver::CUresult GetErrorString(driver::CUresult result, const char** text);
  driver::CUresult CheckDevice(driver::CUdevice device);
  driver::CUresult DeviceGetCount(int* count);
  driver::CUresult DeviceGet(driver::CUdevice* device, int ordinal);
  driver::CUresult DeviceGetName(char* name, int size, driver::CUdevice device);
  driver::CUresult DeviceGetAttribute(int* value, driver::CUdevice_attribute attribute, driver::CUdevice device);
  driver::CUresult DeviceTotalMem(size_t* bytes, driver::CUdevice device);
  driver::CUresult PrimaryCtxRetain(driver::CUcontext* context, driver::CUdevice device);
  driver::CUresult PrimaryCtxRelease(driver::CUdevice device);
  driver::CUresult CtxSetCurrent(driver::CUcontext context);
  driver::CUresult CtxGetCurrent(driver::CUcontext* context);
  driver::CUresult CtxSynchronize();

  // module_functions.cc
  driver::CUresult ModuleLoadData(driver::CUmodule* module, const void* image);
  driver::CUresult ModuleUnload(driver::CUmodule module);
  driver::CUresult ModuleGetFunction(driver::CUfunction* function, driver::CUmodule module, const char* name);
  driver::CUresult ModuleGetGlobal(driver::CUdeviceptr* address, size_t* bytes, driver::CUmodule module,
                                   const char* name);
  driver::CUresult FuncGetAttribute(int* value, driver::CUfunction_attribute attribute, driver::CUfunction function);
  driver::CUresult FuncSetAttribute(driver::CUfunction function, driver::CUfunction_attribute attribute, int value);
  driver::CUresult LaunchKernel(const driver::CUlaunchConfig* config, driver::CUfunction function, void** parameters,
                                void** extra);
  driver::CUresult ReadAttributes(const driver::CUlaunchConfig& config, ptx::Launch& launch);
  driver::CUresult MakeCall(const driver::CUDA_KERNEL_NODE_PARAMS_v2& parameters, KernelCall& call);
  // Reads the kernel's parameters from where the caller has them.
  absl::Status ReadParameters(const Kernel& kernel, void** parameters, std::vector<std::byte>& bytes) const;

  // memory_functions.cc
  driver::CUresult MemGetInfo(size_t* free_bytes, size_t* total_bytes);
  driver::CUresult MemAlloc(driver::CUdeviceptr* address, size_t bytes);
  driver::CUresult MemFree(driver::CUdeviceptr address);
  driver::CUresult MemHostAlloc(void** memory, size_t bytes, unsigned flags);
  driver::CUresult MemFreeHost(void* memory);
  driver::CUresult MemcpyHtoD(driver::CUdeviceptr to, const void* from, size_t bytes);
  driver::CUresult MemcpyDtoH(void* to, driver::CUdeviceptr from, size_t bytes);
  driver::CUresult MemcpyDtoD(driver::CUdeviceptr to, driver::CUdeviceptr from, size_t bytes);
  driver::CUresult MemcpyHtoDAsync(driver::CUdeviceptr to, const void* from, size_t bytes, driver::CUstream stream);
  driver::CUresult MemcpyDtoHAsync(void* to, driver::CUdeviceptr from, size_t bytes, driver::CUstream stream);
  driver::CUresult MemcpyDtoDAsync(driver::CUdeviceptr to, driver::CUdeviceptr from, size_t bytes,
                                   driver::CUstream stream);
  driver::CUresult MemsetD8Async(driver::CUdeviceptr to, unsigned char value, size_t count, driver::CUstream stream);
  driver::CUresult MemsetD32Async(driver::CUdeviceptr to, unsigned value, size_t count, driver::CUstream stream);
  driver::CUresult CheckCopy(const MemoryCopy& copy, bool pageable_allowed);
  driver::CUresult CopyAndWait(const MemoryCopy& copy);
  driver::CUresult CopyAsync(driver::CUstream stream, const MemoryCopy& copy);
  driver::CUresult Fill(driver::CUstream stream, const MemoryFill& fill);
  // Takes the snapshots of copies from the host, and writes over the targets of copies to the host, so that the host
  // cannot use old content before the copy ran.
  absl::Status PrepareHostMemory(std::vector<Work>& works);

  // stream_functions.cc
  driver::CUresult StreamCreate(driver::CUstream* stream, unsigned flags);
  driver::CUresult StreamDestroy(driver::CUstream stream);
  driver::CUresult StreamSynchronize(driver::CUstream stream);
  driver::CUresult StreamQuery(driver::CUstream stream);
  driver::CUresult StreamWaitEvent(driver::CUstream stream, driver::CUevent event, unsigned flags);
  driver::CUresult EventCreate(driver::CUevent* event, unsigned flags);
  driver::CUresult EventDestroy(driver::CUevent event);
  driver::CUresult EventRecord(driver::CUevent event, driver::CUstream stream);
  driver::CUresult EventQuery(driver::CUevent event);
  driver::CUresult EventSynchronize(driver::CUevent event);
  driver::CUresult EventElapsedTime(float* milliseconds, driver::CUevent start, driver::CUevent end);
  // Returns null for an unknown handle.
  Stream* FindStream(driver::CUstream handle);
  // Returns what work that is queued in `stream` now comes after, other than the stream's own.
  std::vector<Ticket> ImplicitOrder(const Stream& stream) const;
  // Returns all that a synchronization with `stream` waits for.
  std::vector<Ticket> WorkOf(const Stream& stream) const;
  // Queues or captures `work`.
  driver::CUresult Submit(driver::CUstream handle, Work work);
  driver::CUresult Submit(Stream& stream, Work work);
  driver::CUresult Wait(const Ticket& ticket);

  // capture_functions.cc
  driver::CUresult StreamBeginCapture(driver::CUstream stream, driver::CUstreamCaptureMode mode);
  driver::CUresult StreamEndCapture(driver::CUstream stream, driver::CUgraph* graph);
  driver::CUresult StreamIsCapturing(driver::CUstream stream, driver::CUstreamCaptureStatus* status);
  // Success unless `stream` is in a capture that was invalidated.
  driver::CUresult CheckCapture(const Stream& stream);
  // Fails if a capture forbids calls like `what` in this thread, and invalidates the capture.
  driver::CUresult CheckCallAllowed(absl::string_view what);
  // Fails if `stream` is being captured, and invalidates the capture.
  driver::CUresult CheckNotCapturing(const Stream& stream, absl::string_view what);
  // Fails if work in the legacy stream would have to wait for a stream that is being captured.
  driver::CUresult CheckLegacyAllowed();
  driver::CUresult RecordInCapture(Stream& stream, Event& event);
  driver::CUresult WaitForCapturedEvent(driver::CUstream handle, Stream& stream, const Event& event);
  driver::CUresult Invalidate(Capture& capture, driver::CUresult result, absl::string_view text);

  // graph_functions.cc
  driver::CUresult GraphGetNodes(driver::CUgraph graph, driver::CUgraphNode* nodes, size_t* count);
  driver::CUresult GraphNodeGetType(driver::CUgraphNode node, driver::CUgraphNodeType* type);
  driver::CUresult GraphInstantiate(driver::CUgraphExec* exec, driver::CUgraph graph, unsigned long long flags);
  driver::CUresult GraphExecKernelNodeSetParams(driver::CUgraphExec exec, driver::CUgraphNode node,
                                                const driver::CUDA_KERNEL_NODE_PARAMS_v2* parameters);
  driver::CUresult GraphExecMemcpyNodeSetParams(driver::CUgraphExec exec, driver::CUgraphNode node,
                                                const driver::CUDA_MEMCPY3D_v2* copy, driver::CUcontext context);
  driver::CUresult GraphLaunch(driver::CUgraphExec exec, driver::CUstream stream);
  driver::CUresult GraphExecDestroy(driver::CUgraphExec exec);
  driver::CUresult GraphDestroy(driver::CUgraph graph);
  driver::CUresult FindNode(driver::CUgraphExec exec, driver::CUgraphNode node, ExecutableGraph*& graph, int& index);

  // Lists what was not released.
  std::string Leaks() const;

  const SimGpu::Options options_;
  mutable std::mutex mutex_;
  driver::DriverTable table_;
  Statistics statistics_;
  DeviceMemory memory_;
  HostMemory host_;
  WorkRunner runner_;
  WorkQueue queue_;

  struct Injection {
    int64_t calls_left = 0;
    driver::CUresult result = driver::CUDA_SUCCESS;
  };
  std::map<std::string, Injection, std::less<>> injections_;  // By function.
  driver::CUresult last_error_ = driver::CUDA_SUCCESS;
  std::set<std::string> texts_;                     // What cuGetErrorString returned.
  const std::string* last_text_ = nullptr;          // In texts_.
  driver::CUresult sticky_ = driver::CUDA_SUCCESS;  // Of queued work.
  const std::string* sticky_text_ = nullptr;        // In texts_.
  bool sticky_returned_ = false;

  bool initialized_ = false;
  int context_count_ = 0;
  driver::CUcontext context_ = nullptr;
  std::set<std::thread::id> current_;  // Threads in which the context is current.

  struct Function {
    driver::CUmodule module = nullptr;
    std::shared_ptr<Kernel> kernel;
  };
  HandleTable<driver::CUmodule, LoadedModule> modules_;
  HandleTable<driver::CUfunction, Function> functions_;
  HandleTable<driver::CUstream, Stream> streams_;
  HandleTable<driver::CUevent, Event> events_;
  HandleTable<driver::CUgraph, Graph> graphs_;
  HandleTable<driver::CUgraphExec, ExecutableGraph> executables_;
  Stream legacy_;
  std::vector<Ticket> destroyed_;  // Work of blocking streams that were destroyed before it ran.
  int num_streams_ = 0;
  int num_allocations_ = 0;
  int num_host_allocations_ = 0;
  std::vector<std::shared_ptr<Capture>> captures_;  // Not ended.
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_SIM_DRIVER_H_
