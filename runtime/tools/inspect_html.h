// SPDX-License-Identifier: Apache-2.0

// `cotan inspect --html`: an artifact as a page.
#ifndef COTAN_RUNTIME_TOOLS_INSPECT_HTML_H_
#define COTAN_RUNTIME_TOOLS_INSPECT_HTML_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/registry.h"
#include "runtime/execution/program.h"
#include "runtime/tools/profile.h"

namespace cotan::tools {

// Returns a page that loads nothing from elsewhere: states, and for each method its signature, graph, metadata, memory
// over time and steps, with the times of `profile` (ParseProfile()). `file` is its title; plans are for the CPU kernels
// of `kernels`, null: for kernels of single ops. InvalidArgument: the profile of a method has another number of steps
// than its plan.
absl::StatusOr<std::string> InspectHtml(const Program& program, absl::string_view file,
                                        const std::map<std::string, std::vector<ProfiledStep>>& profile,
                                        const KernelRegistry* kernels = nullptr);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_INSPECT_HTML_H_
