// SPDX-License-Identifier: Apache-2.0

// The first run of a function: collects its metadata and binds its inputs to the program's arguments.
#ifndef COTAN_AOT_AOTAUTOGRAD_FIRST_PASS_H_
#define COTAN_AOT_AOTAUTOGRAD_FIRST_PASS_H_

#include <ATen/core/Tensor.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/aotautograd/input_binding.h"
#include "aot/aotautograd/trace_options.h"
#include "aot/capture/traced_function.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// Result of the first run.
struct FirstPass {
  ViewAndMutationMetaFields facts;  // in terms of the caller's inputs: states, then user inputs
  BoundInputs bound;
};

// Runs `function` and returns its metadata and input binding.
// Unimplemented: see CollectMetadata(); the message lists all unsupported constructs. InvalidArgument
// and others: those of CollectMetadata() and BindInputs(); `set_` gives an input another storage
// after a write to its former storage, which another input shares.
absl::StatusOr<FirstPass> RunFirstPass(const TensorFunction& function, absl::Span<const ModuleState> states,
                                       absl::Span<const at::Tensor> inputs, const TraceOptions& options);

// Returns Unimplemented: function `name` has unsupported constructs, one a line of `diagnostics`.
absl::Status CannotBeCompiled(absl::string_view name, absl::string_view diagnostics);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_FIRST_PASS_H_
