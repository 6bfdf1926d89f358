// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/host_copy.h"

namespace cotan {

HostCopy HostCopyOf(const serialization::Method& method, const serialization::Op& op) {
  if (!op.has_copy() || op.inputs_size() != 1 || op.outputs_size() != 1) return HostCopy::kNone;
  if (method.values(static_cast<int>(op.outputs(0))).on_host()) return HostCopy::kToHost;
  return method.values(static_cast<int>(op.inputs(0))).on_host() ? HostCopy::kToDevice : HostCopy::kNone;
}

}  // namespace cotan
