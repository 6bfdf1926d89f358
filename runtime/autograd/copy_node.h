// SPDX-License-Identifier: Apache-2.0

// CopyNode, CopySlicesNode: the nodes of in-place writes. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_COPY_NODE_H_
#define COTAN_RUNTIME_AUTOGRAD_COPY_NODE_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/view_node.h"
#include "runtime/tensor/tensor.h"

namespace cotan::autograd {

// The node of Variable::CopyInPlace() (CopyBackwards in LibTorch). Edge 0 leads to the overwritten value, whose
// gradient is zero, edge 1 to the source. The engine casts and sums the gradient for the source.
class CopyNode final : public Node {
 public:
  absl::string_view name() const override { return "CopyBackward"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override;
  absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, CaptureRecord& record) override;
  absl::Status Emit(CaptureEmitter& emitter, absl::Span<const CapturedValue> incoming,
                    absl::Span<CapturedValue> results) override;
  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override;
};

// The grad_fn of a base after an in-place operation on a view of it (torch/csrc/autograd/functions/tensor.h,
// CopySlices). The part of the gradient that belongs to the view passes through the operation's node. Edge 0 is the
// previous gradient edge of the base, the others are edges 1... of the operation's node.
class CopySlicesNode final : public Node {
 public:
  // `view`: its geometry in the base's storage. `base_edge`: the previous gradient edge of the base. `function`: the
  // node of the operation, whose edge 0 leads to the view. Its writer_edge(), if any, is not 0.
  CopySlicesNode(ViewedGeometry base, ViewedGeometry view, Edge base_edge, std::shared_ptr<Node> function);

  absl::string_view name() const override { return "CopySlices"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override;
  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override;
  void ReleaseSaved() override { Release(std::move(function_)); }
  // Captured if the base is row-major, the view is inside of it without overlap, and `function` can be captured.
  absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, CaptureRecord& record) override;
  absl::Status Emit(CaptureEmitter& emitter, absl::Span<const CapturedValue> incoming,
                    absl::Span<CapturedValue> results) override;
  void CompleteCapture(const BackwardContext& context, absl::Span<Tensor> outputs) override;

 private:
  // Returns the place of the view in the base; its offset counts from the base's first element.
  StridedLayout Place() const;

  const ViewedGeometry base_;
  const ViewedGeometry view_;  // in the base's storage
  std::shared_ptr<Node> function_;
  int first_size_ = 0;       // of the last description: after the function's sizes
  bool has_result_ = false;  // of the last description: the gradient of the base is needed
};

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_COPY_NODE_H_
