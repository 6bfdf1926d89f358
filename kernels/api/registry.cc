// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/registry.h"

#include "absl/strings/str_cat.h"

namespace cotan {
absl::Status KernelRegistry::Register(DeviceType device, OpKind kind, DType dtype, KernelFactory factory) {
  if (factories_.try_emplace(Key{device, kind, dtype}, factory).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("two ", DeviceTypeName(device), " kernels for ", OpKindName(kind),
                                               " of ", DTypeName(dtype), ": register one backend per device"));
}

absl::Status KernelRegistry::RegisterGroup(DeviceType device, GroupFactory factory) {
  if (groups_.try_emplace(device, factory).second) return absl::OkStatus();
  return absl::AlreadyExistsError(
      absl::StrCat("two ", DeviceTypeName(device), " factories of groups: register one backend per device"));
}

GroupFactory KernelRegistry::FindGroup(DeviceType device) const {
  const auto found = groups_.find(device);
  return found == groups_.end() ? nullptr : found->second;
}

absl::Status KernelRegistry::RegisterComputedOperands(DeviceType device, ComputedOperandKernels kernels) {
  if (computed_operands_.try_emplace(device, kernels).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("kernels of computed operands for ", DeviceTypeName(device),
                                               " are registered twice: register one backend per device"));
}

const ComputedOperandKernels* KernelRegistry::FindComputedOperands(DeviceType device) const {
  const auto found = computed_operands_.find(device);
  return found == computed_operands_.end() ? nullptr : &found->second;
}

absl::StatusOr<KernelFactory> KernelRegistry::Find(DeviceType device, OpKind kind, DType dtype) const {
  const auto found = factories_.find(Key{device, kind, dtype});
  if (found != factories_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("no ", DeviceTypeName(device), " kernel for ", OpKindName(kind), " of ",
                                          DTypeName(dtype), ": link a backend that has it (kernels/",
                                          DeviceTypeName(device), ":register_", DeviceTypeName(device), ")"));
}

}  // namespace cotan
