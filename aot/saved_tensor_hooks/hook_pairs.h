// SPDX-License-Identifier: Apache-2.0

// Ready-made pairs of saved-tensor hooks, which save activations in 8 or 16 bits, or on the host. They leave values
// alone that they would not make smaller, and values with fewer than kMinPackedElements elements, such as the
// statistics of a normalization. The compile cache knows them.
#ifndef COTAN_AOT_SAVED_TENSOR_HOOKS_HOOK_PAIRS_H_
#define COTAN_AOT_SAVED_TENSOR_HOOKS_HOOK_PAIRS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/saved_tensor_hooks/saved_tensor_hooks.h"

namespace cotan::aot {

inline constexpr int64_t kMinPackedElements = 1024;

// The formats of 8-bit floats (base/float8.h).
enum class Float8Format : uint8_t { kE4m3fn, kE5m2 };

// Saves in bf16: 8 bits of precision, the range of f32.
SavedTensorHooks BFloat16Hooks();

// Saves in 8-bit floats. With a scale, a value is divided by its largest magnitude over the format's largest value,
// which is saved as an f32; without, e4m3fn saturates at 448 and e5m2 becomes infinite above 57344. A scaled value
// that is infinite or NaN somewhere is NaN everywhere when it is unpacked.
SavedTensorHooks Float8Hooks(Float8Format format, bool scaled);

// Saves as integers from -127 to 127, rounded to nearest even, with a scale in f32: the largest magnitude over 127.
SavedTensorHooks Int8Hooks();

// Saves values as they are in pinned host memory (torch.autograd.graph.save_on_cpu(pin_memory=True)). On a GPU a value
// is copied to the host right after it is computed and back right before the backward first uses it, in the order of
// the stream and as part of the CUDA graph; nothing waits. Its device memory is free in between. On the CPU the same
// artifact makes no copies. Results and gradients have the same bits as without hooks. Other pairs keep what they pack
// on the host if their `on_host` is set.
SavedTensorHooks HostOffloadHooks();

// Returns a pair by its name: "bf16", "fp8_e4m3", "fp8_e4m3_scaled", "fp8_e5m2", "fp8_e5m2_scaled", "int8" or "host",
// after which a filter may follow, as in "int8:no_static" (hook_filter.h). The filter is otherwise kDonated.
// InvalidArgument: another text; the message lists the names.
absl::StatusOr<SavedTensorHooks> ParseSavedTensorHooks(absl::string_view text);

}  // namespace cotan::aot

#endif  // COTAN_AOT_SAVED_TENSOR_HOOKS_HOOK_PAIRS_H_
