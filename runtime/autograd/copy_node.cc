// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/copy_node.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/capture.h"
#include "runtime/autograd/captured_layout.h"
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
  SetWriterEdge(function_->writer_edge());
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

StridedLayout CopySlicesNode::Place() const {
  StridedLayout place = view_.layout;
  place.offset -= base_.layout.offset;
  return place;
}

absl::StatusOr<bool> CopySlicesNode::Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                              absl::Span<bool> results, CaptureRecord& record) {
  if (incoming[0] && function_ == nullptr) return FreedError();
  const StridedLayout place = Place();
  const int64_t count = NumElements(base_.layout.sizes);
  const bool fits = base_.dtype == view_.dtype && !IsComplex(base_.dtype) && base_.reading.is_plain() &&
                    view_.reading.is_plain() && IsContiguous(base_.layout) && place.offset >= 0 &&
                    StorageExtent(place) <= count && !OverlapsItself(place);
  if (!fits) return false;
  first_size_ = -1;
  if (!incoming[0]) {
    record.KeyText("CopySlices without gradient");
    return true;
  }
  const int before = static_cast<int>(record.sizes().size());
  const bool has_gradient = true;
  COTAN_ASSIGN_OR_RETURN(const bool captured,
                         function_->Describe(context, absl::MakeConstSpan(&has_gradient, 1), results, record));
  if (!captured) return false;
  first_size_ = static_cast<int>(record.sizes().size()) - before;
  has_result_ = context.NeedsGradient(0);
  results[0] = has_result_;
  record.KeyText("CopySlices");
  record.Key(has_result_ ? 1 : 0);
  record.Sizes(base_.layout.sizes);
  record.Sizes(place.sizes);
  record.Sizes(place.strides);
  record.Size(place.offset);
  return true;
}

absl::Status CopySlicesNode::Emit(CaptureEmitter& emitter, absl::Span<const CapturedValue> incoming,
                                  absl::Span<CapturedValue> results) {
  if (first_size_ < 0) return absl::OkStatus();
  LinkBuilder& link = emitter.link();
  const int base_rank = base_.layout.rank();
  const int rank = view_.layout.rank();
  const SymIntVector base_sizes = emitter.Sizes(first_size_, base_rank);
  const view::AsStrided place = {.sizes = emitter.Sizes(first_size_ + base_rank, rank),
                                 .strides = emitter.Sizes(first_size_ + base_rank + rank, rank),
                                 .offset = emitter.Size(first_size_ + base_rank + 2 * rank)};
  SymInt n = 1, k = 1;
  for (const SymInt& size : base_sizes) n = n * size;
  for (const SymInt& size : place.sizes) k = k * size;
  COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value slice, link.View(*incoming[0], place, place.sizes));
  const CapturedValue written = link.Dense(slice, link.TypeOf(slice));
  COTAN_RETURN_IF_ERROR(function_->Emit(emitter, absl::MakeConstSpan(&written, 1), results));
  if (!has_result_) return absl::OkStatus();

  LinkBuilder::Value part = *written;
  if (results[0].has_value()) {
    COTAN_ASSIGN_OR_RETURN(part, link.Conform(*results[0], base_.dtype, place.sizes));
  } else {
    COTAN_ASSIGN_OR_RETURN(part, link.Zeros(link.TypeOf(*written)));
  }
  COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value flat, link.View(*incoming[0], view::View{.sizes = {n}}, {n}));
  COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value flat_part, link.View(part, view::View{.sizes = {k}}, {k}));
  COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value rest, link.Replace(flat, n, flat_part, k, link.Index(n, place, n)));
  COTAN_ASSIGN_OR_RETURN(results[0], link.View(rest, view::View{.sizes = base_sizes}, base_sizes));
  return absl::OkStatus();
}

void CopySlicesNode::CompleteCapture(const BackwardContext& context, absl::Span<Tensor> outputs) {
  if (first_size_ >= 0) function_->CompleteCapture(context, outputs);
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
