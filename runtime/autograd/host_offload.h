// SPDX-License-Identifier: Apache-2.0

// OffloadToHost(): saved-tensor hooks that keep saved values in host memory
// (torch.autograd.graph.save_on_cpu(pin_memory=True)).
#ifndef COTAN_RUNTIME_AUTOGRAD_HOST_OFFLOAD_H_
#define COTAN_RUNTIME_AUTOGRAD_HOST_OFFLOAD_H_

#include <cstddef>

#include "kernels/api/pinned_memory.h"
#include "runtime/autograd/saved_tensor_hooks.h"

namespace cotan::autograd {

struct HostOffloadOptions {
  // Values that take fewer bytes stay on the device.
  size_t min_bytes = 0;
};

// Returns hooks for SavedTensorHooksScope. `pack` queues a copy of a saved value to pinned host memory, so that the
// device memory of a value that nothing else uses is free for the rest of the forward; `unpack` queues the copy back
// into new device memory, directly before the node's backward. Neither waits. The bits and the strides of a value are
// kept. Values that are not on `memory.device()` are kept as they are. A value that something else uses as well, such
// as a parameter, is copied, too, although that frees no memory.
// `memory` outlives the hooks and all graphs that were recorded with them.
//
//   COTAN_ASSIGN_OR_RETURN(PinnedMemory* pinned, CudaPinnedMemory(*gpu));  // kernels/cuda/open_cuda_device.h
//   autograd::SavedTensorHooksScope scope(autograd::OffloadToHost(*pinned));
//   COTAN_ASSIGN_OR_RETURN(auto results, function.Call(arguments));
//
// Errors of pack and unpack: ResourceExhausted: the host or the device has not enough memory. Internal: the device
// failed.
SavedTensorHooks OffloadToHost(PinnedMemory& memory, const HostOffloadOptions& options = {});

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_HOST_OFFLOAD_H_
