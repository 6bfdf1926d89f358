// SPDX-License-Identifier: Apache-2.0

// `cotan bench --timeline`: the steps of methods, one after another, as a picture.
#ifndef COTAN_RUNTIME_TOOLS_TIMELINE_H_
#define COTAN_RUNTIME_TOOLS_TIMELINE_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "runtime/tools/profile.h"

namespace cotan::tools {

struct TimelineMethod {
  std::string method;
  std::vector<ProfiledStep> steps;
};

// Returns a self-contained SVG: for each method a row with a box per step, as wide as its shortest time and colored by
// the kind of its op, in which the share below the bound is darker; the name of a step is the tooltip of its box. Below
// are the sums of each kind. All rows have one scale.
std::string TimelineSvg(absl::Span<const TimelineMethod> methods);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_TIMELINE_H_
