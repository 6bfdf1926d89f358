// SPDX-License-Identifier: Apache-2.0

// Runs passes on graphs in text form.
#ifndef COTAN_AOT_IR_PASS_TESTUTIL_H_
#define COTAN_AOT_IR_PASS_TESTUTIL_H_

#include <string>

#include "absl/strings/string_view.h"
#include "aot/ir/pass.h"
#include "aot/ir/text.h"

namespace cotan::aot {

// Returns the graph's text after `pass`, which runs with the verifier, or the message of the error.
inline std::string After(const PassFunction& pass, absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  if (!graph.ok()) return std::string(graph.status().message());
  PassPipeline pipeline("test");
  pipeline.Add("pass", pass);
  const absl::StatusOr<bool> changed = pipeline.Run(*graph);
  return changed.ok() ? PrintGraph(*graph) : std::string(changed.status().message());
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_PASS_TESTUTIL_H_
