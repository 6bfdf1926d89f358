// Backwards of writing in place. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_COPY_NODE_H_
#define COTAN_RUNTIME_AUTOGRAD_COPY_NODE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/view_node.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

// Of CopyInPlace(): edge 0 leads to what was overwritten, which gets zeros, edge
// 1 to the source. The engine casts and sums as the source needs it.
class CopyNode final : public Node {
 public:
  absl::string_view name() const override { return "CopyBackward"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override;
};

// Of an operation that wrote a view in place, for the view's base: the part of
// the gradient that is the view's goes through the operation's own node. Edge 0
// leads to where the base's gradient went before, the others are those of the
// operation.
class CopySlicesNode final : public Node {
 public:
  // `function`'s edge 0 is the one to the view. `base_edge`: the base's before.
  CopySlicesNode(ViewedGeometry base, ViewedGeometry view, Edge base_edge, std::shared_ptr<Node> function);

  absl::string_view name() const override { return "CopySlices"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override;
  void ReleaseSaved() override { Release(std::move(function_)); }

 private:
  const ViewedGeometry base_;
  const ViewedGeometry view_;  // in the base's storage
  std::shared_ptr<Node> function_;
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_COPY_NODE_H_
