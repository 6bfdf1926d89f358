// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/view_node.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/capture.h"
#include "runtime/autograd/captured_layout.h"
#include "runtime/autograd/recorded_ops.h"
#include "runtime/autograd/tensor_ops.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan::autograd {
namespace {

StridedLayout RowMajor(const DimVector& sizes) {
  return {.sizes = sizes, .strides = ContiguousStrides(sizes), .offset = 0};
}

using Values = absl::Span<CapturedValue>;
using ConstValues = absl::Span<const CapturedValue>;

// Describes a node of one input and one edge, whose result is defined if its gradient is.
bool DescribeUnary(absl::string_view name, DType dtype, absl::Span<const bool> incoming, absl::Span<bool> results,
                   CaptureRecord& record) {
  if (IsComplex(dtype)) return false;
  record.KeyText(name);
  results[0] = incoming[0];
  return true;
}

// A view of the same elements in the same order (view, squeeze, unsqueeze, alias): the gradient is viewed with the
// sizes of the source, after a copy if its strides do not allow that.
class ReshapeNode final : public Node {
 public:
  ReshapeNode(absl::string_view name, DimVector sizes) : name_(name), sizes_(std::move(sizes)) {}

  absl::string_view name() const override { return name_; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    Tensor& gradient = incoming[0];
    if (!gradient.defined() || gradient.sizes() == absl::MakeConstSpan(sizes_)) return Gradients{std::move(gradient)};
    const view::View back = {.sizes = SymIntVector(sizes_.begin(), sizes_.end())};
    absl::StatusOr<Tensor> seen = ViewOf(gradient, back);
    if (absl::IsFailedPrecondition(seen.status())) {
      COTAN_ASSIGN_OR_RETURN(const Tensor dense, context.ops().Clone(gradient));
      seen = ViewOf(dense, back);
    }
    COTAN_RETURN_IF_ERROR(seen.status());
    return Gradients{*std::move(seen)};
  }

  absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, CaptureRecord& record) override {
    if (!DescribeUnary("Reshape", input(0).dtype, incoming, results, record)) return false;
    record.Sizes(sizes_);
    return true;
  }

  absl::Status Emit(CaptureEmitter& emitter, ConstValues incoming, Values results) override {
    if (!incoming[0].has_value()) return absl::OkStatus();
    const SymIntVector sizes = emitter.Sizes(0, static_cast<int>(sizes_.size()));
    COTAN_ASSIGN_OR_RETURN(results[0], emitter.link().View(*incoming[0], view::View{.sizes = sizes}, sizes));
    return absl::OkStatus();
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    const Variable& gradient = incoming[0];
    if (!gradient.defined() || gradient.sizes() == absl::MakeConstSpan(sizes_)) {
      results[0] = gradient;
      return absl::OkStatus();
    }
    const view::View back = {.sizes = SymIntVector(sizes_.begin(), sizes_.end())};
    absl::StatusOr<Variable> seen = gradient.View({back});
    if (absl::IsFailedPrecondition(seen.status())) {
      COTAN_ASSIGN_OR_RETURN(const Variable dense, RecordedClone(context.ops(), gradient));
      seen = dense.View({back});
    }
    COTAN_ASSIGN_OR_RETURN(results[0], std::move(seen));
    return absl::OkStatus();
  }

 private:
  const absl::string_view name_;
  const DimVector sizes_;  // of the source
};

// A conj() or neg() view: the gradient is conjugated or negated.
class ReadingNode final : public Node {
 public:
  ReadingNode(absl::string_view name, ViewStep step) : name_(name), step_(std::move(step)) {}

  absl::string_view name() const override { return name_; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (!incoming[0].defined()) return Gradients(1);
    COTAN_ASSIGN_OR_RETURN(const Tensor read, ViewOf(incoming[0], step_));
    COTAN_ASSIGN_OR_RETURN(Tensor result, read.ResolveConjNeg());
    return Gradients{std::move(result)};
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (!incoming[0].defined()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(const Variable read, incoming[0].View({step_}));
    COTAN_ASSIGN_OR_RETURN(results[0], RecordedClone(context.ops(), read));
    return absl::OkStatus();
  }

 private:
  const absl::string_view name_;
  const ViewStep step_;
};

class PermuteNode final : public Node {
 public:
  explicit PermuteNode(const std::vector<int>& dims) {
    back_.dims.resize(dims.size());
    for (size_t i = 0; i < dims.size(); ++i) back_.dims[static_cast<size_t>(dims[i])] = static_cast<int>(i);
  }

  absl::string_view name() const override { return "PermuteBackward"; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (!incoming[0].defined()) return Gradients(1);
    COTAN_ASSIGN_OR_RETURN(Tensor result, ViewOf(incoming[0], back_));
    return Gradients{std::move(result)};
  }

  absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, CaptureRecord& record) override {
    if (!DescribeUnary("Permute", input(0).dtype, incoming, results, record)) return false;
    for (const int dim : back_.dims) record.Key(static_cast<uint64_t>(dim));
    return true;
  }

  absl::Status Emit(CaptureEmitter& emitter, ConstValues incoming, Values results) override {
    if (!incoming[0].has_value()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(const SymIntVector from, emitter.link().SizesOf(*incoming[0]));
    SymIntVector sizes;
    for (const int dim : back_.dims) sizes.push_back(from[static_cast<size_t>(dim)]);
    COTAN_ASSIGN_OR_RETURN(results[0], emitter.link().View(*incoming[0], back_, sizes));
    return absl::OkStatus();
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (!incoming[0].defined()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(results[0], incoming[0].View({back_}));
    return absl::OkStatus();
  }

 private:
  view::Permute back_;
};

class ExpandNode final : public Node {
 public:
  explicit ExpandNode(DimVector sizes) : sizes_(std::move(sizes)) {}

  absl::string_view name() const override { return "ExpandBackward"; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (!incoming[0].defined()) return Gradients(1);
    COTAN_ASSIGN_OR_RETURN(Tensor result, context.ops().SumTo(incoming[0], sizes_));
    return Gradients{std::move(result)};
  }

  absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, CaptureRecord& record) override {
    if (!DescribeUnary("Expand", input(0).dtype, incoming, results, record)) return false;
    record.Sizes(sizes_);
    return true;
  }

  absl::Status Emit(CaptureEmitter& emitter, ConstValues incoming, Values results) override {
    if (!incoming[0].has_value()) return absl::OkStatus();
    const SymIntVector sizes = emitter.Sizes(0, static_cast<int>(sizes_.size()));
    COTAN_ASSIGN_OR_RETURN(results[0], emitter.link().SumTo(*incoming[0], sizes));
    return absl::OkStatus();
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (!incoming[0].defined()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(results[0], RecordedSumTo(context.ops(), incoming[0], sizes_));
    return absl::OkStatus();
  }

 private:
  const DimVector sizes_;  // of the source
};

// A view given by strides, such as as_strided (as_strided_backward() in torch/csrc/autograd/FunctionsManual.cpp). The
// gradient is added to a zero-filled storage with the layout of the view, and that is read with the layout of the
// source. Elements of the storage that are not in the source are dropped; the gradient of a location that several
// elements of the source share is divided evenly among them (`divides`).
//
// The gradient of this map, if it does not divide, is the same map with view and source exchanged.
class StridedViewNode final : public Node {
 public:
  StridedViewNode(absl::string_view name, ViewedGeometry source, ViewedGeometry view, bool divides)
      : name_(name),
        source_(std::move(source)),
        view_(std::move(view)),
        divides_(divides && OverlapsItself(source_.layout)) {
    if (source_.dtype != view_.dtype) return;
    const int64_t unused = std::min(source_.layout.offset, view_.layout.offset);
    source_.layout.offset -= unused;
    view_.layout.offset -= unused;
  }

  absl::string_view name() const override { return name_; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (!incoming[0].defined()) return Gradients(1);
    COTAN_ASSIGN_OR_RETURN(Tensor result, Scatter(context.ops(), incoming[0]));
    if (!divides_) return Gradients{std::move(result)};
    COTAN_ASSIGN_OR_RETURN(const Tensor counts, CountUses(context.ops()));
    COTAN_RETURN_IF_ERROR(context.ops().DivideBy(counts, Whole(result)));
    return Gradients{std::move(result)};
  }

  // Captured if each location of the storage has at most one element of the view and of the source.
  absl::StatusOr<bool> Describe(const BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, CaptureRecord& record) override {
    if (source_.dtype != view_.dtype || !source_.reading.is_plain() || !view_.reading.is_plain()) return false;
    if (OverlapsItself(source_.layout) || OverlapsItself(view_.layout) || Covers(Extent())) return false;
    if (!DescribeUnary("StridedView", view_.dtype, incoming, results, record)) return false;
    for (const StridedLayout* layout : {&source_.layout, &view_.layout}) {
      record.Sizes(layout->sizes);
      record.Sizes(layout->strides);
      record.Size(layout->offset);
    }
    record.Size(Extent());
    return true;
  }

  absl::Status Emit(CaptureEmitter& emitter, ConstValues incoming, Values results) override {
    if (!incoming[0].has_value()) return absl::OkStatus();
    LinkBuilder& link = emitter.link();
    int next = 0;
    const view::AsStrided source = ReadLayout(emitter, source_.layout.rank(), next);
    const view::AsStrided seen = ReadLayout(emitter, view_.layout.rank(), next);
    const SymInt extent = emitter.Size(next);
    SymInt count = 1;
    for (const SymInt& size : seen.sizes) count = count * size;
    COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value flat,
                           link.View(*incoming[0], view::View{.sizes = {count}}, {count}));
    COTAN_ASSIGN_OR_RETURN(const LinkBuilder::Value whole, link.Scatter(flat, link.Index(count, seen), extent));
    COTAN_ASSIGN_OR_RETURN(results[0], link.View(whole, source, source.sizes));
    return absl::OkStatus();
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (!incoming[0].defined()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(results[0], RecordedGradient(context.ops(), incoming[0]));
    return absl::OkStatus();
  }

  // Returns the gradient of the source. Unimplemented: elements of the source share memory.
  absl::StatusOr<Variable> RecordedGradient(TensorOps& ops, const Variable& gradient) const {
    if (divides_) return NotDifferentiableError();
    COTAN_ASSIGN_OR_RETURN(Tensor result, Scatter(ops, gradient.tensor()));
    return WithHistory(std::move(result), {gradient},
                       std::make_shared<StridedViewNode>(name_, view_, source_, /*divides=*/false));
  }

 private:
  // Returns the size of a storage that holds both layouts, in elements of the source's dtype.
  int64_t Extent() const {
    const int64_t source = StorageExtent(source_.layout);
    const auto bytes = static_cast<int64_t>(ByteSize(source_.dtype));
    const int64_t view = StorageExtent(view_.layout) * static_cast<int64_t>(ByteSize(view_.dtype));
    return std::max(source, (view + bytes - 1) / bytes);
  }

  // Returns whether the view has as many elements as a storage of this size.
  bool Covers(int64_t extent) const {
    const int64_t view_bytes = NumElements(view_.layout.sizes) * static_cast<int64_t>(ByteSize(view_.dtype));
    return view_bytes == extent * static_cast<int64_t>(ByteSize(source_.dtype));
  }

  // Returns all elements of the storage of `part`.
  static Tensor Whole(const Tensor& part) {
    const auto count = static_cast<int64_t>(part.storage()->bytes() / ByteSize(part.dtype()));
    return *Tensor::InStorage(part.storage(), part.dtype(), RowMajor({count}));
  }

  // Adds the gradient at the layout of the view and returns the storage with the layout of the source.
  absl::StatusOr<Tensor> Scatter(TensorOps& ops, const Tensor& gradient) const {
    const int64_t extent = Extent();
    COTAN_ASSIGN_OR_RETURN(const Tensor whole, Tensor::Empty(source_.dtype, {extent}, ops.device()));
    COTAN_ASSIGN_OR_RETURN(Tensor place, Tensor::InStorage(whole.storage(), view_.dtype, view_.layout));
    place = place.WithConjNegBits(source_.reading ^ view_.reading);
    if (Covers(extent) && !OverlapsItself(view_.layout)) {
      COTAN_RETURN_IF_ERROR(ops.Copy(gradient, place));
    } else {
      COTAN_RETURN_IF_ERROR(ops.Fill(0, whole));
      COTAN_RETURN_IF_ERROR(ops.AddTo(gradient, place));
    }
    return Tensor::InStorage(whole.storage(), source_.dtype, source_.layout);
  }

  // Returns, for each element of the storage, the number of elements of the source at it.
  absl::StatusOr<Tensor> CountUses(TensorOps& ops) const {
    COTAN_ASSIGN_OR_RETURN(const Tensor whole, ops.Zeros(source_.dtype, {Extent()}));
    COTAN_ASSIGN_OR_RETURN(const Tensor place, Tensor::InStorage(whole.storage(), source_.dtype, source_.layout));
    COTAN_ASSIGN_OR_RETURN(const Tensor ones, ops.Ones(source_.dtype, source_.layout.sizes));
    COTAN_RETURN_IF_ERROR(ops.AddTo(ones, place));
    return whole;
  }

  const absl::string_view name_;
  ViewedGeometry source_;
  ViewedGeometry view_;
  const bool divides_;
};

class MultiViewNode final : public Node {
 public:
  MultiViewNode(const ViewedGeometry& source, std::vector<StridedLayout> views)
      : dtype_(source.dtype), sizes_(source.layout.sizes), views_(std::move(views)) {}

  absl::string_view name() const override { return "MultiViewBackward"; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    const auto is_defined = [](const Tensor& gradient) { return gradient.defined(); };
    if (std::none_of(incoming.begin(), incoming.end(), is_defined)) return Gradients(1);
    COTAN_ASSIGN_OR_RETURN(Tensor result, context.ops().Zeros(dtype_, sizes_));
    for (size_t i = 0; i < incoming.size(); ++i) {
      if (!incoming[i].defined()) continue;
      COTAN_ASSIGN_OR_RETURN(const Tensor place, Tensor::InStorage(result.storage(), dtype_, views_[i]));
      COTAN_RETURN_IF_ERROR(context.ops().AddTo(incoming[i], place));
    }
    return Gradients{std::move(result)};
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    const ViewedGeometry source = {dtype_, RowMajor(sizes_)};
    for (size_t i = 0; i < incoming.size(); ++i) {
      if (!incoming[i].defined()) continue;
      COTAN_ASSIGN_OR_RETURN(Variable part,
                             RecordedStridedGradient(context.ops(), source, {dtype_, views_[i]}, incoming[i]));
      if (results[0].defined()) {
        COTAN_ASSIGN_OR_RETURN(part, RecordedAdd(context.ops(), results[0], part));
      }
      results[0] = std::move(part);
    }
    return absl::OkStatus();
  }

 private:
  const DType dtype_;
  const DimVector sizes_;  // of the source
  const std::vector<StridedLayout> views_;
};

// Creates the node of a view step on a source; a visitor of ViewStep.
class NodeMaker {
 public:
  using Result = absl::StatusOr<std::shared_ptr<Node>>;

  explicit NodeMaker(const ViewedGeometry& source) : source_(source) {}

  Result operator()(const view::View&) const { return Reshape("ViewBackward"); }
  Result operator()(const view::Squeeze&) const { return Reshape("SqueezeBackward"); }
  Result operator()(const view::Unsqueeze&) const { return Reshape("UnsqueezeBackward"); }
  Result operator()(view::Alias) const { return Reshape("AliasBackward"); }
  Result operator()(view::Conjugate step) const { return std::make_shared<ReadingNode>("ConjugateBackward", step); }
  Result operator()(view::Negate step) const { return std::make_shared<ReadingNode>("NegateBackward", step); }
  Result operator()(const view::Permute& step) const { return std::make_shared<PermuteNode>(step.dims); }
  Result operator()(const view::Expand&) const { return std::make_shared<ExpandNode>(source_.layout.sizes); }
  Result operator()(const view::Slice& step) const { return Scatter("SliceBackward", step); }
  Result operator()(const view::Select& step) const { return Scatter("SelectBackward", step); }
  Result operator()(const view::Diagonal& step) const { return Scatter("DiagonalBackward", step); }
  Result operator()(const view::Unfold& step) const { return Scatter("UnfoldBackward", step); }
  Result operator()(view::ViewAsReal step) const { return Scatter("ViewAsRealBackward", step); }
  Result operator()(view::ViewAsComplex step) const { return Scatter("ViewAsComplexBackward", step); }
  Result operator()(const view::AsStrided& step) const { return Strided("AsStridedBackward", step, source_); }
  Result operator()(const view::DTypeView& step) const { return NoNode(step); }
  Result operator()(view::Detach step) const { return NoNode(step); }

 private:
  Result Reshape(absl::string_view name) const { return std::make_shared<ReshapeNode>(name, source_.layout.sizes); }

  static Result Strided(absl::string_view name, const ViewStep& step, const ViewedGeometry& source) {
    COTAN_ASSIGN_OR_RETURN(ViewGeometry seen, ApplyViewStep(step, {source.dtype, source.layout}, {}));
    return MakeStridedViewNode(name, source, {seen.dtype, std::move(seen.layout), source.reading});
  }

  // Uses a row-major source: the gradient need not have the strides of the source.
  Result Scatter(absl::string_view name, const ViewStep& step) const {
    return Strided(name, step, {source_.dtype, RowMajor(source_.layout.sizes), source_.reading});
  }

  static Result NoNode(const ViewStep& step) {
    return absl::InternalError(absl::StrCat("the view ", ToString(step), " has no gradient"));
  }

  const ViewedGeometry& source_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Node>> MakeViewNode(const ViewStep& step, const ViewedGeometry& source) {
  return std::visit(NodeMaker(source), step);
}

std::shared_ptr<Node> MakeStridedViewNode(absl::string_view name, ViewedGeometry source, ViewedGeometry view) {
  return std::make_shared<StridedViewNode>(name, std::move(source), std::move(view), /*divides=*/true);
}

absl::StatusOr<Variable> RecordedStridedGradient(TensorOps& ops, const ViewedGeometry& source,
                                                 const ViewedGeometry& view, const Variable& gradient) {
  return StridedViewNode("AsStridedBackward", source, view, /*divides=*/true).RecordedGradient(ops, gradient);
}

std::shared_ptr<Node> MakeMultiViewNode(const ViewedGeometry& source, std::vector<StridedLayout> views) {
  return std::make_shared<MultiViewNode>(source, std::move(views));
}

}  // namespace cotan::autograd
