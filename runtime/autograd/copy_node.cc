// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/copy_node.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/recorded_ops.h"
#include "runtime/autograd/tensor_ops.h"

namespace cotan::autograd {
namespace {

// Returns a copy of `gradient` with the base's geometry and zeros where the view is.
absl::StatusOr<Tensor> WithoutSlice(TensorOps& ops, const ViewedGeometry& base, const ViewedGeometry& view,
                                    const Tensor& gradient) {
  COTAN_ASSIGN_OR_RETURN(Tensor rest, Tensor::EmptyStrided(base.dtype, base.layout, ops.device()));
  COTAN_RETURN_IF_ERROR(ops.Copy(gradient, rest));
  COTAN_ASSIGN_OR_RETURN(const Tensor slice, Tensor::InStorage(rest.storage(), view.dtype, view.layout));
  COTAN_RETURN_IF_ERROR(ops.Fill(0, slice));
  return rest;
}

// The node of a gradient without the part of a view. It is its own gradient.
class WithoutSliceNode final : public Node {
 public:
  WithoutSliceNode(ViewedGeometry base, ViewedGeometry view) : base_(std::move(base)), view_(std::move(view)) {}

  absl::string_view name() const override { return "WithoutSliceBackward"; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (!incoming[0].defined()) return Gradients(1);
    COTAN_ASSIGN_OR_RETURN(Tensor rest, WithoutSlice(context.ops(), base_, view_, incoming[0]));
    return Gradients{std::move(rest)};
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (!incoming[0].defined()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(Tensor rest, WithoutSlice(context.ops(), base_, view_, incoming[0].tensor()));
    COTAN_ASSIGN_OR_RETURN(
        results[0], WithHistory(std::move(rest), {incoming[0]}, std::make_shared<WithoutSliceNode>(base_, view_)));
    return absl::OkStatus();
  }

 private:
  const ViewedGeometry base_;
  const ViewedGeometry view_;
};

}  // namespace

absl::StatusOr<Gradients> CopyNode::Apply(BackwardContext& context, absl::Span<Tensor> incoming) {
  Gradients results(2);
  if (!incoming[0].defined()) return results;
  if (context.NeedsGradient(0)) {
    COTAN_ASSIGN_OR_RETURN(results[0], context.ops().Zeros(incoming[0].dtype(), incoming[0].sizes()));
  }
  if (context.NeedsGradient(1)) results[1] = std::move(incoming[0]);
  return results;
}

absl::Status CopyNode::ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                                     std::vector<Variable>& results) {
  if (!incoming[0].defined()) return absl::OkStatus();
  if (context.NeedsGradient(0)) {
    COTAN_ASSIGN_OR_RETURN(Tensor zeros, context.ops().Zeros(incoming[0].dtype(), incoming[0].sizes()));
    results[0] = Variable(std::move(zeros));
  }
  if (context.NeedsGradient(1)) results[1] = incoming[0];
  return absl::OkStatus();
}

CopySlicesNode::CopySlicesNode(ViewedGeometry base, ViewedGeometry view, Edge base_edge, std::shared_ptr<Node> function)
    : base_(std::move(base)), view_(std::move(view)), function_(std::move(function)) {
  AddEdge(std::move(base_edge));
  for (int i = 1; i < function_->num_edges(); ++i) AddEdge(function_->edge(i));
}

absl::StatusOr<Gradients> CopySlicesNode::Apply(BackwardContext& context, absl::Span<Tensor> incoming) {
  if (!incoming[0].defined()) return Gradients(static_cast<size_t>(num_edges()));
  if (function_ == nullptr) return FreedError();
  TensorOps& ops = context.ops();
  COTAN_ASSIGN_OR_RETURN(Tensor rest, Tensor::EmptyStrided(base_.dtype, base_.layout, ops.device()));
  COTAN_RETURN_IF_ERROR(ops.Copy(incoming[0], rest));
  COTAN_ASSIGN_OR_RETURN(Tensor slice, Tensor::InStorage(rest.storage(), view_.dtype, view_.layout));
  slice = slice.WithConjNegBits(base_.reading ^ view_.reading);
  COTAN_ASSIGN_OR_RETURN(Tensor written, ops.Clone(slice));

  COTAN_ASSIGN_OR_RETURN(Gradients results, function_->Apply(context, absl::MakeSpan(&written, 1)));
  if (static_cast<int>(results.size()) != num_edges()) {
    return absl::InvalidArgumentError(
        absl::StrCat(function_->name(), " returned ", results.size(), " gradients for ", num_edges(), " edges"));
  }
  if (!context.NeedsGradient(0)) {
    Clear(results[0]);
    return results;
  }
  if (results[0].defined()) {
    COTAN_RETURN_IF_ERROR(ops.Copy(results[0], slice));
  } else {
    COTAN_RETURN_IF_ERROR(ops.Fill(0, slice));
  }
  results[0] = std::move(rest);
  return results;
}

absl::Status CopySlicesNode::ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                                           std::vector<Variable>& results) {
  if (!incoming[0].defined()) return absl::OkStatus();
  if (function_ == nullptr) return FreedError();
  TensorOps& ops = context.ops();
  // The part of the view is read from the base as a gradient of the view, with both exchanged.
  COTAN_ASSIGN_OR_RETURN(Variable written, RecordedStridedGradient(ops, view_, base_, incoming[0]));
  COTAN_RETURN_IF_ERROR(function_->ApplyRecorded(context, absl::MakeSpan(&written, 1), results));
  if (static_cast<int>(results.size()) != num_edges()) {
    return absl::InvalidArgumentError(
        absl::StrCat(function_->name(), " returned ", results.size(), " gradients for ", num_edges(), " edges"));
  }
  const Variable slice = std::exchange(results[0], Variable());
  if (!context.NeedsGradient(0)) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(Tensor rest, WithoutSlice(ops, base_, view_, incoming[0].tensor()));
  COTAN_ASSIGN_OR_RETURN(results[0],
                         WithHistory(std::move(rest), {incoming[0]}, std::make_shared<WithoutSliceNode>(base_, view_)));
  if (!slice.defined()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const Variable part, RecordedStridedGradient(ops, base_, view_, slice));
  COTAN_ASSIGN_OR_RETURN(results[0], RecordedAdd(ops, results[0], part));
  return absl::OkStatus();
}

}  // namespace cotan::autograd
