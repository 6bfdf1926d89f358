// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace cotan::testing {
namespace {

double MebiBytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// Returns the table of the steps whose work is known; "" if there is none.
std::string FormatBounds(absl::Span<const StepResult> results) {
  std::string rows;
  for (const StepResult& result : results) {
    if (result.bound_us <= 0) continue;
    absl::StrAppendFormat(&rows, "| %-6s | %7d | %8.1f | %9.2f | %9.1f | %13.2f |\n", result.model, result.threads,
                          static_cast<double>(result.flops) / 1e6, MebiBytes(result.bytes), result.bound_us,
                          result.cotan.median_us / result.bound_us);
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "\n| model  | threads |   MFLOP  | MiB moved |  bound µs | cotan / bound |\n"
      "|---|---|---|---|---|---|\n",
      rows);
}

}  // namespace

std::string FormatJson(absl::string_view device, const StepResult& result) {
  return absl::StrFormat(R"({"model": "%s", "device": "%s", "threads": %d, "cotan_us": %.2f, "eager_us": %.2f, )"
                         R"("ratio": %.3f, "cotan_peak_bytes": %d, "eager_peak_bytes": %d, "first_step_ms": %.3f, )"
                         R"("flops": %d, "bytes": %d, "bound_us": %.2f})",
                         result.model, device, result.threads, result.cotan.median_us, result.eager.median_us,
                         result.ratio(), result.cotan_peak_bytes, result.eager_peak_bytes, result.first_step_ms,
                         result.flops, result.bytes, result.bound_us);
}

std::string FormatTable(absl::string_view device, absl::Span<const StepResult> results) {
  const bool on_cpu = device == "cpu";
  std::string table = absl::StrFormat(
      "| model  | threads | %-22s | %-22s | ratio | cotan peak MiB | eager peak MiB | first step ms |\n"
      "|---|---|---|---|---|---|---|---|\n",
      on_cpu ? "cotan µs (min)" : absl::StrCat("cotan on ", device, " µs (min)"),
      on_cpu ? "eager µs (min)" : "eager on cpu µs (min)");
  for (const StepResult& result : results) {
    absl::StrAppendFormat(&table, "| %-6s | %7d | %9.1f (%9.1f) | %9.1f (%9.1f) | %5.2f | %14.2f | %14.2f | %13.1f |\n",
                          result.model, result.threads, result.cotan.median_us, result.cotan.min_us,
                          result.eager.median_us, result.eager.min_us, result.ratio(),
                          MebiBytes(result.cotan_peak_bytes), MebiBytes(result.eager_peak_bytes), result.first_step_ms);
  }
  return table + FormatBounds(results);
}

}  // namespace cotan::testing
