// SPDX-License-Identifier: Apache-2.0

// Creates the proxies of a program's arguments, and the tensors that the traced function gets for
// its inputs.
#ifndef COTAN_AOT_AOTAUTOGRAD_PROGRAM_ARGUMENTS_H_
#define COTAN_AOT_AOTAUTOGRAD_PROGRAM_ARGUMENTS_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "aot/capture/recorder.h"
#include "aot/capture/traced_function.h"
#include "serialization/metadata/input_binding.h"

namespace cotan::aot {

// An argument of the program: a synthetic base, a state, or an input of the function.
struct ProgramArgument {
  int graph_input = 0;  // index among the inputs of the recorder's graph
  at::Tensor primal;    // functional; leaf that gradients are computed for
  at::Tensor tensor;    // functional; tensor that the function writes to
  bool requires_grad = false;
  at::Tensor example;  // real; undefined for a state
  // Index of the function's input that this argument is, if that is a view made under no_grad: it
  // requires grad and gets no gradient. -1 otherwise.
  int input_without_gradient = -1;
};

// All arguments of a program.
struct ProgramArguments {
  // Synthetic bases, then states, then inputs.
  std::vector<ProgramArgument> arguments;
  // One tensor for each user input of the function: the tensor of an argument, or a view of a base.
  std::vector<at::Tensor> function_inputs;
  // For each state and user input of the function: index of its graph input, or of the graph input
  // of its base.
  std::vector<int> graph_inputs;
};

// Installs proxies in the states and adds graph inputs for all other arguments to the graph of
// `recorder`. `examples` are the user inputs, real CPU tensors, `names` their names. The recorder
// must be the current one; the caller restores the states (RestoreStates()).
ProgramArguments AddProgramArguments(const InputBinding& binding, absl::Span<const ModuleState> states,
                                     absl::Span<const at::Tensor> examples, absl::Span<const std::string> names,
                                     Recorder& recorder);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_PROGRAM_ARGUMENTS_H_
