#ifndef COTAN_AOT_FUSION_REMATERIALIZE_H_
#define COTAN_AOT_FUSION_REMATERIALIZE_H_

#include "aot/fusion/fusion_graph.h"

namespace cotan::aot {

// A value that one expression stores and only others load is computed again by
// each of them, if it is a short chain of cheap functions of what they can load
// and that loads and stores no more bytes than before. Draws of random numbers
// are never repeated: their comparison is stored, a byte per element.
void RematerializeCheapOps(FusionGraph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_REMATERIALIZE_H_
