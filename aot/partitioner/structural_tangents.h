// SPDX-License-Identifier: Apache-2.0

// Tangents removed by simplification that still decide whether a gradient is defined.
#ifndef COTAN_AOT_PARTITIONER_STRUCTURAL_TANGENTS_H_
#define COTAN_AOT_PARTITIONER_STRUCTURAL_TANGENTS_H_

#include <vector>

#include "aot/ir/graph.h"

namespace cotan::aot {

// Returns, for each gradient of `backward` that has a value, in order, the ascending indexes of the
// tangents that reach it in `traced`, the joint graph as recorded, but not in `backward`, the
// optimized backward. Such a tangent does not change the gradient's value: the graph used only its
// sizes, for example in zeros_like.
std::vector<std::vector<int>> StructuralTangents(const Graph& traced, const Graph& backward);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_STRUCTURAL_TANGENTS_H_
