// Where does the time of a method go, step by step?
#ifndef COTAN_RUNTIME_TOOLS_PROFILE_H_
#define COTAN_RUNTIME_TOOLS_PROFILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/session/session.h"

namespace cotan::tools {

struct ProfiledStep {
  std::string name;  // as Session::StepNames()
  double min_us = 0;
};

// Runs `method` `calls` times after one to warm up, timing each step; the
// shortest time of each, in the order of the plan. As Session::Run() for
// arguments, results and errors.
absl::StatusOr<std::vector<ProfiledStep>> Profile(Session& session, MethodHandle method,
                                                  absl::Span<const Tensor> arguments, absl::Span<Tensor> results,
                                                  int calls);

// The `rows` dearest steps, a line each, with their share of the sum.
std::string ProfileText(absl::Span<const ProfiledStep> steps, size_t rows);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_PROFILE_H_
