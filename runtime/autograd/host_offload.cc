// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/host_offload.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"

namespace cotan::autograd {
namespace {

// A packed value.
struct HostCopy {
  explicit HostCopy(PinnedMemory& pinned) : pinned(pinned) {}
  HostCopy(const HostCopy&) = delete;
  HostCopy& operator=(const HostCopy&) = delete;
  ~HostCopy() { pinned.FreeHost(elements); }

  PinnedMemory& pinned;
  Tensor kept;               // the value, if it is not copied
  void* elements = nullptr;  // all bytes from the first to the last element
  size_t bytes = 0;
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  ConjNegBits reading;
};

absl::StatusOr<PackedData> Pack(PinnedMemory& memory, const HostOffloadOptions& options, const Tensor& value) {
  auto copy = std::make_shared<HostCopy>(memory);
  copy->dtype = value.dtype();
  copy->layout = value.layout();
  copy->layout.offset = 0;
  copy->reading = value.reading();
  copy->bytes = static_cast<size_t>(StorageExtent(copy->layout)) * ByteSize(value.dtype());
  if (&value.device() != &memory.device() || copy->bytes == 0 || copy->bytes < options.min_bytes) {
    copy->kept = value;
    return copy;
  }
  COTAN_ASSIGN_OR_RETURN(copy->elements, memory.AllocateHost(copy->bytes));
  COTAN_RETURN_IF_ERROR(memory.QueueCopyToHost(copy->elements, value.address(), copy->bytes));
  return copy;
}

absl::StatusOr<Tensor> Unpack(const PackedData& packed) {
  const auto& copy = *static_cast<const HostCopy*>(packed.get());
  if (copy.kept.defined()) return copy.kept;
  COTAN_ASSIGN_OR_RETURN(const Tensor value, Tensor::EmptyStrided(copy.dtype, copy.layout, copy.pinned.device()));
  COTAN_RETURN_IF_ERROR(copy.pinned.QueueCopyToDevice(value.address(), copy.elements, copy.bytes));
  return value.WithConjNegBits(copy.reading);
}

}  // namespace

SavedTensorHooks OffloadToHost(PinnedMemory& memory, const HostOffloadOptions& options) {
  return {.pack = [&memory, options](const Tensor& value) { return Pack(memory, options, value); }, .unpack = Unpack};
}

}  // namespace cotan::autograd
