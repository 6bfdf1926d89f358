// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/function_node.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "runtime/autograd/backward_run.h"
#include "runtime/autograd/grad_mode.h"

namespace cotan::autograd {
namespace {

// Drops the gradients beyond the first `num_edges` if they are all undefined.
template <typename T>
void DropUndefinedBeyond(int num_edges, std::vector<T>& gradients) {
  if (gradients.size() <= static_cast<size_t>(num_edges)) return;
  const auto begin = gradients.begin() + num_edges;
  if (std::none_of(begin, gradients.end(), [](const T& gradient) { return gradient.defined(); })) {
    gradients.erase(begin, gradients.end());
  }
}

// The node of ApplyFunction().
class FunctionNode final : public Node {
 public:
  FunctionNode(std::string name, BackwardFunction backward, RecordedBackwardFunction recorded,
               const ApplyFunctionOptions& options)
      : name_(std::move(name)), backward_(std::move(backward)), recorded_(std::move(recorded)), options_(options) {}

  absl::string_view name() const override { return name_; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (backward_ == nullptr) return FreedError();
    COTAN_RETURN_IF_ERROR(Materialize(context, incoming));
    COTAN_ASSIGN_OR_RETURN(Gradients results, backward_(context, incoming));
    DropUndefinedBeyond(num_edges(), results);
    return results;
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (backward_ == nullptr) return FreedError();
    if (recorded_ == nullptr) return NotDifferentiableError();
    COTAN_RETURN_IF_ERROR(Materialize(context, incoming));
    COTAN_ASSIGN_OR_RETURN(results, recorded_(context, incoming));
    DropUndefinedBeyond(num_edges(), results);
    return absl::OkStatus();
  }

  void ReleaseSaved() override {
    backward_ = nullptr;
    recorded_ = nullptr;
  }

 private:
  // Replaces undefined gradients by zeros, if the options ask for it.
  template <typename T>
  absl::Status Materialize(BackwardContext& context, absl::Span<T> incoming) const {
    if (!options_.materialize_grads) return absl::OkStatus();
    for (int i = 0; i < num_inputs(); ++i) {
      T& gradient = incoming[static_cast<size_t>(i)];
      if (gradient.defined()) continue;
      COTAN_ASSIGN_OR_RETURN(Tensor zeros, ZerosOf(context.ops(), input(i)));
      gradient = T(std::move(zeros));
    }
    return absl::OkStatus();
  }

  const std::string name_;
  BackwardFunction backward_;
  RecordedBackwardFunction recorded_;
  const ApplyFunctionOptions options_;
};

}  // namespace

absl::StatusOr<std::vector<Variable>> ApplyFunction(std::string name, absl::Span<const Variable> inputs,
                                                    absl::Span<const Tensor> outputs, BackwardFunction backward,
                                                    RecordedBackwardFunction recorded,
                                                    const ApplyFunctionOptions& options) {
  const auto requires_grad = [](const Variable& input) { return input.defined() && input.requires_grad(); };
  std::shared_ptr<FunctionNode> node;
  if (GradMode::enabled() && std::any_of(inputs.begin(), inputs.end(), requires_grad)) {
    node = std::make_shared<FunctionNode>(std::move(name), std::move(backward), std::move(recorded), options);
    COTAN_RETURN_IF_ERROR(node->AddEdgesTo(inputs));
  }
  std::vector<Variable> results;
  results.reserve(outputs.size());
  for (const Tensor& output : outputs) {
    if (!output.defined()) {
      results.emplace_back();
      continue;
    }
    results.emplace_back(output);
    if (node != nullptr && (IsFloatingPoint(output.dtype()) || IsComplex(output.dtype()))) {
      results.back().SetHistory(node);
    }
  }
  return results;
}

}  // namespace cotan::autograd
