// SPDX-License-Identifier: Apache-2.0

// Parses the text of graphs: an accepted one is printed and parsed as the same text again.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "aot/ir/graph.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {

bool RunInput(absl::string_view input) {
  const absl::StatusOr<aot::Graph> graph = aot::ParseGraph(input);
  if (!graph.ok()) return false;
  (void)aot::VerifyGraph(*graph).ok();  // valid or not
  const std::string text = aot::PrintGraph(*graph);
  const absl::StatusOr<aot::Graph> again = aot::ParseGraph(text);
  Require(again.ok(), again.status().ToString());
  Require(aot::PrintGraph(*again) == text, "printed text is parsed as the same graph");
  return true;
}

// Mutates bytes, or removes, repeats or exchanges lines.
std::string MutateInput(absl::string_view input, std::mt19937_64& random) {
  if (random() % 2 == 0) return MutateBytes(input, random);
  std::vector<absl::string_view> lines = absl::StrSplit(input, '\n');
  absl::string_view& line = lines[random() % lines.size()];
  const absl::string_view other = lines[random() % lines.size()];
  switch (random() % 3) {
    case 0:
      line = "";
      break;
    case 1:
      line = other;
      break;
    default:
      lines.push_back(other);
  }
  return absl::StrJoin(lines, "\n");
}

std::vector<std::string> SeedInputs() {
  return {R"(graph @g {
  %0: f32[(s0 * 2),3]{1,0} = user_input 0 "x"
  %1: f32[3] "sum", _ = aten.many.Overload(%0, none, -3, [1, s0], floats[1.0], bools[true], "text", f32) from "0"
  user_output 0 "output.0" = %1
}
)"};
}

}  // namespace cotan::testing
