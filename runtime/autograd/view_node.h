// Backwards of views. For this package only.
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
#include "runtime/tensor/tensor.h"
#include "serialization/metadata/view_step.h"

namespace cotan::autograd {

// A view and what it is a view of, or what a gradient of it looks like.
struct ViewedGeometry {
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  ConjNegBits reading = {};
};

// The node of one recorded step from `source`. Its edge is still to be added.
// The step applies to the source and has no symbols; it is no DTypeView or
// Detach.
absl::StatusOr<std::shared_ptr<Node>> MakeViewNode(const ViewStep& step, const ViewedGeometry& source);

// The node of a view given by its place in the source's storage.
std::shared_ptr<Node> MakeStridedViewNode(absl::string_view name, ViewedGeometry source, ViewedGeometry view);

// The node of several views; input i is that of view i. `views` are in the
// storage of a row-major source with these sizes and have its dtype.
std::shared_ptr<Node> MakeMultiViewNode(const ViewedGeometry& source, std::vector<StridedLayout> views);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_VIEW_NODE_H_
