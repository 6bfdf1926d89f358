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
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/frontend/module.h"
#include "aot/frontend/pt2/exported_program.h"
#include "serialization/metadata/tree_spec.h"

namespace cotan::aot::pt2 {

// Immutable; copies share the program and its tensors.
class Model {
 public:
  // Reads any archive of torch 2.6 and later. Nothing in it is executed.
  // Errors of Archive::Open(), ParseExportedProgram(), LoadStoredTensors() and
  // CheckTargets(); NotFound: it holds no program, or a tensor of the program
  // is missing; InvalidArgument: several programs; a tensor has other sizes
  // than the program says; in_spec or out_spec has another number of leaves than
  // the program has inputs or outputs; numbers stored big-endian. Every message names
  // `path`.
  static absl::StatusOr<Model> Load(const std::string& path);

  const ExportedProgram& program() const { return *program_; }
  // Parameters, then buffers, in the program's order; a tied one once, under
  // its first name.
  const std::vector<InitialState>& states() const { return states_; }
  // A function of states() and the tensor inputs. Its results are the program's
  // tensor outputs, nested ones flattened, without mutations: those it applies
  // to the states and inputs.
  StateFunction function() const;

  // Of each tensor input; symbols are indexes in program().symbols.
  std::vector<SymIntVector> InputSizes() const;

  // How forward()'s arguments and results are nested: trees over the tensor inputs
  // and outputs. What is fixed (a number, None) has no leaf.
  const TreeSpec& in_spec() const { return in_spec_; }
  const TreeSpec& out_spec() const { return out_spec_; }

  // One tensor for each tensor input, of the sizes that the program was
  // exported with: random floating point numbers, integers all 0.
  // `symbols`: values of the dynamic dimensions, by index in
  // program().symbols; empty: as exported.
  // InvalidArgument: a symbol without a value.
  absl::StatusOr<std::vector<at::Tensor>> ExampleInputs(absl::Span<const int64_t> symbols = {}) const;

 private:
  struct Inputs;
  Model() = default;

  std::shared_ptr<const ExportedProgram> program_;
  std::shared_ptr<const Inputs> inputs_;
  std::vector<InitialState> states_;
  TreeSpec in_spec_;
  TreeSpec out_spec_;
};

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_MODEL_H_
