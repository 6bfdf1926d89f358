// What a compiled method is expected to leave in the session's states, by
// LibTorch's own computation.
#ifndef COTAN_AOT_REFERENCES_REFERENCE_H_
#define COTAN_AOT_REFERENCES_REFERENCE_H_

#include <vector>

#include "aot/capture/traced_program.h"
#include "aot/optimizer/optimizer.h"

namespace cotan::aot {

// The parameters and buffers that the traced function writes.
std::vector<ExpectedState> ExpectedAfterRun(const TracedProgram& traced);

// The same, and the parameters that have a gradient after the first step of
// LibTorch's optimizer. The config is one that AppendOptimizer() accepts. A
// gradient may be zero but for rounding: SGD moves a parameter by as little as
// that, Adam divides it by its size, which makes it visible. That is the slack.
std::vector<ExpectedState> ExpectedAfterStep(const TracedProgram& traced, const OptimizerConfig& config);

}  // namespace cotan::aot

#endif  // COTAN_AOT_REFERENCES_REFERENCE_H_
