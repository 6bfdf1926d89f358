// SPDX-License-Identifier: Apache-2.0

// Compiles functions whose arguments and results are of wrapper types (wrappers/wrapper_type.h):
// tensors made of tensors, like PyTorch's traceable tensor subclasses. The program works on the
// flat tensors; the runtime flattens arguments and wraps results.
//
//   using cotan::Quantized;
//   auto model = cotan::aot::CompileWrapped(
//       [](const Quantized<at::Tensor>& weight, const at::Tensor& x) {
//         return at::matmul(x, weight.Dequantize());
//       },
//       std::make_tuple(weight, x), options);
//
// The function is called with objects of its own classes over at::Tensor. LibTorch's autograd
// differentiates their parts: gradients are those of the parts.
#ifndef COTAN_AOT_WRAPPED_FUNCTION_H_
#define COTAN_AOT_WRAPPED_FUNCTION_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/compile.h"
#include "wrappers/wrapped.h"
#include "wrappers/wrapper_type.h"

namespace cotan::aot {

using WrappedTensor = Wrapped<at::Tensor>;
using WrappedFunction = std::function<std::vector<WrappedTensor>(const std::vector<WrappedTensor>&)>;
// Flattens values and wraps them again, so that their outer sizes are computed from the parts.
using Rewrapping = std::function<std::vector<WrappedTensor>(const std::vector<WrappedTensor>&)>;

// Compiles a function with wrapper types to the methods of CompileFunction() (compile.h).
// Results have the same structure in every call. CompileOptions.dynamic_dims counts arguments flat:
// each part of a wrapper is one.
// Errors are those of CompileFunction(); Unimplemented also if a part of an argument gets
// another storage, or if dynamic_dims is not empty and `rewrap` is null; InvalidArgument also if
// the structure of the results differs between calls.
absl::StatusOr<CompiledModel> CompileWrappedFunction(const WrappedFunction& function,
                                                     const std::vector<WrappedTensor>& examples,
                                                     const CompileOptions& options, const Rewrapping& rewrap = nullptr);

namespace internal {

template <typename T>
void WrapResult(const T& result, std::vector<WrappedTensor>& out) {
  if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](const auto&... part) { (WrapResult(part, out), ...); }, result);
  } else {
    out.push_back(Wrap(result));
  }
}

template <typename Argument>
Argument Unwrapped(const WrappedTensor& value) {
  absl::StatusOr<Argument> argument = Unwrap<Argument>(value, "an argument");
  if (!argument.ok()) throw std::invalid_argument(std::string(argument.status().message()));
  return *std::move(argument);
}

template <typename... Arguments, typename Callable, size_t... kIndex>
WrappedFunction AdaptWrapped(Callable callable, std::index_sequence<kIndex...>) {
  return [callable = std::move(callable)](const std::vector<WrappedTensor>& inputs) mutable {
    std::vector<WrappedTensor> results;
    WrapResult(callable(Unwrapped<Arguments>(inputs[kIndex])...), results);
    return results;
  };
}

template <typename... Arguments, size_t... kIndex>
Rewrapping AdaptRewrapping(std::index_sequence<kIndex...>) {
  return [](const std::vector<WrappedTensor>& values) {
    return std::vector<WrappedTensor>{Wrap(Unwrapped<Arguments>(values[kIndex]))...};
  };
}

}  // namespace internal

// Compiles `callable`, which takes as many arguments as there are examples, each of the example's
// class: at::Tensor or a wrapper type over it. It returns one of these, or a tuple or pair of them.
// Errors are those of CompileWrappedFunction().
template <typename Callable, typename... Arguments>
absl::StatusOr<CompiledModel> CompileWrapped(Callable callable, const std::tuple<Arguments...>& examples,
                                             const CompileOptions& options) {
  std::vector<WrappedTensor> wrapped;
  std::apply([&](const auto&... example) { (wrapped.push_back(Wrap(example)), ...); }, examples);
  return CompileWrappedFunction(
      internal::AdaptWrapped<Arguments...>(std::move(callable), std::index_sequence_for<Arguments...>()), wrapped,
      options, internal::AdaptRewrapping<Arguments...>(std::index_sequence_for<Arguments...>()));
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_WRAPPED_FUNCTION_H_
