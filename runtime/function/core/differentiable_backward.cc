// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/differentiable_backward.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/hooks.h"
#include "runtime/session/tangent_flags.h"

namespace cotan {
namespace {

using autograd::Edge;
using autograd::Node;

// The gradient of an argument that is a constant of the caller: it is dropped. The function was compiled with a
// gradient of each tangent.
class ConstantNode final : public Node {
 public:
  absl::string_view name() const override { return "Constant"; }
  absl::StatusOr<autograd::Gradients> Apply(autograd::BackwardContext& context, absl::Span<Tensor> incoming) override {
    return autograd::Gradients();
  }
  absl::Status ApplyRecorded(autograd::BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override {
    return absl::OkStatus();
  }
};

// Returns an alias of `variable` with its present grad_fn, which later in-place operations do not change.
absl::StatusOr<Variable> AsOfNow(const Variable& variable) {
  if (!variable.requires_grad()) return variable.Detach();
  COTAN_ASSIGN_OR_RETURN(Edge edge, variable.GradientEdge());
  if (!edge.defined()) return variable;  // a view made under no_grad
  Variable alias = variable.Detach();
  alias.SetHistory(std::move(edge.node), edge.input);
  return alias;
}

// Returns the tangents as the function takes them: all of them require grad. Sets is_constant[i] if tangent i did not.
absl::StatusOr<std::vector<Variable>> TakeTangents(const Node& node, absl::Span<const Variable> incoming,
                                                   TensorOps& ops, std::vector<bool>& is_constant) {
  std::vector<Variable> tangents;
  for (size_t t = 0; t < incoming.size(); ++t) {
    is_constant.push_back(!incoming[t].defined() || !incoming[t].requires_grad());
    if (!is_constant[t]) {
      tangents.push_back(incoming[t]);
      continue;
    }
    Tensor constant;
    if (incoming[t].defined()) {
      constant = incoming[t].tensor();
    } else {
      const autograd::GradientType& type = node.input(static_cast<int>(t));
      COTAN_ASSIGN_OR_RETURN(constant, ops.Zeros(type.dtype, type.sizes));
    }
    tangents.emplace_back(std::move(constant));
    tangents.back().SetHistory(std::make_shared<ConstantNode>());
  }
  return tangents;
}

// Decides which results depend on an argument that requires grad: on a primal, or on a tangent that is not constant.
class ResultHistory {
 public:
  // `num_primals`: the number of the first tangent among the user's arguments.
  ResultHistory(const FunctionMetadata& function, int num_primals, const std::vector<bool>& is_constant)
      : function_(function), first_tangent_(function.num_states + num_primals), is_constant_(is_constant) {}

  bool HasHistory(int result) const {
    const OutputAliasInfo& info = function_.metadata.output(result);
    const bool is_of_input = info.output_type == OutputType::kAliasOfInput || info.output_type == OutputType::kIsInput;
    if (is_of_input) return !IsConstant(*info.base_index);
    const std::vector<ForwardTensor>& sources = function_.program_metadata.derived().tangent_sources;
    for (size_t t = 0; t < sources.size(); ++t) {
      const bool is_base = sources[t].kind == ForwardTensor::Kind::kIntermediateBase;
      if (is_base || sources[t].index == result) {
        if (Depends(t)) return true;
      }
    }
    return false;
  }

 private:
  bool IsConstant(int input) const {
    const int tangent = input - first_tangent_;
    const bool is_tangent = tangent >= 0 && tangent < static_cast<int>(is_constant_.size());
    return is_tangent && is_constant_[static_cast<size_t>(tangent)];
  }
  // Returns whether a gradient that is not of a constant depends on tangent `t` of the function.
  bool Depends(size_t t) const {
    const BackwardMetadata& backward = function_.backward;
    for (size_t g = 0; g < backward.gradient_inputs.size(); ++g) {
      const int input = function_.argument_inputs[static_cast<size_t>(backward.gradient_inputs[g])];
      if (backward.depends_on[g][t] && !IsConstant(input)) return true;
    }
    return false;
  }

  const FunctionMetadata& function_;
  const int first_tangent_;
  const std::vector<bool>& is_constant_;
};

}  // namespace

absl::StatusOr<SavedPrimals> SavedPrimals::Of(absl::Span<const Variable* const> arguments, Tensor rng_state) {
  SavedPrimals saved;
  for (const Variable* argument : arguments) {
    COTAN_ASSIGN_OR_RETURN(Variable primal, AsOfNow(*argument));
    saved.versions_.push_back(primal.version());
    saved.primals_.push_back(std::move(primal));
  }
  saved.rng_state_ = std::move(rng_state);
  return saved;
}

absl::StatusOr<std::vector<Variable>> SavedPrimals::Unpack(const Node& node) const {
  for (size_t i = 0; i < primals_.size(); ++i) {
    if (primals_[i].version() == versions_[i]) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("one of the variables needed for gradient computation by ", node.name(),
                     " has been modified by an inplace operation: argument ", i, ", ", primals_[i].tensor().ToString(),
                     ", is at version ", primals_[i].version(), "; expected version ", versions_[i]));
  }
  return primals_;
}

absl::StatusOr<std::vector<Variable>> ApplyDifferentiableBackward(DifferentiableBackward& backward, bool takes_flags,
                                                                  const SavedPrimals& primals, const Node& node,
                                                                  absl::Span<const Variable> incoming, TensorOps& ops) {
  COTAN_ASSIGN_OR_RETURN(std::vector<Variable> arguments, primals.Unpack(node));
  const int num_primals = static_cast<int>(arguments.size());
  std::vector<bool> is_constant;
  COTAN_ASSIGN_OR_RETURN(std::vector<Variable> tangents, TakeTangents(node, incoming, ops, is_constant));
  arguments.insert(arguments.end(), tangents.begin(), tangents.end());
  for (size_t t = 0; t < incoming.size() && takes_flags; ++t) {
    COTAN_ASSIGN_OR_RETURN(Tensor flag, TangentFlag(ops, incoming[t].defined()));
    arguments.emplace_back(std::move(flag));
  }
  if (primals.rng_state().defined()) arguments.emplace_back(primals.rng_state());
  std::vector<FunctionResult> results;
  COTAN_RETURN_IF_ERROR(backward.Run(arguments, results));
  const ResultHistory history(backward.metadata(), num_primals, is_constant);
  std::vector<Variable> gradients;
  for (size_t i = 0; i < results.size(); ++i) {
    const auto* gradient = std::get_if<Variable>(&results[i]);
    if (gradient == nullptr) return absl::InternalError(absl::StrCat("gradient ", i, " is not a tensor"));
    gradients.push_back(history.HasHistory(static_cast<int>(i)) ? *gradient : gradient->Detach());
  }
  return gradients;
}

}  // namespace cotan
