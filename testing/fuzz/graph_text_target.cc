// SPDX-License-Identifier: Apache-2.0

// Parses the text of graphs: an accepted one is printed and parsed as the same text again.
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
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
  return {R"(graph @step {
  %0: f32[32,784] = user_input 0 "input.0"
  %1: f32[10,784]{1,0} = parameter 3 "0.we\"ight"
  %2: i64[(s0 * 2),max(s1, 1)] = constant 0 "" without_version_check
  %3: f32[784,10] "a name" = aten.t.default(%1) from "0, the first"
  %4: f32[], _ = aten.many.Overload(%0, none, {%1, none}, {}, true, false, -3, (s0 // 2), 1.5, inf, "te\"xt", f32, [1, s0], [], floats[1.0, 2.5], floats[], bools[true, false], bools[])
  %5: f32[32,1], %6: f32[32,784] = cotan.expr(%0) {
    domain [32,784] reduce [1]
    0: f32 = input 0
    1: f32 = reduce_sum 0
    store 1 0
  }
  aten.effect.default()
  user_output 0 "output.0" = %3
}
)"};
}

}  // namespace cotan::testing
