// SPDX-License-Identifier: Apache-2.0

// BackwardMetadata: the compiled backward of a function, resolved to indices.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_BACKWARD_METADATA_H_
#define COTAN_RUNTIME_FUNCTION_CORE_BACKWARD_METADATA_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sym_int.h"

namespace cotan {

struct FunctionMetadata;

struct BackwardMetadata {
  // Reads the metadata and the program arguments of `function`. FailedPrecondition: the method has a backward that
  // does not give its `gradient_inputs`.
  static absl::StatusOr<BackwardMetadata> Create(const FunctionMetadata& function);

  int method = -1;                   // -1: none
  std::string refusal;               // reason why there is no backward, although outputs require grad
  std::vector<int> gradient_inputs;  // by output of the backward: its program argument
  // By output of the backward: the sizes of the gradient, if they differ from the argument's. A leaf whose metadata is
  // mutated under no_grad before its first use has gradients of the mutated sizes.
  std::vector<std::optional<SymIntVector>> gradient_sizes;
  // depends_on[g][t]: gradient g is undefined unless some tangent t with depends_on[g][t] is defined. Includes tangents
  // that only decide whether the gradient is defined (structural tangents). All false: gradient g is always defined.
  std::vector<std::vector<bool>> depends_on;
  // computed_from[t]: the tangents of the results that the result of tangent t is computed from in the function. Empty
  // if there are none.
  std::vector<std::vector<int>> computed_from;
  bool takes_flags = false;         // after the tangents, there is one input per tangent: is it defined?
  bool has_effects = false;         // prints, metrics or assertions
  bool takes_host_values = false;   // saved values are on the host, beside a device with memory of its own
  std::vector<int> written_values;  // saved values that are arguments mutated by the backward
  std::vector<int> updated_states;  // states that the backward writes
  std::vector<int> read_states;     // states that the backward reads
  std::vector<int> donated;         // saved values whose memory the backward may overwrite

  // The method that computes the same gradients and can be differentiated itself (Method.differentiable_backward).
  struct Differentiable {
    int method = -1;               // -1: none
    std::vector<int> read_states;  // states that it or its backward reads
    bool takes_flags = false;      // after the tangents, there is one argument per tangent: is it defined?
    int rng_state = -1;            // the state whose content at the call is its last argument; -1: none
  };
  Differentiable differentiable;

  // Returns the output of the backward that is the gradient of program argument `argument`; -1: none.
  int GradientOf(int argument) const;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_BACKWARD_METADATA_H_
