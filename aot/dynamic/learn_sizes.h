// What the traces of a function at several sizes have in common.
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

// The traces of one method at several points.
struct MethodTraces {
  std::string name;
  std::vector<Graph> graphs;  // by point
};

// Expressions of the symbols that sizes in a program are.
struct LearnedSizes {
  std::vector<SymInt> windows;  // sizes after convolution and pooling
  std::vector<SymInt> others;
};

// Checks that all traces of a method are the same program but for sizes, and
// that sizes are known functions of the symbols. The first `num_base` points are
// those at which programs are compiled: functions that differ, but not there,
// are refused.
// InvalidArgument: the message names op and sizes.
absl::StatusOr<LearnedSizes> InferSymbolicSizes(const DynamicShapes& shapes, absl::Span<const DimVector> points,
                                                int num_base, absl::Span<const MethodTraces> methods);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_LEARN_SIZES_H_
