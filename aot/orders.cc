// SPDX-License-Identifier: Apache-2.0

#include "aot/orders.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "aot/aotautograd/undefined_tangents.h"
#include "aot/aotautograd/vjp.h"
#include "aot/lowering/lower.h"
#include "aot/method_stages.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns the names of the states that the traced method writes.
std::vector<std::string> WrittenStates(const Graph& traced) {
  std::vector<std::string> written;
  for (const GraphOutput& output : traced.outputs()) {
    if (output.kind == OutputKind::kMutatedInput) written.push_back(output.name);
  }
  return written;
}

// Returns the request to trace the differentiable backward of a traced method.
absl::StatusOr<TraceRequest> NextOrder(const TraceRequest& request, const TracedProgram& traced) {
  absl::Span<const ModuleState> states;
  if (request.module != nullptr) states = request.module->states();
  COTAN_ASSIGN_OR_RETURN(VectorJacobianProduct product,
                         VectorJacobianProductOf(request.function, states, request.inputs, request.options, traced));
  product.options.name = DifferentiableBackwardName(request.options.name);
  return TraceRequest{request.module, request.in_train_mode, std::move(product.function), std::move(product.inputs),
                      std::move(product.options)};
}

}  // namespace

std::string BackwardName(absl::string_view forward) {
  return absl::StrCat(absl::StripSuffix(forward, kForward), "backward");
}

std::string DifferentiableBackwardName(absl::string_view forward) {
  return absl::StrCat(BackwardName(forward), ".", kForward);
}

absl::Status TraceOrders(const TraceRequest& request, int order,
                         absl::FunctionRef<absl::Status(OrderedTrace& trace)> use) {
  std::optional<TraceRequest> next = request;
  std::vector<std::string> written;
  for (int level = 1; next.has_value(); ++level) {
    const TraceRequest current = *std::exchange(next, std::nullopt);
    OrderedTrace trace{.name = current.options.name, .traced = {}};
    COTAN_ASSIGN_OR_RETURN(trace.traced, TraceMethod(current));
    if (level == 1) written = WrittenStates(trace.traced.graph);
    if (level > 1 && !written.empty()) {
      Graph live = trace.traced.graph;
      RemoveGradientMarkers(live);
      COTAN_RETURN_IF_ERROR(CleanUp(live));
      COTAN_RETURN_IF_ERROR(CheckReadsNoWrittenState(written, live));
    }
    const bool is_split = request.options.backward == TraceOptions::Backward::kOutputs;
    if (level < order && is_split && !trace.traced.reference.tangents.empty()) {
      COTAN_ASSIGN_OR_RETURN(next, NextOrder(current, trace.traced));
      trace.differentiable_backward = next->options.name;
    }
    COTAN_RETURN_IF_ERROR(use(trace));
  }
  return absl::OkStatus();
}

}  // namespace cotan::aot
