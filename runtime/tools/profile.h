// SPDX-License-Identifier: Apache-2.0

// Measures the time of each step of a method.
#ifndef COTAN_RUNTIME_TOOLS_PROFILE_H_
#define COTAN_RUNTIME_TOOLS_PROFILE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/session/session.h"

namespace cotan::tools {

struct ProfiledStep {
  std::string name;  // as Session::StepNames()
  double min_us = 0;
};

// Runs `method` once to warm up and then `calls` times. Returns the shortest time of each step, in the order
// of the plan. Arguments, results and errors are those of Session::Run().
absl::StatusOr<std::vector<ProfiledStep>> Profile(Session& session, MethodHandle method,
                                                  absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                                                  int calls);

// Returns a line for each of the `rows` most expensive steps, with its share of the total time.
std::string ProfileText(absl::Span<const ProfiledStep> steps, size_t rows);

// Returns a line "METHOD<tab>INDEX<tab>MICROSECONDS<tab>NAME" for each step, in order, for ParseProfile(). Tabs and
// line ends in names become blanks.
std::string ProfileLines(absl::string_view method, absl::Span<const ProfiledStep> steps);

// Returns the steps by method of a text of ProfileLines() of any number of methods. InvalidArgument: a line is
// malformed; the message has its number.
absl::StatusOr<std::map<std::string, std::vector<ProfiledStep>>> ParseProfile(absl::string_view text);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_PROFILE_H_
