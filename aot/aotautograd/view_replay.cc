// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/view_replay.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan::aot {
namespace {

// Excludes the dispatch keys of functionalization and above: ops on proxies are recorded directly.
class BelowFunctionalization {
 public:
  BelowFunctionalization()
      : guard_(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
               c10::DispatchKeySet(c10::DispatchKey::Functionalize) | c10::DispatchKeySet(kRewriteKey)) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard guard_;
};

SymIntVector ToSymInts(at::IntArrayRef values) { return SymIntVector(values.begin(), values.end()); }

// Arguments of a view op, by position; a view op's operand is argument 0.
class ViewArguments {
 public:
  explicit ViewArguments(const Node& node) : node_(node) {}

  // Returns the integer argument; unset if it is absent. All others are constants, as the run is on
  // example tensors.
  std::optional<int64_t> Int(size_t position) const {
    const auto* value = position < node_.arguments.size() ? std::get_if<SymInt>(&node_.arguments[position]) : nullptr;
    return value != nullptr && value->is_constant() ? std::optional(value->constant()) : std::nullopt;
  }
  int64_t IntOr(size_t position, int64_t otherwise) const { return Int(position).value_or(otherwise); }

  std::vector<int64_t> Ints(size_t position) const {
    std::vector<int64_t> result;
    const auto* values =
        position < node_.arguments.size() ? std::get_if<std::vector<SymInt>>(&node_.arguments[position]) : nullptr;
    if (values == nullptr) return result;
    for (const SymInt& value : *values) result.push_back(value.constant());
    return result;
  }

 private:
  const Node& node_;
};

int Wrap(int64_t dim, int64_t rank) { return static_cast<int>(dim < 0 ? dim + rank : dim); }

ViewStep Transpose(int64_t rank, int dim1, int dim2) {
  view::Permute step;
  step.dims.resize(static_cast<size_t>(rank));
  std::iota(step.dims.begin(), step.dims.end(), 0);
  if (rank > 0) std::swap(step.dims[static_cast<size_t>(dim1)], step.dims[static_cast<size_t>(dim2)]);
  return step;
}

ViewStep Permute(const ViewArguments& arguments, int64_t rank) {
  view::Permute step;
  for (int64_t dim : arguments.Ints(1)) step.dims.push_back(Wrap(dim, rank));
  return step;
}

// Returns the squeeze of those dimensions in `dims` that have size 1.
ViewStep Squeeze(std::vector<int64_t> dims, const at::Tensor& source) {
  view::Squeeze step;
  for (int64_t dim : dims) {
    if (source.dim() > 0 && source.size(dim) == 1) step.dims.push_back(Wrap(dim, source.dim()));
  }
  std::sort(step.dims.begin(), step.dims.end());
  return step;
}

ViewStep SqueezeAll(const at::Tensor& source) {
  std::vector<int64_t> dims(static_cast<size_t>(source.dim()));
  std::iota(dims.begin(), dims.end(), 0);
  return Squeeze(std::move(dims), source);
}

ViewStep Slice(const at::Tensor& source, int dim, int64_t start, int64_t end, int64_t step) {
  const int64_t size = source.size(dim);
  const auto clamp = [size](int64_t index, int64_t low) {
    return std::clamp(index < 0 ? index + size : index, low, size);
  };
  const int64_t from = clamp(start, 0);
  return view::Slice{dim, from, clamp(end, from), step};
}

ViewStep SliceOp(const ViewArguments& arguments, const at::Tensor& source) {
  const int dim = Wrap(arguments.IntOr(1, 0), source.dim());
  return Slice(source, dim, arguments.IntOr(2, 0), arguments.IntOr(3, source.size(dim)), arguments.IntOr(4, 1));
}

ViewStep Select(const ViewArguments& arguments, const at::Tensor& source) {
  const int dim = Wrap(arguments.IntOr(1, 0), source.dim());
  return view::Select{dim, Wrap(arguments.IntOr(2, 0), source.size(dim))};
}

ViewStep Diagonal(const ViewArguments& arguments, int64_t rank) {
  return view::Diagonal{Wrap(arguments.IntOr(2, 0), rank), Wrap(arguments.IntOr(3, 1), rank), arguments.IntOr(1, 0)};
}

ViewStep Unfold(const ViewArguments& arguments, int64_t rank) {
  // A tensor without dimensions has one window.
  if (rank == 0 && arguments.IntOr(2, 0) == 1) return view::Unsqueeze{0};
  return view::Unfold{Wrap(arguments.IntOr(1, 0), rank), arguments.IntOr(2, 0), arguments.IntOr(3, 1)};
}

// Returns the part of `source` (slice or select) that one result of unbind or split is.
ViewStep Part(const at::Tensor& source, const at::Tensor& result, int dim) {
  const int64_t stride = source.stride(dim);
  const int64_t start = stride == 0 ? 0 : (result.storage_offset() - source.storage_offset()) / stride;
  if (result.dim() < source.dim()) return view::Select{dim, start};
  return view::Slice{dim, start, start + result.size(dim), 1};
}

using Maker = ViewStep (*)(const ViewArguments& arguments, const at::Tensor& source, const at::Tensor& result);

const absl::flat_hash_map<std::string, Maker>& Makers() {
  static const auto* const makers = new absl::flat_hash_map<std::string, Maker>{
      {"aten.view.default", [](auto&, auto&, auto& r) -> ViewStep { return view::View{ToSymInts(r.sizes())}; }},
      {"aten._reshape_alias.default",
       [](auto&, auto&, auto& r) -> ViewStep { return view::View{ToSymInts(r.sizes())}; }},
      {"aten.view.dtype", [](auto&, auto&, auto& r) -> ViewStep { return view::DTypeView{ToDType(r.scalar_type())}; }},
      {"aten.expand.default", [](auto&, auto&, auto& r) -> ViewStep { return view::Expand{ToSymInts(r.sizes())}; }},
      {"aten.as_strided.default", [](auto&, auto&, auto& r) -> ViewStep { return AsStridedStep(r); }},
      {"aten.t.default", [](auto&, auto& s, auto&) { return Transpose(s.dim(), 0, s.dim() == 2 ? 1 : 0); }},
      {"aten.transpose.int",
       [](auto& a, auto& s, auto&) {
         return Transpose(s.dim(), Wrap(a.IntOr(1, 0), s.dim()), Wrap(a.IntOr(2, 0), s.dim()));
       }},
      {"aten.permute.default", [](auto& a, auto& s, auto&) { return Permute(a, s.dim()); }},
      {"aten.squeeze.default", [](auto&, auto& s, auto&) { return SqueezeAll(s); }},
      {"aten.squeeze.dim", [](auto& a, auto& s, auto&) { return Squeeze({a.IntOr(1, 0)}, s); }},
      {"aten.squeeze.dims", [](auto& a, auto& s, auto&) { return Squeeze(a.Ints(1), s); }},
      {"aten.unsqueeze.default",
       [](auto& a, auto&, auto& r) -> ViewStep { return view::Unsqueeze{Wrap(a.IntOr(1, 0), r.dim())}; }},
      {"aten.slice.Tensor", [](auto& a, auto& s, auto&) { return SliceOp(a, s); }},
      {"aten.select.int", [](auto& a, auto& s, auto&) { return Select(a, s); }},
      {"aten.diagonal.default", [](auto& a, auto& s, auto&) { return Diagonal(a, s.dim()); }},
      {"aten.unfold.default", [](auto& a, auto& s, auto&) { return Unfold(a, s.dim()); }},
      {"aten.unbind.int", [](auto& a, auto& s, auto& r) { return Part(s, r, Wrap(a.IntOr(1, 0), s.dim())); }},
      {"aten.split.Tensor", [](auto& a, auto& s, auto& r) { return Part(s, r, Wrap(a.IntOr(2, 0), s.dim())); }},
      {"aten.split_with_sizes.default",
       [](auto& a, auto& s, auto& r) { return Part(s, r, Wrap(a.IntOr(2, 0), s.dim())); }},
      {"aten.view_as_real.default", [](auto&, auto&, auto&) -> ViewStep { return view::ViewAsReal{}; }},
      {"aten.view_as_complex.default", [](auto&, auto&, auto&) -> ViewStep { return view::ViewAsComplex{}; }},
      {"aten._conj.default", [](auto&, auto&, auto&) -> ViewStep { return view::Conjugate{}; }},
      {"aten._neg_view.default", [](auto&, auto&, auto&) -> ViewStep { return view::Negate{}; }},
      {"aten.detach.default", [](auto&, auto&, auto&) -> ViewStep { return view::Detach{}; }},
      {"aten.alias.default", [](auto&, auto&, auto&) -> ViewStep { return view::Alias{}; }},
  };
  return *makers;
}

ViewGeometry Geometry(const at::Tensor& tensor) {
  ViewGeometry geometry;
  geometry.dtype = ToDType(tensor.scalar_type());
  geometry.layout = LayoutOf(tensor);
  return geometry;
}

// Returns whether dtype, conj and neg bits are equal. ViewGeometry has no conj and neg bits.
bool ReadAlike(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

bool ChangesReading(const ViewStep& step) {
  return std::holds_alternative<view::Conjugate>(step) || std::holds_alternative<view::Negate>(step);
}

// Returns whether ApplyViewStep() computes the geometry of `result` from `source`.
bool Makes(const ViewStep& step, const at::Tensor& source, const at::Tensor& result) {
  if (ChangesReading(step)) return Geometry(source) == Geometry(result);
  const absl::StatusOr<ViewGeometry> made = ApplyViewStep(ToProto(step), Geometry(source), {});
  return made.ok() && *made == Geometry(result) && source.is_conj() == result.is_conj() &&
         source.is_neg() == result.is_neg();
}

bool HasGradient(at::ScalarType type) { return at::isFloatingType(type) || at::isComplexType(type); }

// Returns whether a dtype view ends the gradient: its result cannot require grad.
bool EndsGradient(at::ScalarType source, at::ScalarType result) { return HasGradient(source) && !HasGradient(result); }

// Appends the step from `source` to `result`. `recorder` has recorded at most one view op.
void AppendStep(Recorder& recorder, const at::Tensor& source, const at::Tensor& result, ReplayedViews& views) {
  const Graph::NodeList& nodes = recorder.graph().nodes();
  std::optional<ViewStep> step;
  if (nodes.size() == 1) step = ToViewStep(nodes.front(), source, result);
  if (nodes.empty() && result.is_same(source)) step = view::Alias{};
  if (!step.has_value() && ReadAlike(source, result)) step = AsStridedStep(result);
  if (!step.has_value()) {
    views.complete = false;
    return;
  }
  views.steps.push_back(*std::move(step));
  if (EndsGradient(source.scalar_type(), result.scalar_type())) views.steps.push_back(view::Detach{});
}

}  // namespace

ViewStep AsStridedStep(const at::Tensor& result) {
  return view::AsStrided{ToSymInts(result.sizes()), ToSymInts(result.strides()), result.storage_offset()};
}

std::vector<ViewStep> BitsSteps(const at::Tensor& source, at::ScalarType type) {
  std::vector<ViewStep> steps = {view::DTypeView{ToDType(type)}};
  if (EndsGradient(source.scalar_type(), type)) steps.push_back(view::Detach{});
  return steps;
}

std::optional<ViewStep> ToViewStep(const Node& node, const at::Tensor& source, const at::Tensor& result) {
  const auto found = Makers().find(node.op);
  if (found == Makers().end()) return std::nullopt;
  ViewStep step = found->second(ViewArguments(node), source, result);
  if (Makes(step, source, result)) return step;
  return std::nullopt;
}

ReplayedViews ReplayViews(ViewMetas views, const at::Tensor& base) {
  const BelowFunctionalization below;
  ReplayedViews replayed;
  replayed.result = base;
  for (const auto& view : views) {
    Recorder recorder;
    const RecordingScope recording(recorder);
    const at::Tensor source = at::functionalization::impl::from_functional_tensor(
        recorder.AddInput(replayed.result, InputKind::kUserInput, 0, "source"));
    const at::Tensor result = AsProxy(view->forward(source))->real();
    AppendStep(recorder, replayed.result, result, replayed);
    replayed.result = result;
  }
  return replayed;
}

}  // namespace cotan::aot
