// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/function_node.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
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
  FunctionNode(std::string name, BackwardFunction backward, RecordedBackwardFunction recorded)
      : name_(std::move(name)), backward_(std::move(backward)), recorded_(std::move(recorded)) {}

  absl::string_view name() const override { return name_; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (backward_ == nullptr) return FreedError();
    COTAN_ASSIGN_OR_RETURN(Gradients results, backward_(context, incoming));
    DropUndefinedBeyond(num_edges(), results);
    return results;
  }

  absl::Status ApplyRecorded(BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    if (backward_ == nullptr) return FreedError();
    if (recorded_ == nullptr) return NotDifferentiableError();
    COTAN_ASSIGN_OR_RETURN(results, recorded_(context, incoming));
    DropUndefinedBeyond(num_edges(), results);
    return absl::OkStatus();
  }

  void ReleaseSaved() override {
    backward_ = nullptr;
    recorded_ = nullptr;
  }

 private:
  const std::string name_;
  BackwardFunction backward_;
  RecordedBackwardFunction recorded_;
};

}  // namespace

absl::StatusOr<std::vector<Variable>> ApplyFunction(std::string name, absl::Span<const Variable> inputs,
                                                    absl::Span<const Tensor> outputs, BackwardFunction backward,
                                                    RecordedBackwardFunction recorded) {
  const auto requires_grad = [](const Variable& input) { return input.defined() && input.requires_grad(); };
  std::shared_ptr<FunctionNode> node;
  if (GradMode::enabled() && std::any_of(inputs.begin(), inputs.end(), requires_grad)) {
    node = std::make_shared<FunctionNode>(std::move(name), std::move(backward), std::move(recorded));
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
