// SPDX-License-Identifier: Apache-2.0

// Converts callables on tensors to TensorFunction: a vector of tensors in, a vector of tensors out.
//
//   TensorFunction f = AdaptFunction([](at::Tensor x, at::Tensor y) { return x + y; });
//   ModuleFactory m = AdaptFactory([] { return std::make_shared<Net>(); });
#ifndef COTAN_AOT_FRONTEND_CALLABLE_H_
#define COTAN_AOT_FRONTEND_CALLABLE_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
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

// Calls `callable` with one argument for each input if it takes that many, otherwise with all
// inputs as one vector. Throws std::invalid_argument if it takes neither.
template <typename Callable, size_t... kIndex>
std::vector<at::Tensor> CallWith(Callable& callable, const std::vector<at::Tensor>& inputs,
                                 std::index_sequence<kIndex...>) {
  std::vector<at::Tensor> results;
  if constexpr (requires { callable(inputs[kIndex]...); }) {
    Flatten(callable(inputs[kIndex]...), results);
  } else if constexpr (requires { callable(inputs); }) {
    Flatten(callable(inputs), results);
  } else {
    throw std::invalid_argument("it does not take " + std::to_string(sizeof...(kIndex)) + " tensors");
  }
  return results;
}

template <typename Callable>
std::vector<at::Tensor> Call(Callable& callable, const std::vector<at::Tensor>& inputs) {
  switch (inputs.size()) {
    case 0:
      return CallWith(callable, inputs, std::make_index_sequence<0>());
    case 1:
      return CallWith(callable, inputs, std::make_index_sequence<1>());
    case 2:
      return CallWith(callable, inputs, std::make_index_sequence<2>());
    case 3:
      return CallWith(callable, inputs, std::make_index_sequence<3>());
    case 4:
      return CallWith(callable, inputs, std::make_index_sequence<4>());
    case 5:
      return CallWith(callable, inputs, std::make_index_sequence<5>());
    case 6:
      return CallWith(callable, inputs, std::make_index_sequence<6>());
    default:
      break;
  }
  if constexpr (requires { Flatten(callable(inputs), std::declval<std::vector<at::Tensor>&>()); }) {
    std::vector<at::Tensor> results;
    Flatten(callable(inputs), results);
    return results;
  }
  throw std::invalid_argument("more than 6 tensors; take a std::vector<at::Tensor> instead");
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

template <typename Module>
ModuleInstance FromModule(std::shared_ptr<Module> module) {
  return {module, [forward = ForwardOf<Module>{module}](const std::vector<at::Tensor>& inputs) {
            return Call(forward, inputs);
          }};
}

}  // namespace internal

// Adapts a callable on up to 6 tensors, or on one vector of tensors. It returns a tensor, or a
// vector, tuple or pair of tensors, which may be nested.
template <typename Callable>
TensorFunction AdaptFunction(Callable callable) {
  return [callable = std::move(callable)](const std::vector<at::Tensor>& inputs) mutable {
    return internal::Call(callable, inputs);
  };
}

// Adapts a callable that returns a std::shared_ptr to a torch::nn module, or a module holder. The
// module's forward() has the arguments and results of AdaptFunction().
template <typename Factory>
ModuleFactory AdaptFactory(Factory factory) {
  return [factory = std::move(factory)]() mutable -> ModuleInstance {
    auto made = factory();
    if constexpr (requires { made.ptr(); }) {
      return internal::FromModule(made.ptr());
    } else {
      return internal::FromModule(std::move(made));
    }
  };
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_FRONTEND_CALLABLE_H_
