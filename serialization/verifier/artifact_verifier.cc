// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/artifact_verifier.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "serialization/metadata/view_geometry.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/tensor_type.h"
#include "serialization/verifier/verify_continuation.h"
#include "serialization/verifier/verify_host_values.h"
#include "serialization/verifier/verify_linked.h"
#include "serialization/verifier/verify_metadata.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Expr;
using serialization::ExprInstruction;
using serialization::InputUpdate;
using serialization::Method;
using serialization::Op;
using serialization::Reference;
using serialization::ReferenceTensor;
using serialization::State;
using serialization::StateRead;
using serialization::StateUpdate;
using serialization::SymbolProto;
using serialization::TensorType;
using serialization::Value;
using serialization::ViewStep;

constexpr int kMaxSymbols = 1024;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Prefixes the message with `where`.
absl::Status At(absl::string_view where, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(where, ": ", status.message()));
}

bool SameSizes(const TensorType& a, const TensorType& b) {
  if (a.dtype() != b.dtype() || a.sizes_size() != b.sizes_size()) return false;
  for (int i = 0; i < a.sizes_size(); ++i) {
    if (a.sizes(i) != b.sizes(i)) return false;
  }
  return true;
}

// Checks the parts of one artifact; messages name the part.
class Verifier {
 public:
  explicit Verifier(const Artifact& artifact) : artifact_(artifact) {}

  absl::Status Verify() {
    if (artifact_.blocks_size() != 0) return Invalid("calls of blocks have not been replaced (InlineCalls)");
    COTAN_RETURN_IF_ERROR(CheckSymbols());
    COTAN_RETURN_IF_ERROR(CheckStates());
    for (const Method& method : artifact_.methods()) {
      if (method.name().empty()) return Invalid("a method has no name");
      if (!methods_.try_emplace(method.name(), &method).second) {
        return Invalid("two methods are called '", method.name(), "'");
      }
    }
    for (const Method& method : artifact_.methods()) {
      COTAN_RETURN_IF_ERROR(At(absl::StrCat("method '", method.name(), "'"), CheckMethod(method)));
    }
    for (const Method& method : artifact_.methods()) {
      COTAN_RETURN_IF_ERROR(At(absl::StrCat("method '", method.name(), "'"), VerifyContinuation(artifact_, method)));
    }
    for (int i = 0; i < artifact_.references_size(); ++i) {
      COTAN_RETURN_IF_ERROR(At(absl::StrCat("reference ", i), CheckReference(artifact_.references(i))));
    }
    return CheckCudaKernels();
  }

 private:
  int num_symbols() const { return artifact_.symbols_size(); }

  absl::Status CheckSymbols() const {
    if (num_symbols() > kMaxSymbols) return Invalid(num_symbols(), " dynamic dimensions are too many");
    for (const SymbolProto& symbol : artifact_.symbols()) {
      if (symbol.min() < 0 || symbol.max() < symbol.min() || symbol.max() > kMaxElements) {
        return Invalid("dynamic dimension '", symbol.name(), "' has the range [", symbol.min(), ", ", symbol.max(),
                       "]");
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckStates() {
    for (const State& state : artifact_.states()) {
      COTAN_RETURN_IF_ERROR(AddStateName(state.name()));
      for (const std::string& alias : state.aliases()) COTAN_RETURN_IF_ERROR(AddStateName(alias));
    }
    int num_rng = 0;
    for (const State& state : artifact_.states()) {
      COTAN_RETURN_IF_ERROR(At(absl::StrCat("state '", state.name(), "'"), CheckState(state)));
      if (state.role() == State::RNG) ++num_rng;
    }
    if (num_rng > 1) return Invalid(num_rng, " states have the role RNG; at most one is allowed");
    return absl::OkStatus();
  }

  absl::Status AddStateName(const std::string& name) {
    if (name.empty()) return Invalid("a state has no name");
    if (!state_names_.insert(name).second) return Invalid("two states are called '", name, "'");
    return absl::OkStatus();
  }

  absl::Status CheckState(const State& state) const {
    if (state.role() == State::ROLE_UNSPECIFIED || !State::Role_IsValid(state.role())) {
      return absl::UnimplementedError(absl::StrCat("role ", static_cast<int>(state.role()), " is unknown"));
    }
    COTAN_RETURN_IF_ERROR(CheckTensorType(state.type(), /*num_symbols=*/0));
    COTAN_RETURN_IF_ERROR(DenseLayout(state.type(), {}).status());
    if (state.initial_case() == State::INITIAL_NOT_SET) return Invalid("no initial content");
    if (state.has_segment()) COTAN_RETURN_IF_ERROR(CheckSegment(state.segment(), state.type()));
    const bool has_owner = state.role() == State::OPTIMIZER_SLOT || state.role() == State::GRADIENT_ACCUMULATOR;
    if (!state.owner().empty() && (!has_owner || !state_names_.contains(state.owner()))) {
      return Invalid("its owner '", state.owner(), "' does not name a state, or its role cannot have an owner");
    }
    const bool is_generator = ToDType(state.type().dtype()) == DType::kInt64 && state.type().sizes_size() == 1 &&
                              state.type().sizes(0) == "2";
    if (state.role() == State::RNG && !is_generator) {
      return Invalid("a state with the role RNG must be i64[2], not ", TensorTypeText(state.type()));
    }
    return absl::OkStatus();
  }

  // `type` has constant sizes and passed CheckTensorType().
  absl::Status CheckSegment(uint32_t segment, const TensorType& type) const {
    if (segment >= static_cast<uint32_t>(artifact_.segments_size())) {
      return Invalid("segment ", segment, " of ", artifact_.segments_size());
    }
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, DenseLayout(type, {}));
    const uint64_t bytes = static_cast<uint64_t>(NumElements(layout.sizes)) * ByteSize(ToDType(type.dtype()));
    const uint64_t found = artifact_.segments(static_cast<int>(segment)).size();
    if (found != bytes)
      return Invalid("segment ", segment, " has ", found, " bytes, ", TensorTypeText(type), " has ", bytes);
    return absl::OkStatus();
  }

  absl::Status CheckMethod(const Method& method) {
    for (int i = 0; i < method.values_size(); ++i) {
      COTAN_RETURN_IF_ERROR(At(absl::StrCat("value ", i), CheckTensorType(method.values(i).type(), num_symbols())));
    }
    std::vector<bool> defined(static_cast<size_t>(method.values_size()));
    for (uint32_t input : method.inputs()) COTAN_RETURN_IF_ERROR(At("inputs", Define(input, defined)));
    COTAN_RETURN_IF_ERROR(CheckStateReads(method, defined));
    for (int i = 0; i < method.ops_size(); ++i) {
      const Op& op = method.ops(i);
      const absl::Status status = CheckOpOf(op, defined);
      if (!status.ok()) return At(absl::StrCat("op ", i, op.source().empty() ? "" : " from ", op.source()), status);
    }
    for (uint32_t output : method.outputs()) COTAN_RETURN_IF_ERROR(At("outputs", Use(output, defined)));
    COTAN_RETURN_IF_ERROR(CheckStateUpdates(method, defined));
    COTAN_RETURN_IF_ERROR(CheckInputUpdates(method, defined));
    COTAN_RETURN_IF_ERROR(CheckPair(method));
    COTAN_RETURN_IF_ERROR(CheckDifferentiableBackward(method));
    if (!method.rng_blocks().empty()) COTAN_RETURN_IF_ERROR(ParseSize(method.rng_blocks(), num_symbols()).status());
    COTAN_RETURN_IF_ERROR(CheckNames(method));
    COTAN_RETURN_IF_ERROR(VerifyHostValues(artifact_, method));
    COTAN_RETURN_IF_ERROR(VerifyLinked(artifact_, method));
    return VerifyMetadata(artifact_, method);
  }

  static absl::Status Use(uint32_t value, const std::vector<bool>& defined) {
    if (value >= defined.size()) return Invalid("value ", value, " of ", defined.size());
    if (!defined[value]) return Invalid("value ", value, " is used before it is defined");
    return absl::OkStatus();
  }

  static absl::Status Define(uint32_t value, std::vector<bool>& defined) {
    if (value >= defined.size()) return Invalid("value ", value, " of ", defined.size());
    if (defined[value]) return Invalid("value ", value, " is defined twice");
    defined[value] = true;
    return absl::OkStatus();
  }

  absl::Status CheckStateReads(const Method& method, std::vector<bool>& defined) const {
    for (const StateRead& read : method.state_reads()) {
      COTAN_RETURN_IF_ERROR(At("state reads", Define(read.value(), defined)));
      COTAN_RETURN_IF_ERROR(At("state reads", CheckStateValue(method, read.state(), read.value())));
    }
    return absl::OkStatus();
  }

  absl::Status CheckStateUpdates(const Method& method, const std::vector<bool>& defined) const {
    std::vector<bool> updated(static_cast<size_t>(artifact_.states_size()));
    for (const StateUpdate& update : method.state_updates()) {
      COTAN_RETURN_IF_ERROR(At("state updates", Use(update.value(), defined)));
      COTAN_RETURN_IF_ERROR(At("state updates", CheckStateValue(method, update.state(), update.value())));
      const State& state = artifact_.states(static_cast<int>(update.state()));
      if (updated[update.state()]) return Invalid("state '", state.name(), "' is updated twice");
      if (state.role() == State::CONSTANT) return Invalid("constant '", state.name(), "' is updated");
      updated[update.state()] = true;
    }
    return absl::OkStatus();
  }

  // VerifyMetadata() checks that inputs are listed at most once and agree with the metadata.
  static absl::Status CheckInputUpdates(const Method& method, const std::vector<bool>& defined) {
    for (const InputUpdate& update : method.input_updates()) {
      COTAN_RETURN_IF_ERROR(At("input updates", Use(update.value(), defined)));
      if (update.input() >= static_cast<uint32_t>(method.inputs_size())) {
        return Invalid("input updates: input ", update.input(), " of ", method.inputs_size());
      }
      if (update.shares_storage() && !update.sets_storage()) {
        return Invalid("input updates: input ", update.input(), " shares a storage, but gets none (sets_storage)");
      }
      const auto target = static_cast<int>(method.inputs(static_cast<int>(update.input())));
      const TensorType& expected = method.values(target).type();
      const TensorType& type = method.values(static_cast<int>(update.value())).type();
      if (update.sets_storage() || SameSizes(type, expected)) continue;
      return Invalid("input updates: input ", update.input(), " is ", TensorTypeText(expected), ", its new content ",
                     TensorTypeText(type));
    }
    return absl::OkStatus();
  }

  absl::Status CheckStateValue(const Method& method, uint32_t state, uint32_t value) const {
    if (state >= static_cast<uint32_t>(artifact_.states_size())) {
      return Invalid("state ", state, " of ", artifact_.states_size());
    }
    const State& target = artifact_.states(static_cast<int>(state));
    const TensorType& type = method.values(static_cast<int>(value)).type();
    if (SameSizes(type, target.type())) return absl::OkStatus();
    return Invalid("value ", value, " ", TensorTypeText(type), " stands for state '", target.name(), "' ",
                   TensorTypeText(target.type()));
  }

  absl::Status CheckOpOf(const Op& op, std::vector<bool>& defined) const {
    if (op.kind_case() == Op::KIND_NOT_SET) {
      return absl::UnimplementedError(
          "unknown op; a newer version may have written it: update this build, or compile the model again");
    }
    if (op.has_call()) return Invalid("a call of a block has not been replaced (InlineCalls)");
    for (uint32_t input : op.inputs()) COTAN_RETURN_IF_ERROR(Use(input, defined));
    if (op.has_effect()) return CheckEffect(op);
    if (op.outputs_size() == 0) return Invalid("it has no output");
    for (uint32_t output : op.outputs()) COTAN_RETURN_IF_ERROR(Define(output, defined));
    if (op.has_expr()) return CheckExpr(op.expr(), op, op.inputs_size());
    if (op.matmul().has_epilogue()) return CheckEpilogue(op);
    if (op.has_view()) return CheckView(op);
    if (op.has_checked_index()) return ParseSize(op.checked_index().size(), num_symbols()).status();
    return absl::OkStatus();
  }

  static absl::Status CheckEffect(const Op& op) {
    const serialization::Effect::Kind kind = op.effect().kind();
    if (kind == serialization::Effect::KIND_UNSPECIFIED || !serialization::Effect::Kind_IsValid(kind)) {
      return absl::UnimplementedError(absl::StrCat("effect ", static_cast<int>(kind), " is unknown"));
    }
    if (op.inputs_size() != 1 || op.outputs_size() != 0) return Invalid("an effect has one input and no output");
    return op.effect().name().empty() ? Invalid("an effect has no name") : absl::OkStatus();
  }

  absl::Status CheckView(const Op& op) const {
    if (op.inputs_size() != 1 || op.outputs_size() != 1) return Invalid("a view has one input and one output");
    for (const ViewStep& step : op.view().steps()) COTAN_RETURN_IF_ERROR(CheckViewStep(step, num_symbols()));
    return absl::OkStatus();
  }

  // In the epilogue, the product is one input in place of the two operands.
  absl::Status CheckEpilogue(const Op& op) const {
    if (op.inputs_size() < 2) return Invalid("it multiplies ", op.inputs_size(), " of 2 matrices");
    if (op.matmul().epilogue().reduce_dims_size() != 0) return Invalid("its epilogue reduces dimensions");
    return CheckExpr(op.matmul().epilogue(), op, op.inputs_size() - 1);
  }

  absl::Status CheckExpr(const Expr& expr, const Op& op, int num_inputs) const {
    for (int i = 0; i < expr.instructions_size(); ++i) {
      COTAN_RETURN_IF_ERROR(At(absl::StrCat("instruction ", i), CheckInstruction(expr, i, num_inputs)));
    }
    if (expr.outputs_size() != op.outputs_size()) {
      return Invalid("the expression has ", expr.outputs_size(), " outputs, the op ", op.outputs_size());
    }
    for (uint32_t output : expr.outputs()) {
      if (output >= static_cast<uint32_t>(expr.instructions_size())) return Invalid("it stores instruction ", output);
    }
    for (const std::string& size : expr.domain_sizes()) COTAN_RETURN_IF_ERROR(ParseSize(size, num_symbols()).status());
    for (uint32_t dim : expr.reduce_dims()) {
      if (dim >= static_cast<uint32_t>(expr.domain_sizes_size())) return Invalid("it reduces dimension ", dim);
    }
    return absl::OkStatus();
  }

  absl::Status CheckInstruction(const Expr& expr, int position, int num_inputs) const {
    const ExprInstruction& instruction = expr.instructions(position);
    if (instruction.fn() == serialization::SCALAR_FN_UNSPECIFIED ||
        !serialization::ScalarFn_IsValid(instruction.fn())) {
      return absl::UnimplementedError(absl::StrCat("function ", static_cast<int>(instruction.fn()), " is unknown"));
    }
    if (ToDType(instruction.dtype()) == DType::kUndefined) {
      return absl::UnimplementedError(absl::StrCat("dtype ", static_cast<int>(instruction.dtype()), " is unknown"));
    }
    for (uint32_t operand : instruction.operands()) {
      if (operand >= static_cast<uint32_t>(position)) return Invalid("operand ", operand, " comes later");
    }
    const bool loads =
        instruction.fn() == serialization::FN_INPUT || instruction.fn() == serialization::FN_RANDOM_UNIFORM;
    if (loads && instruction.index() >= static_cast<uint32_t>(num_inputs)) {
      return Invalid("input ", instruction.index(), " of ", num_inputs);
    }
    if (instruction.fn() == serialization::FN_IOTA &&
        instruction.index() >= static_cast<uint32_t>(expr.domain_sizes_size())) {
      return Invalid("dimension ", instruction.index(), " of ", expr.domain_sizes_size());
    }
    if (instruction.fn() == serialization::FN_SIZE) {
      COTAN_RETURN_IF_ERROR(ParseSize(instruction.size(), num_symbols()).status());
    }
    if (!instruction.slice().empty()) COTAN_RETURN_IF_ERROR(ParseSize(instruction.slice(), num_symbols()).status());
    return absl::OkStatus();
  }

  absl::Status CheckPair(const Method& method) {
    if (method.num_saved() > static_cast<uint32_t>(method.outputs_size())) {
      return Invalid(method.num_saved(), " of ", method.outputs_size(), " outputs are saved");
    }
    if (!method.backward_refusal().empty() && !method.backward_method().empty()) {
      return Invalid("it has a backward method, and backward_refusal says that it has none");
    }
    if (method.backward_method().empty()) {
      return method.num_saved() == 0 ? absl::OkStatus() : Invalid("it saves values, but has no backward method");
    }
    const auto found = methods_.find(method.backward_method());
    if (found == methods_.end()) return Invalid("its backward method '", method.backward_method(), "' does not exist");
    const Method& backward = *found->second;
    if (!backwards_.try_emplace(backward.name(), &method).second) {
      return Invalid("its backward method '", backward.name(), "' is already the backward method of another method");
    }
    if (!backward.backward_method().empty()) return Invalid("its backward method has a backward method");
    COTAN_RETURN_IF_ERROR(CheckGradientInputs(backward));
    if (static_cast<uint32_t>(backward.inputs_size()) < method.num_saved()) {
      return Invalid("it saves ", method.num_saved(), " values, '", backward.name(), "' takes ",
                     backward.inputs_size());
    }
    const int num_tangents = backward.inputs_size() - static_cast<int>(method.num_saved());
    COTAN_RETURN_IF_ERROR(CheckStructuralTangents(backward, num_tangents));
    COTAN_RETURN_IF_ERROR(CheckResultDependencies(method, static_cast<uint32_t>(num_tangents)));
    const int num_user = method.outputs_size() - static_cast<int>(method.num_saved());
    for (int i = 0; i < static_cast<int>(method.num_saved()); ++i) {
      const uint32_t from = method.outputs(num_user + i);
      const uint32_t to = backward.inputs(i);
      if (to >= static_cast<uint32_t>(backward.values_size())) return Invalid("'", backward.name(), "': value ", to);
      const TensorType& saved = method.values(static_cast<int>(from)).type();
      const TensorType& taken = backward.values(static_cast<int>(to)).type();
      if (!SameSizes(saved, taken)) {
        return Invalid("saved value ", i, " is ", TensorTypeText(saved), ", '", backward.name(), "' takes ",
                       TensorTypeText(taken));
      }
    }
    return absl::OkStatus();
  }

  // A differentiable backward comes after its forward, so that no chain of them is a circle.
  absl::Status CheckDifferentiableBackward(const Method& method) const {
    const std::string& name = method.differentiable_backward();
    if (name.empty()) return absl::OkStatus();
    const auto backward = methods_.find(method.backward_method());
    if (backward == methods_.end()) return Invalid("it has a differentiable backward, but no backward method");
    const auto found = methods_.find(name);
    if (found == methods_.end()) return Invalid("its differentiable backward '", name, "' does not exist");
    const auto is_backward = [&](const Method& other) { return other.backward_method() == name; };
    if (std::any_of(artifact_.methods().begin(), artifact_.methods().end(), is_backward)) {
      return Invalid("its differentiable backward '", name, "' is the backward method of another method");
    }
    const auto at = [&](const Method& wanted) {
      return std::find_if(artifact_.methods().begin(), artifact_.methods().end(),
                          [&](const Method& other) { return &other == &wanted; });
    };
    if (at(*found->second) <= at(method)) return Invalid("its differentiable backward '", name, "' comes before it");
    const int num_results = found->second->metadata().output_info_size();
    if (num_results == backward->second->outputs_size()) return absl::OkStatus();
    return Invalid("its differentiable backward '", name, "' returns ", num_results, " gradients, '",
                   method.backward_method(), "' ", backward->second->outputs_size());
  }

  static absl::Status CheckGradientInputs(const Method& backward) {
    if (backward.gradient_inputs().empty()) return absl::OkStatus();
    if (backward.gradient_inputs_size() != backward.outputs_size()) {
      return Invalid("'", backward.name(), "' returns ", backward.outputs_size(), " gradients, of ",
                     backward.gradient_inputs_size(), " inputs");
    }
    absl::flat_hash_set<uint32_t> inputs;
    for (uint32_t input : backward.gradient_inputs()) {
      if (!inputs.insert(input).second)
        return Invalid("'", backward.name(), "' returns two gradients of input ", input);
    }
    return absl::OkStatus();
  }

  static absl::Status CheckStructuralTangents(const Method& backward, int num_tangents) {
    absl::flat_hash_set<uint32_t> gradients;
    for (const serialization::StructuralTangents& entry : backward.structural_tangents()) {
      if (entry.gradient() >= static_cast<uint32_t>(backward.outputs_size())) {
        return Invalid("'", backward.name(), "': structural tangents of gradient ", entry.gradient(), " of ",
                       backward.outputs_size());
      }
      if (!gradients.insert(entry.gradient()).second) {
        return Invalid("'", backward.name(), "' lists the structural tangents of gradient ", entry.gradient(),
                       " twice");
      }
      for (uint32_t tangent : entry.tangents()) {
        if (tangent < static_cast<uint32_t>(num_tangents)) continue;
        return Invalid("'", backward.name(), "': structural tangent ", tangent, " of ", num_tangents);
      }
    }
    return absl::OkStatus();
  }

  static absl::Status CheckResultDependencies(const Method& forward, uint32_t num_tangents) {
    absl::flat_hash_set<uint32_t> results;
    for (const serialization::ResultDependencies& entry : forward.result_dependencies()) {
      const std::string what = absl::StrCat("dependencies of result ", entry.result());
      const std::vector<uint32_t> sources(entry.sources().begin(), entry.sources().end());
      const bool ascend = std::adjacent_find(sources.begin(), sources.end(), std::greater_equal<>()) == sources.end();
      if (sources.empty() || !ascend) return Invalid(what, " are none or do not ascend");
      if (std::max(entry.result(), sources.back()) >= num_tangents)
        return Invalid(what, " are not among the ", num_tangents, " tangents");
      if (!results.insert(entry.result()).second) return Invalid(what, " are listed twice");
    }
    return absl::OkStatus();
  }

  static absl::Status CheckNames(const Method& method) {
    const int num_user_outputs = method.outputs_size() - static_cast<int>(method.num_saved());
    if (method.input_names_size() > method.inputs_size() || method.output_names_size() > num_user_outputs) {
      return Invalid("more names than inputs or outputs");
    }
    return absl::OkStatus();
  }

  absl::Status CheckReference(const Reference& reference) const {
    const auto found = methods_.find(reference.method());
    if (found == methods_.end()) return Invalid("no method is called '", reference.method(), "'");
    const Method& method = *found->second;
    if (!IsCallable(method)) return Invalid("method '", method.name(), "' is not one that a caller calls");
    const int num_user_outputs = method.outputs_size() - static_cast<int>(method.num_saved());
    const auto pair = backwards_.find(method.name());
    const int num_saved = pair == backwards_.end() ? 0 : static_cast<int>(pair->second->num_saved());
    const int num_user_inputs = NumArguments(artifact_, method) - num_saved;
    if (reference.inputs_size() != num_user_inputs || reference.outputs_size() != num_user_outputs) {
      return Invalid(reference.inputs_size(), " inputs and ", reference.outputs_size(), " outputs; '", method.name(),
                     "' has ", num_user_inputs, " and ", num_user_outputs);
    }
    for (const ReferenceTensor& tensor : reference.inputs()) COTAN_RETURN_IF_ERROR(CheckReferenceTensor(tensor));
    for (const ReferenceTensor& tensor : reference.outputs()) COTAN_RETURN_IF_ERROR(CheckReferenceTensor(tensor));
    for (const serialization::ReferenceState& state : reference.states_after()) {
      if (!state_names_.contains(state.state())) return Invalid("no state is called '", state.state(), "'");
      COTAN_RETURN_IF_ERROR(CheckReferenceTensor(state.tensor()));
    }
    return absl::OkStatus();
  }

  absl::Status CheckReferenceTensor(const ReferenceTensor& tensor) const {
    COTAN_RETURN_IF_ERROR(CheckTensorType(tensor.type(), /*num_symbols=*/0));
    return CheckSegment(tensor.segment(), tensor.type());
  }

  absl::Status CheckCudaKernels() const {
    absl::flat_hash_set<absl::string_view> texts;
    for (const serialization::CudaKernel& kernel : artifact_.cuda_kernels().kernels()) {
      if (kernel.text().empty()) return Invalid("a CUDA kernel has no text");
      if (!texts.insert(kernel.text()).second) return Invalid("two CUDA kernels have the same text");
      for (const serialization::CudaKernel::Image& image : kernel.images()) {
        if (image.segment() >= static_cast<uint32_t>(artifact_.segments_size())) {
          return Invalid("an image of a CUDA kernel is segment ", image.segment(), " of ", artifact_.segments_size());
        }
      }
    }
    return absl::OkStatus();
  }

  const Artifact& artifact_;
  absl::flat_hash_set<std::string> state_names_;
  absl::flat_hash_map<std::string, const Method*> methods_;
  absl::flat_hash_map<std::string, const Method*> backwards_;  // to their forward
};

}  // namespace

absl::Status VerifyArtifact(const Artifact& artifact) { return Verifier(artifact).Verify(); }

}  // namespace cotan
