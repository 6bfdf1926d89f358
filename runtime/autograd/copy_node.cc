// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/copy_node.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/tensor_ops.h"

namespace cotan::autograd {

absl::StatusOr<Gradients> CopyNode::Apply(BackwardContext& context, absl::Span<Tensor> incoming) {
  Gradients results(2);
  if (!incoming[0].defined()) return results;
  if (context.NeedsGradient(0)) {
    COTAN_ASSIGN_OR_RETURN(results[0], context.ops().Zeros(incoming[0].dtype(), incoming[0].sizes()));
  }
  if (context.NeedsGradient(1)) results[1] = std::move(incoming[0]);
  return results;
}

absl::StatusOr<bool> CopyNode::Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                        absl::Span<bool> results, CaptureRecord& record) {
  if (IsComplex(input(0).dtype)) return false;
  record.KeyText("CopyBackward");
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = incoming[0] && context.NeedsGradient(static_cast<int>(i));
    record.Key(results[i] ? 1 : 0);
  }
  return true;
}

absl::Status CopyNode::Emit(CaptureEmitter& emitter, absl::Span<const CapturedValue> incoming,
                            absl::Span<CapturedValue> results) {
  if (!incoming[0].has_value()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(results[0], emitter.link().Zeros(emitter.link().TypeOf(*incoming[0])));
  results[1] = incoming[0];
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

}  // namespace cotan::autograd
