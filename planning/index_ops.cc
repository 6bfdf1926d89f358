// SPDX-License-Identifier: Apache-2.0

#include "planning/index_ops.h"

namespace cotan {

using serialization::Op;

int IndexInput(const Op& op) {
  switch (op.kind_case()) {
    case Op::kGather:
    case Op::kScatterAdd:
    case Op::kMaxPoolBackward:
      return 1;
    case Op::kCheckedIndex:
      return 0;
    case Op::kLinearAlgebra:
      return op.linear_algebra().function() == serialization::LinearAlgebra::LU_SOLVE ? 1 : -1;
    default:
      return -1;
  }
}

int64_t IndexedSize(const Op& op, const ScheduledStep& step) {
  const bool gather = op.has_gather();
  const DimVector& sizes = gather ? step.inputs[0].geometry.layout.sizes : step.outputs[0].geometry.layout.sizes;
  int64_t dim = gather ? op.gather().dim() : op.scatter_add().dim();
  if (dim < 0) dim += static_cast<int64_t>(sizes.size());
  return sizes[static_cast<size_t>(dim)];
}

}  // namespace cotan
