// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/effects.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <c10/util/StringUtil.h>
#include <torch/library.h>

#include <iostream>
#include <string_view>
#include <utility>

#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

std::function<void(const EagerEffect&)>& EagerHandler() {
  static auto& handler = *new std::function<void(const EagerEffect&)>;
  return handler;
}

at::Tensor NewToken() { return at::empty({0}, at::TensorOptions(at::kBool)); }

at::Tensor EffectCpu(const at::Tensor& token, const at::Tensor& value, std::string_view kind, std::string_view name,
                     std::string_view message) {
  return NewToken();
}

void Happen(const EagerEffect& effect) {
  const RealScope real;
  if (EagerHandler() != nullptr) {
    EagerHandler()(effect);
  } else if (effect.kind != "assert") {
    std::cerr << effect.name << (effect.message.empty() ? "" : ": ") << effect.message << "\n" << effect.value << "\n";
  }
  if (effect.kind != "assert") return;
  TORCH_CHECK(at::all(effect.value).const_data_ptr<bool>()[0], "assertion '", effect.name,
              "' failed: ", effect.message);
}

void Do(const char* kind, const at::Tensor& value, const std::string& name, const std::string& message) {
  TORCH_CHECK(!name.empty(), kind, ": an effect needs a name");
  TORCH_CHECK(value.defined(), kind, " '", name, "': the tensor is undefined");
  TORCH_CHECK(!value.is_complex(), kind, " '", name, "': the tensor is complex; take its real and imaginary parts");
  Recorder* recorder = CurrentRecorder();
  if (recorder == nullptr) {
    const ProxyTensorImpl* proxy = ProxyOf(value);  // of a module under construction
    return Happen({kind, name, message, proxy == nullptr ? value.detach() : proxy->real()});
  }
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("cotan::effect", "").typed<decltype(EffectCpu)>();
  recorder->effect_token = op.call(recorder->effect_token, value, kind, name, message);
}

}  // namespace

void Print(const at::Tensor& value, const std::string& name, const std::string& message) {
  Do("print", value, name, message);
}

void Metric(const at::Tensor& value, const std::string& name) {
  TORCH_CHECK(value.defined() && value.numel() == 1, "metric '", name, "': not one number, but a tensor ",
              value.defined() ? c10::str(value.sizes()) : "that is undefined");
  Do("metric", value, name, "");
}

void Assert(const at::Tensor& condition, const std::string& name, const std::string& message) {
  TORCH_CHECK(condition.defined() && condition.scalar_type() == at::kBool, "assert '", name,
              "': the condition is not a bool tensor");
  Do("assert", condition, name, message);
}

void PrintGradient(const at::Tensor& value, const std::string& name, const std::string& message) {
  if (!value.requires_grad()) return;
  value.register_hook([name, message](const at::Tensor& gradient) { Print(gradient, name, message); });
}

void MetricGradient(const at::Tensor& value, const std::string& name) {
  if (!value.requires_grad()) return;
  value.register_hook([name](const at::Tensor& gradient) { Metric(gradient, name); });
}

EagerEffects::EagerEffects(std::function<void(const EagerEffect&)> handler)
    : previous_(std::exchange(EagerHandler(), std::move(handler))) {}

EagerEffects::~EagerEffects() { EagerHandler() = std::move(previous_); }

void InstallEffectToken(Recorder& recorder, int index) {
  const at::Tensor token = [] {
    const RealScope real;
    return NewToken();
  }();
  recorder.effect_token = recorder.AddInput(token, InputKind::kToken, index, index == 0 ? "token" : "backward_token");
}

void DefineEffect(torch::Library& library) {
  library.def("effect(Tensor token, Tensor value, str kind, str name, str message) -> Tensor");
  library.impl("effect", torch::dispatch(c10::DispatchKey::CPU, EffectCpu));
  library.impl("effect", torch::dispatch(c10::DispatchKey::Autograd, torch::CppFunction::makeFallthrough()));
}

}  // namespace cotan::aot
