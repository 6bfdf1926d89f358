// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/traced_block.h"

#include <ATen/FunctionalTensorWrapper.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/aotautograd/tracer.h"
#include "aot/aotautograd/undefined_tangents.h"
#include "aot/capture/argument.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

template <typename... Parts>
absl::Status CannotBeShared(const Parts&... parts) {
  return absl::UnimplementedError(absl::StrCat(parts...));
}

// Keeps the states of the trace in progress during a trace inside of it.
class StateKeeper {
 public:
  explicit StateKeeper(absl::Span<const ModuleState> states) : states_(states) {
    for (const ModuleState& state : states) {
      ProxyOf(state.tensor);  // applies pending writes
      proxies_.push_back(at::functionalization::impl::from_functional_tensor(state.tensor));
      storages_.push_back(state.tensor.storage());
    }
  }
  ~StateKeeper() {
    for (size_t i = 0; i < states_.size(); ++i) {
      const at::Tensor& tensor = states_[i].tensor;
      if (tensor.grad_fn() != nullptr) tensor.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
      Reseat(tensor, proxies_[i]);
      tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(storages_[i]);
      tensor.requires_grad_(states_[i].requires_grad);
    }
  }
  StateKeeper(const StateKeeper&) = delete;
  StateKeeper& operator=(const StateKeeper&) = delete;

 private:
  const absl::Span<const ModuleState> states_;
  std::vector<at::Tensor> proxies_;
  std::vector<c10::Storage> storages_;
};

// Returns the base of a view, and any other tensor itself.
const at::TensorBase& BaseOf(const at::Tensor& tensor) {
  if (tensor.is_view()) return tensor._base();
  return tensor;
}

// Returns the result without a view's relation to a value of the block that is neither an argument nor another result,
// nor the base of one: it is unobservable. A result whose gradient is retained is returned as it is.
at::Tensor Detached(const at::Tensor& result, const std::vector<at::Tensor>& results,
                    const std::vector<at::Tensor>& arguments) {
  if (!result.is_view() || result.retains_grad()) return result;
  const auto shares = [&](const at::Tensor& other) { return other.defined() && BaseOf(other).is_same(result._base()); };
  if (std::any_of(arguments.begin(), arguments.end(), shares)) return result;
  return std::count_if(results.begin(), results.end(), shares) > 1 ? result : result.clone();
}

absl::Status CheckOutputs(const TracedProgram& traced) {
  if (traced.program_metadata.has_value()) return CannotBeShared("it writes to inputs that share memory");
  if (!traced.metadata.tokens().empty() || traced.metadata.num_backward_tokens() > 0) {
    return CannotBeShared("it has effects");
  }
  for (const serialization::InputAliasInfo& info : traced.metadata.input_info()) {
    if (info.retains_grad()) return CannotBeShared("it calls retain_grad() of an argument");
  }
  for (int i = 0; i < traced.metadata.output_info_size(); ++i) {
    const serialization::OutputAliasInfo& info = traced.metadata.output_info(i);
    const bool is_apart =
        info.output_type() == serialization::NON_ALIAS || info.output_type() == serialization::UNSAFE_VIEW_ALIAS;
    if (!is_apart || info.raw_type() != serialization::RAW_TENSOR) {
      return CannotBeShared("result ", i, " is an input or shares memory with an input or another result: return its ",
                            "clone()");
    }
    if (info.retains_grad()) return CannotBeShared("it calls retain_grad() of result ", i);
  }
  for (int i = 0; i < traced.graph.num_values(); ++i) {
    if (IsComplex(traced.graph.value(i).type.dtype)) return CannotBeShared("it computes with complex numbers");
  }
  return absl::OkStatus();
}

// Sets the operands of the block.
void FindOperands(size_t num_parameters, TracedBlock& block) {
  for (const GraphInput& input : block.traced.graph.inputs()) {
    const auto index = static_cast<size_t>(input.index);
    switch (input.kind) {
      case InputKind::kParameter:
        block.operands.push_back({BlockOperand::Kind::kState, index});
        break;
      case InputKind::kBuffer:
        block.operands.push_back({BlockOperand::Kind::kState, num_parameters + index});
        break;
      case InputKind::kConstant:
        block.operands.push_back({BlockOperand::Kind::kConstant, index});
        break;
      case InputKind::kRngState:
        block.operands.push_back({BlockOperand::Kind::kRngState, 0});
        break;
      case InputKind::kTangent:
        break;
      default:
        block.operands.push_back({BlockOperand::Kind::kInput, index});
        break;
    }
  }
}

// Sets what is known of the results and gradients. Operands come before tangents, so that a graph input is the operand
// with the same index.
absl::Status FindResults(TracedBlock& block) {
  const Graph& graph = block.traced.graph;
  int num_tangents = 0;
  for (const GraphInput& input : graph.inputs()) num_tangents += input.kind == InputKind::kTangent ? 1 : 0;
  for (const GraphOutput& output : graph.outputs()) {
    const auto index = static_cast<size_t>(output.index);
    if (output.kind == OutputKind::kMutatedInput) {
      const GraphInput& input = graph.inputs()[index];
      if (input.kind != InputKind::kBuffer) return CannotBeShared("it writes to '", input.name, "'");
      block.written_states.push_back(block.operands[index].index);
      block.is_differentiable.push_back(false);
    } else if (output.kind == OutputKind::kUserOutput) {
      const auto& info = block.traced.metadata.output_info(output.index);
      const bool has_tangent =
          info.has_requires_grad_for_backward() ? info.requires_grad_for_backward() : info.requires_grad();
      block.is_differentiable.push_back(num_tangents > 0 && has_tangent && !info.is_new_leaf());
    } else if (output.kind == OutputKind::kGradient) {
      if (output.value != kNoValue) block.gradient_operands.push_back(index);
    } else {
      return CannotBeShared("it writes to an input");
    }
  }
  const auto num_differentiable = std::count(block.is_differentiable.begin(), block.is_differentiable.end(), true);
  if (num_tangents == static_cast<int>(num_differentiable)) return absl::OkStatus();
  return CannotBeShared("it writes to what requires grad");
}

}  // namespace

absl::StatusOr<TracedBlock> TraceBlock(const TensorFunction& body, absl::Span<const ModuleState> states,
                                       absl::Span<const at::Tensor> inputs, const TraceOptions& options,
                                       OpSequence* ops) {
  TracedBlock block;
  std::vector<std::vector<int64_t>> strides;
  const TensorFunction function = [&](const std::vector<at::Tensor>& arguments) {
    std::vector<at::Tensor> all = arguments;
    for (const ModuleState& state : states) all.push_back(state.tensor);
    std::vector<at::Tensor> results;
    OpSequence* const recorded = std::exchange(ops, nullptr);  // by the first of two runs
    const std::vector<at::Tensor> returned =
        recorded == nullptr ? body(arguments) : RecordOps(body, states, arguments, *recorded);
    strides.clear();
    block.is_empty.clear();
    for (const at::Tensor& result : returned) {
      block.is_empty.push_back(!result.defined());
      if (!result.defined()) continue;
      results.push_back(Detached(result, returned, all));
      strides.push_back(results.back().strides().vec());
    }
    return results;
  };
  {
    const StateKeeper keeper(states);
    COTAN_ASSIGN_OR_RETURN(block.traced, Trace(function, states, inputs, options));
  }
  COTAN_RETURN_IF_ERROR(CheckOutputs(block.traced));
  RemoveGradientMarkers(block.traced.graph);
  for (const Node& node : block.traced.graph.nodes()) {
    COTAN_ASSIGN_OR_RETURN(c10::OperatorHandle found, FindOperator(node.op));
    block.operators.push_back(std::move(found));
  }
  const auto is_parameter = [](const ModuleState& state) { return state.role == serialization::State::PARAMETER; };
  FindOperands(static_cast<size_t>(std::count_if(states.begin(), states.end(), is_parameter)), block);
  COTAN_RETURN_IF_ERROR(FindResults(block));
  for (const size_t state : block.written_states) block.strides.push_back(states[state].tensor.strides().vec());
  block.strides.insert(block.strides.end(), strides.begin(), strides.end());
  if (block.strides.size() != block.num_results()) return CannotBeShared("it returns other things than tensors");
  const RealScope real;
  for (const TracedState& state : block.traced.states) {
    if (state.role == serialization::State::CONSTANT) block.constants.push_back(FromTensorData(state.initial));
  }
  block.traced.reference = {};
  return block;
}

std::string FingerprintOf(const TracedBlock& block) {
  Graph graph = block.traced.graph;
  graph.name = "block";
  for (GraphInput& input : graph.inputs()) input.name.clear();
  for (GraphOutput& output : graph.outputs()) output.name.clear();
  for (Node& node : graph.nodes()) node.source.clear();
  for (int i = 0; i < graph.num_values(); ++i) graph.value(i).name.clear();
  std::string text = PrintGraph(graph);
  for (size_t i = 0; i < block.num_results(); ++i) {
    absl::StrAppend(&text, block.is_differentiable[i] ? "d" : "n", absl::StrJoin(block.strides[i], ","), ";");
  }
  for (const bool is_empty : block.is_empty) absl::StrAppend(&text, is_empty ? "-" : "t");
  for (const TracedState& state : block.traced.states) {
    if (state.role == serialization::State::CONSTANT) absl::StrAppend(&text, "\n", state.initial.bytes);
  }
  return text;
}

}  // namespace cotan::aot
