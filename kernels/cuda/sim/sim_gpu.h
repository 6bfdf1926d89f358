// SPDX-License-Identifier: Apache-2.0

// A simulated GPU behind the driver's functions, for tests on machines without one.
#ifndef COTAN_KERNELS_CUDA_SIM_SIM_GPU_H_
#define COTAN_KERNELS_CUDA_SIM_SIM_GPU_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/driver/driver_table.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/statistics.h"

namespace cotan::cuda::sim {

class SimDriver;

// A process may have several; each is device 0 of its table. Kernels are PTX and run on the interpreter in ptx/. Queued
// work runs when something demands it: a synchronizing call, a query (one piece of work per call), a blocking copy. So
// what a program reads or reuses without synchronization is always seen.
//
// Violations of the API's rules are errors of the call if it shows them (CUDA_ERROR_INVALID_VALUE and others), and
// errors of all later calls if queued work shows them: CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_MISALIGNED_ADDRESS, else
// CUDA_ERROR_LAUNCH_FAILED. cuGetErrorString returns the checker's text while its argument is the last error.
//
//   SimGpu gpu({.seed = 7});
//   const driver::DriverTable& table = gpu.table();
//   COTAN_CUDA_DRIVER_RETURN_IF_ERROR(table, cuInit(0));
class SimGpu {
 public:
  struct Options {
    int compute_capability = 90;  // Ten times the major plus the minor version: 80, 90, 100 or 120.
    int multiprocessors = 132;
    uint64_t memory_bytes = uint64_t{16} << 30;
    // 0: work runs in the order in which it was queued, and only if it is demanded. Otherwise the order of streams,
    // blocks and warps is drawn.
    uint64_t seed = 0;
    std::string name = "Simulated GPU";
    // True: bytes that nothing wrote may not be copied to the host. Otherwise the host gets 0xff for them.
    bool check_unwritten_copies = true;
    // Launches of one kernel with equal grids and parameters that are checked for races, the first ones; 0: all;
    // negative: none. For long runs of equal steps, whose addresses do not depend on data.
    int race_checks = 0;
    // Called by the destructor with what leaks, and the violation of queued work that no call returned. Empty: prints
    // it and aborts.
    std::function<void(absl::string_view)> on_violation = nullptr;
  };

  explicit SimGpu(Options options);
  SimGpu(const SimGpu&) = delete;
  SimGpu& operator=(const SimGpu&) = delete;
  // Runs what is still queued. No call of table() may follow.
  ~SimGpu();

  // Returns the driver's functions. Thread-safe, and valid while the object lives.
  const driver::DriverTable& table() const;

  // Returns the text of the violation in queued work, else of the last call that failed, or "".
  std::string LastViolation() const;

  Statistics statistics() const;
  void ResetStatistics();

  // Makes the `n`-th call of `function` from now on, 1 being the next, return `result` and do nothing else.
  void FailCall(absl::string_view function, int64_t n, driver::CUresult result);
  // The same for device memory, with CUDA_ERROR_OUT_OF_MEMORY.
  void FailAllocation(int64_t n) { FailCall("cuMemAlloc_v2", n, driver::CUDA_ERROR_OUT_OF_MEMORY); }

  // Queues a call of `function` in `stream` as a kernel, also into a capture: then each launch of the graph calls it.
  // `label` names it in messages and statistics. An error of the function is one of queued work. It may not call
  // table() or this object. Needs no current context.
  // InvalidArgument: no such stream. Internal: a violation, as of cuLaunchKernelEx; the message is LastViolation().
  absl::Status EnqueueHostFunction(driver::CUstream stream, absl::string_view label,
                                   std::function<absl::Status(DeviceMemory&)> function);

  // Returns the device's memory, for checks of addresses. Not to be used while another thread calls table().
  DeviceMemory& memory();
  const Options& options() const;

 private:
  std::unique_ptr<SimDriver> driver_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_SIM_GPU_H_
