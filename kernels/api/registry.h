// The kernels a binary was linked with, by device, op and dtype.
//
// Registration is explicit: a backend offers `absl::Status
// Register...Kernels(KernelRegistry&)` and the binary calls those it wants
// (kernels/cpu:register_cpu does so for the default CPU set). There is no
// registration in static constructors and no global registry.
#ifndef COTAN_KERNELS_API_REGISTRY_H_
#define COTAN_KERNELS_API_REGISTRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/op_kind.h"

namespace cotan {

// Filled once at start-up, then only read: const methods are thread-safe.
class KernelRegistry {
 public:
  // Adds a factory for ops of `kind` whose first output has `dtype`.
  // AlreadyExists if there is one: two backends for one device never compete
  // silently.
  absl::Status Register(DeviceType device, OpKind kind, DType dtype, KernelFactory factory);

  // NotFound: no such kernel; the message names device, op, dtype, and which
  // backend to link.
  absl::StatusOr<KernelFactory> Find(DeviceType device, OpKind kind, DType dtype) const;

 private:
  struct Key {
    DeviceType device;
    OpKind kind;
    DType dtype;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.device, key.kind, key.dtype);
    }
  };
  absl::flat_hash_map<Key, KernelFactory> factories_;
};

}  // namespace cotan

#endif  // COTAN_KERNELS_API_REGISTRY_H_
