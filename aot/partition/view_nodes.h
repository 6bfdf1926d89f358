// Nodes of a lowered graph whose result is their operand's memory seen otherwise.
#ifndef COTAN_AOT_PARTITION_VIEW_NODES_H_
#define COTAN_AOT_PARTITION_VIEW_NODES_H_

#include "aot/graph/graph.h"

namespace cotan::aot {

bool IsViewNode(const Node& node);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITION_VIEW_NODES_H_
