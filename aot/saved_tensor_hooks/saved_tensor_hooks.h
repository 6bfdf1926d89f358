// SPDX-License-Identifier: Apache-2.0

// Pairs of functions that pack the values that a forward saves for its backward, and unpack them again
// (torch.autograd.graph.saved_tensors_hooks). They are compiled into the programs: pack into the forward, once for
// each saved value, right after the value is computed; unpack into the backward, right before the value's first use.
//
//   options.saved_tensor_hooks = MakeSavedTensorHooks(
//       [](const at::Tensor& x) { return std::pair(x.to(at::kBFloat16), x.scalar_type()); },
//       [](const std::pair<at::Tensor, at::ScalarType>& packed) { return packed.first.to(packed.second); });
//
// hook_pairs.h has ready-made pairs.
#ifndef COTAN_AOT_SAVED_TENSOR_HOOKS_SAVED_TENSOR_HOOKS_H_
#define COTAN_AOT_SAVED_TENSOR_HOOKS_SAVED_TENSOR_HOOKS_H_

#include <ATen/core/Tensor.h>

#include <any>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "aot/saved_tensor_hooks/hook_filter.h"

namespace cotan::aot {

// The result of pack: its tensors, which the forward returns and the backward receives, and everything else,
// which is known when the programs are compiled.
struct PackedValue {
  std::vector<at::Tensor> tensors;
  std::any structure;  // what pack returned, with undefined tensors
};

// A pair of hooks. Both functions are called while the model is compiled, with tensors that record what is done to
// them, twice for each saved value and each set of sizes that is traced. They must not depend on the elements of
// tensors (item()), draw random numbers, or use tensors other than their arguments; at::full() and the like are
// allowed. Copyable.
struct SavedTensorHooks {
  // Gets a contiguous tensor that does not require grad; must not write to it.
  std::function<PackedValue(const at::Tensor& value)> pack;
  // Returns a tensor with the dtype and the sizes of the value that was packed.
  std::function<at::Tensor(const PackedValue& packed)> unpack;
  HookFilter filter = HookFilter::kDonated;
  // Values with fewer elements are saved as they are.
  int64_t min_elements = 0;
  // Packed tensors with at least `min_elements` elements are kept in host memory from the forward to the backward,
  // beside a device with memory of its own; see HostOffloadHooks() (hook_pairs.h).
  bool on_host = false;
  // Name of the two functions in the key of the compile cache; equal names must mean equal functions. If it is
  // empty, the cache is neither read nor written.
  std::string cache_key = {};

  // Returns whether there are hooks.
  bool is_set() const { return pack != nullptr || unpack != nullptr; }
};

namespace internal {

// Types that pack may return besides tensors. They become constants of the programs.
template <typename T>
inline constexpr bool kIsHookData =
    std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, at::Device>;

// Calls `visit` with each tensor in `value`, in order.
template <typename T, typename Visit>
void VisitTensors(T& value, const Visit& visit) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    visit(value);
  } else if constexpr (kIsHookData<T>) {
    return;
  } else if constexpr (requires { std::tuple_size<T>::value; }) {
    std::apply([&](auto&... member) { (VisitTensors(member, visit), ...); }, value);
  } else if constexpr (requires { typename T::mapped_type; }) {
    for (auto& [key, member] : value) VisitTensors(member, visit);
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    if (value.has_value()) VisitTensors(*value, visit);
  } else if constexpr (requires {
                         typename T::value_type;
                         value.begin();
                       }) {
    if constexpr (!kIsHookData<typename T::value_type>) {
      for (auto& member : value) VisitTensors(member, visit);
    }
  } else {
    static_assert(!sizeof(T),
                  "pack may return tensors, numbers, enumerators, strings, and tuples, pairs, vectors, "
                  "maps and optionals of them; of a wrapper around tensors, return the tensors");
  }
}

}  // namespace internal

// Returns hooks made of two callables: Packed pack(const at::Tensor&) and at::Tensor unpack(const Packed&). `Packed`
// is at::Tensor, or a tuple, pair, array, vector, map or optional, also nested, of tensors and of numbers,
// enumerators and strings. unpack gets a value of the same structure.
template <typename Pack, typename Unpack>
SavedTensorHooks MakeSavedTensorHooks(Pack pack, Unpack unpack) {
  using Packed = std::decay_t<std::invoke_result_t<Pack&, const at::Tensor&>>;
  static_assert(std::is_invocable_r_v<at::Tensor, Unpack&, const Packed&>,
                "unpack must take what pack returns, and return a tensor");
  SavedTensorHooks hooks;
  hooks.pack = [pack = std::move(pack)](const at::Tensor& value) mutable {
    PackedValue result;
    Packed packed = pack(value);
    internal::VisitTensors(packed, [&](at::Tensor& tensor) {
      result.tensors.push_back(tensor);
      tensor = at::Tensor();
    });
    result.structure = std::move(packed);
    return result;
  };
  hooks.unpack = [unpack = std::move(unpack)](const PackedValue& value) mutable {
    Packed packed = std::any_cast<const Packed&>(value.structure);
    size_t next = 0;
    internal::VisitTensors(packed, [&](at::Tensor& tensor) { tensor = value.tensors[next++]; });
    return unpack(std::as_const(packed));
  };
  return hooks;
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_SAVED_TENSOR_HOOKS_SAVED_TENSOR_HOOKS_H_
