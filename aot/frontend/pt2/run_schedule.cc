// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/run_schedule.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "aot/blocks/block.h"
#include "aot/capture/number.h"

namespace cotan::aot::pt2 {
namespace {

using serialization::State;

// The arguments of a run as those of a block. The block's inputs are tensors and the symbolic numbers, as tensors, each
// once; other numbers are part of its key.
class Arguments {
 public:
  Arguments(const ModuleRun& run, const Environment& values) : key_(run.key) {
    for (const RunState& state : run.parameters) AddState(state, State::PARAMETER, values);
    for (const RunState& state : run.buffers) AddState(state, State::BUFFER, values);
    for (const std::string& name : run.inputs) AddInput(name, ValueOf(Name{name}, values));
    if (!run.number.empty()) reason_ = absl::StrCat("it returns a number, '", run.number, "'");
  }

  // Returns why the run cannot be a block; empty: it may be one.
  const std::string& reason() const { return reason_; }
  const std::string& key() const { return key_; }
  const std::vector<BlockState>& states() const { return states_; }
  const std::vector<at::Tensor>& inputs() const { return inputs_; }

  // Returns the values by name, given the block's inputs.
  Environment ValuesFor(const std::vector<at::Tensor>& inputs) const {
    Environment values = fixed_;
    for (const auto& [name, index] : tensors_) values[name] = inputs[index];
    for (const auto& [name, index] : numbers_) values[name] = NumberOfTensor(inputs[index], name);
    return values;
  }

 private:
  void AddState(const RunState& state, State::Role role, const Environment& values) {
    const c10::IValue value = ValueOf(Name{state.value}, values);
    const at::Tensor tensor = value.toTensor();
    fixed_[state.value] = value;
    const auto is_same = [&](const BlockState& other) { return other.tensor.is_same(tensor); };
    const auto found = std::find_if(states_.begin(), states_.end(), is_same);
    // Equal runs have the same tied states.
    absl::StrAppend(&key_, " ", found - states_.begin());
    if (found == states_.end()) states_.push_back({state.name, role, tensor});
  }

  void AddInput(const std::string& name, const c10::IValue& value) {
    if (value.isTensor()) {
      const auto is_same = [&](const at::Tensor& other) { return other.is_same(value.toTensor()); };
      const auto found = std::find_if(inputs_.begin(), inputs_.end(), is_same);
      const auto index = static_cast<size_t>(found - inputs_.begin());
      absl::StrAppend(&key_, " t", index);
      tensors_.emplace_back(name, index);
      if (found == inputs_.end()) inputs_.push_back(value.toTensor());
    } else if (IsSymbolicNumber(value)) {
      absl::StrAppend(&key_, " s", inputs_.size());
      numbers_.emplace_back(name, inputs_.size());
      inputs_.push_back(PlainTensorOfNumber(value));
    } else {
      fixed_[name] = value;
      AddNumber(name, value);
    }
  }

  void AddNumber(const std::string& name, const c10::IValue& value) {
    if (value.isInt()) {
      absl::StrAppend(&key_, " i", value.toInt());
    } else if (value.isBool()) {
      absl::StrAppend(&key_, " b", value.toBool() ? 1 : 0);
    } else if (value.isDouble()) {
      absl::StrAppendFormat(&key_, " f%.17g", value.toDouble());
    } else {
      reason_ = absl::StrCat("it takes '", name, "', which is neither a tensor nor a number");
    }
  }

  std::string key_;
  std::string reason_;
  std::vector<BlockState> states_;
  std::vector<at::Tensor> inputs_;
  Environment fixed_;                                    // states, and numbers that are part of the key
  std::vector<std::pair<std::string, size_t>> tensors_;  // inputs by name
  std::vector<std::pair<std::string, size_t>> numbers_;
};

// Calls the run as a block; returns false if that is not possible.
bool CallBlock(const ModuleRun& run, Environment& values) {
  const Arguments arguments(run, values);
  BlockCall call;
  call.body = [&](const std::vector<at::Tensor>& inputs) {
    Environment inner = arguments.ValuesFor(inputs);
    RunSchedule(run.body, inner);
    std::vector<at::Tensor> results;
    for (const std::string& name : run.results) results.push_back(ValueOf(Name{name}, inner).toTensor());
    return results;
  };
  call.key = arguments.key();
  call.states = arguments.states();
  call.path = run.path;
  call.refusal = arguments.reason();
  const std::optional<std::vector<at::Tensor>> results = ShareBlock(call, arguments.inputs());
  if (!results.has_value()) return false;
  for (size_t i = 0; i < run.results.size(); ++i) values[run.results[i]] = (*results)[i];
  return true;
}

}  // namespace

void RunSchedule(const Schedule& schedule, Environment& values) {
  for (const Step& step : schedule) {
    if (const auto* node = std::get_if<const Node*>(&step)) {
      RunNode(**node, values);
      continue;
    }
    const ModuleRun& run = *std::get<std::shared_ptr<const ModuleRun>>(step);
    if (!CallBlock(run, values)) RunSchedule(run.body, values);
  }
}

}  // namespace cotan::aot::pt2
