// What a kernel is to the rest of the runtime, on any device.
//
// Two phases: a factory *prepares* a kernel for one op with known sizes,
// strides and thread count, once, when a plan is made; Run() then executes it
// any number of times and allocates nothing. Example:
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
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

class Device;

// Geometry of an operand. `layout.offset` is 0: the pointer given to Run()
// addresses element (0, ..., 0).
struct TensorSpec {
  DType dtype = DType::kUndefined;
  StridedLayout layout;
};

// What a factory is told. All references are borrowed for the call only.
struct KernelRequest {
  const serialization::Op& op;
  // One per op input / output, in order.
  absl::Span<const TensorSpec> inputs;
  absl::Span<const TensorSpec> outputs;
  // Values of the size symbols s0, s1, ... of the artifact.
  absl::Span<const int64_t> symbols;
  // Threads that Run() may use, >= 1. Results do not depend on it.
  int threads = 1;
  // Where Run() will execute; null = the host.
  Device* device = nullptr;
};

// Pointers of one execution. Device pointers for kernels of a device. The
// scratch is aligned to 64 bytes and has Kernel::scratch_bytes() bytes; its
// content is undefined before and after.
struct KernelArgs {
  void* const* inputs = nullptr;
  void* const* outputs = nullptr;
  void* scratch = nullptr;
};

// A prepared op. Owned by the plan. Run() is not thread-safe: one plan runs on
// one thread at a time; it may use worker threads inside.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // Bytes of scratch that Run() needs.
  size_t scratch_bytes() const { return scratch_bytes_; }

  // Executes the op. Fails only for what cannot be known before: an index out
  // of range (InvalidArgument; outputs are then partly written), an error of
  // the device (Internal).
  virtual absl::Status Run(const KernelArgs& args) = 0;

 protected:
  size_t scratch_bytes_ = 0;
};

// Prepares a kernel.
// InvalidArgument: operands that the op does not allow (a corrupt program).
// Unimplemented: a combination of dtypes or attributes that this backend
// lacks; the message names it.
using KernelFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const KernelRequest& request);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_KERNEL_H_
