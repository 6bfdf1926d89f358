// SPDX-License-Identifier: Apache-2.0

// Nodes of an exported program with sizes that depend on data. torch.export calls the symbols of these u0, u1, ...
#ifndef COTAN_AOT_FRONTEND_PT2_DATA_SIZE_NODES_H_
#define COTAN_AOT_FRONTEND_PT2_DATA_SIZE_NODES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/frontend/pt2/exported_program.h"

namespace cotan::aot::pt2 {

// Returns whether the target compares two numbers by their order: "_operator.le".
bool ComparesNumbers(absl::string_view target);

// Sets Node::data_size. The maximum of a range that torch.export calls unbounded is unset.
void FindDataSizes(absl::Span<const Symbol> symbols, Graph& graph);

// Removes assertions that a size that depends on data is in its range, which torch.export writes out: the runtime
// checks the range, and a trace may have another size.
void RemoveRangeAssertions(absl::Span<const Symbol> symbols, Graph& graph);

// Returns whether a node of the graph, or of a graph inside it, has a size that depends on data and has a maximum.
bool HasBoundedDataSizes(const Graph& graph);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_DATA_SIZE_NODES_H_
