// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/autograd_views.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/SequenceNumber.h>
#include <ATen/TensorGeometry.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"

namespace cotan::aot {
namespace {

using ViewMetas = std::vector<std::shared_ptr<at::functionalization::ViewMeta>>;

at::FunctionalTensorWrapper* WrapperOf(const at::Tensor& tensor) {
  if (!at::functionalization::impl::isFunctionalTensor(tensor)) return nullptr;
  return at::functionalization::impl::unsafeGetFunctionalWrapper(tensor);
}

// Undoes a sequence of permute, unsqueeze and squeeze.
struct InversePermutation {
  std::vector<int64_t> order;  // the permutation to apply
  std::vector<int64_t> sizes;  // of the dimensions before, to view the permuted tensor with
};

// Returns how to get `before` from `after`, which has its elements in the same memory. Unset: they differ
// by more than the order of dimensions and dimensions of size 1.
std::optional<InversePermutation> FindInversePermutation(const at::Tensor& before, const at::Tensor& after) {
  InversePermutation back;
  back.sizes = before.sizes().vec();
  if (before.numel() != after.numel() || before.storage_offset() != after.storage_offset()) return std::nullopt;
  std::vector<bool> used(static_cast<size_t>(after.dim()));
  for (int64_t d = 0; d < before.dim(); ++d) {
    if (before.size(d) == 1) continue;
    int64_t match = 0;
    while (match < after.dim() && (used[static_cast<size_t>(match)] || after.size(match) != before.size(d) ||
                                   after.stride(match) != before.stride(d))) {
      ++match;
    }
    if (match == after.dim()) return std::nullopt;
    used[static_cast<size_t>(match)] = true;
    back.order.push_back(match);
  }
  for (int64_t d = 0; d < after.dim(); ++d) {
    if (!used[static_cast<size_t>(d)]) back.order.push_back(d);
  }
  return back;
}

// Makes a view of a base whose dimensions were permuted in place: undoes the permutation, then replays the
// view's steps.
class ReplayViewFunc final : public torch::autograd::ViewFunc {
 public:
  // `back` is unset if the base has the geometry that it had when the view was made.
  ReplayViewFunc(std::optional<InversePermutation> back, ViewMetas views)
      : back_(std::move(back)), views_(std::move(views)) {}

  at::Tensor operator()(const at::Tensor& base) const override {
    at::Tensor view = back_.has_value() ? base.permute(back_->order).view(back_->sizes) : base;
    for (const auto& meta : views_) view = meta->forward(view);
    return view;
  }

  std::unique_ptr<ViewFunc> clone_and_set(std::optional<std::vector<c10::SymInt>>,
                                          std::optional<std::vector<at::Tensor>>) const override {
    return std::make_unique<ReplayViewFunc>(back_, views_);
  }

 private:
  std::optional<InversePermutation> back_;
  ViewMetas views_;
};

// Makes a view of a base whose geometry was changed in place, where the view may have elements that the
// base no longer has. Its gradient goes to the elements that both have, as AsStridedBackward0 does in eager
// mode.
class AsStridedViewFunc final : public torch::autograd::ViewFunc {
 public:
  explicit AsStridedViewFunc(const at::Tensor& view)
      : sizes_(view.sizes().vec()),
        strides_(view.strides().vec()),
        offset_(view.storage_offset()),
        dtype_(view.scalar_type()) {}

  // CopySlices (torch/csrc/autograd/functions/tensor.cpp) applies the function to the base's gradient and
  // needs its elements; every other caller reads only the grad_fn of the result.
  at::Tensor operator()(const at::Tensor& base) const override {
    if (dynamic_cast<torch::autograd::CopySlices*>(torch::autograd::get_current_node().get()) != nullptr) {
      return base.as_strided(sizes_, strides_, offset_);
    }
    const at::Tensor view = [this] {
      const RealScope real;
      return at::empty(sizes_, at::TensorOptions(dtype_));
    }();
    if (!base.requires_grad()) return view;
    const auto node = c10::make_intrusive<torch::autograd::generated::AsStridedBackward0>();
    node->self_geometry = at::TensorGeometry(base);
    node->size = SymInts(sizes_);
    node->stride = SymInts(strides_);
    node->storage_offset = c10::SymInt(offset_);
    node->set_next_edges(torch::autograd::collect_next_edges(base));
    torch::autograd::set_history(view, node);
    return view;
  }

  std::unique_ptr<ViewFunc> clone_and_set(std::optional<std::vector<c10::SymInt>>,
                                          std::optional<std::vector<at::Tensor>>) const override {
    return std::make_unique<AsStridedViewFunc>(*this);
  }

 private:
  static std::vector<c10::SymInt> SymInts(const std::vector<int64_t>& values) { return {values.begin(), values.end()}; }

  std::vector<int64_t> sizes_, strides_;
  int64_t offset_;
  at::ScalarType dtype_;
};

// Returns a function that makes `view` from the functional tensor `base`, by their present chains of view
// steps. Null: the geometry of `base` has changed and the view has another dtype, conj or neg bit; the view
// keeps the function it has.
std::unique_ptr<torch::autograd::ViewFunc> MakeViewFunc(const at::Tensor& base, const at::Tensor& view) {
  at::functionalization::impl::sync(base);
  const ViewMetas& of_base = WrapperOf(base)->view_metas();
  const ViewMetas& of_view = WrapperOf(view)->view_metas();
  const auto [base_on, view_on] = std::mismatch(of_base.begin(), of_base.end(), of_view.begin(), of_view.end());
  auto* storage = static_cast<at::functionalization::FunctionalStorageImpl*>(base.storage().unsafeGetStorageImpl());
  ViewMetas views(view_on, of_view.end());
  if (base_on == of_base.end()) return std::make_unique<ReplayViewFunc>(std::nullopt, std::move(views));
  const ProxyTensorImpl* root = AsProxy(storage->base());
  if (root == nullptr) return nullptr;
  const RealScope real;
  at::Tensor before = root->real();
  for (auto meta = of_base.begin(); meta != base_on; ++meta) before = (*meta)->forward(before);
  at::Tensor after = before;
  for (auto meta = base_on; meta != of_base.end(); ++meta) after = (*meta)->forward(after);
  std::optional<InversePermutation> back = FindInversePermutation(before, after);
  if (back.has_value()) return std::make_unique<ReplayViewFunc>(std::move(back), std::move(views));
  if (base.scalar_type() != view.scalar_type() || base.is_conj() != view.is_conj() || base.is_neg() != view.is_neg()) {
    return nullptr;
  }
  return std::make_unique<AsStridedViewFunc>(view);
}

torch::autograd::DifferentiableViewMeta* ReplayedViewMeta(const at::Tensor& tensor) {
  auto* meta = torch::autograd::impl::get_view_autograd_meta(tensor);
  if (meta == nullptr || !meta->has_bw_view() || !meta->get_backward_view().has_view_fn()) return nullptr;
  return meta;
}

}  // namespace

AutogradViews::AutogradViews() : first_sequence_number_(at::sequence_number::peek()) {}

void AutogradViews::Note(const at::Tensor& tensor) {
  if (!tensor.defined() || WrapperOf(tensor) == nullptr) return;
  noted_.emplace_back(tensor.getIntrusivePtr());
}

std::vector<at::Tensor> AutogradViews::Alive() const {
  std::vector<at::Tensor> alive;
  for (const WeakTensor& weak : noted_) {
    if (auto impl = weak.lock()) alive.emplace_back(std::move(impl));
  }
  return alive;
}

void AutogradViews::GeometryChanged(const at::Tensor& tensor) {
  for (const at::Tensor& view : Alive()) {
    torch::autograd::DifferentiableViewMeta* meta = ReplayedViewMeta(view);
    if (meta == nullptr) continue;
    const at::Tensor base = meta->get_backward_view().base_;
    if (!view.is_same(tensor) && !base.is_same(tensor)) continue;
    std::unique_ptr<torch::autograd::ViewFunc> way = MakeViewFunc(base, view);
    if (way == nullptr) continue;
    const_cast<torch::autograd::ViewInfo&>(meta->get_backward_view()).view_fn_ = std::move(way);
  }
}

void AutogradViews::AddViewOfCaller(const at::Tensor& input) {
  views_of_caller_.push_back(input.unsafeGetTensorImpl());
}

bool AutogradViews::IsViewOfCaller(const at::Tensor& tensor) const {
  return std::find(views_of_caller_.begin(), views_of_caller_.end(), tensor.unsafeGetTensorImpl()) !=
         views_of_caller_.end();
}

void AutogradViews::NoteGradFnRebased(const void* before, const at::Tensor& input) {
  const auto node = input.grad_fn();
  if (node.get() == before || before == nullptr) return;
  continued_.emplace_back(std::shared_ptr<const void>(node.get(), [node](const void*) {}), before);
}

const void* AutogradViews::OriginalGradFn(const void* node) const {
  for (auto it = continued_.rbegin(); it != continued_.rend(); ++it) {
    if (it->first.get() == node) node = it->second;
  }
  return node;
}

void AutogradViews::ReleaseHistories() {
  std::vector<torch::autograd::Node*> nodes;
  absl::flat_hash_set<const torch::autograd::Node*> seen;
  const auto visit = [&](torch::autograd::Node* node) {
    if (node == nullptr || node->sequence_nr() < first_sequence_number_ || !seen.insert(node).second) return;
    nodes.push_back(node);
  };
  const std::vector<at::Tensor> alive = Alive();
  for (const at::Tensor& tensor : alive) visit(torch::autograd::impl::grad_fn_unsafe(tensor));
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const torch::autograd::Edge& edge : nodes[i]->next_edges()) visit(edge.function.get());
  }
  // next_edges() stay, so that no node is destroyed before all are released.
  for (torch::autograd::Node* node : nodes) node->release_variables();
  noted_.clear();
  continued_.clear();
  views_of_caller_.clear();
}

}  // namespace cotan::aot
