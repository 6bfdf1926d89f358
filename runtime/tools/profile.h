// SPDX-License-Identifier: Apache-2.0

// Measures the time of each step of a method, beside the time that it takes at least.
#ifndef COTAN_RUNTIME_TOOLS_PROFILE_H_
#define COTAN_RUNTIME_TOOLS_PROFILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/session/session.h"
#include "runtime/tools/machine_rates.h"
#include "runtime/tools/planned_method.h"

namespace cotan::tools {

struct ProfiledStep {
  std::string name;  // as Session::StepNames()
  double min_us = 0;
  std::string kind = {};  // of the op: "matmul"; "" if not known
  double bound_us = 0;    // MachineRates::BoundNs(); 0 if not known
};

// Runs `method` once to warm up and then `calls` times. Returns the shortest time of each step, in the order
// of the plan. Arguments, results and errors are those of Session::Run().
absl::StatusOr<std::vector<ProfiledStep>> Profile(Session& session, MethodHandle method,
                                                  absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                                                  int calls);

// Sets kinds and bounds of the steps. Does nothing if `planned` has another number of steps: a device may group some.
void AddBounds(const PlannedMethod& planned, const MachineRates& rates, absl::Span<ProfiledStep> steps);

// Times and bounds of several steps.
struct ProfileSums {
  int steps = 0;
  double min_us = 0;
  double bound_us = 0;
};

// Returns the sums of all steps of each kind.
std::map<std::string, ProfileSums> SumsByKind(absl::Span<const ProfiledStep> steps);

// Returns a line for all steps, one for each kind of op, and one for each of `rows` steps: first the ten whose times
// are farthest above their bounds, then the most expensive ones of the others. Lines have time, bound, their ratio, and
// the share of the total time; without bounds the steps are ordered by time.
std::string ProfileText(absl::Span<const ProfiledStep> steps, size_t rows);

// Returns a line "METHOD<tab>INDEX<tab>MICROSECONDS<tab>NAME" for each step, in order, for ParseProfile(). Tabs and
// line ends in names become blanks.
std::string ProfileLines(absl::string_view method, absl::Span<const ProfiledStep> steps);

// Returns the steps by method of a text of ProfileLines() of any number of methods. InvalidArgument: a line is
// malformed; the message has its number.
absl::StatusOr<std::map<std::string, std::vector<ProfiledStep>>> ParseProfile(absl::string_view text);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_PROFILE_H_
