// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/runner.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "testing/conformance/harness/golden.h"
#include "testing/conformance/harness/modes.h"
#include "testing/conformance/harness/report.h"

namespace cotan::conformance {
namespace {

struct Mode {
  const char* name;
  void (*check)(const ConfCase& c, const Json& facts, Differences& differences, const SessionOptions& session);
};

// Nothing is called: the session is not used.
void CheckMetadataOf(const ConfCase& c, const Json& facts, Differences& differences, const SessionOptions&) {
  CheckMetadata(c, facts, differences);
}

constexpr char kDynamic[] = "dynamic";
constexpr Mode kModes[] = {
    {"metadata", CheckMetadataOf},
    {"eager", CheckEager},
    {"grad", CheckGradients},
    {kDynamic, CheckDynamic},
};
constexpr char kRefusals[] = "refusals";

void CheckCase(const Mode& mode, const ConfCase& c, const Json* facts, const SessionOptions& session,
               Differences& differences) {
  try {
    if (facts != nullptr) return mode.check(c, *facts, differences, session);
    if (mode.check == CheckEager) CheckProgram(c, differences, session);
    if (mode.check == CheckDynamic) CheckDynamic(c, Json::object(), differences, session);
    if (mode.check == CheckMetadataOf) differences.NothingCompared("the golden file does not have this case");
    if (mode.check == CheckGradients) {
      differences.NothingCompared("the golden file does not have this case; mode eager compares its gradients");
    }
  } catch (const std::exception& e) {
    differences.Add(absl::StrCat("threw: ", e.what()));
  }
}

void RunCase(const Mode& mode, const ConfCase& c, const Golden& golden, const RunnerOptions& options, Report& report) {
  Differences differences;
  const Json* facts = golden.Find(c.name);
  if (facts == nullptr && !options.partial_golden) {
    differences.Add("the golden file does not have this case");
  } else {
    CheckCase(mode, c, facts, options.session, differences);
  }
  report.Add(mode.name, c.name, differences);
}

void RunRefusal(const Json& golden, const std::vector<RefusalCase>& table, Report& report) {
  const std::string name = golden["name"];
  Differences differences;
  const auto found = absl::c_find_if(table, [&](const RefusalCase& c) { return c.name == name; });
  if (found == table.end()) {
    differences.Add("refusal_table.cc does not have this function");
  } else {
    CheckRefusal(*found, golden, differences);
  }
  report.Add(kRefusals, name, differences);
}

bool IsMode(const std::string& name) {
  return name == "all" || name == kRefusals ||
         absl::c_any_of(kModes, [&](const Mode& mode) { return mode.name == name; });
}

// Which cases run.
class Selection {
 public:
  explicit Selection(const RunnerOptions& options) : options_(options) {}

  // "dynamic" is not part of "all": not every function is defined at other sizes.
  bool HasMode(const std::string& mode) const {
    return options_.mode == mode || (options_.mode == "all" && mode != kDynamic);
  }
  bool HasCase(const std::string& name, size_t index) const {
    return (options_.cases.empty() || absl::c_linear_search(options_.cases, name)) &&
           index % static_cast<size_t>(options_.num_shards) == static_cast<size_t>(options_.shard);
  }

 private:
  const RunnerOptions& options_;
};

}  // namespace

absl::StatusOr<int> RunConformance(const RunnerOptions& options, const std::vector<ConfCase>& table) {
  if (!IsMode(options.mode)) return absl::InvalidArgumentError(absl::StrCat("there is no mode '", options.mode, "'"));
  COTAN_ASSIGN_OR_RETURN(const Golden golden, Golden::Load(options.golden));
  Report report(stdout, options.all_differences);
  if (!options.known_failures.empty()) COTAN_RETURN_IF_ERROR(report.ReadKnownRefusals(options.known_failures));
  if (!options.partition_differences.empty()) {
    COTAN_RETURN_IF_ERROR(report.ReadPartitionDifferences(options.partition_differences));
  }
  at::set_num_threads(1);
  const Selection selection(options);
  for (const Mode& mode : kModes) {
    if (!selection.HasMode(mode.name)) continue;
    for (size_t i = 0; i < table.size(); ++i) {
      const ConfCase& c = table[i];
      if (selection.HasCase(c.name, i)) RunCase(mode, c, golden, options, report);
    }
  }
  if (selection.HasMode(kRefusals)) {
    const std::vector<RefusalCase> refusals = RefusalTable();
    const Json& errors = golden.errors();
    for (size_t i = 0; i < errors.size(); ++i) {
      if (selection.HasCase(errors[i]["name"], i)) RunRefusal(errors[i], refusals, report);
    }
  }
  return report.Finish();
}

}  // namespace cotan::conformance
