#include "testing/conformance/runner.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "testing/conformance/golden.h"
#include "testing/conformance/modes.h"
#include "testing/conformance/report.h"

namespace cotan::conformance {
namespace {

struct Mode {
  const char* name;
  void (*check)(const ConfCase& c, const Json& facts, Differences& differences);
};

constexpr Mode kModes[] = {
    {"metadata", CheckMetadata},
};

void RunCase(const Mode& mode, const ConfCase& c, const Golden& golden, Report& report) {
  Differences differences;
  const Json* facts = golden.Find(c.name);
  if (facts == nullptr) {
    differences.Add("the golden file does not have this case");
  } else {
    try {
      mode.check(c, *facts, differences);
    } catch (const std::exception& e) {
      differences.Add(absl::StrCat("threw: ", e.what()));
    }
  }
  report.Add(mode.name, c.name, differences);
}

bool IsMode(const std::string& name) {
  return name == "all" || absl::c_any_of(kModes, [&](const Mode& mode) { return mode.name == name; });
}

absl::Status CheckNames(const std::vector<std::string>& names, const std::vector<ConfCase>& table) {
  for (const std::string& name : names) {
    if (absl::c_none_of(table, [&](const ConfCase& c) { return c.name == name; })) {
      return absl::InvalidArgumentError(absl::StrCat("there is no case '", name, "'"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunConformance(const RunnerOptions& options, const std::vector<ConfCase>& table) {
  if (!IsMode(options.mode)) return absl::InvalidArgumentError(absl::StrCat("there is no mode '", options.mode, "'"));
  COTAN_RETURN_IF_ERROR(CheckNames(options.cases, table));
  COTAN_ASSIGN_OR_RETURN(const Golden golden, Golden::Load(options.golden));
  Report report(stdout);
  if (!options.known_failures.empty()) COTAN_RETURN_IF_ERROR(report.ReadKnownFailures(options.known_failures));
  at::set_num_threads(1);
  for (const Mode& mode : kModes) {
    if (options.mode != "all" && options.mode != mode.name) continue;
    for (const ConfCase& c : table) {
      if (options.cases.empty() || absl::c_linear_search(options.cases, c.name)) RunCase(mode, c, golden, report);
    }
  }
  return report.Finish();
}

}  // namespace cotan::conformance
