// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/program_limits.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <exception>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"
#include "base/overlap.h"
#include "testing/conformance/harness/eager_run.h"

namespace cotan::conformance {
namespace {

bool ShareStorage(const at::Tensor& a, const at::Tensor& b) {
  return a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
}

// Returns whether the result of a write to `to` that reads `from` depends on the order of the
// loops.
bool DependsOnOrder(const at::Tensor& to, const at::Tensor& from) {
  if (!ShareStorage(to, from)) return false;
  if (aot::LayoutOf(to) == aot::LayoutOf(from) && to.scalar_type() == from.scalar_type()) return false;
  return LayoutsOverlap(aot::LayoutOf(to), static_cast<int64_t>(to.element_size()), aot::LayoutOf(from),
                        static_cast<int64_t>(from.element_size()));
}

bool RunsWithGrad(const RandomStep& step) {
  if (step.mode == RandomStep::kCallers) return at::GradMode::is_enabled();
  return step.mode == RandomStep::kEnableGrad;
}

// Runs the backward to all leaves, whether or not they are roots of the case. Throws what LibTorch
// throws.
void BackwardToLeaves(const ConfCase& c, const EagerRun& run) {
  std::vector<at::Tensor> terms;
  std::vector<at::Tensor> tangents;
  for (const int term : LossTerms(c, run)) {
    terms.push_back(TermOf(run, term));
    tangents.push_back(TangentOf(terms.back(), term, c.tangent));
  }
  if (!terms.empty()) torch::autograd::backward(terms, tangents);
}

// Returns whether `tensor` is a no_grad view of a tensor that requires grad. Eager loses the
// grad_fn of views of such a view, and metadata do not record it.
bool ForgetsHistory(const at::Tensor& tensor) { return MadeWithoutGrad(tensor) && tensor.requires_grad(); }

// Returns whether autograd regenerates `view` by its view function (conj) instead of by as_strided.
// After a metadata mutation of the base, eager assigns such a gradient to the wrong elements.
bool IsReplayedView(const at::Tensor& view, const at::Tensor& base) {
  if (!view.requires_grad() || !view.is_view() || !view._base().is_same(base)) return false;
  const auto* meta = torch::autograd::impl::get_view_autograd_meta(view);
  return meta->has_bw_view() && meta->get_backward_view().has_view_fn();
}

// Observes the versions of a program's inputs.
class InputWatch {
 public:
  explicit InputWatch(std::vector<at::Tensor> inputs) : inputs_(std::move(inputs)) {}

  const std::vector<at::Tensor>& inputs() const { return inputs_; }

  std::vector<int64_t> Versions() const {
    std::vector<int64_t> versions;
    for (const at::Tensor& input : inputs_) versions.push_back(static_cast<int64_t>(input._version()));
    return versions;
  }

  // Returns false if `written` was written but an input in the same storage has an unchanged
  // version.
  bool IsSeen(const at::Tensor& written, const std::vector<int64_t>& versions_before) const {
    const std::vector<int64_t> now = Versions();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (ShareStorage(inputs_[i], written) && now[i] == versions_before[i]) return false;
    }
    return true;
  }

 private:
  std::vector<at::Tensor> inputs_;
};

}  // namespace

void ProgramLimits::Note(const ProgramValues& values) {
  if (values_.empty()) {
    for (const auto& [_, input] : values) inputs_.push_back(input);
  }
  values_ = values;
  for (const auto& [_, tensor] : values) {
    if (tensor.is_view() || !tensor.grad_fn()) continue;
    Known& known = known_[tensor.unsafeGetTensorImpl()];
    if (known.node == tensor.grad_fn()) continue;
    known = {tensor.grad_fn(), tensor.sizes().vec(), tensor.strides().vec()};
  }
}

bool ProgramLimits::Allow(const RandomStep& step) const {
  const KnownOp op = FindOp(step.op);
  const bool with_grad = RunsWithGrad(step);
  const at::Tensor& first = values_.at(step.args[0]);
  for (int arg : step.args) {
    if (with_grad && IsInDisplaced(values_.at(arg))) return false;
  }
  // Eager keeps the grad_fn of the elements that it overwrites without a derivative.
  if (step.op == "logical_not_" && with_grad && first.requires_grad()) return false;
  if (MayView(op) && (ForgetsHistory(first) || IsInDisplaced(first))) return false;
  if (WritesElements(op)) return AllowWrite(step);
  if (op.kind == RandomOpKind::kMetadataWrite) return AllowMove(step);
  if (step.op == "detach_") return !HasViews(first);
  // After a write eager takes the grad_fn from the view's base, and requires_grad_ is lost.
  if (step.op == "requires_grad_") return !first.is_view() && !HasViews(first);
  return step.op != "set_" || AllowSet(step, with_grad);
}

bool ProgramLimits::AllowAtEnd(int value) const { return !IsInDisplaced(values_.at(value)); }

bool ProgramLimits::IsDisplaced(const at::Tensor& tensor) const {
  if (tensor.is_view()) return false;
  const auto known = known_.find(tensor.unsafeGetTensorImpl());
  if (known == known_.end() || known->second.node != tensor.grad_fn()) return false;
  return tensor.sizes() != known->second.sizes || tensor.strides() != known->second.strides;
}

bool ProgramLimits::IsInDisplaced(const at::Tensor& tensor) const {
  return absl::c_any_of(
      values_, [&](const auto& value) { return ShareStorage(value.second, tensor) && IsDisplaced(value.second); });
}

bool ProgramLimits::AllowWrite(const RandomStep& step) const {
  const at::Tensor& written = values_.at(step.args[0]);
  // Any alias of the storage whose elements overlap each other.
  const auto folds = [&](const auto& value) {
    return ShareStorage(value.second, written) && OverlapsItself(aot::LayoutOf(value.second));
  };
  if (OverlapsItself(aot::LayoutOf(written)) || absl::c_any_of(values_, folds)) return false;
  return step.args.size() == 1 || !DependsOnOrder(written, values_.at(step.args[1]));
}

bool ProgramLimits::HasViews(const at::Tensor& tensor) const {
  return absl::c_any_of(
      values_, [&](const auto& value) { return value.second.is_view() && value.second._base().is_same(tensor); });
}

bool ProgramLimits::IsInput(const at::Tensor& tensor) const {
  return absl::c_any_of(inputs_, [&](const at::Tensor& input) { return input.is_same(tensor); });
}

bool ProgramLimits::AllowMove(const RandomStep& step) const {
  const at::Tensor& moved = values_.at(step.args[0]);
  if (MadeWithoutGrad(moved) && moved.requires_grad()) return false;
  if (moved.is_view() && IsReplayedView(moved, at::Tensor(moved._base()))) return false;
  if (absl::c_any_of(values_, [&](const auto& value) { return IsReplayedView(value.second, moved); })) return false;
  const bool keeps_offset = step.op != "as_strided_" || step.numbers.back() == 0;
  const bool is_input_memory =
      absl::c_any_of(inputs_, [&](const at::Tensor& input) { return ShareStorage(input, moved); });
  return keeps_offset || is_input_memory;
}

// Excludes set_ with gradients or views: they do not follow to the new storage.
bool ProgramLimits::AllowSet(const RandomStep& step, bool with_grad) const {
  const at::Tensor& target = values_.at(step.args[0]);
  const at::Tensor& source = values_.at(step.args[1]);
  if (with_grad && (target.requires_grad() || source.requires_grad())) return false;
  if (target.scalar_type() != source.scalar_type()) return false;
  return !target.is_view() && !HasViews(target) && !target.is_same(source) && IsInput(target);
}

bool IsDefined(const RandomProgram& program) {
  try {
    at::manual_seed(0);
    ProgramValues values;
    ProgramLimits limits;
    InputWatch watch(MakeProgramInputs(program));
    for (const at::Tensor& input : watch.inputs()) {
      const int index = static_cast<int>(values.size());
      values[index] = input;
    }
    limits.Note(values);
    const at::AutoGradMode mode(program.grad);
    for (const RandomStep& step : program.steps) {
      if (!limits.Allow(step)) return false;
      const std::vector<int64_t> versions = watch.Versions();
      values[step.result] = RunStep(step, values);
      limits.Note(values);
      if (WritesElements(FindOp(step.op)) && !watch.IsSeen(values[step.result], versions)) return false;
    }
    for (int output : program.outputs) {
      if (!limits.AllowAtEnd(output)) return false;
    }
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (!limits.AllowAtEnd(static_cast<int>(i))) return false;
    }
    const ConfCase c = CaseOf(program);
    const EagerRun run = RunEager(c, std::nullopt);
    {
      const at::AutoGradMode on(true);
      BackwardToLeaves(c, run);
    }
    return absl::c_all_of(run.outputs, [](const at::Tensor& t) { return t.isfinite().all().item<bool>(); });
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace cotan::conformance
