// SPDX-License-Identifier: Apache-2.0

// The choice of the saved values that saved-tensor hooks are applied to
// (torch/_functorch/config.py, saved_tensors_hooks_filtering_mode).
#ifndef COTAN_AOT_SAVED_TENSOR_HOOKS_HOOK_FILTER_H_
#define COTAN_AOT_SAVED_TENSOR_HOOKS_HOOK_FILTER_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace cotan::aot {

// Each choice includes the one before it. In all of them, only values of f16, bf16, f32 and f64 are packed:
// integers, bools, random states and 8-bit floats are saved as they are.
enum class HookFilter : uint8_t {
  kDonated,   // activations that share memory with no input and no result of the function
  kNoStatic,  // and inputs and results of the function
  kAll,       // and parameters, buffers and constants, which are otherwise read where the session keeps them
};

// Returns "donated", "no_static" or "all".
constexpr absl::string_view HookFilterName(HookFilter filter) {
  return filter == HookFilter::kDonated ? "donated" : filter == HookFilter::kNoStatic ? "no_static" : "all";
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_SAVED_TENSOR_HOOKS_HOOK_FILTER_H_
