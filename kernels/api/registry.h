// SPDX-License-Identifier: Apache-2.0

// The kernels that a binary is linked with, by device, op and dtype.
//
// Registration is explicit: a backend has a function `absl::Status Register...Kernels(KernelRegistry&)`,
// which the binary calls (kernels/cpu:register_cpu registers the default CPU kernels). There is no
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
#include "kernels/api/computed_operand.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/op_kind.h"

namespace cotan {

// Maps device, op and dtype to a kernel factory. Filled once at start-up; const methods are thread-safe.
class KernelRegistry {
 public:
  // Adds a factory for ops of `kind` whose first output has `dtype`.
  // AlreadyExists: there is a factory for this device, kind and dtype.
  absl::Status Register(DeviceType device, OpKind kind, DType dtype, KernelFactory factory);

  // Sets the factory for groups of expressions; a device without one executes them one by one.
  // AlreadyExists: there is one for this device.
  absl::Status RegisterGroup(DeviceType device, GroupFactory factory);
  // Returns the factory for groups of expressions; null if there is none.
  GroupFactory FindGroup(DeviceType device) const;

  // Sets the kernels of products whose right operand is computed; a device without them executes both ops.
  // AlreadyExists: there are some for this device.
  absl::Status RegisterComputedOperands(DeviceType device, ComputedOperandKernels kernels);
  // Returns the kernels of products whose right operand is computed; null if there are none. Valid as long as the
  // registry, until another device's are added.
  const ComputedOperandKernels* FindComputedOperands(DeviceType device) const;

  // Returns the factory for ops of `kind` whose first output has `dtype`.
  // NotFound: there is none; the message names device, op, dtype and the backend to link.
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
  absl::flat_hash_map<DeviceType, GroupFactory> groups_;
  absl::flat_hash_map<DeviceType, ComputedOperandKernels> computed_operands_;
};

}  // namespace cotan

#endif  // COTAN_KERNELS_API_REGISTRY_H_
