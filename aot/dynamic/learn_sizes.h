// SPDX-License-Identifier: Apache-2.0

// Symbolic shape inference from the traces of a model at several trace points.
#ifndef COTAN_AOT_DYNAMIC_LEARN_SIZES_H_
#define COTAN_AOT_DYNAMIC_LEARN_SIZES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "aot/ir/graph.h"
#include "base/layout.h"
#include "base/sym_int.h"

namespace cotan::aot {

// The traces of one method at all points.
struct MethodTraces {
  std::string name;
  std::vector<Graph> graphs;  // by point
};

// Size expressions that occur in the programs.
struct LearnedSizes {
  std::vector<SymInt> windows;  // sizes after convolution and pooling
  std::vector<SymInt> others;
};

// Checks that all traces of a method are the same program except for sizes, and that each size is
// an expression of the symbols that SizeFitter finds. Returns these expressions. Programs are
// compiled at the first `num_base` points; two sizes that are equal there must be equal at all
// points.
// InvalidArgument: a check fails; the message names the op and the sizes.
absl::StatusOr<LearnedSizes> InferSymbolicSizes(const DynamicShapes& shapes, absl::Span<const DimVector> points,
                                                int num_base, absl::Span<const MethodTraces> methods);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_LEARN_SIZES_H_
