// SPDX-License-Identifier: Apache-2.0

// Work of a simulated GPU: kernels, copies and the like, as data.
#ifndef COTAN_KERNELS_CUDA_SIM_WORK_H_
#define COTAN_KERNELS_CUDA_SIM_WORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kernels/cuda/sim/access_log.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/host_memory.h"
#include "kernels/cuda/sim/module.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/statistics.h"

namespace cotan::cuda::sim {

struct KernelCall {
  std::shared_ptr<const Kernel> kernel;
  ptx::Launch launch;
};

enum class CopyKind : uint8_t { kToDevice, kToHost, kOnDevice };

struct MemoryCopy {
  CopyKind kind = CopyKind::kOnDevice;
  uint64_t device_to = 0;
  uint64_t device_from = 0;
  void* host_to = nullptr;
  const void* host_from = nullptr;
  uint64_t bytes = 0;
  // For a queued copy to the device: its source when it was queued.
  std::shared_ptr<const HostMemory::Snapshot> snapshot = nullptr;
};

struct MemoryFill {
  uint64_t to = 0;
  uint32_t value = 0;
  int width = 1;  // In bytes, of one element: 1 or 4.
  uint64_t count = 0;
};

// A call of a simulated library.
struct HostFunction {
  std::string label;
  std::function<absl::Status(DeviceMemory&)> function;
};

// Set when the work that an event marks is done.
struct EventStamp {
  bool done = false;
  uint64_t time_ns = 0;  // Of the simulated clock.
};
struct EventMark {
  std::shared_ptr<EventStamp> stamp;
};

// Nothing: it is there for its place in the order.
struct OrderOnly {};

using Work = std::variant<OrderOnly, KernelCall, MemoryCopy, MemoryFill, HostFunction, EventMark>;

// Names the work in messages: "kernel softmax".
std::string NameOf(const Work& work);

// Returns the device addresses that the work refers to: operands, and parameters of kernels that may be pointers.
std::vector<uint64_t> DeviceAddressesOf(const Work& work);

// Runs work on the memory of a simulated GPU.
class WorkRunner {
 public:
  struct Options {
    uint64_t seed = 0;  // Of the order of blocks and warps.
    bool check_unwritten_copies = true;
    int multiprocessors = 1;
    int race_checks = 0;  // See SimGpu::Options.
  };

  // Borrows all of them.
  WorkRunner(Options options, DeviceMemory& memory, HostMemory& host, Statistics& statistics)
      : options_(options), memory_(memory), host_(host), statistics_(statistics) {}

  // Runs `work`; `log` gets its accesses unless null. Errors have the position: those of ptx::Execute, DeviceMemory,
  // HostMemory and of a host function.
  absl::Status Run(const Work& work, AccessLog* log);

  // The simulated clock: what the work that ran took, one after the other.
  uint64_t now_ns() const { return now_ns_; }

 private:
  absl::Status RunWork(const OrderOnly&) { return absl::OkStatus(); }
  absl::Status RunWork(const KernelCall& call);
  absl::Status RunWork(const MemoryCopy& copy);
  absl::Status RunWork(const MemoryFill& fill);
  absl::Status RunWork(const HostFunction& call);
  absl::Status RunWork(const EventMark& mark);
  absl::Status CopyToHost(const MemoryCopy& copy);
  // Returns whether a launch is checked for races, and counts it.
  bool ChecksRaces(const KernelCall& call);
  void CountTransfer(TransferStatistics& statistics, uint64_t bytes, uint64_t bytes_per_ns);

  const Options options_;
  DeviceMemory& memory_;
  HostMemory& host_;
  Statistics& statistics_;
  uint64_t now_ns_ = 0;
  uint64_t num_kernels_ = 0;
  absl::flat_hash_map<std::string, int> race_checks_;  // by kernel, grid and parameters
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_WORK_H_
