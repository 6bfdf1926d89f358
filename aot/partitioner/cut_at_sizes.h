// SPDX-License-Identifier: Apache-2.0

// Cuts a lowered graph where its sizes depend on data (leading_rows.h): into sizing graphs, which count, and the
// graph that goes on at the sizes that were counted.
#ifndef COTAN_AOT_PARTITIONER_CUT_AT_SIZES_H_
#define COTAN_AOT_PARTITIONER_CUT_AT_SIZES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// A value that a sizing graph passes on to the next graph, where it is an input of kind kSaved: one of its outputs or
// inputs.
struct ContinuedValue {
  int index = 0;  // among the outputs, or among the inputs of kind kSaved
  bool from_inputs = false;
  int count = -1;  // the output with the number of rows that it is cut to; -1: it is passed whole
};

struct SizingGraph {
  // Has all user inputs; its outputs are user outputs, those that are counts with the name of what they count. It reads
  // states, and has no updates and no effects.
  Graph graph;
  // The inputs of kind kSaved of the next graph, by index.
  std::vector<ContinuedValue> continued;
};

// Returns whether sizes of the graph depend on data.
bool HasLeadingRows(const Graph& graph);

// Cuts `graph`, a forward or a graph without backward, and returns the sizing graphs in the order in which they run;
// none if no size depends on data. A sizing graph computes what the counts need; `graph` keeps all else, its outputs
// and effects included, and gets the values of the sizing graphs as further inputs. Views and constants are computed
// again.
absl::StatusOr<std::vector<SizingGraph>> CutAtSizes(Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_CUT_AT_SIZES_H_
