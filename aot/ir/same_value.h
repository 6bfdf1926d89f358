// SPDX-License-Identifier: Apache-2.0

// Recognizes values of a graph that are computed alike.
#ifndef COTAN_AOT_IR_SAME_VALUE_H_
#define COTAN_AOT_IR_SAME_VALUE_H_

#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns whether `a` and `b` are one value, or the same results of equal ops of values of which this holds. Takes time
// proportional to the size of the graph. Effects are never equal.
bool ComputesSame(const Graph& graph, ValueId a, ValueId b);

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_SAME_VALUE_H_
