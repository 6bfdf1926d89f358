// SPDX-License-Identifier: Apache-2.0

// Compares the traces of a model at several sizes. No LibTorch.
#ifndef COTAN_AOT_DYNAMIC_TRACE_COMPARISON_H_
#define COTAN_AOT_DYNAMIC_TRACE_COMPARISON_H_

#include <cstdint>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "aot/dynamic/learn_sizes.h"
#include "aot/ir/graph.h"
#include "base/layout.h"

namespace cotan::aot {

// Adds the sizes above 1 that are equal in the first two traces of a method to `fixed`. Methods with
// one trace add none.
void AddFixedSizes(absl::Span<const MethodTraces> methods, absl::btree_set<int64_t>& fixed);

// Checks that `small`, the graphs of the methods at `point`, where a symbol is 1 or 0, return outputs
// of the dtypes, ranks and fixed sizes of the first two traces. Their ops may differ, because every
// layout is dense there and size 1 broadcasts.
// InvalidArgument: an output differs; the message names the method, the output and the sizes.
absl::Status CheckOutputsAtSmallSize(const DynamicShapes& shapes, const DimVector& point,
                                     absl::Span<const MethodTraces> methods, absl::Span<const Graph> small);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_TRACE_COMPARISON_H_
