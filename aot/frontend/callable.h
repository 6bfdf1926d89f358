// SPDX-License-Identifier: Apache-2.0

// Converts callables on tensors to TensorFunction: a vector of tensors in, a vector of tensors out.
//
//   TensorFunction f = AdaptFunction([](at::Tensor x, at::Tensor y) { return x + y; });
//   ModuleFactory m = AdaptFactory([] { return std::make_shared<Net>(); });
#ifndef COTAN_AOT_FRONTEND_CALLABLE_H_
#define COTAN_AOT_FRONTEND_CALLABLE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "aot/aotautograd/tracer.h"

namespace torch::nn {
class Module;
}

namespace cotan::aot {

// A module and its forward().
struct ModuleInstance {
  std::shared_ptr<torch::nn::Module> module;
  TensorFunction forward;
};

// A function that makes a new module. It runs under the tracing dispatch keys: parameters and
// buffers must be created in it, by ops of LibTorch.
using ModuleFactory = std::function<ModuleInstance()>;

namespace internal {

// The largest number of tensors that a callable without a single signature (a template, or
// overloads) may take one by one.
inline constexpr size_t kMaxTensorsOfTemplate = 16;

inline void Flatten(const at::Tensor& value, std::vector<at::Tensor>& out) { out.push_back(value); }
inline void Flatten(const std::vector<at::Tensor>& values, std::vector<at::Tensor>& out) {
  out.insert(out.end(), values.begin(), values.end());
}
template <typename... T>
void Flatten(const std::tuple<T...>& values, std::vector<at::Tensor>& out);
template <typename A, typename B>
void Flatten(const std::pair<A, B>& values, std::vector<at::Tensor>& out) {
  Flatten(values.first, out);
  Flatten(values.second, out);
}
template <typename... T>
void Flatten(const std::tuple<T...>& values, std::vector<at::Tensor>& out) {
  std::apply([&](const T&... value) { (Flatten(value, out), ...); }, values);
}

// A callable for the forward() of a module, which may be overloaded or a template.
template <typename Module>
struct ForwardOf {
  std::shared_ptr<Module> module;

  template <typename... Inputs>
  auto operator()(const Inputs&... inputs) const -> decltype(std::declval<Module&>().forward(inputs...)) {
    return module->forward(inputs...);
  }
};

// The number of parameters of a function pointer or of a pointer to a member function.
template <typename Signature>
struct ArityOf;
template <typename R, typename... P>
struct ArityOf<R (*)(P...)> : std::integral_constant<size_t, sizeof...(P)> {};
template <typename R, typename... P>
struct ArityOf<R (*)(P...) noexcept> : ArityOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ArityOf<R (C::*)(P...)> : ArityOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ArityOf<R (C::*)(P...) const> : ArityOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ArityOf<R (C::*)(P...) noexcept> : ArityOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ArityOf<R (C::*)(P...) const noexcept> : ArityOf<R (*)(P...)> {};

// The largest number of tensors that `Callable` may take one by one: its number of parameters if it
// has one signature.
template <typename Callable>
struct MaxTensors : std::integral_constant<size_t, kMaxTensorsOfTemplate> {};
template <typename Callable>
requires requires { ArityOf<Callable>::value; }
struct MaxTensors<Callable> : ArityOf<Callable> {};
template <typename Callable>
requires requires { ArityOf<decltype(&Callable::operator())>::value; }
struct MaxTensors<Callable> : ArityOf<decltype(&Callable::operator())> {};
template <typename Module>
requires requires { ArityOf<decltype(&Module::forward)>::value; }
struct MaxTensors<ForwardOf<Module>> : ArityOf<decltype(&Module::forward)> {};

template <size_t kIndex>
using TensorAt = const at::Tensor&;

// True if `Callable` can be called with `kCount` tensors.
template <typename Callable, size_t kCount>
inline constexpr bool kTakesTensors = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
  return std::is_invocable_v<Callable&, TensorAt<kIndex>...>;
}
(std::make_index_sequence<kCount>());

template <typename Callable>
inline constexpr bool kTakesVector = std::is_invocable_v<Callable&, const std::vector<at::Tensor>&>;

// True if `Callable` takes `kCount` tensors or more.
template <typename Callable, size_t kCount = 0>
constexpr bool TakesSomeTensors() {
  if constexpr (kCount > MaxTensors<Callable>::value) {
    return false;
  } else if constexpr (kTakesTensors<Callable, kCount>) {
    return true;
  } else {
    return TakesSomeTensors<Callable, kCount + 1>();
  }
}

// Calls `callable` with one argument for each input.
template <typename Callable, size_t... kIndex>
std::vector<at::Tensor> CallSeparately(Callable& callable, const std::vector<at::Tensor>& inputs,
                                       std::index_sequence<kIndex...>) {
  std::vector<at::Tensor> results;
  Flatten(callable(inputs[kIndex]...), results);
  return results;
}

// Calls `callable` with one argument for each input if it takes that many, otherwise with all
// inputs as one vector. Throws std::invalid_argument if it takes neither. `kCount` is the number of
// inputs to compare with next.
template <size_t kCount = 0, typename Callable>
std::vector<at::Tensor> Call(Callable& callable, const std::vector<at::Tensor>& inputs) {
  if constexpr (kCount <= MaxTensors<Callable>::value) {
    if constexpr (kTakesTensors<Callable, kCount>) {
      if (inputs.size() == kCount) return CallSeparately(callable, inputs, std::make_index_sequence<kCount>());
    }
    return Call<kCount + 1>(callable, inputs);
  } else if constexpr (kTakesVector<Callable>) {
    std::vector<at::Tensor> results;
    Flatten(callable(inputs), results);
    return results;
  } else {
    throw std::invalid_argument("it does not take " + std::to_string(inputs.size()) + " tensors");
  }
}

template <typename Callable>
constexpr void CheckCallable() {
  static_assert(kTakesVector<Callable> || TakesSomeTensors<Callable>(),
                "the callable must take tensors, or one std::vector<at::Tensor>; a template may take up to 16 tensors");
}

template <typename Module>
ModuleInstance FromModule(std::shared_ptr<Module> module) {
  CheckCallable<ForwardOf<Module>>();
  return {module, [forward = ForwardOf<Module>{module}](const std::vector<at::Tensor>& inputs) {
            return Call(forward, inputs);
          }};
}

}  // namespace internal

// Adapts a callable on any number of tensors, or on one vector of tensors; a template or an
// overloaded callable takes up to 16 tensors. It returns a tensor, or a vector, tuple or pair of
// tensors, which may be nested. The result throws std::invalid_argument if it gets another number
// of tensors than the callable takes.
template <typename Callable>
TensorFunction AdaptFunction(Callable callable) {
  internal::CheckCallable<Callable>();
  return [callable = std::move(callable)](const std::vector<at::Tensor>& inputs) mutable {
    return internal::Call(callable, inputs);
  };
}

// Adapts a callable that returns a std::shared_ptr to a torch::nn module, a module holder, or a
// ModuleInstance. The module's forward() has the arguments and results of AdaptFunction().
template <typename Factory>
ModuleFactory AdaptFactory(Factory factory) {
  return [factory = std::move(factory)]() mutable -> ModuleInstance {
    auto made = factory();
    if constexpr (std::is_same_v<decltype(made), ModuleInstance>) {
      return made;
    } else if constexpr (requires { made.ptr(); }) {
      return internal::FromModule(made.ptr());
    } else {
      return internal::FromModule(std::move(made));
    }
  };
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_FRONTEND_CALLABLE_H_
