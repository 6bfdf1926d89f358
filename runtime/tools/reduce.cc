// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/reduce.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/tools/planned_method.h"
#include "serialization/container/container.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::tools {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using serialization::Reference;
using serialization::ReferenceTensor;
using serialization::State;

// Removable parts of a method, numbered one after another: updates of states and of inputs, results, ops from the last.
struct Parts {
  explicit Parts(const Method& method)
      : state_updates(method.state_updates_size()),
        input_updates(method.input_updates_size()),
        outputs(method.outputs_size()),
        ops(method.ops_size()) {}
  int size() const { return state_updates + input_updates + outputs + ops; }
  int StateUpdate(int index) const { return index; }
  int InputUpdate(int index) const { return state_updates + index; }
  int Output(int index) const { return state_updates + input_updates + index; }
  int OpPart(int index) const { return size() - 1 - index; }

  int state_updates;
  int input_updates;
  int outputs;
  int ops;
};

// Returns an op without inputs that computes zeros of a type, as `value`.
Op ZerosOp(uint32_t value, const serialization::TensorType& type) {
  Op op;
  op.add_outputs(value);
  serialization::Expr& expr = *op.mutable_expr();
  *expr.mutable_domain_sizes() = type.sizes();
  serialization::ExprInstruction& zero = *expr.add_instructions();
  zero.set_fn(serialization::FN_CONSTANT);
  zero.set_dtype(type.dtype());
  expr.add_outputs(0);
  return op;
}

// Makes the artifact without some parts.
class Candidate {
 public:
  Candidate(const Program& program, const Method& method, const std::vector<bool>& removed)
      : program_(program), source_(method), parts_(method), removed_(removed) {}

  absl::StatusOr<std::string> Make() {
    *artifact_.mutable_symbols() = program_.artifact().symbols();
    artifact_.set_producer(program_.artifact().producer());
    method_ = artifact_.add_methods();
    method_->set_name(source_.name());
    method_->set_rng_blocks(source_.rng_blocks());
    *method_->mutable_values() = source_.values();
    AddUses();
    AddOps();
    COTAN_RETURN_IF_ERROR(AddReads());
    COTAN_RETURN_IF_ERROR(AddReferences());
    return std::move(writer_).Serialize(std::move(artifact_));
  }

 private:
  bool IsRemoved(int part) const { return removed_[static_cast<size_t>(part)]; }
  const serialization::TensorType& TypeOf(uint32_t value) const {
    return source_.values(static_cast<int>(value)).type();
  }

  void Use(uint32_t value) { used_.insert(value); }

  void AddUses() {
    for (const uint32_t input : source_.inputs()) method_->add_inputs(input);
    *method_->mutable_input_names() = source_.input_names();
    for (int i = 0; i < source_.state_updates_size(); ++i) {
      if (IsRemoved(parts_.StateUpdate(i))) continue;
      *method_->add_state_updates() = source_.state_updates(i);
      Use(source_.state_updates(i).value());
    }
    for (int i = 0; i < source_.input_updates_size(); ++i) {
      if (IsRemoved(parts_.InputUpdate(i))) continue;
      *method_->add_input_updates() = source_.input_updates(i);
      Use(source_.input_updates(i).value());
    }
    for (int i = 0; i < source_.outputs_size(); ++i) {
      if (IsRemoved(parts_.Output(i))) continue;
      method_->add_outputs(source_.outputs(i));
      Use(source_.outputs(i));
      if (i < source_.output_names_size()) method_->add_output_names(source_.output_names(i));
    }
    // Names are those of all results or of none; saved values have none.
    if (method_->output_names_size() != method_->outputs_size()) method_->clear_output_names();
  }

  // Adds the ops that remain, whether something reads their results or not. Zeros stand for results of removed ops that
  // something reads: a constant, or an op if their sizes are dynamic.
  void AddOps() {
    std::vector<Op> reversed;
    for (int i = source_.ops_size() - 1; i >= 0; --i) {
      const Op& op = source_.ops(i);
      if (IsRemoved(parts_.OpPart(i))) {
        AddZeros(op, reversed);
        continue;
      }
      reversed.push_back(op);
      for (const uint32_t input : op.inputs()) Use(input);
    }
    for (auto op = reversed.rbegin(); op != reversed.rend(); ++op) *method_->add_ops() = std::move(*op);
  }

  void AddZeros(const Op& removed, std::vector<Op>& reversed) {
    for (const uint32_t output : removed.outputs()) {
      if (!used_.contains(output)) continue;
      if (EvaluateSizes(TypeOf(output).sizes(), {}).ok()) {
        constants_.push_back(output);
      } else {
        reversed.push_back(ZerosOp(output, TypeOf(output)));
      }
    }
  }

  absl::Status AddReads() {
    for (const auto& read : source_.state_reads()) {
      if (!used_.contains(read.value())) continue;
      auto& copy = *method_->add_state_reads() = read;
      COTAN_ASSIGN_OR_RETURN(const uint32_t state, NumberOf(read.state()));
      copy.set_state(state);
    }
    for (auto& update : *method_->mutable_state_updates()) {
      COTAN_ASSIGN_OR_RETURN(const uint32_t state, NumberOf(update.state()));
      update.set_state(state);
    }
    for (const uint32_t value : constants_) {
      State& zeros = *artifact_.add_states();
      zeros.set_name(absl::StrCat("reduced.", value));
      zeros.set_role(State::CONSTANT);
      *zeros.mutable_type() = TypeOf(value);
      zeros.set_fill(0);
      auto& read = *method_->add_state_reads();
      read.set_value(value);
      read.set_state(static_cast<uint32_t>(artifact_.states_size() - 1));
    }
    return absl::OkStatus();
  }

  // Returns the number of a state of the program in the candidate, to which it is added with its owner.
  absl::StatusOr<uint32_t> NumberOf(uint32_t state) {
    const auto found = state_number_.find(state);
    if (found != state_number_.end()) return found->second;
    State copy = program_.state(static_cast<int>(state));
    if (copy.has_segment()) copy.set_segment(writer_.AddSegment(std::string(program_.segment(copy.segment()))));
    if (!copy.owner().empty()) {
      COTAN_ASSIGN_OR_RETURN(const int owner, program_.FindState(copy.owner()));
      COTAN_RETURN_IF_ERROR(NumberOf(static_cast<uint32_t>(owner)).status());
    }
    *artifact_.add_states() = std::move(copy);
    return state_number_[state] = static_cast<uint32_t>(artifact_.states_size() - 1);
  }

  absl::Status CopySegment(ReferenceTensor& tensor) {
    COTAN_ASSIGN_OR_RETURN(const absl::string_view bytes, program_.RecordedSegment(tensor.segment()));
    tensor.set_segment(writer_.AddSegment(std::string(bytes)));
    return absl::OkStatus();
  }

  // A run fits if it has a tensor for each input, which is so unless inputs are saved values.
  absl::Status AddReferences() {
    for (const Reference& run : program_.artifact().references()) {
      if (run.method() != source_.name() || run.inputs_size() != source_.inputs_size()) continue;
      Reference& copy = *artifact_.add_references() = run;
      copy.clear_outputs();
      copy.clear_states_after();
      for (int i = 0; i < run.outputs_size(); ++i) {
        if (!IsRemoved(parts_.Output(i))) *copy.add_outputs() = run.outputs(i);
      }
      // A result that was saved has no recorded value.
      if (copy.outputs_size() != method_->outputs_size()) {
        artifact_.mutable_references()->RemoveLast();
        continue;
      }
      for (ReferenceTensor& tensor : *copy.mutable_inputs()) COTAN_RETURN_IF_ERROR(CopySegment(tensor));
      for (ReferenceTensor& tensor : *copy.mutable_outputs()) COTAN_RETURN_IF_ERROR(CopySegment(tensor));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const Method& source_;
  const Parts parts_;
  const std::vector<bool>& removed_;
  ArtifactWriter writer_;
  Artifact artifact_;
  Method* method_ = nullptr;
  std::vector<uint32_t> constants_;  // zeros
  absl::flat_hash_set<uint32_t> used_;
  absl::flat_hash_map<uint32_t, uint32_t> state_number_;
};

class Reducer {
 public:
  Reducer(const Program& program, const Method& method, StillFails fails)
      : program_(program), method_(method), fails_(fails), removed_(static_cast<size_t>(Parts(method).size())) {}

  absl::StatusOr<Reduction> Run() {
    const Parts parts(method_);
    // Saved values have no recorded results: without them, the recorded run remains.
    for (int i = parts.outputs - static_cast<int>(method_.num_saved()); i < parts.outputs; ++i) {
      removed_[static_cast<size_t>(parts.Output(i))] = true;
    }
    COTAN_ASSIGN_OR_RETURN(bool failed, Try(removed_));
    if (!failed && method_.num_saved() > 0) {
      removed_.assign(removed_.size(), false);
      COTAN_ASSIGN_OR_RETURN(failed, Try(removed_));
    }
    if (!failed) {
      return absl::FailedPreconditionError(
          absl::StrCat("the command does not fail for method '", method_.name(),
                       "' alone, without metadata and backward; choose the failing one with --method=NAME"));
    }
    for (size_t group = removed_.size(); group > 0; group /= 2) COTAN_RETURN_IF_ERROR(RemoveGroups(group));
    bool changed = true;
    while (changed) {
      const std::vector<bool> before = removed_;
      COTAN_RETURN_IF_ERROR(RemoveGroups(1));
      changed = before != removed_;
    }
    return std::move(result_);
  }

 private:
  // Tries to remove each group of `size` parts that remain.
  absl::Status RemoveGroups(size_t size) {
    std::vector<size_t> remaining;
    for (size_t i = 0; i < removed_.size(); ++i) {
      if (!removed_[i]) remaining.push_back(i);
    }
    for (size_t begin = 0; begin < remaining.size(); begin += size) {
      std::vector<bool> removed = removed_;
      for (size_t i = begin; i < std::min(remaining.size(), begin + size); ++i) removed[remaining[i]] = true;
      COTAN_ASSIGN_OR_RETURN(const bool failed, Try(removed));
      if (failed) removed_ = std::move(removed);
    }
    return absl::OkStatus();
  }

  // Returns whether the program without these parts is valid and still fails; it is then the result.
  absl::StatusOr<bool> Try(const std::vector<bool>& removed) {
    COTAN_ASSIGN_OR_RETURN(std::string bytes, Candidate(program_, method_, removed).Make());
    if (bytes == result_.bytes) return true;  // a part that nothing needed
    const auto candidate = Program::LoadBytes(bytes);
    if (!candidate.ok()) return false;
    if (!PlanMethod((*candidate)->artifact(), (*candidate)->method(0)).ok()) return false;
    ++result_.candidates;
    COTAN_ASSIGN_OR_RETURN(const bool failed, fails_(bytes));
    if (!failed) return false;
    result_.bytes = std::move(bytes);
    result_.num_ops = (*candidate)->method(0).ops_size();
    return true;
  }

  const Program& program_;
  const Method& method_;
  const StillFails fails_;
  std::vector<bool> removed_;  // by part
  Reduction result_;
};

}  // namespace

absl::StatusOr<Reduction> Reduce(const Program& program, absl::string_view method, StillFails fails) {
  COTAN_ASSIGN_OR_RETURN(const int index, program.FindMethod(method));
  if (!SizingMethodsOf(program.artifact(), program.method(index)).empty() || !IsCallable(program.method(index))) {
    return absl::UnimplementedError(absl::StrCat(
        "method '", method, "' is one of several that compute its sizes from data: a single method is reduced"));
  }
  return Reducer(program, program.method(index), fails).Run();
}

}  // namespace cotan::tools
