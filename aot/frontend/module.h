// SPDX-License-Identifier: Apache-2.0

// Constructs a torch::nn module with proxies as parameters and buffers, so that it can be traced.
#ifndef COTAN_AOT_FRONTEND_MODULE_H_
#define COTAN_AOT_FRONTEND_MODULE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/capture/traced_function.h"
#include "aot/decompositions/linear_adapters.h"
#include "aot/frontend/callable.h"
#include "aot/frontend/lora.h"
#include "aot/frontend/quantize.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Tensors by qualified name ("net.1.weight").
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

// Options of TraceableModule.
struct ModuleOptions {
  // Seed of LibTorch's default generator before the factory runs.
  uint64_t seed = 0;
  // Names of parameters that require no grad; any name of a tied one. Patterns: '*' is any text, '?' any character.
  std::vector<std::string> frozen = {};
  // Initial content of parameters and buffers by name. Missing names keep their initial value.
  NamedTensors initial_values = {};
  // Low-rank adapters, which are added to the states.
  LoraOptions lora = {};
  // Frozen parameters that are stored as small integers.
  QuantizeOptions quantize = {};
};

// A parameter or buffer of a model that is a function instead of a torch::nn module.
struct InitialState {
  std::string name;
  serialization::State::Role role = serialization::State::PARAMETER;
  at::Tensor value;  // real CPU tensor
  bool requires_grad = false;
  bool persistent = true;                 // in the state_dict
  std::vector<std::string> aliases = {};  // further names of a tied tensor
};

// A model as a function of its states, in their order, and of its inputs. It writes to states in
// place.
using StateFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& states,
                                                            const std::vector<at::Tensor>& inputs)>;

// A module whose parameters and buffers are functional proxies, ready for
// Trace(). Movable; holds the module.
class TraceableModule {
 public:
  // Makes a module by `factory`.
  // InvalidArgument: the factory throws or returns null; a parameter or buffer was not created by
  // an op within it; a pattern of `frozen` matches no parameter; an initial value names no
  // parameter or buffer, or has another dtype or other sizes; errors of AddLoraAdapters() and
  // QuantizeParameters().
  static absl::StatusOr<TraceableModule> Create(const ModuleFactory& factory, const ModuleOptions& options);

  // Makes a module of a function of states. It has no train mode; options.seed is that of adapters only.
  // InvalidArgument: two states have the same name; a pattern of `frozen` matches no parameter; an
  // initial value names no state, or has another dtype or other sizes; errors of AddLoraAdapters()
  // and QuantizeParameters().
  static absl::StatusOr<TraceableModule> FromFunction(StateFunction function, std::vector<InitialState> states,
                                                      const ModuleOptions& options);

  // Returns parameters, then buffers, in the order of registration; a tied tensor once, under its
  // first name. Of a function: as given. Then those of adapters and quantized weights: see
  // AddLoraAdapters() and QuantizeParameters().
  absl::Span<const ModuleState> states() const { return states_; }
  // Returns the module's forward(), for Trace(). Trace() returns Unimplemented, with names, if it replaces or registers
  // parameters or buffers, or does not use the layer of an adapter. Valid as long as this object exists and is not
  // moved.
  TensorFunction forward() const;
  // Sets train or eval mode; no effect for a function.
  void Train(bool on);

 private:
  TraceableModule() = default;
  // Applies the options to the states of the model.
  absl::Status Apply(const ModuleOptions& options);
  std::vector<at::Tensor> Call(const std::vector<at::Tensor>& inputs) const;
  void RefuseReplacedTensors() const;

  ModuleInstance instance_;            // empty for a function
  StateFunction function_;             // null for a module
  std::vector<at::Tensor> arguments_;  // states of the function
  NamedTensors registered_;            // by the module, when it was made
  std::vector<ModuleState> states_;
  std::vector<LinearAdapter> adapters_;
  std::vector<QuantizedWeight> quantized_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_FRONTEND_MODULE_H_
