// SPDX-License-Identifier: Apache-2.0

// Memory and steps of a session's plans.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/session_use.h"
#include "include/cotan.h"
#include "runtime/session/session.h"

namespace cotan::capi {
namespace {

std::string PlanText(const std::string& method, const PlanSummary& summary, const std::vector<std::string>& steps) {
  const ScheduleStats& stats = summary.stats;
  std::string text =
      absl::StrCat("method '", method, "': ", summary.num_steps, " steps, arena ", summary.arena_bytes, " bytes, peak ",
                   summary.peak_bytes, " bytes, on the host ", summary.host_bytes, " bytes\nviews: ", stats.views,
                   " without, ", stats.view_copies, " with a copy\nresults: ", stats.outputs_in_place, " in place, ",
                   stats.output_copies, " copied\nstates: ", stats.updates_in_place, " in place, ", stats.update_copies,
                   " copied\narguments: ", stats.inputs_in_place, " in place, ", stats.input_copies,
                   " copied; ops that overwrite a dead input: ", stats.inputs_overwritten, "\nsteps:\n");
  for (const std::string& step : steps) absl::StrAppend(&text, "  ", step, "\n");
  return text;
}

// Returns a copy for cotan_string_free().
char* CopyText(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace
}  // namespace cotan::capi

using cotan::MethodHandle;
using cotan::PlanSummary;
using cotan::capi::CheckNotNull;
using cotan::capi::WithSession;

cotan_status cotan_session_plan_summary(cotan_session* session, const char* method, cotan_plan_summary* summary) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(method, "method"));
    COTAN_ASSIGN_OR_RETURN(const MethodHandle handle, used.session.FindMethod(method));
    COTAN_ASSIGN_OR_RETURN(const PlanSummary plan, used.session.Summary(handle));
    return cotan::capi::WriteStruct<cotan_plan_summary>({.struct_size = 0,
                                                         .arena_bytes = plan.arena_bytes,
                                                         .peak_bytes = plan.peak_bytes,
                                                         .num_steps = plan.num_steps,
                                                         .views = plan.stats.views,
                                                         .view_copies = plan.stats.view_copies,
                                                         .outputs_in_place = plan.stats.outputs_in_place,
                                                         .output_copies = plan.stats.output_copies,
                                                         .updates_in_place = plan.stats.updates_in_place,
                                                         .update_copies = plan.stats.update_copies,
                                                         .inputs_in_place = plan.stats.inputs_in_place,
                                                         .input_copies = plan.stats.input_copies,
                                                         .inputs_overwritten = plan.stats.inputs_overwritten,
                                                         .host_bytes = plan.host_bytes},
                                                        offsetof(cotan_plan_summary, host_bytes), "summary", summary);
  });
}

cotan_status cotan_session_plan_text(cotan_session* session, const char* method, char** out) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(method, "method"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
    COTAN_ASSIGN_OR_RETURN(const MethodHandle handle, used.session.FindMethod(method));
    COTAN_ASSIGN_OR_RETURN(const PlanSummary plan, used.session.Summary(handle));
    COTAN_ASSIGN_OR_RETURN(const std::vector<std::string> steps, used.session.StepNames(handle));
    *out = cotan::capi::CopyText(cotan::capi::PlanText(method, plan, steps));
    return absl::OkStatus();
  });
}

void cotan_string_free(char* text) { std::free(text); }

cotan_status cotan_session_state_bytes(cotan_session* session, int64_t* bytes) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(bytes, "bytes"));
    *bytes = used.session.state_bytes();
    return absl::OkStatus();
  });
}

cotan_status cotan_session_arena_bytes(cotan_session* session, int64_t* bytes) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(bytes, "bytes"));
    *bytes = used.session.arena_bytes();
    return absl::OkStatus();
  });
}

cotan_status cotan_session_num_plans_made(cotan_session* session, int64_t* count) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(count, "count"));
    *count = used.session.num_plans_made();
    return absl::OkStatus();
  });
}
