// SPDX-License-Identifier: Apache-2.0

// Function: a compiled method as a differentiable function of Variables, with the aliasing and mutation of the traced
// function. The equivalent of the callable that AOTAutograd returns (aot_module_simplified,
// _functorch/aot_autograd.py).
#ifndef COTAN_RUNTIME_FUNCTION_FUNCTION_H_
#define COTAN_RUNTIME_FUNCTION_FUNCTION_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/function_result.h"  // IWYU pragma: export
#include "runtime/function/core/wrappers.h"         // IWYU pragma: export
#include "runtime/session/call_argument.h"
#include "runtime/session/session.h"

namespace cotan {

class CallPlan;

struct FunctionOptions {
  // If true, each call copies its arguments and compares them and the results with the metadata afterwards: elements,
  // geometry, storages, versions, requires_grad. Internal: a difference. For tests and for the search of faults; a call
  // takes many times as long.
  bool verify_calls = false;
};

// A forward method of a session, with its backward if it has one. Copies share one CallPlan. A Function and the
// grad_fn of its results keep the session's states and plans alive. Not thread-safe: only one thread at a time may use
// a session and the objects created from it.
//
//   COTAN_ASSIGN_OR_RETURN(auto forward, cotan::Function::Create(session, "forward"));
//   COTAN_ASSIGN_OR_RETURN(auto results, forward.Call({images}));
//   const Variable& prediction = std::get<Variable>(results[0]);
//   COTAN_RETURN_IF_ERROR(autograd::Backward({prediction}, {gradient}, session.ops()));
//   session.Parameter("fc.weight")->grad();
//
// Several calls may be outstanding before their backwards run, in any order.
class Function {
 public:
  // Returns the function of `method`. NotFound: the program has no such method. InvalidArgument: the method is a
  // backward. FailedPrecondition: the method has no metadata, its backward has no `gradient_inputs`, or it returns
  // gradients itself; compile the model again.
  static absl::StatusOr<Function> Create(const Session& session, absl::string_view method,
                                         const FunctionOptions& options = {});

  // Calls the function with one argument for each user input (the session supplies parameters and buffers) and returns
  // one result for each output, in order.
  //
  // Mutates the arguments that the traced function mutated. If the grad mode is that of tracing, results get a grad_fn
  // as they had when traced.
  //
  // InvalidArgument: the number of arguments differs; an argument is undefined; an argument
  // has another dtype, rank, size, device or requires_grad than when traced; two arguments that were one tensor when
  // traced are not, or the reverse if the metadata or storage of one is mutated; an argument shares memory with a
  // mutated one in another way than when traced, or with a state that the function updates. OutOfRange: a dynamic
  // dimension is outside its range. FailedPrecondition: an argument must not be written in place (a leaf that requires
  // grad); a state has been given another storage; the function was traced with gradients disabled, but they are
  // enabled and an input requires grad. ResourceExhausted, Internal: from the device. Messages name the argument.
  // Unless the error is Internal, arguments and states are unchanged.
  absl::StatusOr<std::vector<FunctionResult>> Call(absl::Span<const Variable> arguments);
  // Calls the function as above, with numbers for inputs that are numbers: Call({x, 0.5}). Errors of TensorOfNumber(),
  // too.
  absl::StatusOr<std::vector<FunctionResult>> Call(std::initializer_list<CallArgument<Variable>> arguments);
  // Calls the function as above and replaces `results`, reusing the vector's memory.
  absl::Status Call(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results);

  // Calls a function whose arguments or results may be of wrapper types (wrappers/wrapper_type.h declares Wrap() and
  // Unwrap()); plain tensors are allowed too. Beyond the errors of Call(), InvalidArgument: an argument has another
  // wrapper type, other attributes or other metadata than when traced; the message names the attribute.
  //
  //   COTAN_ASSIGN_OR_RETURN(auto results, forward.CallWrapped({Wrap(weight), Wrap(x)}));
  //   COTAN_RETURN_IF_ERROR(autograd::Backward(...));
  //   COTAN_ASSIGN_OR_RETURN(auto gradient, Unwrap<Quantized<Variable>>(GradientOf(Wrap(weight)), "the gradient"));
  absl::StatusOr<std::vector<WrappedResult>> CallWrapped(absl::Span<const WrappedVariable> arguments);

  // Return the number of user arguments and results; a tensor of a wrapper type counts as one.
  int num_arguments() const;
  int num_results() const;

  // Returns the stages of a call, one line each, with the arguments that each stage handles. Stages that the method
  // does not need are absent.
  std::string ToString() const;

  const FunctionStats& stats() const;

 private:
  explicit Function(std::shared_ptr<CallPlan> plan) : plan_(std::move(plan)) {}

  std::shared_ptr<CallPlan> plan_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_FUNCTION_H_
