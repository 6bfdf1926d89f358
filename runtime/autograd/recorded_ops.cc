// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/recorded_ops.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"
#include "serialization/metadata/view_step.h"

namespace cotan::autograd {
namespace {

// An operation whose gradient along each edge is the incoming one: a sum, a copy, a cast. The engine casts.
class PassOnNode final : public Node {
 public:
  explicit PassOnNode(absl::string_view name) : name_(name) {}

  absl::string_view name() const override { return name_; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    return Gradients(static_cast<size_t>(num_edges()), incoming[0]);
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    std::fill(results.begin(), results.end(), incoming[0]);
    return absl::OkStatus();
  }

 private:
  const absl::string_view name_;
};

// The node of RecordedSumTo(): the gradient is broadcast.
class SumToNode final : public Node {
 public:
  explicit SumToNode(absl::Span<const int64_t> sizes) : expand_{.sizes = SymIntVector(sizes.begin(), sizes.end())} {}

  absl::string_view name() const override { return "SumToBackward"; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (!incoming[0].defined()) return Gradients(1);
    COTAN_ASSIGN_OR_RETURN(Tensor result, ViewOf(incoming[0], expand_));
    return Gradients{std::move(result)};
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (!incoming[0].defined()) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(results[0], incoming[0].View({expand_}));
    return absl::OkStatus();
  }

 private:
  const view::Expand expand_;
};

}  // namespace

absl::StatusOr<Variable> WithHistory(Tensor result, absl::Span<const Variable> inputs, std::shared_ptr<Node> node) {
  Variable variable(std::move(result));
  const auto requires_grad = [](const Variable& input) { return input.defined() && input.requires_grad(); };
  if (!GradMode::enabled() || std::none_of(inputs.begin(), inputs.end(), requires_grad)) return variable;
  COTAN_RETURN_IF_ERROR(node->AddEdgesTo(inputs));
  variable.SetHistory(std::move(node));
  return variable;
}

std::vector<Tensor> TensorsOf(absl::Span<const Variable> variables) {
  std::vector<Tensor> tensors;
  for (const Variable& variable : variables) tensors.push_back(variable.defined() ? variable.tensor() : Tensor());
  return tensors;
}

absl::StatusOr<Variable> RecordedAdd(TensorOps& ops, const Variable& a, const Variable& b) {
  COTAN_ASSIGN_OR_RETURN(Tensor sum, ops.Add(a.tensor(), b.tensor()));
  return WithHistory(std::move(sum), {a, b}, std::make_shared<PassOnNode>("AddBackward"));
}

absl::StatusOr<Variable> RecordedClone(TensorOps& ops, const Variable& variable) {
  COTAN_ASSIGN_OR_RETURN(Tensor copy, ops.Clone(variable.tensor()));
  return WithHistory(std::move(copy), {variable}, std::make_shared<PassOnNode>("CloneBackward"));
}

absl::StatusOr<Variable> RecordedCloneAs(TensorOps& ops, const Variable& variable, const StridedLayout& layout) {
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Tensor::EmptyStrided(variable.dtype(), layout, ops.device()));
  COTAN_RETURN_IF_ERROR(ops.Copy(variable.tensor(), copy));
  return WithHistory(std::move(copy), {variable}, std::make_shared<PassOnNode>("CloneBackward"));
}

absl::StatusOr<Variable> RecordedCast(TensorOps& ops, const Variable& variable, DType dtype) {
  if (variable.dtype() == dtype) return variable;
  COTAN_ASSIGN_OR_RETURN(Tensor result, ops.Cast(variable.tensor(), dtype));
  return WithHistory(std::move(result), {variable}, std::make_shared<PassOnNode>("CastBackward"));
}

absl::StatusOr<Variable> RecordedSumTo(TensorOps& ops, const Variable& variable, absl::Span<const int64_t> sizes) {
  if (variable.sizes() == sizes) return variable;
  COTAN_ASSIGN_OR_RETURN(Tensor sum, ops.SumTo(variable.tensor(), sizes));
  return WithHistory(std::move(sum), {variable}, std::make_shared<SumToNode>(variable.sizes()));
}

}  // namespace cotan::autograd
