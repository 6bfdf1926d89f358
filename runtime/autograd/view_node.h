// SPDX-License-Identifier: Apache-2.0

// The nodes of view ops. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_VIEW_NODE_H_
#define COTAN_RUNTIME_AUTOGRAD_VIEW_NODE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"
#include "serialization/metadata/view_step.h"

namespace cotan::autograd {

// The dtype, layout and conj/neg bits of a view, of its source, or of a gradient.
struct ViewedGeometry {
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  ConjNegBits reading = {};
};

// Returns the node of the view op `step` on `source`; the caller adds its edge. The step must apply to the source and
// have no symbols. Internal: the step is a DTypeView or Detach, which have no gradient.
absl::StatusOr<std::shared_ptr<Node>> MakeViewNode(const ViewStep& step, const ViewedGeometry& source);

// Returns the node `name` of a view given by its layout in the source's storage (AsStridedBackward). The caller adds
// its edge. `name` must outlive the node.
std::shared_ptr<Node> MakeStridedViewNode(absl::string_view name, ViewedGeometry source, ViewedGeometry view);

// Returns the gradient of the source of such a view, given that of the view: MakeStridedViewNode()'s, recorded if
// gradients are enabled. The views may overlap themselves, the sources not: Unimplemented.
absl::StatusOr<Variable> RecordedStridedGradient(TensorOps& ops, const ViewedGeometry& source,
                                                 const ViewedGeometry& view, const Variable& gradient);

// Returns the node of a multi-view operation (unbind); input i belongs to view i. `views`: the layouts of the views in
// the storage of a row-major tensor with the dtype and sizes of `source`. The caller adds its edge.
std::shared_ptr<Node> MakeMultiViewNode(const ViewedGeometry& source, std::vector<StridedLayout> views);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_VIEW_NODE_H_
