// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/variable.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/accumulate_grad.h"
#include "runtime/autograd/copy_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/recorded_ops.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable_state.h"
#include "runtime/autograd/view_node.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan {
namespace {

using autograd::CopyNode;
using autograd::CopySlicesNode;
using autograd::Edge;
using autograd::GradientType;
using autograd::Hooks;
using autograd::Node;
using autograd::VariableState;
using autograd::VersionCounter;
using autograd::ViewedGeometry;

bool IsDifferentiable(DType dtype) { return IsFloatingPoint(dtype) || IsComplex(dtype); }

ViewedGeometry GeometryOf(const Tensor& tensor) { return {tensor.dtype(), tensor.layout(), tensor.reading()}; }

// Checks that a write is allowed while gradients are enabled: only views with ViewCreation::kDefault may be written
// (handle_view_on_rebase() in LibTorch). `indirect`: its base or another view of that is written.
absl::Status CheckViewMayBeWritten(const VariableState& view, bool indirect) {
  if (view.creation == ViewCreation::kDefault) return absl::OkStatus();
  const std::string written = indirect ? "its base or another view of its base has been" : "is being";
  if (view.creation == ViewCreation::kNoGrad) {
    return absl::FailedPreconditionError(absl::StrCat(
        "A view was created in no_grad mode and ", written,
        " modified inplace with grad mode enabled. Make the view and modify it either both with gradients disabled or "
        "both with gradients enabled"));
  }
  const std::string made_by =
      view.grad_fn == nullptr ? "" : absl::StrCat("Output ", view.output_number, " of ", view.grad_fn->name(), ": ");
  return absl::FailedPreconditionError(
      absl::StrCat(made_by, "A view that is the output of a function that returns multiple views ", written,
                   " modified inplace. Such views may not be modified inplace while gradients are enabled; use an "
                   "operation that returns a new tensor"));
}

// Moves the hook of RetainGrad() to the variable's new grad_fn.
void MoveRetainHook(const VariableState& state, Node* old_node, int old_number, Node& node, int number) {
  if (state.retain_hook == 0 || old_node == nullptr || old_node->hooks() == nullptr) return;
  old_node->MutableHooks().MoveRetainHooks(old_number, node.MutableHooks(), number);
}

// Sets grad_fn and output_number; of a view, marks them as current.
void SetGradientEdge(VariableState& state, std::shared_ptr<Node> node, int number) {
  MoveRetainHook(state, state.grad_fn.get(), state.output_number, *node, number);
  autograd::Release(std::exchange(state.grad_fn, std::move(node)));
  state.output_number = number;
  if (state.is_view()) state.history_version = state.version->value;
}

// Regenerates the grad_fn of a stale view, whose base or another view of it was written, as AsStridedBackward of the
// base (VariableHooks::grad_fn() in torch/csrc/autograd/variable.cpp).
absl::Status RegenerateGradFn(VariableState& view) {
  COTAN_RETURN_IF_ERROR(CheckViewMayBeWritten(view, /*indirect=*/true));
  const Tensor& base = view.base.tensor();
  std::shared_ptr<Node> node =
      autograd::MakeStridedViewNode("AsStridedBackward", GeometryOf(base), GeometryOf(view.tensor));
  COTAN_ASSIGN_OR_RETURN(Edge edge, view.base.GradientEdge());
  node->AddEdge(std::move(edge));
  const int number = node->AddInput(GradientType::Of(view.tensor));
  SetGradientEdge(view, std::move(node), number);
  return absl::OkStatus();
}

std::shared_ptr<VariableState> NewState(Tensor tensor, const VariableState& shares_version_with) {
  return std::make_shared<VariableState>(std::move(tensor), shares_version_with.version);
}

// Returns a view of `source` without grad_fn. A view of a view has the base and the restrictions of that.
std::shared_ptr<VariableState> NewView(const Variable& source, Tensor tensor, ViewCreation creation) {
  const VariableState& from = *source.state();
  std::shared_ptr<VariableState> view = NewState(std::move(tensor), from);
  view->base = from.is_view() ? from.base : source;
  view->creation = creation == ViewCreation::kDefault && from.is_view() ? from.creation : creation;
  view->history_version = view->version->value;
  return view;
}

// Returns the step with its symbols replaced by their values.
absl::StatusOr<ViewStep> WithoutSymbols(ViewStep step, absl::Span<const int64_t> symbols) {
  absl::Status status;
  const auto evaluate = [&](SymInt& value) {
    if (value.is_constant()) return;
    const absl::StatusOr<int64_t> number = value.Evaluate(symbols);
    if (number.ok()) {
      value = *number;
    } else {
      status.Update(number.status());
    }
  };
  const auto evaluate_all = [&](SymIntVector& values) { std::for_each(values.begin(), values.end(), evaluate); };
  if (auto* view = std::get_if<view::View>(&step)) evaluate_all(view->sizes);
  if (auto* expand = std::get_if<view::Expand>(&step)) evaluate_all(expand->sizes);
  if (auto* select = std::get_if<view::Select>(&step)) evaluate(select->index);
  if (auto* slice = std::get_if<view::Slice>(&step)) {
    for (SymInt* value : {&slice->start, &slice->end, &slice->step}) evaluate(*value);
  }
  if (auto* strided = std::get_if<view::AsStrided>(&step)) {
    evaluate_all(strided->sizes);
    evaluate_all(strided->strides);
    evaluate(strided->offset);
  }
  if (!status.ok()) return status;
  return step;
}

// Applies one step, recorded as one operation.
absl::StatusOr<Variable> ViewOnce(const Variable& source, const ViewStep& step) {
  if (std::holds_alternative<view::Detach>(step)) return source.Detach();
  const bool is_differentiable = !std::holds_alternative<view::DTypeView>(step);  // a bit cast has no gradient
  const bool recorded = is_differentiable && GradMode::enabled() && source.requires_grad();
  // First, so that a stale view's grad_fn is regenerated even if the step fails, as in LibTorch.
  Edge edge;
  if (recorded) {
    COTAN_ASSIGN_OR_RETURN(edge, source.GradientEdge());
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, ViewOf(source.tensor(), step));
  if (!is_differentiable) return Variable(NewState(std::move(tensor), *source.state()));
  std::shared_ptr<Node> node;
  if (recorded) {
    COTAN_ASSIGN_OR_RETURN(node, autograd::MakeViewNode(step, GeometryOf(source.tensor())));
    node->AddEdge(std::move(edge));
  }
  const ViewCreation creation = GradMode::enabled() ? ViewCreation::kDefault : ViewCreation::kNoGrad;
  Variable view(NewView(source, std::move(tensor), creation));
  if (node != nullptr) view.SetHistory(std::move(node));
  return view;
}

// Returns an error if the result of a copy from `from` to `to` would depend on the order of elements.
absl::Status CheckMemoryForCopy(const Tensor& from, const Tensor& to) {
  const bool aliases = from.storage() == to.storage() && from.reading() == to.reading();
  if (aliases && from.dtype() == to.dtype() && from.layout() == to.layout()) return absl::OkStatus();
  if (OverlapsItself(to.layout())) {
    return absl::InvalidArgumentError(absl::StrCat("more than one element of the written-to tensor ", to.ToString(),
                                                   " with layout ", ToString(to.layout()),
                                                   " refers to a single memory location; write to a copy of it"));
  }
  if (!aliases) return absl::OkStatus();
  const auto from_bytes = static_cast<int64_t>(ByteSize(from.dtype()));
  const auto to_bytes = static_cast<int64_t>(ByteSize(to.dtype()));
  if (!LayoutsOverlap(from.layout(), from_bytes, to.layout(), to_bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("some elements of the source ", ToString(from.layout()),
                                                 " and of the written-to tensor ", ToString(to.layout()),
                                                 " refer to a single memory location; copy from a copy of the source"));
}

}  // namespace

Variable::Variable(Tensor tensor)
    : state_(std::make_shared<VariableState>(std::move(tensor), std::make_shared<VersionCounter>())) {}

absl::StatusOr<Variable> Variable::Leaf(Tensor tensor) {
  Variable leaf(std::move(tensor));
  COTAN_RETURN_IF_ERROR(leaf.RequiresGrad(true));
  return leaf;
}

const Tensor& Variable::tensor() const { return state_->tensor; }

bool Variable::requires_grad() const {
  return state_->requires_grad || state_->grad_fn != nullptr || (state_->is_view() && state_->base.requires_grad());
}

bool Variable::is_leaf() const { return state_->grad_fn == nullptr; }

absl::StatusOr<std::shared_ptr<Node>> Variable::grad_fn() const {
  VariableState& state = *state_;
  if (!state.is_view() || state.history_version == state.version->value) return state.grad_fn;
  if (state.grad_fn == nullptr && !state.base.requires_grad()) return state.grad_fn;
  COTAN_RETURN_IF_ERROR(RegenerateGradFn(state));
  return state.grad_fn;
}

int Variable::output_number() const { return state_->output_number; }

absl::StatusOr<Edge> Variable::GradientEdge() const { return GradientEdge(tensor().sizes()); }

absl::StatusOr<Edge> Variable::GradientEdge(absl::Span<const int64_t> leaf_sizes) const {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, grad_fn());
  if (node != nullptr) return Edge{std::move(node), state_->output_number};
  if (!state_->requires_grad) return Edge();
  const std::lock_guard lock(state_->leaf_mutex);
  node = state_->accumulator.lock();
  if (node == nullptr) {
    node = std::make_shared<autograd::AccumulateGrad>(*this, leaf_sizes);
    state_->accumulator = node;
  }
  return Edge{std::move(node), 0};
}

void Variable::SetHistory(std::shared_ptr<Node> node) {
  const int number = node->AddInput(GradientType::Of(tensor()));
  SetGradientEdge(*state_, std::move(node), number);
}

void Variable::SetHistory(std::shared_ptr<Node> node, int input) { SetGradientEdge(*state_, std::move(node), input); }

absl::Status Variable::CheckInPlace(bool requires_grad) const {
  if (!requires_grad || !GradMode::enabled()) return absl::OkStatus();
  const bool required = this->requires_grad();
  if (state_->is_view()) {
    COTAN_RETURN_IF_ERROR(CheckViewMayBeWritten(*state_, /*indirect=*/false));
    if (required && state_->base.is_leaf()) {
      return absl::FailedPreconditionError(
          "a view of a leaf Variable that requires grad is being used in an in-place operation");
    }
  }
  // As in LibTorch, a stale view whose grad_fn has not been regenerated counts as a leaf.
  if (!required || !is_leaf()) return absl::OkStatus();
  return absl::FailedPreconditionError("a leaf Variable that requires grad is being used in an in-place operation");
}

absl::Status Variable::RebaseHistory(std::shared_ptr<Node> node) {
  VariableState& state = *state_;
  const int number = node->AddInput(GradientType::Of(tensor()));
  if (!state.is_view()) {
    SetGradientEdge(state, std::move(node), number);
    return absl::OkStatus();
  }
  COTAN_ASSIGN_OR_RETURN(Edge base_edge, state.base.GradientEdge());
  auto slices = std::make_shared<CopySlicesNode>(GeometryOf(state.base.tensor()), GeometryOf(state.tensor),
                                                 std::move(base_edge), std::move(node));
  state.base.SetHistory(std::move(slices));
  return grad_fn().status();
}

absl::Status Variable::RequiresGrad(bool requires_grad) {
  if (!requires_grad && !is_leaf()) {
    return absl::FailedPreconditionError(
        "you can only change requires_grad flags of leaf variables; for a computed value without gradient, Detach() "
        "it");
  }
  if (requires_grad && !IsDifferentiable(dtype())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "only tensors of floating point and complex dtype can require gradients, not ", tensor().ToString()));
  }
  state_->requires_grad = requires_grad;
  return absl::OkStatus();
}

const Variable& Variable::grad() const { return state_->grad; }

absl::Status Variable::SetGrad(Variable grad) {
  if (!grad.defined() || grad.is_same(*this)) {
    return absl::InvalidArgumentError(absl::StrCat("the grad() of ", tensor().ToString(), " cannot be ",
                                                   grad.defined() ? "the variable itself" : "undefined: ClearGrad()"));
  }
  const bool has_dtype = grad_dtype() == DType::kUndefined || grad.dtype() == grad_dtype();
  const bool fits = has_dtype && absl::MakeConstSpan(grad.sizes()) == absl::MakeConstSpan(sizes()) &&
                    &grad.tensor().device() == &tensor().device();
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("the grad() of ", tensor().ToString(), " cannot be ",
                                                   grad.tensor().ToString(),
                                                   ": dtype, sizes and device have to be equal"));
  }
  state_->grad = std::move(grad);
  return absl::OkStatus();
}

DType Variable::grad_dtype() const { return state_->grad_dtype; }

absl::Status Variable::SetGradDType(DType dtype) {
  if (!is_leaf()) {
    return absl::FailedPreconditionError(
        "the dtype of gradients can only be set on leaf tensors: this one is the result of an operation");
  }
  const DType own = this->dtype();
  const bool is_any = dtype == DType::kUndefined;
  const bool is_same_kind = IsComplex(dtype) == IsComplex(own) && IsFloatingPoint(dtype) == IsFloatingPoint(own);
  if (!is_any && (!is_same_kind || IsStorageOnly(dtype))) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradients of ", tensor().ToString(), " cannot be ", DTypeName(dtype),
                     is_same_kind ? ": 8-bit floats cannot be added" : ": both are floating point, or both complex"));
  }
  if (!is_any && grad().defined() && grad().dtype() != dtype) {
    return absl::FailedPreconditionError(absl::StrCat("the dtype of gradients cannot be set to ", DTypeName(dtype),
                                                      " while grad() is ", grad().tensor().ToString(),
                                                      ": ClearGrad() first"));
  }
  const std::lock_guard lock(state_->leaf_mutex);
  if (state_->grad_dtype == dtype) return absl::OkStatus();
  state_->grad_dtype = dtype;
  state_->accumulator.reset();  // gradients have the new dtype from now on
  return absl::OkStatus();
}

void Variable::ClearGrad() { state_->grad = Variable(); }

absl::Status Variable::RetainGrad() {
  if (!requires_grad()) {
    return absl::FailedPreconditionError("can't retain_grad on a Variable that does not require grad");
  }
  if (is_leaf() || state_->retain_hook != 0) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, grad_fn());
  const std::weak_ptr<VariableState> weak = state_;
  const auto keep = [weak](TensorOps& ops, const Variable& gradient) -> absl::Status {
    const std::shared_ptr<VariableState> state = weak.lock();
    if (state == nullptr) return absl::OkStatus();
    if (state->grad.defined()) {
      COTAN_ASSIGN_OR_RETURN(state->grad, autograd::RecordedAdd(ops, state->grad, gradient));
    } else {
      COTAN_ASSIGN_OR_RETURN(state->grad, autograd::RecordedClone(ops, gradient));
    }
    return absl::OkStatus();
  };
  state_->retain_hook = node->MutableHooks().AddRetainHook(state_->output_number, keep);
  return absl::OkStatus();
}

absl::StatusOr<autograd::HookId> Variable::AddHook(autograd::GradientHook hook) {
  if (!requires_grad()) {
    return absl::FailedPreconditionError("cannot register a hook on a Variable that does not require grad");
  }
  COTAN_ASSIGN_OR_RETURN(const Edge edge, GradientEdge());
  if (edge.defined() && !is_leaf()) return edge.node->MutableHooks().AddGradientHook(edge.input, std::move(hook));
  if (edge.defined()) {
    edge.node->MutableHooks();
    state_->leaf_hooks = edge.node->shared_hooks();
  } else if (state_->leaf_hooks == nullptr) {
    state_->leaf_hooks = std::make_shared<Hooks>();  // a view that no gradient reaches
  }
  return state_->leaf_hooks->AddGradientHook(0, std::move(hook));
}

absl::StatusOr<autograd::HookId> Variable::AddPostAccumulateHook(std::function<absl::Status(Variable& leaf)> hook) {
  if (!requires_grad() || !is_leaf()) {
    return absl::FailedPreconditionError(
        "post accumulate grad hooks can only be registered on a leaf that requires grad");
  }
  state_->post_accumulate_hooks.push_back({autograd::NextHookId(), std::move(hook)});
  return state_->post_accumulate_hooks.back().id;
}

bool Variable::RemoveHook(autograd::HookId id) {
  auto& post = state_->post_accumulate_hooks;
  const auto found = std::find_if(post.begin(), post.end(), [id](const auto& hook) { return hook.id == id; });
  if (found != post.end()) {
    post.erase(found);
    return true;
  }
  Hooks* const hooks = state_->grad_fn != nullptr ? state_->grad_fn->hooks() : state_->leaf_hooks.get();
  return hooks != nullptr && hooks->Remove(id);
}

uint32_t Variable::version() const { return state_->version->value; }

void Variable::BumpVersion() { ++state_->version->value; }

Variable Variable::Detach() const { return DetachAs(tensor()); }

Variable Variable::DetachAs(Tensor seen) const { return Variable(NewState(std::move(seen), *state_)); }

Variable Variable::ViewAs(Tensor seen, ViewCreation creation) const {
  return Variable(NewView(*this, std::move(seen), creation));
}

absl::StatusOr<Variable> Variable::View(absl::Span<const ViewStep> steps, absl::Span<const int64_t> symbols) const {
  if (steps.empty()) return ViewOnce(*this, view::Alias{});
  Variable current = *this;
  for (const ViewStep& step : steps) {
    if (symbols.empty()) {
      COTAN_ASSIGN_OR_RETURN(current, ViewOnce(current, step));
    } else {
      COTAN_ASSIGN_OR_RETURN(const ViewStep numbers, WithoutSymbols(step, symbols));
      COTAN_ASSIGN_OR_RETURN(current, ViewOnce(current, numbers));
    }
  }
  return current;
}

absl::StatusOr<Variable> Variable::AsStrided(const StridedLayout& layout) const {
  return ViewOnce(*this, view::AsStrided{.sizes = SymIntVector(layout.sizes.begin(), layout.sizes.end()),
                                         .strides = SymIntVector(layout.strides.begin(), layout.strides.end()),
                                         .offset = layout.offset});
}

absl::StatusOr<std::vector<Variable>> Variable::MultiView(absl::Span<const ViewStep> steps) const {
  const bool recorded = GradMode::enabled() && requires_grad();
  const ViewGeometry row_major = {dtype(),
                                  {.sizes = layout().sizes, .strides = ContiguousStrides(layout().sizes), .offset = 0}};
  std::vector<Variable> views;
  std::vector<StridedLayout> places;
  for (const ViewStep& step : steps) {
    COTAN_ASSIGN_OR_RETURN(Tensor seen, ViewOf(tensor(), step));
    if (seen.dtype() != dtype() || seen.reading() != tensor().reading() || std::holds_alternative<view::Detach>(step)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the view ", cotan::ToString(step),
                       " cannot be a step of MultiView(): it changes the dtype or the conj/neg bits, or detaches"));
    }
    views.emplace_back(NewView(*this, std::move(seen), ViewCreation::kMultiOutput));
    if (!recorded) continue;
    COTAN_ASSIGN_OR_RETURN(ViewGeometry place, ApplyViewStep(step, row_major, {}));
    places.push_back(std::move(place.layout));
  }
  if (!recorded) return views;
  COTAN_ASSIGN_OR_RETURN(Edge edge, GradientEdge());
  const std::shared_ptr<Node> node = autograd::MakeMultiViewNode(GeometryOf(tensor()), std::move(places));
  node->AddEdge(std::move(edge));
  for (Variable& view : views) view.SetHistory(node);
  return views;
}

bool Variable::is_view() const { return state_->is_view(); }
const Variable& Variable::base() const { return state_->base; }
ViewCreation Variable::view_creation() const { return state_->creation; }

absl::Status Variable::CopyInPlace(const Variable& source, TensorOps& ops) {
  const bool recorded = GradMode::enabled() && IsDifferentiable(dtype()) && (requires_grad() || source.requires_grad());
  COTAN_RETURN_IF_ERROR(CheckInPlace(recorded));
  // First, so that the grad_fn of stale views is regenerated even if the copy fails, as in LibTorch.
  std::shared_ptr<CopyNode> node;
  if (recorded) {
    node = std::make_shared<CopyNode>();
    COTAN_RETURN_IF_ERROR(node->AddEdgesTo({*this, source}));
  }
  COTAN_RETURN_IF_ERROR(CheckMemoryForCopy(source.tensor(), tensor()));
  COTAN_RETURN_IF_ERROR(ops.Copy(source.tensor(), tensor()));
  BumpVersion();
  return recorded ? RebaseHistory(std::move(node)) : absl::OkStatus();
}

absl::Status Variable::AsStridedInPlace(const StridedLayout& layout) {
  const bool recorded = GradMode::enabled() && requires_grad();
  COTAN_RETURN_IF_ERROR(CheckInPlace(recorded));
  COTAN_ASSIGN_OR_RETURN(Tensor seen, Tensor::InStorage(tensor().storage(), dtype(), layout));
  seen = seen.WithConjNegBits(tensor().reading());
  std::shared_ptr<Node> node;
  if (recorded) {
    COTAN_ASSIGN_OR_RETURN(Edge edge, GradientEdge());
    node = autograd::MakeStridedViewNode("AsStridedBackward", GeometryOf(tensor()), GeometryOf(seen));
    node->AddEdge(std::move(edge));
  }
  state_->tensor = std::move(seen);
  BumpVersion();
  if (recorded) SetHistory(std::move(node));
  return absl::OkStatus();
}

absl::Status Variable::SetStorage(const Variable& source) {
  if (GradMode::enabled() && (requires_grad() || source.requires_grad())) {
    return absl::FailedPreconditionError(
        "the storage of a Variable cannot be set while gradients are enabled and the Variable or the source requires "
        "grad: disable gradients");
  }
  const Tensor& other = source.tensor();
  if (other.dtype() != dtype() || &other.device() != &tensor().device()) {
    return absl::InvalidArgumentError(absl::StrCat("the storage of ", other.ToString(), " cannot be set as that of ",
                                                   tensor().ToString(), ": dtype and device must be equal"));
  }
  state_->tensor = other;
  state_->accumulator.reset();  // gradients have the new sizes from now on
  BumpVersion();
  return absl::OkStatus();
}

absl::Status Variable::DetachInPlace() {
  if (is_view()) {
    return absl::FailedPreconditionError("Can't detach views in-place. Use Detach() instead");
  }
  state_->requires_grad = false;
  state_->output_number = 0;
  autograd::Release(std::move(state_->grad_fn));
  return absl::OkStatus();
}

std::string Variable::ToString() const {
  if (!defined()) return "undefined";
  std::string text = tensor().ToString();
  if (state_->grad_fn != nullptr) {
    absl::StrAppend(&text, " grad_fn=", state_->grad_fn->name());
  } else if (requires_grad()) {
    absl::StrAppend(&text, " requires_grad");
  }
  if (is_view()) absl::StrAppend(&text, " view");
  return text;
}

}  // namespace cotan
