// SPDX-License-Identifier: Apache-2.0

// Runs the sizing methods of a method: they compute sizes that depend on data, and the inputs that follow its
// arguments.
#ifndef COTAN_RUNTIME_SESSION_SIZING_CHAIN_H_
#define COTAN_RUNTIME_SESSION_SIZING_CHAIN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/execution/executable.h"
#include "runtime/session/method_plans.h"
#include "runtime/session/session_core.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// InvalidArgument: the method is a sizing method, which callers do not call.
absl::Status CheckCallable(const serialization::Method& method);

// The sizing methods of one method (Method.continuation) with their plans and results. Results keep their memory from
// call to call while their sizes stay and it has no other owner. Not thread-safe. The core outlives it.
class SizingChain {
 public:
  using ExecuteFunction = absl::FunctionRef<absl::Status(Executable&)>;

  // A negative `method` has no sizing methods.
  SizingChain(SessionCore& core, int method);

  // Returns whether no size of the method depends on data.
  bool empty() const { return parts_.empty(); }
  int num_arguments() const { return num_arguments_; }

  // Runs the sizing methods for the arguments of a call by passing the executable of each to `execute`. No state
  // changes. Unimplemented: the session does not run on the CPU.
  // InvalidArgument: the number of arguments is wrong, or a count is outside of the range that was declared for it; the
  // message names what is counted. Errors of MethodPlans::Prepare() and of `execute`.
  absl::Status Run(absl::Span<const Tensor* const> arguments, ExecuteFunction execute);

  // The following are of the last successful Run().

  // Returns the inputs of the method after its arguments.
  absl::Span<const Tensor> inputs() const { return parts_.back().continued; }
  // Returns the values of the dynamic dimensions, for MethodPlans::Prepare().
  const DimVector& symbols() const { return symbols_; }
  // Returns the plans of the sizing methods, in the order in which they run. FailedPrecondition: there was no Run().
  absl::StatusOr<std::vector<const Plan*>> LastPlans() const;

 private:
  // An input of the next method after the arguments.
  struct Continued {
    int index = 0;  // of an output, or of a continued input of this method
    bool from_inputs = false;
    int count = -1;   // the output with its number of rows; -1: it is whole
    int symbol = -1;  // the symbol whose value the count is
  };
  struct Part {
    int method = 0;
    std::unique_ptr<MethodPlans> plans;
    std::vector<Continued> links;
    std::vector<Tensor> outputs;
    std::vector<Tensor> continued;  // by link
  };

  void AddPart(int method, int next);
  absl::Status RunPart(Part& part, absl::Span<const Tensor* const> arguments, absl::Span<const Tensor> continued,
                       ExecuteFunction execute);
  absl::Status Link(Part& part, absl::Span<const Tensor> continued);
  absl::StatusOr<int64_t> CountOf(const Part& part, const Continued& link) const;
  absl::Status CheckCount(absl::Span<const Tensor* const> arguments) const;

  SessionCore& core_;
  const int method_;
  int num_arguments_ = 0;
  std::vector<Part> parts_;
  DimVector symbols_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_SIZING_CHAIN_H_
