// SPDX-License-Identifier: Apache-2.0

// The outputs of a joint graph that an optimizer replaces. Private to //aot/optimizer.
#ifndef COTAN_AOT_OPTIMIZER_GRADIENT_OUTPUTS_H_
#define COTAN_AOT_OPTIMIZER_GRADIENT_OUTPUTS_H_

#include <vector>

#include "aot/ir/graph.h"

namespace cotan::aot {

// A gradient of a parameter, and the parameter's input.
struct Gradient {
  GraphInput parameter;
  ValueId value;
};

// Removes the gradients from the graph's outputs, and returns those of parameters.
std::vector<Gradient> TakeGradients(Graph& graph);

// Returns the content that the update of a parameter starts from: what the graph has written to the parameter, whose
// output is removed, or else the parameter's input.
ValueId TakeContent(Graph& graph, const GraphInput& parameter);

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_GRADIENT_OUTPUTS_H_
