// SPDX-License-Identifier: Apache-2.0

// Effects of traced functions: prints, metrics and assertions. A program has them in the order in which the
// function called them; a session's handlers execute them (runtime/execution/effects.h).
//
//   at::Tensor Forward(at::Tensor x) {
//     at::Tensor y = fc->forward(x);
//     cotan::aot::Assert(y.isfinite().all(), "finite", "the layer has diverged");
//     cotan::aot::Print(y, "fc");
//     cotan::aot::PrintGradient(y, "fc.gradient");  // in the backward
//     return y.relu();
//   }
//
// While a function is traced, effects are not executed but become ops
//
//   cotan::effect(Tensor token, Tensor value, str kind, str name, str message) -> Tensor
//
// Each takes the token that the previous one returned, which keeps their order and keeps them alive. The
// forward and the backward have one chain of tokens each.
//
// In eager mode, effects are executed at once (EagerEffects).
#ifndef COTAN_AOT_CAPTURE_EFFECTS_H_
#define COTAN_AOT_CAPTURE_EFFECTS_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

namespace torch {
class Library;
}

namespace cotan::aot {

class Recorder;

// `name` identifies the effect in output and to the session's handlers; it must not be empty. No gradient
// goes through effects. Complex values are not supported. Each function throws c10::Error if an argument is
// invalid.

// Prints a tensor.
void Print(const at::Tensor& value, const std::string& name, const std::string& message = "");
// Reports a tensor of one element to the session's metric handler.
void Metric(const at::Tensor& value, const std::string& name);
// Ends the call with an error unless all elements of a bool tensor are true. In eager mode, throws
// c10::Error.
void Assert(const at::Tensor& condition, const std::string& name, const std::string& message = "");

// Prints, or reports, the gradient of a tensor in the backward whenever it has been computed. Does nothing
// if the tensor does not require grad.
void PrintGradient(const at::Tensor& value, const std::string& name, const std::string& message = "");
void MetricGradient(const at::Tensor& value, const std::string& name);

// An effect that was called in eager mode.
struct EagerEffect {
  std::string kind;  // "print", "metric", "assert"
  std::string name;
  std::string message;
  at::Tensor value;  // detached
};

// Sends the effects of eager mode on all threads to `handler` within its scope; a failed assertion throws
// afterwards. Without a handler, prints and metrics go to std::cerr. Not thread-safe; scopes nest.
class EagerEffects {
 public:
  explicit EagerEffects(std::function<void(const EagerEffect&)> handler);
  ~EagerEffects();
  EagerEffects(const EagerEffects&) = delete;
  EagerEffects& operator=(const EagerEffects&) = delete;

 private:
  std::function<void(const EagerEffect&)> previous_;
};

// Adds graph input `index` of kind kToken (0: forward, 1: backward) and makes it the token of the next
// effect.
void InstallEffectToken(Recorder& recorder, int index);

// Defines the op cotan::effect.
void DefineEffect(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_EFFECTS_H_
