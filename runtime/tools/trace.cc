// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/trace.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "runtime/tools/json.h"
#include "runtime/tools/planned_method.h"

namespace cotan::tools {
namespace {

// Writes the events of one method.
class MethodTrace {
 public:
  MethodTrace(const Program& program, const TracedMethod& traced, const KernelRegistry* kernels, int thread)
      : traced_(traced), thread_(thread) {
    const absl::StatusOr<int> index = program.FindMethod(traced.method);
    if (!index.ok()) return;
    absl::StatusOr<PlannedMethod> planned = PlanMethod(program.artifact(), program.method(*index), kernels);
    if (planned.ok() && planned->steps.size() == traced.names.size()) planned_ = *std::move(planned);
  }

  void AppendTo(std::string& json) const {
    absl::StrAppendFormat(&json, ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, ", thread_);
    absl::StrAppend(&json, "\"args\": {\"name\": ", JsonString(absl::StrCat("method ", traced_.method)), "}}");
    for (const TracedCall& call : traced_.calls) AppendCall(call, json);
  }

 private:
  // Appends a slice; the caller appends the arguments and closes both braces.
  void AppendSlice(const std::string& name, int64_t start_ns, int64_t duration_ns, std::string& json) const {
    absl::StrAppendFormat(
        &json,
        ",\n{\"name\": %s, \"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"ts\": %d.%03d, \"dur\": %d.%03d, "
        "\"args\": {",
        JsonString(name), thread_, start_ns / 1000, start_ns % 1000, duration_ns / 1000, duration_ns % 1000);
  }

  void AppendCall(const TracedCall& call, std::string& json) const {
    const int64_t sum = std::accumulate(call.step_ns.begin(), call.step_ns.end(), int64_t{0});
    AppendSlice(traced_.method, call.start_ns, std::max(call.duration_ns, sum), json);
    absl::StrAppend(&json, "\"steps\": ", call.step_ns.size(), "}}");
    int64_t start = call.start_ns;
    for (size_t i = 0; i < call.step_ns.size(); ++i) {
      AppendStep(i, start, call.step_ns[i], json);
      start += call.step_ns[i];
    }
    if (!planned_.steps.empty()) AppendCounter(start, 0, json);
  }

  void AppendStep(size_t step, int64_t start_ns, int64_t duration_ns, std::string& json) const {
    const bool is_planned = step < planned_.steps.size();
    AppendSlice(is_planned ? planned_.steps[step].name : traced_.names[step], start_ns, duration_ns, json);
    absl::StrAppend(&json, "\"step\": ", step, ", \"text\": ", JsonString(traced_.names[step]));
    if (!is_planned) {
      json += "}}";
      return;
    }
    const StepCost& cost = planned_.steps[step];
    absl::StrAppend(&json, ", \"op\": ", cost.op, ", \"source\": ", JsonString(cost.source),
                    ", \"bytes\": ", cost.work.bytes, ", \"flops\": ", cost.work.flops, "}}");
    AppendCounter(start_ns, planned_.live_bytes[step], json);
  }

  void AppendCounter(int64_t time_ns, int64_t bytes, std::string& json) const {
    absl::StrAppendFormat(&json, ",\n{\"name\": %s, \"ph\": \"C\", \"pid\": 1, \"tid\": %d, \"ts\": %d.%03d, ",
                          JsonString(absl::StrCat("arena of ", traced_.method)), thread_, time_ns / 1000,
                          time_ns % 1000);
    absl::StrAppend(&json, "\"args\": {\"bytes\": ", bytes, "}}");
  }

  const TracedMethod& traced_;
  const int thread_;
  PlannedMethod planned_;  // no steps: not known
};

}  // namespace

std::string TraceText(const Program& program, absl::Span<const TracedMethod> methods, const KernelRegistry* kernels) {
  std::string json =
      "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n"
      "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"cotan bench\"}}";
  int thread = 0;
  for (const TracedMethod& method : methods) MethodTrace(program, method, kernels, ++thread).AppendTo(json);
  return json + "\n]}\n";
}

}  // namespace cotan::tools
