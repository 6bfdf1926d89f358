// SPDX-License-Identifier: Apache-2.0

// Text form of a graph, for dumps, tests and messages. Line oriented; blank lines and lines that
// start with '#' are skipped.
//
//   graph @step {
//     %0: f32[32,784] = user_input 0 "input.0"
//     %1: f32[10,784]{1,0} = parameter 0 "0.weight"
//     %2: f32[784,10] = aten.t.default(%1) from "0"
//     %3: f32[32,1] "rowsum", _ = cotan.expr(%0) {
//       domain [32,784] reduce [1]
//       0: f32 = input 0
//       1: f32 = reduce_sum 0
//       store 1
//     }
//     user_output 0 "output.0" = %3
//     gradient 1 "0.weight" = none
//   }
//
// Types are DTYPE[sizes] and, unless row-major, {dim_order}; a string after a type is the value's
// name (an input's is by default that of the input); `_` is an absent result. Inputs and outputs
// may end with " without_version_check". Arguments: none,
// %value, {%value, none} (tensor list), true, 3 or (s0 * 2) (integer), 1.5 (number), "text", f32
// (dtype), [1, s0] (integers), floats[1.0], bools[true].
#ifndef COTAN_AOT_IR_TEXT_H_
#define COTAN_AOT_IR_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns the text of `graph`. Values are numbered in order of definition, independent of their
// ids.
std::string PrintGraph(const Graph& graph);

// Returns a type as text, such as "f32[32,8,4,4]{0,2,3,1}".
std::string PrintType(const TensorType& type);

// Returns the text of one node with its actual value ids; for messages.
std::string PrintNode(const Graph& graph, const Node& node);

// Parses the text of a graph: PrintGraph(*ParseGraph(PrintGraph(g))) == PrintGraph(g). Checks
// syntax and that values are defined before use; VerifyGraph() checks the rest.
// InvalidArgument: a line does not parse; the message has its number (from 1) and what was
// expected.
absl::StatusOr<Graph> ParseGraph(absl::string_view text);

absl::string_view InputKindName(InputKind kind);    // "user_input"
absl::string_view OutputKindName(OutputKind kind);  // "user_output"

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_TEXT_H_
