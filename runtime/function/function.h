// A method of a program as a function of Variables: it takes part in autograd,
// and does to its arguments and results what the traced function did.
#ifndef COTAN_RUNTIME_FUNCTION_FUNCTION_H_
#define COTAN_RUNTIME_FUNCTION_FUNCTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/wrappers.h"
#include "runtime/session/session.h"
#include "serialization/metadata/output_alias_info.h"

namespace cotan {

class FunctionCore;

// A result: a tensor, or a value that was known when the function was traced or
// follows from its sizes (int64_t then).
using FunctionResult = std::variant<Variable, NoneValue, bool, int64_t, double, std::string>;

// A result of CallWrapped().
using WrappedResult = std::variant<WrappedVariable, NoneValue, bool, int64_t, double, std::string>;

// What calls did, for tools and tests.
struct FunctionStats {
  int64_t calls = 0;
  int64_t write_backs = 0;         // arguments that the runtime gave new contents
  int64_t copies_elided = 0;       // of those, computed in the argument's own memory
  int64_t saved_without_copy = 0;  // saved values that are arguments or results
  int64_t saved_reused = 0;        // saved values in memory of a backward that is over
  int64_t backwards = 0;
  int64_t backwards_in_donated_memory = 0;
};

// A forward (with its backward, if it has one) of a session. Copies are the same
// function. Keeps the session's states and plans alive, as do the results'
// graphs. Not thread-safe: one thread at a time uses a session and what comes
// from it.
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
  // NotFound: no such method. InvalidArgument: it is a backward, or its metadata
  // contradicts itself.
  // FailedPrecondition: it, or its backward, does not say what a Function must
  // know: no metadata, or not whose gradients the backward returns. Compile the
  // model again.
  static absl::StatusOr<Function> Create(const Session& session, absl::string_view method);

  // One argument for each input of the caller (parameters and buffers are the
  // session's), one result for each output, in order.
  //
  // Arguments that the traced function wrote are written. If gradients are
  // enabled, or were not when it was traced, results get the history that they
  // had then.
  // InvalidArgument: a wrong count, dtype, rank, size or device; an argument that
  // requires grad and did not when traced, or the reverse; that was the same as
  // another when traced and is not, or the reverse where it matters; that shares
  // memory with another one in another way than traced where one is written; that
  // shares memory with a state that the function updates. Nothing is changed then.
  // OutOfRange: a dynamic dimension outside its range. FailedPrecondition: an
  // argument that may not be written in place (a leaf that requires grad).
  // ResourceExhausted, Internal: from the device. Messages name the argument.
  // Unless it is Internal, nothing has changed then.
  absl::StatusOr<std::vector<FunctionResult>> Call(absl::Span<const Variable> arguments);
  // The same into `results`, whose memory is used again.
  absl::Status Call(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results);

  // The same for a function that has arguments or results of wrapper types
  // (wrappers/wrapper_type.h: Wrap() and Unwrap() come from there), or none.
  // InvalidArgument besides: an argument of another wrapper type than traced, or
  // with other attributes or metadata; the message names the attribute.
  //
  //   COTAN_ASSIGN_OR_RETURN(auto results, forward.CallWrapped({Wrap(weight), Wrap(x)}));
  //   COTAN_RETURN_IF_ERROR(autograd::Backward(...));
  //   COTAN_ASSIGN_OR_RETURN(auto gradient, Unwrap<Quantized<Variable>>(GradientOf(Wrap(weight)), "the gradient"));
  absl::StatusOr<std::vector<WrappedResult>> CallWrapped(absl::Span<const WrappedVariable> arguments);

  // Of the caller: a wrapper counts as one.
  int num_arguments() const;
  int num_results() const;

  // The stages that a call goes through, one line each, with what they do to
  // which argument: stages that the method does not need are absent.
  std::string ToString() const;

  const FunctionStats& stats() const;

 private:
  explicit Function(std::shared_ptr<FunctionCore> core) : core_(std::move(core)) {}

  std::shared_ptr<FunctionCore> core_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_FUNCTION_H_
