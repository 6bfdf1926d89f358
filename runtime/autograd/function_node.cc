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

// The node of ApplyFunction().
class FunctionNode final : public Node {
 public:
  FunctionNode(std::string name, BackwardFunction backward) : name_(std::move(name)), backward_(std::move(backward)) {}

  absl::string_view name() const override { return name_; }

  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    if (backward_ == nullptr) return FreedError();
    return backward_(context, incoming);
  }

  void ReleaseSaved() override { backward_ = nullptr; }

 private:
  const std::string name_;
  BackwardFunction backward_;
};

}  // namespace

absl::StatusOr<std::vector<Variable>> ApplyFunction(std::string name, absl::Span<const Variable> inputs,
                                                    absl::Span<const Tensor> outputs, BackwardFunction backward) {
  const auto requires_grad = [](const Variable& input) { return input.defined() && input.requires_grad(); };
  std::shared_ptr<FunctionNode> node;
  if (GradMode::enabled() && std::any_of(inputs.begin(), inputs.end(), requires_grad)) {
    node = std::make_shared<FunctionNode>(std::move(name), std::move(backward));
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
