// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/module.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"
#include "aot/frontend/patterns.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::State;

// A parameter or buffer that the module registers.
struct Registered {
  std::string name;
  State::Role role;
  at::Tensor tensor;
};

std::vector<Registered> RegisteredTensors(const torch::nn::Module& module) {
  std::vector<Registered> all;
  for (const auto& item : module.named_parameters()) {
    if (item.value().defined()) all.push_back({item.key(), State::PARAMETER, item.value()});
  }
  for (const auto& item : module.named_buffers()) {
    if (item.value().defined()) all.push_back({item.key(), State::BUFFER, item.value()});
  }
  return all;
}

// Returns the states of a new module. InvalidArgument: one of them is not a proxy.
absl::StatusOr<std::vector<ModuleState>> CollectStates(const torch::nn::Module& module) {
  std::vector<ModuleState> states;
  absl::flat_hash_map<const at::TensorImpl*, size_t> state_of;
  for (const Registered& registered : RegisteredTensors(module)) {
    const at::TensorImpl* const tensor = registered.tensor.unsafeGetTensorImpl();
    if (const auto tied = state_of.find(tensor); tied != state_of.end()) {
      states[tied->second].aliases.push_back(registered.name);
      continue;
    }
    const ProxyTensorImpl* proxy = ProxyOf(registered.tensor);
    if (proxy == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", registered.name,
                       "' was not created by an op inside the factory. Create it there (torch::empty, zeros, "
                       "arange, ...), and give its content as CompileOptions.module.initial_values"));
    }
    state_of.emplace(tensor, states.size());
    ModuleState& state = states.emplace_back();
    state.name = registered.name;
    state.role = registered.role;
    state.tensor = registered.tensor;
    state.constructed = proxy->real().detach();
    state.initial = state.constructed;
    state.requires_grad = registered.role == State::PARAMETER && registered.tensor.requires_grad();
  }
  return states;
}

absl::Status Freeze(const std::vector<std::string>& patterns, std::vector<ModuleState>& states) {
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (ModuleState& state : states) {
      if (state.role != State::PARAMETER || !Matches(pattern, state)) continue;
      state.requires_grad = false;
      matched = true;
    }
    if (matched) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the frozen pattern '", pattern, "' matches no parameter; there are ",
                     absl::StrJoin(states, ", ", [](std::string* out, const ModuleState& state) {
                       if (state.role == State::PARAMETER) absl::StrAppend(out, state.name);
                     })));
  }
  return absl::OkStatus();
}

// Returns whether `name` is a name of the state.
bool Names(const ModuleState& state, const std::string& name) {
  if (state.name == name) return true;
  for (const std::string& alias : state.aliases) {
    if (alias == name) return true;
  }
  return false;
}

absl::Status SetInitialValues(const NamedTensors& values, std::vector<ModuleState>& states) {
  for (const auto& [name, value] : values) {
    ModuleState* found = nullptr;
    for (ModuleState& state : states) {
      if (Names(state, name)) found = &state;
    }
    if (found == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("initial value '", name, "' names no parameter or buffer of the module"));
    }
    if (value.sizes() != found->initial.sizes() || value.scalar_type() != found->initial.scalar_type()) {
      return absl::InvalidArgumentError(
          absl::StrCat("initial value '", name, "' is ", c10::str(value.scalar_type(), value.sizes()),
                       ", but the module has ", c10::str(found->initial.scalar_type(), found->initial.sizes())));
    }
    found->initial = value.detach().clone();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TraceableModule> TraceableModule::Create(const ModuleFactory& factory, const ModuleOptions& options) {
  RegisterTracing();
  torch::manual_seed(options.seed);
  TraceableModule result;
  try {
    auto epoch = std::make_shared<TraceEpoch>();
    epoch->kind = TraceEpoch::Kind::kConstruction;
    RecordingScope construction(std::move(epoch));
    c10::impl::IncludeDispatchKeyGuard keys(kConstructionKeys);
    at::functionalization::impl::FunctionalizationReapplyViewsGuard views(true);
    result.instance_ = factory();
    if (result.instance_.module == nullptr) {
      return absl::InvalidArgumentError("the module factory returned null");
    }
    COTAN_ASSIGN_OR_RETURN(result.states_, CollectStates(*result.instance_.module));
    for (Registered& registered : RegisteredTensors(*result.instance_.module)) {
      result.registered_.emplace_back(std::move(registered.name), std::move(registered.tensor));
    }
  } catch (...) {
    return StatusFromCurrentException("constructing the module");
  }
  COTAN_RETURN_IF_ERROR(result.Apply(options));
  return result;
}

absl::StatusOr<TraceableModule> TraceableModule::FromFunction(StateFunction function, std::vector<InitialState> states,
                                                              const ModuleOptions& options) {
  RegisterTracing();
  TraceableModule result;
  result.function_ = std::move(function);
  absl::flat_hash_set<std::string> names;
  try {
    auto epoch = std::make_shared<TraceEpoch>();
    epoch->kind = TraceEpoch::Kind::kConstruction;
    for (InitialState& initial : states) {
      if (!names.insert(initial.name).second) {
        return absl::InvalidArgumentError(absl::StrCat("two parameters or buffers are called '", initial.name, "'"));
      }
      ModuleState& state = result.states_.emplace_back();
      state.name = std::move(initial.name);
      state.role = initial.role;
      state.tensor = WrapFunctional(MakeProxy(initial.value, kNoValue, epoch));
      state.initial = std::move(initial.value);
      state.requires_grad = initial.requires_grad;
      state.persistent = initial.persistent;
      state.aliases = std::move(initial.aliases);
      result.arguments_.push_back(state.tensor);
    }
  } catch (...) {
    return StatusFromCurrentException("preparing the model");
  }
  COTAN_RETURN_IF_ERROR(result.Apply(options));
  return result;
}

void TraceableModule::Train(bool on) {
  if (instance_.module != nullptr) instance_.module->train(on);
}

absl::Status TraceableModule::Apply(const ModuleOptions& options) {
  if (!options.lora.modules.empty()) {
    try {
      COTAN_ASSIGN_OR_RETURN(adapters_, AddLoraAdapters(options.lora, options.seed, states_));
    } catch (...) {
      return StatusFromCurrentException("adding adapters");
    }
  }
  COTAN_RETURN_IF_ERROR(Freeze(options.frozen, states_));
  COTAN_RETURN_IF_ERROR(SetInitialValues(options.initial_values, states_));
  if (options.quantize.parameters.empty()) return absl::OkStatus();
  try {
    COTAN_ASSIGN_OR_RETURN(quantized_, QuantizeParameters(options.quantize, states_));
  } catch (...) {
    return StatusFromCurrentException("quantizing parameters");
  }
  return absl::OkStatus();
}

std::vector<at::Tensor> TraceableModule::Call(const std::vector<at::Tensor>& inputs) const {
  if (function_ != nullptr) return function_(arguments_, inputs);
  std::vector<at::Tensor> outputs = instance_.forward(inputs);
  RefuseReplacedTensors();
  return outputs;
}

TensorFunction TraceableModule::forward() const {
  return [this](const std::vector<at::Tensor>& inputs) {
    std::vector<LinearAdapter> adapters = adapters_;
    const LinearAdapterScope scope(absl::MakeSpan(adapters));
    const QuantizedWeightScope quantized(quantized_);
    std::vector<at::Tensor> outputs = Call(inputs);
    for (const LinearAdapter& adapter : adapters) {
      if (adapter.is_used) continue;
      CurrentRecorder()->ReportUnsupported(
          absl::StrCat("the adapter of '", adapter.layer, "'"),
          "forward() does not multiply by its weight as a linear layer does, or does so in a repeated block. Use "
          "patterns of lora that match other layers");
    }
    return outputs;
  };
}

void TraceableModule::RefuseReplacedTensors() const {
  absl::flat_hash_map<absl::string_view, const at::Tensor*> tensor_of;
  for (const auto& [name, tensor] : registered_) tensor_of.emplace(name, &tensor);
  for (const Registered& registered : RegisteredTensors(*instance_.module)) {
    const auto found = tensor_of.find(registered.name);
    if (found != tensor_of.end() && found->second->is_same(registered.tensor)) continue;
    CurrentRecorder()->ReportUnsupported(absl::StrCat("'", registered.name, "'"),
                                         "forward() replaced or registered it; write to a tensor that the "
                                         "constructor registers in place instead (copy_)");
  }
}

}  // namespace cotan::aot
