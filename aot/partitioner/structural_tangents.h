// What gradients depend on though their programs do not tell any more.
#ifndef COTAN_AOT_PARTITIONER_STRUCTURAL_TANGENTS_H_
#define COTAN_AOT_PARTITIONER_STRUCTURAL_TANGENTS_H_

#include <vector>

#include "aot/ir/graph.h"

namespace cotan::aot {

// By gradient of `backward` that has a value, in order: numbers of the tangents,
// ascending, that reach it in `traced`, the joint graph as it was recorded, and
// do not in `backward`, what became of it. They change nothing: zeros were made
// in the form of what came in.
std::vector<std::vector<int>> StructuralTangents(const Graph& traced, const Graph& backward);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_STRUCTURAL_TANGENTS_H_
