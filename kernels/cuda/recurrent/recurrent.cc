// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/recurrent/recurrent.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/recurrent/layer.h"

namespace cotan::cuda {
namespace {

using recurrent::Layer;
using recurrent::LayerOf;
using recurrent::SequenceText;
using serialization::Recurrent;

// A100, H100, B200 and the GPUs of desktops allow a block as much.
constexpr int64_t kSharedBytes = 96 << 10;
// Of a thread; with those that ptxas chooses some values are spilled.
constexpr int kRegisters = 128;
// Of a thread that keeps weights: all that there are.
constexpr int kPersistentRegisters = 255;

// An operand of a kernel.
struct Operand {
  absl::string_view name;      // of the parameter
  absl::string_view sequence;  // of its strides in R; "" = none
  const TensorSpec* spec = nullptr;
  KernelArgument argument = {};
  bool is_output = false;

  // The weights have no spec.
  bool exists() const { return spec != nullptr || sequence.empty(); }
};

// The operands of a request by number; those that the layer does not have stay empty.
class Operands {
 public:
  explicit Operands(const KernelRequest& request) : request_(request) {}

  void Input(absl::string_view name, absl::string_view sequence, bool exists, size_t index) {
    list_.push_back({name, sequence});
    if (!exists) return;
    list_.back().spec = &request_.inputs[index];
    list_.back().argument = InputArgument(static_cast<int>(index));
  }
  // The packed weights, or the input with that number if they are persistent.
  void Weights(const Layer& layer, int index) {
    list_.push_back({"weights", "", nullptr, layer.persistent ? InputArgument(index) : ScratchArgument(0)});
  }
  void Output(absl::string_view name, absl::string_view sequence, bool exists, size_t index) {
    list_.push_back({name, sequence});
    list_.back().is_output = true;
    if (!exists) return;
    list_.back().spec = &request_.outputs[index];
    list_.back().argument = OutputArgument(static_cast<int>(index));
  }

  const std::vector<Operand>& list() const { return list_; }

 private:
  const KernelRequest& request_;
  std::vector<Operand> list_;
};

absl::Status CheckDtype(const TensorSpec& spec) {
  if (IsFloatingPoint(spec.dtype) && ElementTypeName(spec.dtype) != "void") return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("recurrent: dtype ", DTypeName(spec.dtype), " is not supported"));
}

// Returns the strides of persistent weights as constants of R.
std::string WeightText(const Layer& layer, const TensorSpec& weight) {
  if (!layer.persistent.has_value()) return "";
  return absl::StrCat("  static constexpr long long kWeightRow = ", weight.layout.strides[0],
                      ", kWeightColumn = ", weight.layout.strides[1], ";\n");
}

std::string DefinitionText(const Layer& layer, const TensorSpec& weight, absl::Span<const Operand> operands) {
  std::string text = absl::StrCat("struct R {\n", layer.Text(), WeightText(layer, weight));
  for (const Operand& operand : operands) {
    if (!operand.sequence.empty()) absl::StrAppend(&text, SequenceText(operand.sequence, operand.spec));
  }
  return absl::StrCat(text, "};\n");
}

// Appends the launch that packs the weights to the start of scratch.
absl::Status AppendPack(const Layer& layer, const TensorSpec& weight, int index, bool is_backward, KernelPlan& plan) {
  const int64_t row = weight.layout.strides[0], column = weight.layout.strides[1];
  KernelText kernel = {.entry = "recurrent_pack", .header = "recurrent.cuh"};
  kernel.definitions = absl::StrCat("struct R {\n", layer.Text(), "};\n");
  kernel.parameters = {{"const R::Element* from", InputArgument(index)}, {"R::Element* to", ScratchArgument(0)}};
  kernel.body = absl::StrCat("  cotan::recurrent::PackWeights<R::Product, R::Element, ", is_backward ? row : column,
                             ", ", is_backward ? column : row, ">(from, to);\n");
  kernel.blocks = CeilDiv(layer.depth, 32) * CeilDiv(layer.padded, 32);
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  plan.steps.push_back(std::move(launch));
  return absl::OkStatus();
}

// Appends the launch of all time steps.
absl::Status AppendSteps(const Layer& layer, const TensorSpec& weight, absl::Span<const Operand> operands,
                         bool is_backward, bool guarded, KernelPlan& plan) {
  const absl::string_view file = is_backward ? "backward" : "forward", function = is_backward ? "Backward" : "Forward";
  const absl::string_view persistent = layer.persistent.has_value() ? "Persistent" : "";
  KernelText kernel = {
      .entry = is_backward ? "recurrent_backward" : "recurrent",
      .header = absl::StrCat("recurrent_", layer.persistent.has_value() ? "persistent_" : "", file, ".cuh")};
  kernel.definitions = DefinitionText(layer, weight, operands);
  kernel.guarded = guarded;
  std::vector<absl::string_view> names;
  for (const Operand& operand : operands) {
    names.push_back(operand.exists() ? operand.name : "nullptr");
    if (!operand.exists()) continue;
    kernel.parameters.push_back(
        {absl::StrCat(operand.is_output ? "" : "const ", "R::Element* ", operand.name), operand.argument});
  }
  absl::string_view values = layer.persistent.has_value() ? "" : layer.in_shared ? ", nullptr" : ", values";
  if (!layer.persistent.has_value() && !layer.in_shared) {
    kernel.parameters.push_back(
        {layer.dtype == DType::kFloat64 ? "double* values" : "float* values", ScratchArgument(layer.values_offset())});
  }
  kernel.body = absl::StrCat("  cotan::recurrent::", persistent, function, "<R>({", absl::StrJoin(names, ", "), "}",
                             values, ");\n");
  kernel.blocks = layer.blocks();
  kernel.threads = static_cast<int>(layer.threads);
  kernel.registers = layer.persistent.has_value() ? kPersistentRegisters : kRegisters;
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  launch.dynamic_shared_bytes = static_cast<unsigned>(layer.shared_bytes());
  plan.steps.push_back(std::move(launch));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelPlan> PlanRecurrentWithin(int64_t shared_bytes, const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_RETURN_IF_ERROR(CheckDtype(request.outputs[0]));
  KernelPlan plan;
  if (NumElements(request.outputs[0].layout.sizes) == 0) return plan;
  const Layer layer = LayerOf(request.op.recurrent(), request.outputs[0], false, shared_bytes);
  const bool is_lstm = layer.cell == Recurrent::LSTM;
  const size_t states = is_lstm ? 2 : 1;
  Operands operands(request);
  operands.Input("projected", "Projected", true, 0);
  operands.Weights(layer, 1);
  operands.Input("h0", "H0", true, 2);
  operands.Input("c0", "C0", is_lstm, 3);
  operands.Input("bias", "Bias", layer.cell == Recurrent::GRU && request.inputs.size() > 3, 3);
  operands.Output("hidden", "Hidden", true, 0);
  operands.Output("cell", "Cell", is_lstm, 1);
  operands.Output("gates", "Gates", request.outputs.size() > states, states);
  plan.scratch_bytes = static_cast<size_t>(layer.scratch_bytes());
  if (!layer.persistent) COTAN_RETURN_IF_ERROR(AppendPack(layer, request.inputs[1], 1, false, plan));
  COTAN_RETURN_IF_ERROR(AppendSteps(layer, request.inputs[1], operands.list(), false, request.guarded_outputs, plan));
  return plan;
}

absl::StatusOr<KernelPlan> PlanRecurrentBackwardWithin(int64_t shared_bytes, const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_RETURN_IF_ERROR(CheckDtype(request.outputs[0]));
  KernelPlan plan;
  // Without time steps, the gradients of the first states are still written.
  if (NumElements(request.outputs[1].layout.sizes) == 0) return plan;
  const Layer layer = LayerOf(request.op.recurrent_backward(), request.inputs[1], true, shared_bytes);
  const bool is_lstm = layer.cell == Recurrent::LSTM, is_gru = layer.cell == Recurrent::GRU;
  Operands operands(request);
  operands.Input("grad_hidden", "GradHidden", true, 0);
  operands.Input("hidden", "Hidden", true, 1);
  operands.Weights(layer, 2);
  operands.Input("h0", "H0", true, 3);
  operands.Input("gates", "Gates", is_lstm || is_gru, 4);
  operands.Input("cell", "Cell", is_lstm, 5);
  operands.Input("c0", "C0", is_lstm, 6);
  operands.Input("grad_last_cell", "GradLastCell", is_lstm, 7);
  operands.Output("grad_gates", "GradGates", true, 0);
  operands.Output("grad_h0", "GradH0", true, 1);
  operands.Output("grad_c0", "GradC0", is_lstm, 2);
  plan.scratch_bytes = static_cast<size_t>(layer.scratch_bytes());
  if (!layer.persistent) COTAN_RETURN_IF_ERROR(AppendPack(layer, request.inputs[2], 2, true, plan));
  COTAN_RETURN_IF_ERROR(AppendSteps(layer, request.inputs[2], operands.list(), true, request.guarded_outputs, plan));
  return plan;
}

absl::StatusOr<KernelPlan> PlanRecurrent(const KernelRequest& request) {
  return PlanRecurrentWithin(kSharedBytes, request);
}

absl::StatusOr<KernelPlan> PlanRecurrentBackward(const KernelRequest& request) {
  return PlanRecurrentBackwardWithin(kSharedBytes, request);
}

}  // namespace cotan::cuda
