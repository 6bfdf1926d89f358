// SPDX-License-Identifier: Apache-2.0

// The methods that become of one traced method with CompileOptions::order > 1: its differentiable backward, that one's
// differentiable backward, and so on. Private to //aot:compile_impl.
#ifndef COTAN_AOT_ORDERS_H_
#define COTAN_AOT_ORDERS_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "aot/capture/traced_program.h"
#include "aot/model_source.h"

namespace cotan::aot {

// Return the names of the backward and of the differentiable backward of a method that is split in two: "backward" and
// "backward.forward" of "forward", "backward.backward" and "backward.backward.forward" of "backward.forward".
std::string BackwardName(absl::string_view forward);
std::string DifferentiableBackwardName(absl::string_view forward);

// A trace of a method of some order.
struct OrderedTrace {
  std::string name;                          // of the method
  std::string differentiable_backward = {};  // the method of the next order; empty: none
  TracedProgram traced;
};

// Traces the method, then, up to `order`, its differentiable backwards, and passes each trace to `use`, which may take
// its content. Only a method with a backward has orders above 1. Errors are those of TraceMethod(),
// VectorJacobianProductOf(), CheckReadsNoWrittenState() and `use`.
absl::Status TraceOrders(const TraceRequest& request, int order,
                         absl::FunctionRef<absl::Status(OrderedTrace& trace)> use);

}  // namespace cotan::aot

#endif  // COTAN_AOT_ORDERS_H_
