// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/report.h"

#include "absl/strings/str_format.h"

namespace cotan::testing {
namespace {

double MebiBytes(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

std::string FormatJson(const StepResult& result) {
  return absl::StrFormat(R"({"model": "%s", "threads": %d, "cotan_us": %.2f, "eager_us": %.2f, "ratio": %.3f, )"
                         R"("cotan_peak_bytes": %d, "eager_peak_bytes": %d, "first_step_ms": %.3f})",
                         result.model, result.threads, result.cotan.median_us, result.eager.median_us, result.ratio(),
                         result.cotan_peak_bytes, result.eager_peak_bytes, result.first_step_ms);
}

std::string FormatTable(absl::Span<const StepResult> results) {
  std::string table =
      "| model  | threads | cotan µs (min)        | eager µs (min)        | ratio | "
      "cotan peak MiB | eager peak MiB | first step ms |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const StepResult& result : results) {
    absl::StrAppendFormat(&table, "| %-6s | %7d | %9.1f (%9.1f) | %9.1f (%9.1f) | %5.2f | %14.2f | %14.2f | %13.1f |\n",
                          result.model, result.threads, result.cotan.median_us, result.cotan.min_us,
                          result.eager.median_us, result.eager.min_us, result.ratio(),
                          MebiBytes(result.cotan_peak_bytes), MebiBytes(result.eager_peak_bytes), result.first_step_ms);
  }
  return table;
}

}  // namespace cotan::testing
