// Constructs a torch::nn module so that it can be traced.
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
#include "aot/frontend/callable.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

struct ModuleOptions {
  // LibTorch's default generator is seeded with it before the factory runs.
  uint64_t seed = 0;
  // Parameters whose names match one of these ('*' is any text, '?' any
  // character) require no grad.
  std::vector<std::string> frozen = {};
  // Initial content of parameters and buffers by name; all others keep what
  // the factory gave them.
  NamedTensors initial_values = {};
};

// A parameter or buffer of a model that is no torch::nn module.
struct InitialState {
  std::string name;
  serialization::State::Role role = serialization::State::PARAMETER;
  at::Tensor value;  // real CPU tensor
  bool requires_grad = false;
  bool persistent = true;
  std::vector<std::string> aliases = {};
};

// Such a model: a function of its states, in their order, and of its inputs. It
// writes to states in place.
using StateFunction = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>& states,
                                                            const std::vector<at::Tensor>& inputs)>;

// A module whose parameters and buffers are functional proxies, ready for
// Trace(). Movable; holds the module.
class TraceableModule {
 public:
  // InvalidArgument: the factory threw or returned null; a parameter or buffer
  // was not created by an op within it; a pattern of `frozen` matches no
  // parameter; an initial value names no parameter or buffer, or has another
  // dtype or other sizes.
  static absl::StatusOr<TraceableModule> Create(const ModuleFactory& factory, const ModuleOptions& options);

  // The same for a function of states; there is no train mode. The seed is not
  // used.
  // InvalidArgument: as above; two states have the same name.
  static absl::StatusOr<TraceableModule> FromFunction(StateFunction function, std::vector<InitialState> states,
                                                      const ModuleOptions& options);

  // Parameters, then buffers, in the order in which the module registered
  // them; a tied tensor once, under its first name. Of a function: as given.
  absl::Span<const ModuleState> states() const { return states_; }
  // The module's forward(), for Trace(); one that replaces or registers
  // parameters or buffers is refused there, by name. Valid as long as this
  // object stays where it is.
  TensorFunction forward() const;
  void Train(bool on);

 private:
  TraceableModule() = default;
  void RefuseReplacedTensors() const;

  ModuleInstance instance_;  // empty for a function
  StateFunction function_;   // null for a module
  std::vector<ModuleState> states_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_FRONTEND_MODULE_H_
