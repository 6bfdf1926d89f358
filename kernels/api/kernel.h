// SPDX-License-Identifier: Apache-2.0

// The interface of kernels on any device.
//
// Two phases: a factory *prepares* a kernel for one op with known sizes, strides and thread count, once, when
// a plan is made; Run() then executes it any number of times and allocates nothing. Example:
//
//   COTAN_ASSIGN_OR_RETURN(KernelFactory factory, registry.Find(op, dtype));
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(request));
//   COTAN_RETURN_IF_ERROR(kernel->Run({inputs, outputs, scratch}));
#ifndef COTAN_KERNELS_API_KERNEL_H_
#define COTAN_KERNELS_API_KERNEL_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

class Device;

// Geometry of an operand. `layout.offset` is 0: the pointer given to Run() addresses element (0, ..., 0).
struct TensorSpec {
  DType dtype = DType::kUndefined;
  StridedLayout layout;
};

// The arguments of a factory. All references are borrowed for the call only.
struct KernelRequest {
  const serialization::Op& op;
  // One per op input / output, in order.
  absl::Span<const TensorSpec> inputs;
  absl::Span<const TensorSpec> outputs;
  // Values of the size symbols s0, s1, ... of the artifact.
  absl::Span<const int64_t> symbols;
  // Threads that Run() may use, >= 1. Results do not depend on it.
  int threads = 1;
  // The device on which Run() executes; null = the host.
  Device* device = nullptr;
  // True if an output is memory that outlives the call (a state or an argument of the caller). A device whose errors
  // come later leaves such outputs as they are once an op before this one has failed.
  bool guarded_outputs = false;
  // Name of the op for errors that come later: "method 'eval', op 3 (gather) from embedding".
  absl::string_view name = "";
};

// The pointers of one execution, in the memory of the kernel's device. The scratch is aligned to 64 bytes and
// has Kernel::scratch_bytes() bytes; its content is undefined before and after.
struct KernelArgs {
  void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* scratch = nullptr;
};

// A prepared op, owned by a plan. It executes all steps of the plan that have this op with operands of these layouts,
// unless the device queues work, and keeps nothing from one to the next. Run() is not thread-safe: a plan runs on one
// thread at a time. Run() may use worker threads.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // Returns the bytes of scratch that Run() needs.
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Executes the op, or queues it on a device that queues work. It fails only for reasons that depend on data or the
  // device. InvalidArgument: an index is out of range; outputs may be partly written. Internal: the device failed.
  // Errors of an effect handler.
  virtual absl::Status Run(const KernelArgs& args) = 0;

  // Returns true if Run() waits for the device or calls code of the host, so that it cannot be part of recorded work.
  virtual bool runs_on_host() const { return false; }

 protected:
  size_t scratch_bytes_ = 0;
};

// Prepares a kernel.
// InvalidArgument: the op does not allow these operands (a corrupt program).
// Unimplemented: this backend does not support a combination of dtypes or attributes; the message names it.
using KernelFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const KernelRequest& request);

// Prepares one kernel for independent expressions, or checks of indices: none writes what another one reads or writes.
// Its inputs are those of the first op, then those of the second one, and so on; its outputs likewise. Errors as
// KernelFactory; errors of values are those of the first op that has one.
using GroupFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(absl::Span<const KernelRequest> requests);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_KERNEL_H_
