// SPDX-License-Identifier: Apache-2.0

// The functions of the CUDA driver API that the backend calls: loaded from libcuda.so.1 on a machine with a GPU, filled
// by the simulator in tests.
#ifndef COTAN_KERNELS_CUDA_DRIVER_DRIVER_TABLE_H_
#define COTAN_KERNELS_CUDA_DRIVER_DRIVER_TABLE_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cuda/driver/driver_types.h"

namespace cotan::cuda::driver {

// The functions, as X(symbol, parameters). All return a CUresult. The semantics are those of the driver API; what
// callers may rely on:
// - cuMemAlloc_v2: aligned to 256 bytes, content undefined. cuMemFree_v2 need not wait for queued work.
// - cuMemcpy*_v2: ordered in the legacy default stream, hence not with non-blocking streams; done when they return.
// - cuMemcpy*Async_v2: host memory comes from cuMemHostAlloc and stays unchanged until the copy ran.
// - cuLaunchKernelEx: copies the parameters, `extra` is null. A kernel that is launched with
//   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION may begin before the kernel in front of it has ended, also in
//   a captured graph; its instruction griddepcontrol.wait waits for that end. After work other than a kernel it begins
//   when that work has ended.
// - cuStreamWaitEvent: waits for the last cuEventRecord before the call; none is needed.
// - Errors of queued work are returned by any later call, and by every call from then on.
// - cuGraphExec*NodeSetParams*: take effect at the next cuGraphLaunch. Nodes are those of the graph from which the
//   executable graph was instantiated.
#define COTAN_CUDA_DRIVER_FUNCTIONS(X)                                                                      \
  X(cuInit, (unsigned flags))                                                                               \
  X(cuDriverGetVersion, (int* version))                                                                     \
  X(cuGetErrorName, (CUresult result, const char** name))                                                   \
  X(cuGetErrorString, (CUresult result, const char** text))                                                 \
  X(cuDeviceGetCount, (int* count))                                                                         \
  X(cuDeviceGet, (CUdevice * device, int ordinal))                                                          \
  X(cuDeviceGetName, (char* name, int size, CUdevice device))                                               \
  X(cuDeviceGetAttribute, (int* value, CUdevice_attribute attribute, CUdevice device))                      \
  X(cuDeviceTotalMem_v2, (size_t * bytes, CUdevice device))                                                 \
  X(cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))                                       \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice device))                                                        \
  X(cuCtxSetCurrent, (CUcontext context))                                                                   \
  X(cuCtxGetCurrent, (CUcontext * context))                                                                 \
  X(cuCtxSynchronize, ())                                                                                   \
  X(cuModuleLoadData, (CUmodule * module, const void* image))                                               \
  X(cuModuleUnload, (CUmodule module))                                                                      \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char* name))                        \
  X(cuModuleGetGlobal_v2, (CUdeviceptr * address, size_t * bytes, CUmodule module, const char* name))       \
  X(cuFuncGetAttribute, (int* value, CUfunction_attribute attribute, CUfunction function))                  \
  X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value))                   \
  X(cuLaunchKernelEx, (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra)) \
  X(cuMemGetInfo_v2, (size_t * free_bytes, size_t * total_bytes))                                           \
  X(cuMemAlloc_v2, (CUdeviceptr * address, size_t bytes))                                                   \
  X(cuMemFree_v2, (CUdeviceptr address))                                                                    \
  X(cuMemHostAlloc, (void** memory, size_t bytes, unsigned flags))                                          \
  X(cuMemFreeHost, (void* memory))                                                                          \
  X(cuMemcpyHtoD_v2, (CUdeviceptr to, const void* from, size_t bytes))                                      \
  X(cuMemcpyDtoH_v2, (void* to, CUdeviceptr from, size_t bytes))                                            \
  X(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes))                                      \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void* from, size_t bytes, CUstream stream))                \
  X(cuMemcpyDtoHAsync_v2, (void* to, CUdeviceptr from, size_t bytes, CUstream stream))                      \
  X(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                \
  X(cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t count, CUstream stream))                  \
  X(cuMemsetD32Async, (CUdeviceptr to, unsigned value, size_t count, CUstream stream))                      \
  X(cuStreamCreate, (CUstream * stream, unsigned flags))                                                    \
  X(cuStreamDestroy_v2, (CUstream stream))                                                                  \
  X(cuStreamSynchronize, (CUstream stream))                                                                 \
  X(cuStreamQuery, (CUstream stream))                                                                       \
  X(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))                                    \
  X(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode))                                   \
  X(cuStreamEndCapture, (CUstream stream, CUgraph * graph))                                                 \
  X(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus * status))                                 \
  X(cuEventCreate, (CUevent * event, unsigned flags))                                                       \
  X(cuEventDestroy_v2, (CUevent event))                                                                     \
  X(cuEventRecord, (CUevent event, CUstream stream))                                                        \
  X(cuEventQuery, (CUevent event))                                                                          \
  X(cuEventSynchronize, (CUevent event))                                                                    \
  X(cuEventElapsedTime_v2, (float* milliseconds, CUevent start, CUevent end))                               \
  X(cuGraphGetNodes, (CUgraph graph, CUgraphNode * nodes, size_t * count))                                  \
  X(cuGraphNodeGetType, (CUgraphNode node, CUgraphNodeType * type))                                         \
  X(cuGraphInstantiateWithFlags, (CUgraphExec * exec, CUgraph graph, unsigned long long flags))             \
  X(cuGraphExecKernelNodeSetParams_v2,                                                                      \
    (CUgraphExec exec, CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* parameters))                     \
  X(cuGraphExecMemcpyNodeSetParams,                                                                         \
    (CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D_v2* copy, CUcontext context))                  \
  X(cuGraphLaunch, (CUgraphExec exec, CUstream stream))                                                     \
  X(cuGraphExecDestroy, (CUgraphExec exec))                                                                 \
  X(cuGraphDestroy, (CUgraph graph))

// Each member is the function of its name. A std::function, not a pointer, so that tests have several simulated GPUs
// in one process; the cost of the indirection is below 1 % of a launch.
struct DriverTable {
#define COTAN_CUDA_DRIVER_FUNCTION(name, parameters) std::function<CUresult parameters> name;
  COTAN_CUDA_DRIVER_FUNCTIONS(COTAN_CUDA_DRIVER_FUNCTION)
#undef COTAN_CUDA_DRIVER_FUNCTION

  // Returns the functions of the shared library `file`, which is never unloaded.
  // Unavailable: the library is not installed, or lacks a function.
  static absl::StatusOr<DriverTable> Load(absl::string_view file);

  // Returns the installed driver, libcuda.so.1, which the first call loads. Thread-safe.
  // Unavailable: as Load().
  static absl::StatusOr<const DriverTable*> Get();

  // Returns the status of a call that returned `result`; `expression` is the text of the call, for the message.
  // Unavailable: no usable device. ResourceExhausted: out of device memory. Internal: all other errors.
  absl::Status ToStatus(CUresult result, absl::string_view expression) const;
};

// Evaluates `call`, a call of a function of the DriverTable `table`, and returns its error, if any, from the calling
// function.
#define COTAN_CUDA_DRIVER_RETURN_IF_ERROR(table, call) COTAN_RETURN_IF_ERROR((table).ToStatus((table).call, #call))

}  // namespace cotan::cuda::driver

#endif  // COTAN_KERNELS_CUDA_DRIVER_DRIVER_TABLE_H_
