// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_AOT_FUSION_REMATERIALIZE_H_
#define COTAN_AOT_FUSION_REMATERIALIZE_H_

#include "aot/fusion/fusion_graph.h"

namespace cotan::aot {

// Recomputes a value that one expression stores and only others load in each of these, if it is a
// short chain of cheap functions of values they can load, and if the number of bytes loaded and
// stored does not grow. Random draws are not repeated: the result of their comparison is stored,
// one byte per element.
void RematerializeCheapOps(FusionGraph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_REMATERIALIZE_H_
