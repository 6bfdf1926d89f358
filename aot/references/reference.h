// SPDX-License-Identifier: Apache-2.0

// Computes with LibTorch the states that a compiled method must produce on the examples.
#ifndef COTAN_AOT_REFERENCES_REFERENCE_H_
#define COTAN_AOT_REFERENCES_REFERENCE_H_

#include <vector>

#include "aot/capture/traced_program.h"
#include "aot/optimizer/optimizer.h"

namespace cotan::aot {

// Returns the new contents of the parameters and buffers that the traced function mutates, from its
// reference run.
std::vector<ExpectedState> ExpectedAfterRun(const TracedProgram& traced);

// Returns ExpectedAfterRun(), and the parameters that have a gradient after the first step of
// LibTorch's optimizer with `config`, which AppendOptimizer() accepts. Each has a slack, the
// tolerance for elements whose gradient is zero except for rounding: SGD moves such an element by a
// rounding error, Adam by up to its learning rate.
std::vector<ExpectedState> ExpectedAfterStep(const TracedProgram& traced, const OptimizerConfig& config);

}  // namespace cotan::aot

#endif  // COTAN_AOT_REFERENCES_REFERENCE_H_
