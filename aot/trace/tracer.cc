#include "aot/trace/tracer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/joint/joint.h"
#include "aot/metadata/signature.h"
#include "aot/metadata/view_and_mutation.h"
#include "aot/trace/autocast.h"
#include "aot/trace/inputs.h"
#include "aot/trace/proxy_tensor.h"
#include "aot/trace/recorder.h"
#include "aot/trace/tensor_data.h"
#include "aot/trace/trace_scope.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using Backward = TraceOptions::Backward;

std::string NameAt(const std::vector<std::string>& names, size_t index, absl::string_view prefix) {
  return index < names.size() ? names[index] : absl::StrCat(prefix, ".", index);
}

// Order of graph inputs; see TracedProgram.
int Rank(InputKind kind) {
  switch (kind) {
    case InputKind::kParameter: return 0;
    case InputKind::kBuffer: return 1;
    case InputKind::kUserInput: return 2;
    case InputKind::kConstant: return 3;
    case InputKind::kRngState: return 4;
    default: return 5;
  }
}

// One trace: the steps of Trace() and the tensors that they share.
class Tracing {
 public:
  Tracing(absl::Span<const ModuleState> states, const TraceOptions& options)
      : states_(states), options_(options), recording_(recorder_) {
    recorder_.graph().name = options.name;
  }
  ~Tracing() { Release(); }

  void SeatInputs(absl::Span<const at::Tensor> examples);
  absl::Status RunForward(const TensorFunction& function);
  absl::Status RunBackward();
  // Drops all tensors of the trace, so that what is left was kept by somebody.
  void Release();
  absl::Status CheckRefusals();
  TracedProgram Finish() &&;

 private:
  // Index of the loss, counted from the start; -1 without one.
  int LossOutput() const;
  std::string OutputName(size_t index) const;
  void AddMutatedInputs();
  bool AliasesInput(int output) const;
  // Records that outputs other than these take no part in the backward.
  void MarkUndifferentiated(const std::vector<int>& differentiated);
  void AddTangents(const std::vector<int>& outputs);
  void RefuseKeptTensors();

  absl::Span<const ModuleState> states_;
  const TraceOptions& options_;
  Recorder recorder_;
  RecordingScope recording_;
  TracedProgram program_;

  std::vector<at::Tensor> inputs_;  // states, then user inputs
  std::vector<at::Tensor> outputs_;
  std::vector<at::Tensor> tangents_;
};

void Tracing::SeatInputs(absl::Span<const at::Tensor> examples) {
  SeatStates(states_, recorder_);
  for (const ModuleState& state : states_) {
    inputs_.push_back(state.tensor);
    program_.states.push_back({state.name, state.role, ToTensorData(state.initial),
                               state.requires_grad, state.persistent, state.aliases});
  }
  for (size_t i = 0; i < examples.size(); ++i) {
    const std::string name = NameAt(options_.input_names, i, "input");
    at::Tensor input = recorder_.AddInput(examples[i].detach(), InputKind::kUserInput, static_cast<int>(i), name);
    input.requires_grad_(examples[i].requires_grad());
    program_.reference.inputs.push_back(ToTensorData(examples[i]));
    inputs_.push_back(std::move(input));
  }
  SeatRngState(options_.seed, recorder_);
  program_.reference.rng_seed = static_cast<int64_t>(options_.seed);
}

absl::Status Tracing::RunForward(const TensorFunction& function) {
  const AutocastScope autocast(options_.autocast);
  outputs_ = function(std::vector<at::Tensor>(inputs_.begin() + static_cast<long>(states_.size()),
                                              inputs_.end()));
  for (size_t i = 0; i < outputs_.size(); ++i) {
    if (outputs_[i].defined()) continue;
    return absl::InvalidArgumentError(absl::StrCat("output ", i, " is an undefined tensor"));
  }
  program_.metadata = AnalyzeViewsAndMutations(inputs_, outputs_);
  AddMutatedInputs();
  for (size_t i = 0; i < outputs_.size(); ++i) {
    recorder_.graph().AddOutput(recorder_.ValueOf(outputs_[i]), OutputKind::kUserOutput,
                                static_cast<int>(i), OutputName(i));
    program_.reference.outputs.push_back(ToTensorData(recorder_.RealOf(outputs_[i])));
  }
  return absl::OkStatus();
}

void Tracing::AddMutatedInputs() {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const serialization::InputAliasInfo& info = program_.metadata.input_info(static_cast<int>(i));
    const std::string& name = recorder_.graph().inputs()[i].name;
    if (info.mutates_metadata()) {
      recorder_.Refuse(absl::StrCat("'", name, "'"),
                       "its sizes, strides or storage are changed (transpose_, resize_, set_)");
    }
    if (!info.mutates_data()) continue;
    const ValueId value = recorder_.ValueOf(inputs_[i]);
    recorder_.graph().AddOutput(value, OutputKind::kMutatedInput, static_cast<int>(i), name);
    program_.reference.mutated.push_back(ToTensorData(recorder_.RealOf(inputs_[i])));
  }
}

int Tracing::LossOutput() const {
  if (options_.backward != Backward::kLoss) return -1;
  const int from_end = options_.loss_output < 0 ? static_cast<int>(outputs_.size()) : 0;
  return options_.loss_output + from_end;
}

std::string Tracing::OutputName(size_t index) const {
  if (static_cast<int>(index) == LossOutput()) return "loss";
  return NameAt(options_.output_names, index, "output");
}

void Tracing::AddTangents(const std::vector<int>& outputs) {
  for (int index : outputs) {
    const at::Tensor& output = outputs_[static_cast<size_t>(index)];
    const at::Tensor tangent = [&] {
      RealScope real;
      return ExampleTangent(output, index == LossOutput(), options_.seed, index);
    }();
    program_.reference.tangents.push_back(ToTensorData(tangent));
    tangents_.push_back(
        recorder_.AddInput(tangent, InputKind::kTangent, index,
                           absl::StrCat("tangent.", OutputName(static_cast<size_t>(index)))));
    serialization::TangentMeta& meta = *program_.metadata.add_tangents();
    meta.set_output(static_cast<uint32_t>(index));
    *meta.mutable_expected() = GeometryOf(output).ToProto();
    meta.mutable_expected()->clear_offset();
  }
}

// Its gradient reaches the input beside the program, through the caller's view.
bool Tracing::AliasesInput(int output) const {
  const serialization::OutputTypeProto type = program_.metadata.output_info(output).output_type();
  return type == serialization::ALIAS_OF_INPUT || type == serialization::IS_INPUT;
}

void Tracing::MarkUndifferentiated(const std::vector<int>& differentiated) {
  for (int i = 0; i < program_.metadata.output_info_size(); ++i) {
    serialization::OutputAliasInfo& info = *program_.metadata.mutable_output_info(i);
    if (!info.requires_grad()) continue;
    if (std::find(differentiated.begin(), differentiated.end(), i) != differentiated.end()) continue;
    info.set_requires_grad_for_backward(false);
  }
}

absl::Status Tracing::RunBackward() {
  std::vector<int> differentiated;
  if (options_.backward == Backward::kOutputs) {
    differentiated = DifferentiableOutputs(outputs_);
    std::erase_if(differentiated, [this](int i) { return AliasesInput(i); });
  }
  if (options_.backward == Backward::kLoss) {
    COTAN_RETURN_IF_ERROR(CheckLoss(outputs_, LossOutput()));
    differentiated = {LossOutput()};
  }
  if (differentiated.empty()) return absl::OkStatus();
  MarkUndifferentiated(differentiated);
  AddTangents(differentiated);

  std::vector<at::Tensor> roots;
  for (int index : differentiated) roots.push_back(outputs_[static_cast<size_t>(index)]);
  std::vector<size_t> positions;
  std::vector<at::Tensor> sources;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (!program_.metadata.input_info(static_cast<int>(i)).requires_grad()) continue;
    positions.push_back(i);
    sources.push_back(inputs_[i]);
  }
  const std::vector<at::Tensor> gradients = Gradients(roots, tangents_, sources);
  for (size_t i = 0; i < positions.size(); ++i) {
    recorder_.graph().AddOutput(recorder_.ValueOf(gradients[i]), OutputKind::kGradient,
                                static_cast<int>(positions[i]),
                                recorder_.graph().inputs()[positions[i]].name);
    if (gradients[i].defined()) {
      program_.reference.gradients.push_back(ToTensorData(recorder_.RealOf(gradients[i])));
    }
  }
  program_.metadata.set_is_train(true);
  return absl::OkStatus();
}

void Tracing::Release() {
  tangents_.clear();
  outputs_.clear();
  inputs_.clear();
  recorder_.rng_state = at::Tensor();
  UnseatStates(states_);
}

void Tracing::RefuseKeptTensors() {
  std::vector<ValueId> kept;
  for (const ProxyTensorImpl* proxy : recorder_.epoch()->live) kept.push_back(proxy->value());
  std::sort(kept.begin(), kept.end());
  for (const Node& node : recorder_.graph().nodes()) {
    for (ValueId output : node.outputs) {
      if (!std::binary_search(kept.begin(), kept.end(), output)) continue;
      recorder_.Refuse(
          absl::StrCat("a result of ", node.op,
                       node.source.empty() ? "" : absl::StrCat(" in '", node.source, "'")),
          "it is kept after the call, in an attribute or a captured variable; make that a "
          "registered buffer and write to it in place (copy_)");
    }
  }
}

absl::Status Tracing::CheckRefusals() {
  RefuseKeptTensors();
  if (options_.unsupported_ops != nullptr) {
    for (const std::string& op : options_.unsupported_ops(recorder_.graph())) {
      recorder_.Refuse(op, "it is not supported");
    }
  }
  if (recorder_.refusals().empty()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("'", options_.name, "' cannot be compiled:\n  ",
                                               absl::StrJoin(recorder_.refusals(), "\n  ")));
}

TracedProgram Tracing::Finish() && {
  Graph& graph = recorder_.graph();
  std::vector<GraphInput>& inputs = graph.inputs();
  if (recorder_.random_blocks() == 0) {
    std::erase_if(inputs, [](const GraphInput& i) { return i.kind == InputKind::kRngState; });
  }
  std::stable_sort(inputs.begin(), inputs.end(), [](const GraphInput& a, const GraphInput& b) {
    return Rank(a.kind) < Rank(b.kind);
  });
  graph.Compact();
  for (size_t i = 0; i < states_.size(); ++i) {
    program_.metadata.add_static_input_indices(static_cast<uint32_t>(i));
  }
  program_.states.insert(program_.states.end(), recorder_.constants().begin(),
                         recorder_.constants().end());
  program_.rng_blocks = SymInt(recorder_.random_blocks());
  program_.graph = std::move(graph);
  program_.signature = SignatureOf(program_.graph);
  if (options_.backward == Backward::kLoss) program_.signature.set_loss_output("loss");
  return std::move(program_);
}

}  // namespace

absl::StatusOr<TracedProgram> Trace(const TensorFunction& function,
                                    absl::Span<const ModuleState> states,
                                    absl::Span<const at::Tensor> inputs,
                                    const TraceOptions& options) {
  COTAN_RETURN_IF_ERROR(CheckAutocast(options.autocast));
  try {
    TraceScope scope(options.backward != Backward::kNone);
    Tracing tracing(states, options);
    tracing.SeatInputs(inputs);
    const absl::Status ran = [&]() -> absl::Status {
      COTAN_RETURN_IF_ERROR(tracing.RunForward(function));
      return tracing.RunBackward();
    }();
    tracing.Release();
    COTAN_RETURN_IF_ERROR(tracing.CheckRefusals());
    COTAN_RETURN_IF_ERROR(ran);
    return std::move(tracing).Finish();
  } catch (...) {
    return StatusFromCurrentException(absl::StrCat("tracing '", options.name, "'"));
  }
}

}  // namespace cotan::aot
