// SPDX-License-Identifier: Apache-2.0

#include "planning/schedule.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/api/registry.h"
#include "planning/computed_operands.h"
#include "planning/fallible_steps.h"
#include "planning/host_copies.h"
#include "planning/overwrite.h"
#include "serialization/schema/host_copy.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::InputUpdate;
using serialization::Method;
using serialization::Op;
using serialization::StateRead;
using serialization::StateUpdate;
using serialization::TensorType;
using serialization::ViewStep;

const Op& CopyOp() {
  static const Op& op = *[] {
    auto* copy = new Op;
    copy->mutable_copy();
    return copy;
  }();
  return op;
}

int64_t BytesOf(const ViewGeometry& geometry) {
  return NumElements(geometry.layout.sizes) * static_cast<int64_t>(ByteSize(geometry.dtype));
}

class Scheduler {
 public:
  Scheduler(const serialization::Artifact& artifact, const Method& method, absl::Span<const int64_t> symbols,
            const ScheduleOptions& options)
      : artifact_(artifact), method_(method), symbols_(symbols), options_(options) {}

  absl::StatusOr<Schedule> Make() {
    values_.resize(static_cast<size_t>(method_.values_size()));
    COTAN_RETURN_IF_ERROR(AddInputs());
    COTAN_RETURN_IF_ERROR(AddStateReads());
    for (int i = 0; i < method_.ops_size(); ++i) {
      const absl::Status status = AddOp(i);
      if (!status.ok()) return absl::Status(status.code(), absl::StrCat(Where(i), ": ", status.message()));
    }
    CollectUpdates();
    COTAN_RETURN_IF_ERROR(AddOutputs());
    DropUnreadHostCopies(schedule_);
    COTAN_RETURN_IF_ERROR(StageUpdates());
    COTAN_RETURN_IF_ERROR(WriteUpdates());
    if (options_.computed_operands) {
      PlaceComputedOperands(method_, symbols_, *options_.computed_operands, schedule_);
    }
    OverwriteDyingInputs(method_, symbols_, options_.donated, schedule_);
    return std::move(schedule_);
  }

 private:
  std::string Where(int op_index) const {
    const Op& op = method_.ops(op_index);
    return absl::StrCat("method '", method_.name(), "', op ", op_index, " (", OpKindName(op.kind_case()), ")",
                        op.source().empty() ? "" : " from ", op.source());
  }

  Operand& ValueOf(uint32_t value) { return values_[value]; }

  // Returns whether the value has host memory beside the device's.
  bool IsOnHost(uint32_t value) const {
    return options_.has_host_memory && method_.values(static_cast<int>(value)).on_host();
  }

  int AddBuffer(BufferKind kind, int index, int64_t bytes) {
    schedule_.buffers.push_back({kind, index, bytes});
    return static_cast<int>(schedule_.buffers.size()) - 1;
  }

  Buffer& BufferOf(const Operand& operand) { return schedule_.buffers[static_cast<size_t>(operand.buffer)]; }

  absl::StatusOr<ViewGeometry> DenseGeometry(const TensorType& type) const {
    ViewGeometry geometry;
    geometry.dtype = ToDType(type.dtype());
    COTAN_ASSIGN_OR_RETURN(geometry.layout, DenseLayout(type, symbols_));
    return geometry;
  }

  // Returns a dense tensor that fills a new buffer.
  Operand NewOperand(BufferKind kind, int index, ViewGeometry geometry) {
    const int64_t bytes = BytesOf(geometry);
    return {AddBuffer(kind, index, bytes), std::move(geometry)};
  }

  // --- values ---------------------------------------------------------------

  absl::Status AddInputs() {
    for (int i = 0; i < method_.inputs_size(); ++i) {
      const uint32_t value = method_.inputs(i);
      COTAN_ASSIGN_OR_RETURN(ViewGeometry geometry, DenseGeometry(method_.values(static_cast<int>(value)).type()));
      schedule_.inputs.push_back({geometry.dtype, geometry.layout});
      Operand operand = NewOperand(BufferKind::kInput, i, std::move(geometry));
      BufferOf(operand).on_host = IsOnHost(value);
      schedule_.inputs_on_host.push_back(IsOnHost(value));
      old_content_.insert(operand.buffer);
      argument_of_.emplace(value, i);
      ValueOf(value) = std::move(operand);
    }
    return absl::OkStatus();
  }

  absl::Status AddStateReads() {
    for (const StateRead& read : method_.state_reads()) {
      COTAN_ASSIGN_OR_RETURN(Operand operand, StateOperand(read.state()));
      old_content_.insert(operand.buffer);
      ValueOf(read.value()) = std::move(operand);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Operand> StateOperand(uint32_t state) {
    const auto index = static_cast<int>(state);
    COTAN_ASSIGN_OR_RETURN(ViewGeometry geometry, DenseGeometry(artifact_.states(index).type()));
    return NewOperand(BufferKind::kState, index, std::move(geometry));
  }

  absl::Status AddOp(int index) {
    const Op& op = method_.ops(index);
    if (op.has_view()) return AddView(op);
    if (HostCopyOf(method_, op) != HostCopy::kNone) return AddHostCopy(index);
    ScheduledStep step;
    step.op = index;
    for (uint32_t input : op.inputs()) step.inputs.push_back(ValueOf(input));
    for (uint32_t output : op.outputs()) {
      COTAN_ASSIGN_OR_RETURN(ViewGeometry geometry, DenseGeometry(method_.values(static_cast<int>(output)).type()));
      ValueOf(output) = NewOperand(BufferKind::kArena, 0, std::move(geometry));
      step.outputs.push_back(ValueOf(output));
    }
    const std::vector<TensorSpec> inputs = SpecsOf(step.inputs);
    const std::vector<TensorSpec> outputs = SpecsOf(step.outputs);
    COTAN_RETURN_IF_ERROR(CheckOp({.op = op, .inputs = inputs, .outputs = outputs, .symbols = symbols_}));
    schedule_.steps.push_back(std::move(step));
    return absl::OkStatus();
  }

  // Adds a copy between the device and the host, which moves bytes: a value on the host has a dense layout, and comes
  // back in that layout.
  absl::Status AddHostCopy(int index) {
    const Op& op = method_.ops(index);
    Operand source = ValueOf(op.inputs(0));
    const TensorType& type = method_.values(static_cast<int>(op.outputs(0))).type();
    COTAN_ASSIGN_OR_RETURN(ViewGeometry geometry, DenseGeometry(type));
    const TensorSpec from = SpecOf(source);
    const TensorSpec to = {geometry.dtype, geometry.layout};
    COTAN_RETURN_IF_ERROR(CheckOp({.op = op, .inputs = {&from, 1}, .outputs = {&to, 1}, .symbols = symbols_}));
    if (!options_.has_host_memory) {
      ++schedule_.stats.views;
      ValueOf(op.outputs(0)) = std::move(source);
      return absl::OkStatus();
    }
    const bool to_host = IsOnHost(op.outputs(0));
    if (!to_host) {
      geometry = source.geometry;
    } else if (from.layout != to.layout) {
      Operand dense = NewOperand(BufferKind::kArena, 0, geometry);
      AddCopy(source, dense);
      source = std::move(dense);
    }
    Operand result = NewOperand(BufferKind::kArena, 0, std::move(geometry));
    BufferOf(result).on_host = to_host;
    ScheduledStep step;
    step.op = index;
    step.inputs.push_back(std::move(source));
    step.outputs.push_back(result);
    schedule_.steps.push_back(std::move(step));
    ValueOf(op.outputs(0)) = std::move(result);
    return absl::OkStatus();
  }

  absl::Status AddView(const Op& op) {
    Operand operand = ValueOf(op.inputs(0));
    bool copied = false;
    for (const ViewStep& step : op.view().steps()) {
      // as_strided in a program addresses the operand's elements in row-major order.
      if (step.has_as_strided() && !IsContiguous(operand.geometry.layout)) {
        operand = CopyToRowMajor(operand);
        copied = true;
      }
      const int64_t start = step.has_as_strided() ? operand.geometry.layout.offset : 0;
      absl::StatusOr<ViewGeometry> seen = ApplyViewStep(step, operand.geometry, symbols_);
      if (seen.status().code() == absl::StatusCode::kFailedPrecondition) {
        operand = CopyToRowMajor(operand);
        copied = true;
        seen = ApplyViewStep(step, operand.geometry, symbols_);
      }
      COTAN_RETURN_IF_ERROR(seen.status());
      operand.geometry = *std::move(seen);
      operand.geometry.layout.offset += start;
      COTAN_RETURN_IF_ERROR(CheckInBuffer(operand));
    }
    const TensorType& type = method_.values(static_cast<int>(op.outputs(0))).type();
    COTAN_ASSIGN_OR_RETURN(const ViewGeometry declared, DenseGeometry(type));
    if (declared.dtype != operand.geometry.dtype || declared.layout.sizes != operand.geometry.layout.sizes) {
      return absl::InvalidArgumentError(absl::StrCat("the view is ", DTypeName(operand.geometry.dtype),
                                                     ToString(operand.geometry.layout), ", its value is declared ",
                                                     TensorTypeText(type)));
    }
    ++(copied ? schedule_.stats.view_copies : schedule_.stats.views);
    ValueOf(op.outputs(0)) = std::move(operand);
    return absl::OkStatus();
  }

  absl::Status CheckInBuffer(const Operand& operand) {
    const int64_t bytes =
        StorageExtent(operand.geometry.layout) * static_cast<int64_t>(ByteSize(operand.geometry.dtype));
    if (bytes <= BufferOf(operand).bytes) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the view ", ToString(operand.geometry.layout),
                                                   " leaves its memory of ", BufferOf(operand).bytes, " bytes"));
  }

  Operand CopyToRowMajor(const Operand& from) {
    ViewGeometry geometry = from.geometry;
    geometry.layout.strides = ContiguousStrides(geometry.layout.sizes);
    geometry.layout.offset = 0;
    Operand to = NewOperand(BufferKind::kArena, 0, std::move(geometry));
    AddCopy(from, to);
    return to;
  }

  void AddCopy(const Operand& from, const Operand& to) {
    ScheduledStep step;
    step.inputs.push_back(from);
    step.outputs.push_back(to);
    schedule_.steps.push_back(std::move(step));
  }

  // --- results --------------------------------------------------------------

  // Returns whether `operand` fills an arena buffer and has the geometry `wanted`.
  bool Fills(const Operand& operand, const ViewGeometry& wanted) {
    return BufferOf(operand).kind == BufferKind::kArena && operand.geometry == wanted &&
           BufferOf(operand).bytes == BytesOf(wanted);
  }

  ResultRequest Request(int output) const {
    return options_.results.empty() ? ResultRequest() : options_.results[static_cast<size_t>(output)];
  }

  // Collects the states and arguments to update, with their values.
  void CollectUpdates() {
    for (const StateUpdate& update : method_.state_updates()) {
      updates_.emplace_back(Target(BufferKind::kState, static_cast<int>(update.state())), update.value());
    }
    for (const InputUpdate& update : method_.input_updates()) {
      if (!update.sets_storage()) AddInputUpdate(static_cast<int>(update.input()), update.value());
    }
    for (int i = 0; i < method_.outputs_size(); ++i) {
      if (Request(i).use == ResultUse::kWriteBack) AddInputUpdate(Request(i).input, method_.outputs(i));
    }
    std::sort(schedule_.written_inputs.begin(), schedule_.written_inputs.end());
    for (const Update& update : updates_) updated_.insert(update.target);
  }

  void AddInputUpdate(int input, uint32_t value) {
    updates_.emplace_back(Target(BufferKind::kInput, input), value);
    schedule_.written_inputs.push_back(input);
    new_content_of_.emplace(value, input);
  }

  absl::Status AddOutputs() {
    for (int i = 0; i < method_.outputs_size(); ++i) COTAN_RETURN_IF_ERROR(AddOutput(method_.outputs(i), Request(i)));
    for (const InputUpdate& update : method_.input_updates()) {
      if (!update.sets_storage()) continue;
      const ResultUse use = update.shares_storage() ? ResultUse::kSkip : ResultUse::kReturn;
      COTAN_RETURN_IF_ERROR(AddOutput(update.value(), {.use = use}));
    }
    return absl::OkStatus();
  }

  absl::Status AddOutput(uint32_t value, const ResultRequest& request) {
    const auto index = static_cast<int>(schedule_.outputs.size());
    COTAN_ASSIGN_OR_RETURN(ViewGeometry wanted, DenseGeometry(method_.values(static_cast<int>(value)).type()));
    schedule_.outputs.push_back({wanted.dtype, wanted.layout});
    schedule_.outputs_on_host.push_back(IsOnHost(value));
    schedule_.places.push_back(PlaceOf(value, request));
    if (schedule_.places.back().kind != ResultBuffer::Kind::kOwn) return absl::OkStatus();
    own_result_.emplace(value, index);
    const Operand& operand = ValueOf(value);
    if (Fills(operand, wanted)) {
      BufferOf(operand).kind = BufferKind::kOutput;
      BufferOf(operand).index = index;
      ++schedule_.stats.outputs_in_place;
    } else {
      const Operand source = operand;
      AddCopy(source, NewOperand(BufferKind::kOutput, index, std::move(wanted)));
      ++schedule_.stats.output_copies;
    }
    return absl::OkStatus();
  }

  ResultBuffer PlaceOf(uint32_t value, const ResultRequest& request) const {
    if (request.use == ResultUse::kReturn) return {ResultBuffer::Kind::kOwn, 0};
    if (request.use == ResultUse::kSkip) return {ResultBuffer::Kind::kNone, 0};
    if (request.use == ResultUse::kWriteBack) return {ResultBuffer::Kind::kInput, request.input};
    // kSave: read in the memory that has it after the method has run.
    const auto argument = argument_of_.find(value);
    if (argument != argument_of_.end() && !updated_.contains({BufferKind::kInput, argument->second})) {
      return {ResultBuffer::Kind::kInput, argument->second};
    }
    const auto written = new_content_of_.find(value);
    if (written != new_content_of_.end()) return {ResultBuffer::Kind::kInput, written->second};
    const auto result = own_result_.find(value);
    if (result != own_result_.end()) return {ResultBuffer::Kind::kResult, result->second};
    return {ResultBuffer::Kind::kOwn, 0};
  }

  // --- updates --------------------------------------------------------------

  // Destination of an update: a state, or the memory of an argument.
  using Target = std::pair<BufferKind, int>;

  // New content of `target`: the value, and the operand that has it.
  struct Update {
    Update(Target target_in, uint32_t value_in) : target(target_in), value(value_in) {}
    Target target;
    uint32_t value;
    Operand source;
  };

  absl::StatusOr<Operand> TargetOperand(const Target& target) {
    if (target.first == BufferKind::kState) return StateOperand(static_cast<uint32_t>(target.second));
    const TensorSpec& spec = schedule_.inputs[static_cast<size_t>(target.second)];
    return NewOperand(BufferKind::kInput, target.second, {spec.dtype, spec.layout});
  }

  Target TargetOf(const Operand& operand) { return {BufferOf(operand).kind, BufferOf(operand).index}; }

  // Returns whether the operand is the content of a state or an argument at the start.
  bool IsOldContent(const Operand& operand) const { return old_content_.contains(operand.buffer); }

  // Updates happen at once: if the source of one is the old content of another's target, it is copied
  // before any update.
  absl::Status StageUpdates() {
    std::vector<Update> staged;
    for (Update& update : updates_) {
      update.source = ValueOf(update.value);
      if (IsOldContent(update.source) && updated_.contains(TargetOf(update.source))) {
        COTAN_ASSIGN_OR_RETURN(const Operand target, TargetOperand(update.target));
        const bool keeps_content =
            TargetOf(update.source) == update.target && update.source.geometry == target.geometry;
        if (keeps_content) continue;
        update.source = CopyToRowMajor(update.source);
      }
      staged.push_back(std::move(update));
    }
    updates_ = std::move(staged);
    return absl::OkStatus();
  }

  absl::Status WriteUpdates() {
    FindWriters();
    std::vector<std::pair<Operand, Operand>> copies;
    for (const Update& update : updates_) {
      const bool is_state = update.target.first == BufferKind::kState;
      COTAN_ASSIGN_OR_RETURN(Operand target, TargetOperand(update.target));
      if (Fills(update.source, target.geometry) && MayWriteEarly(update)) {
        Buffer& buffer = BufferOf(update.source);
        buffer.kind = update.target.first;
        buffer.index = update.target.second;
        ++(is_state ? schedule_.stats.updates_in_place : schedule_.stats.inputs_in_place);
      } else {
        copies.emplace_back(update.source, std::move(target));
        ++(is_state ? schedule_.stats.update_copies : schedule_.stats.input_copies);
      }
    }
    for (const auto& [from, to] : copies) AddCopy(from, to);
    return absl::OkStatus();
  }

  // Finds the step that writes each buffer, the last step that may fail because of data, and the steps that
  // read the old content of states and arguments.
  void FindWriters() {
    FallibleSteps fallible(method_, symbols_);
    writer_.assign(schedule_.buffers.size(), -1);
    for (size_t i = 0; i < schedule_.steps.size(); ++i) {
      const ScheduledStep& step = schedule_.steps[i];
      for (const Operand& output : step.outputs) writer_[static_cast<size_t>(output.buffer)] = static_cast<int>(i);
      for (const Operand& input : step.inputs) {
        if (IsOldContent(input)) readers_[TargetOf(input)].push_back(static_cast<int>(i));
      }
      if (step.op >= 0 && fallible.MayFail(step)) last_fallible_ = static_cast<int>(i);
    }
  }

  // Returns whether the target's memory may be written when the new content is computed: its old content is
  // not read later, and no later step can fail.
  bool MayWriteEarly(const Update& update) {
    const int writer = writer_[static_cast<size_t>(update.source.buffer)];
    if (writer < last_fallible_) return false;
    // Collectives fail before they write.
    if (writer == last_fallible_ && !WritesCollective(writer)) return false;
    // A copy from the host is made in spite of an earlier error of the device.
    if (IsHostCopy(schedule_, schedule_.steps[static_cast<size_t>(writer)])) return false;
    for (int reader : readers_[update.target]) {
      if (reader > writer) return false;
      if (reader == writer && !MayOverwriteTarget(update, writer)) return false;
    }
    return true;
  }

  bool WritesCollective(int step) const {
    return step >= 0 && OpOf(method_, schedule_.steps[static_cast<size_t>(step)]).has_collective();
  }

  bool MayOverwriteTarget(const Update& update, int step_index) {
    const ScheduledStep& step = schedule_.steps[static_cast<size_t>(step_index)];
    const int output = OutputIn(step, update.source.buffer);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const bool reads = IsOldContent(step.inputs[i]) && TargetOf(step.inputs[i]) == update.target;
      if (reads && !IsSafeInPlace(method_, step, symbols_, static_cast<int>(i), output)) return false;
    }
    return true;
  }

  static int OutputIn(const ScheduledStep& step, int buffer) {
    int output = 0;
    while (step.outputs[static_cast<size_t>(output)].buffer != buffer) ++output;
    return output;
  }

  const serialization::Artifact& artifact_;
  const Method& method_;
  const absl::Span<const int64_t> symbols_;
  const ScheduleOptions& options_;
  Schedule schedule_;
  std::vector<Operand> values_;                        // of the method
  absl::flat_hash_set<int> old_content_;               // buffers with a state's or argument's content at the start
  absl::flat_hash_map<uint32_t, int> argument_of_;     // argument by value
  absl::flat_hash_map<uint32_t, int> new_content_of_;  // updated argument by value
  absl::flat_hash_map<uint32_t, int> own_result_;      // result in memory of its own by value
  std::vector<Update> updates_;
  absl::flat_hash_set<Target> updated_;
  std::vector<int> writer_;                                // step by buffer
  absl::flat_hash_map<Target, std::vector<int>> readers_;  // steps
  int last_fallible_ = -1;                                 // step
};

}  // namespace

const Op& OpOf(const Method& method, const ScheduledStep& step) {
  if (step.part != nullptr) return *step.part;
  return step.op >= 0 ? method.ops(step.op) : CopyOp();
}

TensorSpec SpecOf(const Operand& operand) {
  TensorSpec spec = {operand.geometry.dtype, operand.geometry.layout};
  spec.layout.offset = 0;
  return spec;
}

absl::StatusOr<Schedule> MakeSchedule(const serialization::Artifact& artifact, const Method& method,
                                      absl::Span<const int64_t> symbols, const ScheduleOptions& options) {
  return Scheduler(artifact, method, symbols, options).Make();
}

}  // namespace cotan
