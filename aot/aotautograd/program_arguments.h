// The arguments of a program in the making, and what the traced function gets
// of them.
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

// An argument of the program: a synthetic base, a state, or an input of the
// function.
struct ProgramArgument {
  int graph_input = 0;  // index among the inputs of the recorder's graph
  at::Tensor primal;    // functional; what gradients are taken to
  at::Tensor tensor;    // functional; what the function writes to
  bool requires_grad = false;
  at::Tensor example;  // real; undefined for a state
  // The function's input that it is, if that requires grad and no gradient goes
  // through it: a view made under no_grad. -1: none such.
  int input_without_gradient = -1;
};

struct ProgramArguments {
  // Bases, then states, then inputs.
  std::vector<ProgramArgument> arguments;
  // One for each user input of the function: an argument's tensor, or a view of a
  // base.
  std::vector<at::Tensor> function_inputs;
  // One for each state and user input of the function: the graph's input that is
  // it, or the base that it is a view of.
  std::vector<int> graph_inputs;
};

// Seats the states and adds graph inputs for the arguments, states first.
// `examples` are the user inputs, real CPU tensors; `names` are theirs, as many.
// Call it while a trace is under way; the caller unseats the states.
ProgramArguments AddProgramArguments(const InputBinding& binding, absl::Span<const ModuleState> states,
                                     absl::Span<const at::Tensor> examples, absl::Span<const std::string> names,
                                     Recorder& recorder);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_PROGRAM_ARGUMENTS_H_
