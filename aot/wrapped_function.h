// Compiles functions whose arguments and results are of wrapper types
// (wrappers/wrapper_type.h): the program works on the tensors that they are made
// of, and the runtime takes arguments apart and puts results together.
//
//   using cotan::Quantized;
//   auto model = cotan::aot::CompileWrapped(
//       [](const Quantized<at::Tensor>& weight, const at::Tensor& x) {
//         return at::matmul(x, weight.Dequantize());
//       },
//       std::make_tuple(weight, x), options);
//
// Inside, the function sees objects of its own classes over at::Tensors, and
// LibTorch's autograd goes through their parts: gradients are those of the parts.
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
// Takes values apart and wraps them again, so that they tell their sizes anew.
using Rewrapping = std::function<std::vector<WrappedTensor>(const std::vector<WrappedTensor>&)>;

// As CompileTensorFunction() (compile.h). Results have the same structure in
// every call. Arguments of CompileOptions.dynamic_dims are counted flat: each
// part of a wrapper is one; `rewrap` is needed with them.
// Unimplemented besides: a part of an argument gets another storage.
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

// `callable` takes as many arguments as there are examples, each of the example's
// class: at::Tensor or a wrapper type over it. It returns one such, or a tuple or
// pair of them.
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
