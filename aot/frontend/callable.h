// SPDX-License-Identifier: Apache-2.0

// Converts callables on tensors and numbers to TensorFunction: a vector of tensors in, a vector of tensors out.
//
//   TensorFunction f = AdaptFunction([](at::Tensor x, at::Tensor y) { return x + y; });
//   TensorFunction g = AdaptFunction([](at::Tensor x, c10::SymFloat scale) { return x * scale; });
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
#include "aot/capture/number.h"

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

// The parameter types of a function pointer or of a pointer to a member function; `value` is their number.
template <typename Signature>
struct ParametersOf;
template <typename R, typename... P>
struct ParametersOf<R (*)(P...)> : std::integral_constant<size_t, sizeof...(P)> {
  using Types = std::tuple<std::remove_cvref_t<P>...>;
};
template <typename R, typename... P>
struct ParametersOf<R (*)(P...) noexcept> : ParametersOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ParametersOf<R (C::*)(P...)> : ParametersOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ParametersOf<R (C::*)(P...) const> : ParametersOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ParametersOf<R (C::*)(P...) noexcept> : ParametersOf<R (*)(P...)> {};
template <typename R, typename C, typename... P>
struct ParametersOf<R (C::*)(P...) const noexcept> : ParametersOf<R (*)(P...)> {};

// `value` is the largest number of arguments that `Callable` may take one by one: its number of parameters if it has
// one signature. `Types` are its parameters' types, if it has one.
template <typename Callable>
struct Parameters : std::integral_constant<size_t, kMaxTensorsOfTemplate> {};
template <typename Callable>
requires requires { ParametersOf<Callable>::value; }
struct Parameters<Callable> : ParametersOf<Callable> {};
template <typename Callable>
requires requires { ParametersOf<decltype(&Callable::operator())>::value; }
struct Parameters<Callable> : ParametersOf<decltype(&Callable::operator())> {};
template <typename Module>
requires requires { ParametersOf<decltype(&Module::forward)>::value; }
struct Parameters<ForwardOf<Module>> : ParametersOf<decltype(&Module::forward)> {};

// Converts one input to the type of the parameter that it is given to: a tensor, or a number (aot/capture/number.h).
template <typename Parameter>
struct Input {
  using Type = const at::Tensor&;
  static Type From(const at::Tensor& tensor, size_t /*index*/) { return tensor; }
};
template <>
struct Input<c10::SymFloat> {
  using Type = c10::SymFloat;
  static Type From(const at::Tensor& tensor, size_t index) { return ToSymFloat(tensor, NameOf(index)); }
  static std::string NameOf(size_t index) { return "input." + std::to_string(index); }
};
template <>
struct Input<c10::SymInt> {
  using Type = c10::SymInt;
  static Type From(const at::Tensor& tensor, size_t index) {
    return ToSymInt(tensor, Input<c10::SymFloat>::NameOf(index));
  }
};
template <>
struct Input<c10::SymBool> {
  using Type = c10::SymBool;
  static Type From(const at::Tensor& tensor, size_t index) {
    return ToSymBool(tensor, Input<c10::SymFloat>::NameOf(index));
  }
};
template <>
struct Input<at::Scalar> {
  using Type = at::Scalar;
  static Type From(const at::Tensor& tensor, size_t index) {
    return ToSymScalar(tensor, Input<c10::SymFloat>::NameOf(index));
  }
};

template <typename Callable, size_t kIndex>
struct InputAt : Input<at::Tensor> {};
template <typename Callable, size_t kIndex>
requires requires { typename std::tuple_element_t<kIndex, typename Parameters<Callable>::Types>; }
struct InputAt<Callable, kIndex> : Input<std::tuple_element_t<kIndex, typename Parameters<Callable>::Types>> {};

// True if `Callable` can be called with `kCount` tensors, or numbers where it declares them.
template <typename Callable, size_t kCount>
inline constexpr bool kTakesTensors = []<size_t... kIndex>(std::index_sequence<kIndex...>) {
  return std::is_invocable_v<Callable&, typename InputAt<Callable, kIndex>::Type...>;
}
(std::make_index_sequence<kCount>());

template <typename Callable>
inline constexpr bool kTakesVector = std::is_invocable_v<Callable&, const std::vector<at::Tensor>&>;

// True if `Callable` takes `kCount` tensors or more.
template <typename Callable, size_t kCount = 0>
constexpr bool TakesSomeTensors() {
  if constexpr (kCount > Parameters<Callable>::value) {
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
  Flatten(callable(InputAt<Callable, kIndex>::From(inputs[kIndex], kIndex)...), results);
  return results;
}

// Calls `callable` with one argument for each input if it takes that many, otherwise with all
// inputs as one vector. Throws std::invalid_argument if it takes neither. `kCount` is the number of
// inputs to compare with next.
template <size_t kCount = 0, typename Callable>
std::vector<at::Tensor> Call(Callable& callable, const std::vector<at::Tensor>& inputs) {
  if constexpr (kCount <= Parameters<Callable>::value) {
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
  static_assert(
      kTakesVector<Callable> || TakesSomeTensors<Callable>(),
      "the callable must take tensors, or one std::vector<at::Tensor>; a template may take up to 16 tensors; a "
      "number is a parameter of type c10::SymFloat, c10::SymInt, c10::SymBool or at::Scalar");
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
// overloaded callable takes up to 16 tensors. Parameters of type c10::SymFloat, c10::SymInt, c10::SymBool and
// at::Scalar are numbers (aot/capture/number.h); a vector has them as tensors. It returns a tensor, or a vector, tuple
// or pair of tensors, which may be nested. The result throws std::invalid_argument if it gets another number of tensors
// than the callable takes, or another kind of number.
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
