// SPDX-License-Identifier: Apache-2.0

// Declares parts of a model that repeat, so that they are compiled and stored once (PyTorch's nested_compile_region and
// invoke_subgraph).
//
//   torch::Tensor forward(torch::Tensor x) {
//     for (auto& layer : layers) x = COTAN_BLOCK(layer, x);  // instead of layer->forward(x)
//     return x;
//   }
//
// While a model is traced, a call of a block becomes one op. Blocks are the same if their traces are: the same ops on
// tensors of the same dtypes, sizes, strides and requires_grad, with the same numbers and captured tensors in
// them. Names, parameters and buffers may differ. The block is partitioned, lowered, optimized and stored once; calls
// have their own parameters, saved values and random numbers. To find out, the forward of each call is run without
// computing anything, and traced if it calls ops as no block before (op_sequence.h), unless it has a key
// (CallKeyedBlock()). Outside of a trace, a block is an ordinary call.
//
// Some blocks cannot be shared and become part of the caller as without COTAN_BLOCK; CompiledModel::inlined_blocks()
// lists them with the reason. These are blocks that return an input, a view of one, or two results that share memory
// (return a clone); write to an argument, or to a buffer that requires grad; have effects (prints, assertions); take
// undefined tensors; take or return complex ones; or use tensors of the caller that are not among their inputs,
// parameters and buffers. No block is shared with CompileOptions.order above 1,
// saved-tensor hooks that move values to the host, synchronized batch norm, or sizes that depend on data.
#ifndef COTAN_AOT_BLOCKS_BLOCK_H_
#define COTAN_AOT_BLOCKS_BLOCK_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "aot/capture/traced_function.h"
#include "aot/frontend/callable.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// A parameter or buffer that a block uses.
struct BlockState {
  std::string name;  // below the block's path
  serialization::State::Role role = serialization::State::PARAMETER;
  at::Tensor tensor;
};

// A call of a block.
struct BlockCall {
  // Owner of the parameters and buffers that `body` uses; null: it uses those in `states`.
  const torch::nn::Module* module = nullptr;
  // The block's computation.
  TensorFunction body;
  // If not empty: blocks with this key and tensors of the same types are the same, and only the first one is traced.
  std::string key = {};
  // Without a module: its parameters, then its buffers, each tensor once.
  std::vector<BlockState> states = {};
  // Path for messages; empty: that of the module.
  std::string path = {};
  // Why the block cannot be shared, if the caller knows.
  std::string refusal = {};
};

// Runs the block, as one op of the trace in progress if it can be shared. Throws what the body throws.
std::vector<at::Tensor> RunBlock(const BlockCall& call, const std::vector<at::Tensor>& inputs);

// Calls the block as one op of the trace in progress and returns its results. Unset: there is no trace, or the block
// cannot be shared; the caller runs it. The reason is recorded for CompiledModel::inlined_blocks().
std::optional<std::vector<at::Tensor>> ShareBlock(const BlockCall& call, const std::vector<at::Tensor>& inputs);

namespace internal {

template <typename Module>
auto& ModuleOf(Module& module) {
  if constexpr (requires { module.ptr(); }) {
    return *module.ptr();
  } else if constexpr (requires { *module; }) {
    return *module;
  } else {
    return module;
  }
}

template <typename Result>
struct Unflatten;
template <>
struct Unflatten<at::Tensor> {
  static at::Tensor Of(std::vector<at::Tensor> results) { return std::move(results.at(0)); }
};
template <>
struct Unflatten<std::vector<at::Tensor>> {
  static std::vector<at::Tensor> Of(std::vector<at::Tensor> results) { return results; }
};
template <typename... T>
struct Unflatten<std::tuple<T...>> {
  static_assert((std::is_same_v<T, at::Tensor> && ...), "a block returns tensors");
  static std::tuple<T...> Of(const std::vector<at::Tensor>& results) {
    return [&]<size_t... kIndex>(std::index_sequence<kIndex...>) { return std::tuple<T...>(results.at(kIndex)...); }
    (std::index_sequence_for<T...>());
  }
};
template <>
struct Unflatten<std::pair<at::Tensor, at::Tensor>> {
  static std::pair<at::Tensor, at::Tensor> Of(const std::vector<at::Tensor>& results) {
    return {results.at(0), results.at(1)};
  }
};

template <typename Callable, size_t... kIndex>
auto CallWith(Callable& callable, const std::vector<at::Tensor>& inputs, std::index_sequence<kIndex...>) {
  return callable(inputs[kIndex]...);
}

}  // namespace internal

// Calls forward() of a module (a reference, a pointer or a module holder) as a block. It takes tensors and returns a
// tensor, or a vector, tuple or pair of tensors. With a key that is not empty, the caller asserts that modules with
// this key do the same with their own parameters, buffers and inputs, and each of them is traced only for the first of
// its calls with tensors of the same types.
template <typename Module, typename... Inputs>
auto CallKeyedBlock(std::string key, Module&& module, const Inputs&... inputs) {
  auto& owner = internal::ModuleOf(module);
  static_assert((std::is_convertible_v<Inputs, at::Tensor> && ...), "a block takes tensors");
  const auto forward = [&owner](const auto&... tensors) { return owner.forward(tensors...); };
  using Result = decltype(owner.forward(static_cast<at::Tensor>(inputs)...));
  const auto body = [forward](const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> results;
    internal::Flatten(internal::CallWith(forward, tensors, std::index_sequence_for<Inputs...>()), results);
    return results;
  };
  return internal::Unflatten<Result>::Of(RunBlock({&owner, body, std::move(key)}, {inputs...}));
}

// Calls a function of tensors as a block. The function uses no other tensors than its inputs.
template <typename Callable, typename... Inputs>
auto CallFunctionBlock(std::string key, const Callable& function, const Inputs&... inputs) {
  using Result = decltype(function(static_cast<at::Tensor>(inputs)...));
  const auto body = [&function](const std::vector<at::Tensor>& tensors) {
    std::vector<at::Tensor> results;
    internal::Flatten(internal::CallWith(function, tensors, std::index_sequence_for<Inputs...>()), results);
    return results;
  };
  return internal::Unflatten<Result>::Of(RunBlock({nullptr, body, std::move(key)}, {inputs...}));
}

// Calls a module, or a function of tensors, as a block without a key.
template <typename Callable, typename... Inputs>
auto CallBlock(Callable&& callable, const Inputs&... inputs) {
  if constexpr (
      requires { callable(static_cast<at::Tensor>(inputs)...); } && !requires { callable.ptr(); }) {
    return CallFunctionBlock({}, callable, inputs...);
  } else {
    return CallKeyedBlock({}, callable, inputs...);
  }
}

}  // namespace cotan::aot

// COTAN_BLOCK(module or function, inputs...)
#define COTAN_BLOCK(...) ::cotan::aot::CallBlock(__VA_ARGS__)

#endif  // COTAN_AOT_BLOCKS_BLOCK_H_
