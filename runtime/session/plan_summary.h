// SPDX-License-Identifier: Apache-2.0

// The memory and steps of several plans as one.
#ifndef COTAN_RUNTIME_SESSION_PLAN_SUMMARY_H_
#define COTAN_RUNTIME_SESSION_PLAN_SUMMARY_H_

#include "absl/types/span.h"
#include "runtime/execution/plan.h"
#include "runtime/session/session.h"

namespace cotan {

// Returns the summary of plans that run one after the other in one arena: the largest memory, and the sums of counts.
PlanSummary SummaryOf(absl::Span<const Plan* const> plans);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_PLAN_SUMMARY_H_
