// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/plan_summary.h"

#include <algorithm>

namespace cotan {
namespace {

void AddStats(const ScheduleStats& of, ScheduleStats& sum) {
  for (int ScheduleStats::*count :
       {&ScheduleStats::views, &ScheduleStats::view_copies, &ScheduleStats::outputs_in_place,
        &ScheduleStats::output_copies, &ScheduleStats::updates_in_place, &ScheduleStats::update_copies,
        &ScheduleStats::inputs_in_place, &ScheduleStats::input_copies, &ScheduleStats::inputs_overwritten}) {
    sum.*count += of.*count;
  }
}

}  // namespace

PlanSummary SummaryOf(absl::Span<const Plan* const> plans) {
  PlanSummary summary;
  for (const Plan* plan : plans) {
    summary.arena_bytes = std::max(summary.arena_bytes, plan->arena_bytes);
    summary.peak_bytes = std::max(summary.peak_bytes, plan->peak_bytes);
    summary.host_bytes = std::max(summary.host_bytes, plan->host_bytes);
    summary.num_steps += static_cast<int>(plan->steps.size());
    AddStats(plan->stats, summary.stats);
  }
  return summary;
}

}  // namespace cotan
