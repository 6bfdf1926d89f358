// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/tangent_flags.h"

namespace cotan {

bool TakesTangentFlags(const serialization::Method& backward, int num_saved, int num_tangents) {
  if (num_tangents < 2 || backward.inputs_size() - num_saved != 2 * num_tangents) return false;
  for (int i = backward.inputs_size() - num_tangents; i < backward.inputs_size(); ++i) {
    const serialization::TensorType& type = backward.values(static_cast<int>(backward.inputs(i))).type();
    if (type.dtype() != serialization::DTYPE_BOOL || !type.sizes().empty()) return false;
  }
  return true;
}

absl::StatusOr<Tensor> TangentFlag(TensorOps& ops, bool is_defined) {
  if (&ops.device() != &HostDevice()) {
    return is_defined ? ops.Ones(DType::kBool, {}) : ops.Zeros(DType::kBool, {});
  }
  static const auto* const undefined = new absl::StatusOr<Tensor>(Tensor::Scalar(false));
  static const auto* const defined = new absl::StatusOr<Tensor>(Tensor::Scalar(true));
  return is_defined ? *defined : *undefined;
}

}  // namespace cotan
