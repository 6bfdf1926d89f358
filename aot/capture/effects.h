// Effects of traced functions: what a program does besides computing its
// results. A program has them in the order in which the function had them; the
// device's session says what happens (runtime/execution/effects.h).
//
//   at::Tensor Forward(at::Tensor x) {
//     at::Tensor y = fc->forward(x);
//     cotan::aot::Assert(y.isfinite().all(), "finite", "the layer has diverged");
//     cotan::aot::Print(y, "fc");
//     cotan::aot::PrintGradient(y, "fc.gradient");  // in the backward
//     return y.relu();
//   }
//
// While a function is traced nothing happens: its effects become ops
// cotan::effect(Tensor token, Tensor value, str kind, str name, str message) ->
// Tensor, each of which takes the token that the one before returned. That keeps
// their order and keeps them alive. There is one token for what runs forward
// and one for what runs in the backward.
//
// Called otherwise, in eager mode, they happen at once (EagerEffects).
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

// `name` says which effect it is, to people and to the session's handlers; it
// is not empty. Values are not differentiated through. Not for values that are
// complex. Each throws c10::Error if its arguments are not so.

// Shows a tensor.
void Print(const at::Tensor& value, const std::string& name, const std::string& message = "");
// Reports a number, of one element, to whoever keeps records.
void Metric(const at::Tensor& value, const std::string& name);
// Ends the call with an error unless all elements of a bool tensor are true.
// Eagerly, throws c10::Error.
void Assert(const at::Tensor& condition, const std::string& name, const std::string& message = "");

// The same for the gradient of a tensor, in the backward, whenever it has been
// computed. Nothing happens if the tensor does not require grad.
void PrintGradient(const at::Tensor& value, const std::string& name, const std::string& message = "");
void MetricGradient(const at::Tensor& value, const std::string& name);

// An effect in eager mode.
struct EagerEffect {
  std::string kind;  // "print", "metric", "assert"
  std::string name;
  std::string message;
  at::Tensor value;  // detached
};

// Within its scope, effects in eager mode on all threads go to `handler`; a
// failed assertion throws afterwards. Without one, prints and metrics go to
// std::cerr. Not thread-safe; scopes nest.
class EagerEffects {
 public:
  explicit EagerEffects(std::function<void(const EagerEffect&)> handler);
  ~EagerEffects();
  EagerEffects(const EagerEffects&) = delete;
  EagerEffects& operator=(const EagerEffects&) = delete;

 private:
  std::function<void(const EagerEffect&)> previous_;
};

// Gives effects from now on the token of graph input `index` of kind kToken,
// which it adds: 0 forward, 1 in the backward.
void InstallEffectToken(Recorder& recorder, int index);

// Defines cotan::effect.
void DefineEffect(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_EFFECTS_H_
