// SPDX-License-Identifier: Apache-2.0

// The form of an op on a CUDA GPU: kernels as source text, how they are launched, and what memory they take. A plan is
// data that depends on the op and its geometry alone, so that the compiler, which has no GPU, and a session make the
// same plans, and a kernel compiled ahead of time is found by its text.
//
//   op + specs --Plan...()--> KernelPlan --CudaKernel::Create()--> functions of a loaded module --Run()--> launches
#ifndef COTAN_KERNELS_CUDA_LAUNCH_KERNEL_PLAN_H_
#define COTAN_KERNELS_CUDA_LAUNCH_KERNEL_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// A translation unit of CUDA C++ with one kernel. It includes nothing but the device library (kernels/cuda/source), as
// "cotan/....cuh". All sizes, strides and dtypes are constants in the text. It is compiled without contraction of
// products and sums (-fmad=false) and with round-to-nearest division and square root.
struct KernelSource {
  std::string text;
  // Name of its `extern "C" __global__` function.
  std::string entry;
  friend bool operator==(const KernelSource&, const KernelSource&) = default;
};

// A parameter of a kernel, or an operand of a copy: an address, except kFaultId.
struct KernelArgument {
  enum class Kind : uint8_t {
    kInput,        // KernelArgs::inputs[index] + offset
    kOutput,       // KernelArgs::outputs[index] + offset
    kScratch,      // KernelArgs::scratch + offset
    kErrorRecord,  // the device's ErrorRecord (kernels/cuda/source/error.cuh)
    kFaultId,      // unsigned: names the op in an ErrorRecord
  };
  Kind kind = Kind::kInput;
  int index = 0;
  int64_t offset = 0;  // bytes
  friend bool operator==(const KernelArgument&, const KernelArgument&) = default;
};

inline KernelArgument InputArgument(int index) { return {KernelArgument::Kind::kInput, index}; }
inline KernelArgument OutputArgument(int index) { return {KernelArgument::Kind::kOutput, index}; }
inline KernelArgument ScratchArgument(int64_t offset) { return {KernelArgument::Kind::kScratch, 0, offset}; }
inline KernelArgument ErrorRecordArgument() { return {KernelArgument::Kind::kErrorRecord}; }
inline KernelArgument FaultIdArgument() { return {KernelArgument::Kind::kFaultId}; }

// Kernels that are compiled for this compute capability or a later one may begin before earlier work has ended.
inline constexpr int kFirstToBeginEarly = 90;

// One launch. The parameters of the kernel are `arguments`, in order: pointers, and an unsigned for kFaultId. All
// threads call WaitForEarlierWork() (kernels/cuda/source/launch.cuh) before they access global memory; see
// kFirstToBeginEarly.
struct KernelLaunch {
  KernelSource source;
  std::array<unsigned, 3> grid = {1, 1, 1};   // blocks; depends on sizes alone, never on the device
  std::array<unsigned, 3> block = {1, 1, 1};  // threads
  unsigned dynamic_shared_bytes = 0;
  // Name of a variable of the module in device memory, which all launches of the source share, one after another; "" =
  // none.
  std::string shared_variable = {};
  std::vector<KernelArgument> arguments;
};

// Sets `bytes` bytes to `value`.
struct MemorySet {
  KernelArgument to;
  int64_t bytes = 0;
  uint8_t value = 0;
};

// Copies `bytes` bytes within the device; the ranges do not overlap.
struct MemoryCopy {
  KernelArgument to;
  KernelArgument from;
  int64_t bytes = 0;
};

// A call of cuBLASLt or cuDNN. It does not write guarded outputs.
struct LibraryCall {
  std::shared_ptr<const LibraryCallSpec> spec;
  std::vector<KernelArgument> arguments;
};

using PlanStep = std::variant<KernelLaunch, MemorySet, MemoryCopy, LibraryCall>;

// The launches of one op, in order; each begins when the one before it has ended. Empty if there is nothing to do.
struct KernelPlan {
  std::vector<PlanStep> steps;
  size_t scratch_bytes = 0;  // aligned to 64 bytes; undefined content
  // For an op whose kernels record errors: returns the error for the recorded `position` and `value`, with the text
  // that the CPU kernel has. Otherwise empty.
  std::function<absl::Status(int64_t position, int64_t value)> error_at;
};

// Makes the plan of an op. Depends on nothing but `request`, whose device is ignored.
//
// If request.guarded_outputs, every kernel and copy that writes an output leaves it as it is when the ErrorRecord has
// an error: its last parameter is then ErrorRecordArgument(), and COTAN_RETURN_ON_ERROR follows WaitForEarlierWork()
// (the other steps do not write guarded outputs).
// InvalidArgument: the op does not allow these operands (a corrupt program).
// Unimplemented: no kernel supports a combination of dtypes or attributes; the message names it.
using PlanKernel = absl::StatusOr<KernelPlan> (*)(const KernelRequest& request);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_LAUNCH_KERNEL_PLAN_H_
