// SPDX-License-Identifier: Apache-2.0

// The second run of a function: its recording, and the tensors that the traces of the forward and of
// the backward share.
#ifndef COTAN_AOT_AOTAUTOGRAD_JOINT_TRACE_H_
#define COTAN_AOT_AOTAUTOGRAD_JOINT_TRACE_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/aotautograd/first_pass.h"
#include "aot/aotautograd/program_arguments.h"
#include "aot/aotautograd/trace_options.h"
#include "aot/capture/recorder.h"
#include "aot/capture/traced_function.h"
#include "aot/capture/traced_program.h"
#include "aot/ir/graph.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::aot {

// The state of one second run. While it exists, its recorder is the current one. All tensors but the
// examples are functional.
struct JointTrace {
  JointTrace(absl::Span<const ModuleState> states, FirstPass first_pass, const TraceOptions& options);
  ~JointTrace() { Release(); }
  JointTrace(const JointTrace&) = delete;
  JointTrace& operator=(const JointTrace&) = delete;

  // Adds the program's arguments, RNG state and effect token. `examples` are the user inputs.
  void InstallProxies(absl::Span<const at::Tensor> examples);
  // Drops all tensors of the trace, so that any proxy still alive has leaked from the function, and
  // restores the states.
  void Release();

  // Returns the index of the loss, counted from the start; -1 without one.
  int LossOutput() const;
  // Returns the graph input that is the program argument.
  GraphInput& GraphInputOf(int argument);
  // Returns the new content of the program argument; of a base with its geometry at entry.
  at::Tensor AtExit(int argument) const;
  at::Tensor TensorOf(const ForwardTensor& tensor) const;
  // Returns the name of the graph output for the tensor.
  std::string NameOf(const ForwardTensor& tensor);
  // Returns whether there were effects with token `index`. If so, the last token becomes an output.
  bool AddTokenOutput(int index);

  absl::Span<const ModuleState> states;
  const TraceOptions& options;
  FirstPass first;
  ViewAndMutationMetaFields facts;  // in terms of the program's arguments
  DerivedMetadata derived;          // of `facts`, once the forward was traced
  Recorder recorder;
  RecordingScope recording;
  TracedProgram program;  // result

  std::vector<std::string> input_names, output_names;
  ProgramArguments program_arguments;
  std::vector<at::Tensor> arguments;  // by program argument: tensor that the function writes to
  // Gradient edges at entry of leaves that get another storage, by program argument.
  std::vector<std::pair<int, torch::autograd::Edge>> edges_before_new_storage;
  std::vector<at::Tensor> outputs;
  std::vector<at::Tensor> intermediate_bases;
  std::vector<at::Tensor> tangents;
  bool has_effects = false;  // in the forward
  bool has_backward_effects = false;
};

// Returns the whole storage of a functional tensor with all mutations, as a functional tensor.
at::Tensor StorageContentOf(const at::Tensor& tensor);

// Returns `count` names: the given ones, then PREFIX.I.
std::vector<std::string> NamesFor(size_t count, const std::vector<std::string>& given, absl::string_view prefix);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_JOINT_TRACE_H_
