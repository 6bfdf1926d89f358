// SPDX-License-Identifier: Apache-2.0

// A model read from a .pt2 archive (torch.export.save), ready to be compiled.
//
//   COTAN_ASSIGN_OR_RETURN(const pt2::Model model, pt2::Model::Load("m.pt2"));
//   COTAN_ASSIGN_OR_RETURN(TraceableModule module,
//                          TraceableModule::FromFunction(model.function(), model.states(), {}));
#ifndef COTAN_AOT_FRONTEND_PT2_MODEL_H_
#define COTAN_AOT_FRONTEND_PT2_MODEL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/frontend/module.h"
#include "aot/frontend/pt2/exported_program.h"
#include "aot/frontend/pt2/module_runs.h"
#include "serialization/metadata/tree_spec.h"

namespace cotan::aot::pt2 {

// A loaded model. Immutable; copies share the program and its tensors.
class Model {
 public:
  // Reads an archive of torch 2.6 or later. Nothing in it is executed.
  // Errors of Archive::Open(), ParseExportedProgram(), LoadStoredTensors(), ReadPickledTensors()
  // and CheckTargets(). NotFound: the archive has no program, or a tensor of the program is
  // missing. InvalidArgument: several programs; a tensor has another dtype or other sizes than in
  // the program; in_spec or out_spec has another number of leaves than the program has inputs or
  // outputs; numbers are stored big-endian. Unimplemented: states overlap without being the same
  // tensor. Every message has `path`.
  static absl::StatusOr<Model> Load(const std::string& path);

  // Returns the exported program.
  const ExportedProgram& program() const { return *program_; }
  // Returns parameters, then buffers, in the order of the program; a tied tensor once, under its
  // first name.
  const std::vector<InitialState>& states() const { return states_; }
  // Returns a function of states() and the inputs. An input that is a number is one of cotan::aot::Number(), or of
  // SizeNumber() if the program takes it as a size or as another integer setting of an op (aot/capture/number.h).
  // Numbers that the export specialized are constants of the program, not inputs. Its results are the flat tensor
  // outputs of the program. It applies mutations to the states and inputs and does not return them. With `repeats`,
  // modules that repeat are blocks (module_runs.h).
  StateFunction function(const std::optional<RepeatLimits>& repeats = std::nullopt) const;

  // Returns the sizes of each input; symbols are indexes in program().symbols.
  std::vector<SymIntVector> InputSizes() const;

  // Returns the nesting of the arguments and results of forward(): trees over the tensor inputs and
  // outputs. Fixed values (a number, None) are not leaves.
  const TreeSpec& in_spec() const { return in_spec_; }
  const TreeSpec& out_spec() const { return out_spec_; }

  // Returns one tensor for each input: the arguments of the export, if the archive has them as plain tensors.
  // Otherwise, or with `symbols`, tensors of random floating point numbers and of integers 0. Numbers are those of the
  // export. `symbols` are values of the dynamic dimensions by index in program().symbols; empty: the values of the
  // export. InvalidArgument: a symbol without a value, a negative size, or more than 2^48 elements. ResourceExhausted:
  // the memory is full.
  absl::StatusOr<std::vector<at::Tensor>> ExampleInputs(absl::Span<const int64_t> symbols = {}) const;

  // Returns a tensor on the meta device for each result of function(), with the sizes of the export and dense strides;
  // undefined if a size depends on data.
  std::vector<at::Tensor> OutputShapes() const;

 private:
  struct Inputs;
  class Call;
  Model() = default;

  std::shared_ptr<const ExportedProgram> program_;
  std::shared_ptr<const Inputs> inputs_;
  std::vector<InitialState> states_;
  TreeSpec in_spec_;
  TreeSpec out_spec_;
};

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_MODEL_H_
