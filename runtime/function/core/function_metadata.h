// SPDX-License-Identifier: Apache-2.0

// FunctionMetadata: the immutable description of a function that the stages of its calls and its backward nodes share.
//
// FunctionCore owns it. Made once from the method and its metadata; all indices are resolved, so that a call looks
// nothing up and reads no protobuf. What only one stage needs is a member of that stage (runtime/function/stages).
//
// Index spaces
//   input             of the traced function: parameters, buffers, then the user's arguments
//   program argument  synthetic bases, then the other unique inputs
//   method input      Method.inputs: the program arguments that are not states
//   result            Method.outputs, then the contents of storages that Method.input_updates sets
//   returned value    the forward returns of the program that are results or have a tangent
//   output            of the traced function, as returned to the user
// All are counted over the tensors that arguments and outputs of wrapper types consist of.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_METADATA_H_
#define COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_METADATA_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "planning/schedule.h"
#include "runtime/execution/program.h"
#include "runtime/function/core/backward_metadata.h"
#include "runtime/function/core/mutations.h"
#include "runtime/function/core/returned_values.h"
#include "runtime/session/call_argument.h"
#include "serialization/metadata/input_binding.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/metadata/wrapper_meta.h"

namespace cotan {

struct FunctionInput {
  std::string name;
  int state = -1;              // index of a state; -1: a user argument
  bool requires_grad = false;  // at entry
  bool requires_grad_at_exit = false;
  // Returns whether the function calls detach_() or requires_grad_(false) on the input.
  bool is_detached() const { return requires_grad && !requires_grad_at_exit; }
};

// The user's arguments and outputs of a function some of which are of wrapper types.
struct WrapperTypes {
  struct Argument {
    std::string name;
    FlatMeta meta;
  };
  std::vector<Argument> arguments;
  std::vector<FlatMeta> outputs;
};

struct FunctionMetadata {
  // Describes `method` of `program`, which must outlive the result. InvalidArgument: `method` is the backward of
  // another method. FailedPrecondition: it has no metadata, its backward has no `gradient_inputs`, or it returns
  // gradients itself. VerifyArtifact() has checked that the metadata fits the method.
  static absl::StatusOr<FunctionMetadata> Create(const Program& program, int method);

  const Program* program = nullptr;
  int method = 0;
  std::string name;       // of the method
  std::string node_name;  // Node::name() of the CompiledBackward nodes

  ViewAndMutationMeta metadata;          // of the user's function, over flat values
  ViewAndMutationMeta program_metadata;  // after de-duplication and synthetic bases
  InputBinding binding;
  std::optional<WrapperTypes> wrappers;  // unset: all arguments and outputs are plain

  std::vector<FunctionInput> inputs;
  int num_states = 0;  // inputs [0, num_states) are states

  std::vector<int> argument_inputs;   // by program argument: its input; -1: a base
  std::vector<int> method_arguments;  // by method input: its program argument

  int num_outputs = 0;                  // number of Method.outputs
  int num_results = 0;                  // num_outputs plus the number of set storages
  int first_saved = 0;                  // first result that is a saved value
  int num_saved = 0;                    // results [first_saved, num_outputs) are saved values
  std::vector<ResultRequest> requests;  // by Method.outputs, if the call is recorded

  BackwardMetadata backward;
  bool has_detached_grad_sink = false;  // results require grad, but no input does: the node has no edges
  ReturnedValues returned;
  Mutations mutations;

  const serialization::Method& method_proto() const { return program->method(method); }
  int num_arguments() const { return static_cast<int>(inputs.size()) - num_states; }
  int num_bases() const { return binding.num_bases(); }
  int num_tangents() const { return program_metadata.derived().num_tangents(); }
  // Returns whether a call in the grad mode of tracing makes a CompiledBackward node.
  bool makes_node() const { return backward.method >= 0 || !backward.refusal.empty() || has_detached_grad_sink; }
  const FunctionInput& input(int index) const { return inputs[static_cast<size_t>(index)]; }

  // Returns a number that is given as argument `argument`, as a tensor. InvalidArgument: there is no such argument, or
  // the function does not have it as an input of its own. Errors of cotan::TensorOfNumber().
  absl::StatusOr<Tensor> TensorOfNumber(NumberValue number, int argument) const;

  // --- For the creation of stages ---

  bool IsState(int argument) const;
  // Returns the first input that is the same tensor.
  int OriginalOf(int input) const;
  // Returns the program argument that is the input; -1 if the input is a duplicate or a view of a base.
  int ArgumentOf(int input) const;
  // Returns the method input that is program argument `argument`; their number if it is none.
  int MethodInputOf(int argument) const;
  // Returns the inputs that are views of base `base`, which is a program argument; none if that is not a base.
  std::vector<std::pair<int, const InputBinding::BaseView*>> ViewsOf(int base) const;

  // Return the name of a program argument, and those of several inputs: "x", "base of x, y".
  std::string ArgumentName(int argument) const;
  std::string InputNames(const std::vector<int>& of_inputs) const;

  // Returns FailedPrecondition: "method 'f' `what`: compile the model again, or use Session::Run()".
  absl::Status Unsupported(absl::string_view what) const;
};

// Returns InvalidArgument: "function 'forward': " and `parts`.
template <typename... Parts>
absl::Status Refuse(const FunctionMetadata& function, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("function '", function.name, "': ", parts...));
}

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_METADATA_H_
