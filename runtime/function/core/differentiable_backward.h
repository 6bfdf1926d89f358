// SPDX-License-Identifier: Apache-2.0

// DifferentiableBackward: a compiled function that computes the gradients of another one and has a backward itself; and
// the arguments that a call keeps for it.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_DIFFERENTIABLE_BACKWARD_H_
#define COTAN_RUNTIME_FUNCTION_CORE_DIFFERENTIABLE_BACKWARD_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/core/function_result.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// The interface of a function to the backward nodes of another one. Its arguments are those of that function (the
// primals), the tangents, a flag for each that says whether it is defined if there are several, and the RNG state if
// that function draws random numbers; its results are the gradients.
class DifferentiableBackward {
 public:
  virtual ~DifferentiableBackward() = default;

  virtual const FunctionMetadata& metadata() const = 0;
  // Calls the function, as Function::Call().
  virtual absl::Status Run(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results) = 0;
};

// The arguments of a call, with their places in the graph at that time.
class SavedPrimals {
 public:
  // Keeps the arguments. `rng_state`: the content of the RNG state before the call; undefined if the function draws no
  // random numbers. FailedPrecondition: as Variable::GradientEdge().
  static absl::StatusOr<SavedPrimals> Of(absl::Span<const Variable* const> arguments, Tensor rng_state);

  // Returns the arguments. FailedPrecondition: one has been written since; the message names `node`.
  absl::StatusOr<std::vector<Variable>> Unpack(const autograd::Node& node) const;
  const Tensor& rng_state() const { return rng_state_; }

 private:
  std::vector<Variable> primals_;
  std::vector<uint32_t> versions_;
  Tensor rng_state_;
};

// Returns the gradients of a call with these arguments, with history. `takes_flags`: as in
// BackwardMetadata::Differentiable. `incoming`: the tangents, undefined ones where there is none; the function gets
// zeros of the types in `node` for them. Errors: as DifferentiableBackward::Run() and SavedPrimals::Unpack().
absl::StatusOr<std::vector<Variable>> ApplyDifferentiableBackward(DifferentiableBackward& backward, bool takes_flags,
                                                                  const SavedPrimals& primals,
                                                                  const autograd::Node& node,
                                                                  absl::Span<const Variable> incoming, TensorOps& ops);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_DIFFERENTIABLE_BACKWARD_H_
