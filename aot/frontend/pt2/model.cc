// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/model.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/number.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"
#include "aot/frontend/pt2/archive_content.h"
#include "aot/frontend/pt2/example_tensors.h"
#include "aot/frontend/pt2/interpreter.h"
#include "aot/frontend/pt2/number_inputs.h"
#include "aot/frontend/pt2/run_schedule.h"
#include "aot/frontend/pt2/weights.h"
#include "base/layout.h"
#include "base/status_macros.h"

namespace cotan::aot::pt2 {
namespace {

using serialization::State;

absl::Status InFile(const absl::Status& status, const std::string& path) {
  if (status.ok() || absl::StrContains(status.message(), path)) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

bool SameTensor(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() > 0 && a.const_data_ptr() == b.const_data_ptr() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.scalar_type() == b.scalar_type();
}

}  // namespace

// Sources of the inputs of the graph.
struct Model::Inputs {
  struct State {
    std::string graph_name;
    size_t index;  // in states_
  };
  struct Constant {
    std::string graph_name;
    at::Tensor tensor;
  };
  std::vector<State> states;
  std::vector<Constant> constants;
  std::vector<std::string> tensors;  // graph names of the user's inputs
  std::vector<UserInputKind> kinds;  // of `tensors`
  // Those of the export for the inputs that are tensors, in order; empty: the archive has none that fit.
  std::vector<at::Tensor> arguments;
  std::vector<std::string> tokens;  // graph names
};

namespace {

// Assembles a Model from the content of an archive.
class Assembly {
 public:
  explicit Assembly(ArchiveContent& content) : content_(content) {}

  absl::StatusOr<at::Tensor> TensorFor(const InputSpec& spec, bool* requires_grad) const {
    const StoredTensor* stored = Find(content_.weights, spec.name);
    if (stored == nullptr) stored = Find(content_.constants, spec.name);
    if (stored == nullptr) {
      return absl::NotFoundError(absl::StrCat("the program uses '", spec.name, "', which the archive does not hold"));
    }
    COTAN_RETURN_IF_ERROR(CheckAgainstGraph(spec, stored->tensor));
    *requires_grad = stored->requires_grad;
    return stored->tensor;
  }

  // Returns the state with which `tensor` is tied; unset if it is a new one.
  // Unimplemented: it overlaps another state without being the same.
  absl::StatusOr<std::optional<size_t>> FindTied(const InputSpec& spec, const at::Tensor& tensor) {
    if (tensor.numel() == 0) return std::nullopt;
    const auto [found, is_new] = state_in_.try_emplace(tensor.storage().unsafeGetStorageImpl(), states.size());
    if (is_new) return std::nullopt;
    const InitialState& state = states[found->second];
    if (SameTensor(state.value, tensor)) return found->second;
    return absl::UnimplementedError(absl::StrCat("'", spec.name, "' and '", state.name,
                                                 "' overlap in memory without being the same; give one of them "
                                                 "memory of its own (clone) before exporting"));
  }

  std::vector<InitialState> states;

 private:
  static const StoredTensor* Find(const StoredTensors& tensors, const std::string& name) {
    const auto found = tensors.find(name);
    return found == tensors.end() ? nullptr : &found->second;
  }

  absl::Status CheckAgainstGraph(const InputSpec& spec, const at::Tensor& tensor) const {
    const Name* name = std::get_if<Name>(&spec.arg);
    const auto found = content_.program.graph.tensor_values.find(name == nullptr ? "" : name->name);
    if (found == content_.program.graph.tensor_values.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the program has no tensor metadata of '", spec.name, "'"));
    }
    const TensorType expected = {found->second.dtype, found->second.sizes, {}};
    if (TypeOf(tensor) == expected) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("'", spec.name, "' has another dtype or other sizes in its file than in the program"));
  }

  ArchiveContent& content_;
  absl::flat_hash_map<const c10::StorageImpl*, size_t> state_in_;  // by storage; one state has it
};

// Replaces leaves of `spec` that are not tensors by kNone. The first leaf is number `next`.
void KeepTensorLeaves(const std::vector<bool>& is_tensor, size_t& next, TreeSpec& spec) {
  if (spec.kind == TreeSpec::Kind::kLeaf && !is_tensor[next++]) spec.kind = TreeSpec::Kind::kNone;
  for (TreeSpec& child : spec.children) KeepTensorLeaves(is_tensor, next, child);
}

absl::StatusOr<TreeSpec> TensorTree(TreeSpec spec, const std::vector<bool>& is_tensor, absl::string_view field) {
  if (static_cast<size_t>(spec.num_leaves()) != is_tensor.size()) {
    return absl::InvalidArgumentError(absl::StrCat(field, " has ", spec.num_leaves(), " leaves, but the program has ",
                                                   is_tensor.size(), " values for them"));
  }
  size_t next = 0;
  KeepTensorLeaves(is_tensor, next, spec);
  return spec;
}

absl::StatusOr<TreeSpec> InputTree(const ExportedProgram& program) {
  std::vector<bool> is_tensor;
  for (const InputSpec& input : program.inputs) {
    const bool is_user_input = input.kind == InputSpec::Kind::kUserInput;
    if (is_user_input || input.kind == InputSpec::Kind::kConstant) is_tensor.push_back(is_user_input);
  }
  return TensorTree(program.in_spec, is_tensor, "in_spec");
}

bool IsResult(const OutputSpec& output) {
  return output.kind == OutputSpec::Kind::kUserOutput || output.kind == OutputSpec::Kind::kLoss;
}

absl::StatusOr<TreeSpec> OutputTree(const ExportedProgram& program) {
  std::vector<bool> is_tensor;
  for (const OutputSpec& output : program.outputs) {
    if (!IsResult(output)) continue;
    const Name* name = std::get_if<Name>(&output.arg);
    is_tensor.push_back(name != nullptr && program.graph.tensor_values.contains(name->name));
  }
  return TensorTree(program.out_spec, is_tensor, "out_spec");
}

State::Role RoleOf(const InputSpec& spec) {
  return spec.kind == InputSpec::Kind::kParameter ? State::PARAMETER : State::BUFFER;
}

// Returns the value of each symbol in the export.
std::vector<int64_t> ExportedSymbols(const ExportedProgram& program) {
  std::vector<int64_t> values;
  for (const Symbol& symbol : program.symbols) {
    values.push_back(symbol.hint.value_or(std::max<int64_t>(symbol.min, 1)));
  }
  return values;
}

// Returns whether the arguments have the dtypes and sizes of the inputs `names` that are tensors.
bool DoArgumentsFit(const ExportedProgram& program, const std::vector<std::string>& names,
                    const std::vector<UserInputKind>& kinds, const std::vector<at::Tensor>& arguments) {
  const std::vector<int64_t> symbols = ExportedSymbols(program);
  size_t next = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (kinds[i] != UserInputKind::kTensor) continue;
    if (next == arguments.size()) return false;
    const at::Tensor& argument = arguments[next++];
    const TensorMeta& meta = program.graph.tensor_values.at(names[i]);
    if (argument.scalar_type() != ToScalarType(meta.dtype) || argument.dim() != std::ssize(meta.sizes)) return false;
    for (int64_t d = 0; d < argument.dim(); ++d) {
      const absl::StatusOr<int64_t> size = meta.sizes[static_cast<size_t>(d)].Evaluate(symbols);
      if (!size.ok() || *size != argument.size(d)) return false;
    }
  }
  return next == arguments.size();
}

}  // namespace

absl::StatusOr<Model> Model::Load(const std::string& path) {
  const auto load = [&]() -> absl::StatusOr<Model> {
    COTAN_ASSIGN_OR_RETURN(ArchiveContent content, ReadArchiveContent(path));
    COTAN_RETURN_IF_ERROR(CheckTargets(content.program.graph));
    Assembly assembly(content);
    auto inputs = std::make_shared<Inputs>();
    for (const InputSpec& spec : content.program.inputs) {
      if (spec.kind == InputSpec::Kind::kConstant) continue;
      const Name* name = std::get_if<Name>(&spec.arg);
      if (name == nullptr) return absl::InvalidArgumentError(absl::StrCat("input '", spec.name, "' is not a tensor"));
      if (spec.kind == InputSpec::Kind::kToken) {
        inputs->tokens.push_back(name->name);
        continue;
      }
      if (spec.kind == InputSpec::Kind::kUserInput) {
        inputs->tensors.push_back(name->name);
        inputs->kinds.push_back(KindOfUserInput(content.program.graph, name->name));
        continue;
      }
      bool requires_grad = false;
      COTAN_ASSIGN_OR_RETURN(const at::Tensor tensor, assembly.TensorFor(spec, &requires_grad));
      if (spec.kind == InputSpec::Kind::kTensorConstant) {
        inputs->constants.push_back({name->name, tensor});
        continue;
      }
      COTAN_ASSIGN_OR_RETURN(const std::optional<size_t> tied, assembly.FindTied(spec, tensor));
      if (tied.has_value()) {
        assembly.states[*tied].aliases.push_back(spec.name);
      } else {
        assembly.states.push_back({.name = spec.name,
                                   .role = RoleOf(spec),
                                   .value = tensor,
                                   .requires_grad = requires_grad && RoleOf(spec) == State::PARAMETER,
                                   .persistent = spec.persistent});
      }
      inputs->states.push_back({name->name, tied.value_or(assembly.states.size() - 1)});
    }
    if (DoArgumentsFit(content.program, inputs->tensors, inputs->kinds, content.arguments)) {
      inputs->arguments = std::move(content.arguments);
    }
    Model model;
    model.states_ = std::move(assembly.states);
    model.inputs_ = std::move(inputs);
    COTAN_ASSIGN_OR_RETURN(model.in_spec_, InputTree(content.program));
    COTAN_ASSIGN_OR_RETURN(model.out_spec_, OutputTree(content.program));
    model.program_ = std::make_shared<const ExportedProgram>(std::move(content.program));
    return model;
  };
  absl::StatusOr<Model> model = load();
  if (!model.ok()) return InFile(model.status(), path);
  return model;
}

namespace {

using TensorVector = std::vector<at::Tensor>;
using StateIndices = absl::flat_hash_map<std::string, size_t>;  // by the name of a mutated state

[[noreturn]] void RefuseNumber(absl::string_view name) {
  throw std::invalid_argument(
      absl::StrCat("the result '", name, "' is a number that depends on an input; return it as a tensor"));
}

// Returns whether a value is an integer that depends on dynamic sizes.
bool IsDynamic(const Graph& graph, const std::string& name) {
  const auto number = graph.sym_int_values.find(name);
  return number != graph.sym_int_values.end() && !number->second.is_constant();
}

at::Tensor OutputTensor(const OutputSpec& output, const Environment& values) {
  const c10::IValue value = ValueOf(output.arg, values);
  if (!value.isTensor()) throw std::invalid_argument("an output of the graph is not a tensor");
  return value.toTensor();
}

// Writes new content, which the functional form of a program returns, to the mutated tensor.
void ApplyMutation(const OutputSpec& output, const at::Tensor& target, const Environment& values) {
  c10::AutoGradMode no_grad(false);
  target.copy_(OutputTensor(output, values));
}

// Returns the index in `states` of each name and alias.
StateIndices IndexStates(const std::vector<InitialState>& states) {
  StateIndices indices;
  for (size_t i = 0; i < states.size(); ++i) {
    indices.try_emplace(states[i].name, i);
    for (const std::string& alias : states[i].aliases) indices.try_emplace(alias, i);
  }
  return indices;
}

}  // namespace

// Fills the environment of one call and reads its outputs. Errors are thrown as std::invalid_argument.
class Model::Call {
 public:
  Call(const Inputs& names, const StateIndices& state_of_target, const TensorVector& states, const TensorVector& inputs)
      : names_(names), state_of_target_(state_of_target), states_(states), inputs_(inputs) {}

  Environment InitialValues() const {
    if (inputs_.size() != names_.tensors.size()) {
      throw std::invalid_argument(
          absl::StrCat("the model takes ", names_.tensors.size(), " tensors, not ", inputs_.size()));
    }
    Environment values;
    for (const Inputs::State& state : names_.states) values[state.graph_name] = states_[state.index];
    Recorder* recorder = CurrentRecorder();
    for (const Inputs::Constant& constant : names_.constants) {
      values[constant.graph_name] = recorder == nullptr ? constant.tensor : recorder->Constant(constant.tensor);
    }
    for (const std::string& token : names_.tokens) values[token] = c10::IValue();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      values[names_.tensors[i]] = UserInputValue(names_.kinds[i], names_.tensors[i], inputs_[i]);
    }
    return values;
  }

  // Applies the mutations that the graph returns as outputs, and returns the results that are
  // tensors, in order. Results that are numbers or None are constants of the program; throws if one depends on an
  // input.
  TensorVector ReadOutputs(const ExportedProgram& program, const Environment& values) const {
    TensorVector results;
    for (const OutputSpec& output : program.outputs) {
      switch (output.kind) {
        case OutputSpec::Kind::kUserOutput:
        case OutputSpec::Kind::kLoss:
          if (const Name* name = std::get_if<Name>(&output.arg)) {
            const c10::IValue value = ValueOf(output.arg, values);
            if (value.isTensor()) results.push_back(value.toTensor());
            if (IsSymbolicNumber(value)) RefuseNumber(NameOfNumber(value));
            if (IsDynamic(program.graph, name->name)) RefuseNumber(name->name);
          }
          break;
        case OutputSpec::Kind::kBufferMutation:
        case OutputSpec::Kind::kParameterMutation:
          ApplyMutation(output, MutatedState(output.target), values);
          break;
        case OutputSpec::Kind::kUserInputMutation:
          ApplyMutation(output, MutatedInput(output.target), values);
          break;
        case OutputSpec::Kind::kGradient:
          break;  // rejected by ParseExportedProgram()
        case OutputSpec::Kind::kToken:
          break;
      }
    }
    return results;
  }

 private:
  const at::Tensor& MutatedState(const std::string& target) const {
    const auto index = state_of_target_.find(target);
    if (index != state_of_target_.end()) return states_[index->second];
    throw std::invalid_argument(absl::StrCat("it changes '", target, "', which is not a state"));
  }

  const at::Tensor& MutatedInput(const std::string& target) const {
    const auto name = std::find(names_.tensors.begin(), names_.tensors.end(), target);
    if (name != names_.tensors.end()) return inputs_[static_cast<size_t>(name - names_.tensors.begin())];
    throw std::invalid_argument(absl::StrCat("it changes '", target, "', which is not an input"));
  }

  const Inputs& names_;
  const StateIndices& state_of_target_;
  const TensorVector& states_;
  const TensorVector& inputs_;
};

StateFunction Model::function(const std::optional<RepeatLimits>& repeats) const {
  const auto schedule = std::make_shared<const Schedule>(repeats.has_value() ? FindModuleRuns(*program_, *repeats)
                                                                             : PlainSchedule(*program_));
  return [program = program_, schedule, names = inputs_, state_of_target = IndexStates(states_)](
             const TensorVector& states, const TensorVector& inputs) {
    const Call call(*names, state_of_target, states, inputs);
    Environment values = call.InitialValues();
    RunSchedule(*schedule, values);
    return call.ReadOutputs(*program, values);
  };
}

std::vector<SymIntVector> Model::InputSizes() const {
  std::vector<SymIntVector> sizes;
  for (size_t i = 0; i < inputs_->tensors.size(); ++i) {
    const std::string& name = inputs_->tensors[i];
    SymIntVector& of_input = sizes.emplace_back();
    if (inputs_->kinds[i] == UserInputKind::kTensor) of_input = program_->graph.tensor_values.at(name).sizes;
    if (inputs_->kinds[i] == UserInputKind::kSize) of_input = {program_->graph.sym_int_values.at(name), SymInt(0)};
  }
  return sizes;
}

absl::StatusOr<TensorVector> Model::ExampleInputs(absl::Span<const int64_t> symbols) const {
  const std::vector<int64_t> hints = ExportedSymbols(*program_);
  at::Generator generator = at::detail::createCPUGenerator(/*seed=*/0);
  TensorVector examples;
  size_t next_argument = 0;
  const absl::Span<const int64_t> values = symbols.empty() ? absl::MakeConstSpan(hints) : symbols;
  for (size_t i = 0; i < inputs_->tensors.size(); ++i) {
    const std::string& name = inputs_->tensors[i];
    if (inputs_->kinds[i] != UserInputKind::kTensor) {
      const auto integer = program_->graph.sym_int_values.find(name);
      int64_t hint = 0;
      if (integer != program_->graph.sym_int_values.end()) {
        COTAN_ASSIGN_OR_RETURN(hint, integer->second.Evaluate(values));
      }
      if (inputs_->kinds[i] == UserInputKind::kSize && hint < 0) {
        return absl::InvalidArgumentError(absl::StrCat("input '", name, "' decides sizes and would be negative"));
      }
      examples.push_back(ExampleNumber(inputs_->kinds[i], hint));
      continue;
    }
    if (symbols.empty() && !inputs_->arguments.empty()) {
      examples.push_back(inputs_->arguments[next_argument++].clone(at::MemoryFormat::Contiguous));
      continue;
    }
    const TensorMeta& meta = program_->graph.tensor_values.at(name);
    std::vector<int64_t> sizes;
    for (const SymInt& size : meta.sizes) {
      COTAN_ASSIGN_OR_RETURN(const int64_t value, size.Evaluate(values));
      if (value < 0) return absl::InvalidArgumentError(absl::StrCat("input '", name, "' would have a negative size"));
      sizes.push_back(value);
    }
    COTAN_ASSIGN_OR_RETURN(examples.emplace_back(), ExampleInput(name, sizes, meta.dtype, generator));
  }
  return examples;
}

TensorVector Model::OutputShapes() const {
  TensorVector shapes;
  for (const OutputSpec& output : program_->outputs) {
    const bool is_result = output.kind == OutputSpec::Kind::kUserOutput || output.kind == OutputSpec::Kind::kLoss;
    const Name* name = std::get_if<Name>(&output.arg);
    if (!is_result || name == nullptr) continue;
    const auto meta = program_->graph.tensor_values.find(name->name);
    if (meta == program_->graph.tensor_values.end()) continue;
    shapes.push_back(ExportedShape(meta->second, program_->symbols));
  }
  return shapes;
}

}  // namespace cotan::aot::pt2
