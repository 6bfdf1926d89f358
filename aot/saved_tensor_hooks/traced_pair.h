// SPDX-License-Identifier: Apache-2.0

// Saved-tensor hooks as lowered graphs.
#ifndef COTAN_AOT_SAVED_TENSOR_HOOKS_TRACED_PAIR_H_
#define COTAN_AOT_SAVED_TENSOR_HOOKS_TRACED_PAIR_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/saved_tensor_hooks/pack_saved_values.h"
#include "aot/saved_tensor_hooks/saved_tensor_hooks.h"

namespace cotan::aot {

// Traces both hooks for a saved value of `type`, whose sizes are constants, and lowers them. Messages contain `name`,
// a description of the value.
// InvalidArgument: pack writes to its argument, or returns no tensor, an undefined one, or one that is not dense
// (sparse, quantized, nested); unpack returns a tensor of another dtype, of other sizes or on another device; one of
// them draws random numbers, has effects, or uses a tensor that is not its argument.
// Other errors are those of Trace() and LowerToPrims().
// Not thread-safe: one trace at a time in a process.
absl::StatusOr<TracedPair> TracePair(const SavedTensorHooks& hooks, const TensorType& type, absl::string_view name);

}  // namespace cotan::aot

#endif  // COTAN_AOT_SAVED_TENSOR_HOOKS_TRACED_PAIR_H_
