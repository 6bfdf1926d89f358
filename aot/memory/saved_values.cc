// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/saved_values.h"

#include <algorithm>
#include <set>
#include <utility>

#include "aot/memory/op_cost.h"
#include "aot/memory/repeat_ops.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "google/protobuf/repeated_field.h"
#include "serialization/schema/field.h"

namespace cotan::aot {
namespace {

using serialization::Method;
using serialization::Op;
using serialization::SavedForBackward;
using serialization::StateRead;

constexpr size_t kMaxChain = 24;
constexpr int kMaxFailures = 12;

// Returns the first op, view or not, that reads the value itself; -1 if none does.
int FirstReader(const Method& method, uint32_t value) {
  for (int i = 0; i < method.ops_size(); ++i) {
    const auto& inputs = method.ops(i).inputs();
    if (std::find(inputs.begin(), inputs.end(), value) != inputs.end()) return i;
  }
  return -1;
}

// Returns the state that a value is read from; -1 if it is not read from a state.
int StateOf(const Method& method, uint32_t value) {
  for (const StateRead& read : method.state_reads()) {
    if (read.value() == value) return static_cast<int>(read.state());
  }
  return -1;
}

bool UpdatesState(const Method& method, int state) {
  const auto& updates = method.state_updates();
  return std::any_of(updates.begin(), updates.end(),
                     [state](const auto& update) { return update.state() == static_cast<uint32_t>(state); });
}

// Returns true if the program or the runtime writes new contents to arguments.
bool WritesArguments(const Method& method) {
  const auto mutates = [](const serialization::ViewAndMutationMeta& metadata) {
    return std::any_of(metadata.input_info().begin(), metadata.input_info().end(),
                       [](const auto& info) { return info.mutates_data() || info.mutates_storage_metadata(); });
  };
  return method.input_updates_size() > 0 || mutates(method.metadata()) || mutates(method.program_metadata());
}

template <typename T>
void Insert(google::protobuf::RepeatedField<T>& list, int position, T element) {
  list.Add(element);
  std::rotate(list.begin() + position, list.end() - 1, list.end());
}

template <typename T>
void Erase(google::protobuf::RepeatedField<T>& list, int position) {
  list.erase(list.begin() + position);
}

void AppendSaved(bool is_input, bool is_donated, SavedForBackward& saved) {
  if (!saved.is_input().empty() || saved.num_tensors() == 0) saved.add_is_input(is_input);
  if (is_donated) saved.add_donated(saved.num_tensors());
  saved.set_num_tensors(saved.num_tensors() + 1);
  // The values without check must be the last ones. A check that eager does not make can only refuse a call.
  saved.clear_num_tensors_without_version_check();
}

void EraseSaved(uint32_t index, SavedForBackward& saved) {
  if (!saved.is_input().empty()) Erase(*saved.mutable_is_input(), static_cast<int>(index));
  auto& donated = *saved.mutable_donated();
  donated.erase(std::remove(donated.begin(), donated.end(), index), donated.end());
  for (uint32_t& other : donated) other -= other > index ? 1 : 0;
  auto& dynamic = *saved.mutable_dynamic_tensors();
  for (int i = dynamic.size(); i-- > 0;) {
    if (dynamic[i].tensor() == index) dynamic.DeleteSubrange(i, 1);
  }
  for (auto& other : dynamic) other.set_tensor(other.tensor() - (other.tensor() > index ? 1 : 0));
  saved.set_num_tensors(saved.num_tensors() - 1);
}

// Records the dimensions of the last saved tensor that depend on symbols.
absl::Status DescribeDims(const serialization::TensorType& type, SavedForBackward& saved) {
  COTAN_ASSIGN_OR_RETURN(const SymIntVector sizes, ParseSymInts("type.sizes", type.sizes()));
  SavedForBackward::DynamicDims dims;
  dims.set_tensor(saved.num_tensors() - 1);
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!sizes[d].is_constant()) dims.add_dims(static_cast<uint32_t>(d));
  }
  if (dims.dims_size() > 0) *saved.add_dynamic_tensors() = std::move(dims);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> SavedBytesOnDevice(const Method& forward, const MemoryPlanner& planner) {
  int64_t bytes = 0;
  for (int i = forward.outputs_size() - static_cast<int>(forward.num_saved()); i < forward.outputs_size(); ++i) {
    const serialization::Value& value = forward.values(static_cast<int>(forward.outputs(i)));
    if (value.on_host()) continue;
    COTAN_ASSIGN_OR_RETURN(const int64_t of_value, planner.BytesOf(value.type()));
    bytes += RoundUp(of_value, kArenaAlignment);
  }
  return bytes;
}

absl::StatusOr<SavedValues> SavedValues::Start(Method& forward, Method& backward, const MemoryPlanner& planner) {
  SavedValues values(forward, backward, planner);
  for (const serialization::Value& value : forward.values()) {
    COTAN_ASSIGN_OR_RETURN(const int64_t bytes, planner.BytesOf(value.type()));
    values.bytes_.push_back(RoundUp(bytes, kArenaAlignment));
  }
  COTAN_RETURN_IF_ERROR(values.Measure());
  return values;
}

absl::Status SavedValues::Measure() {
  COTAN_ASSIGN_OR_RETURN(const MemoryPlan forward, planner_.Plan(forward_, forward_scratch_));
  COTAN_ASSIGN_OR_RETURN(const MemoryPlan backward, planner_.Plan(backward_, backward_scratch_));
  facts_ = MethodFacts(forward_);
  backward_facts_ = MethodFacts(backward_);
  cost_.assign(static_cast<size_t>(forward_.ops_size()), 0);
  for (const ScheduledStep& step : forward.schedule.steps) {
    if (step.op >= 0) cost_[static_cast<size_t>(step.op)] = OpCost(forward_.ops(step.op), step);
  }
  memory_ = {forward.arena_bytes, backward.arena_bytes, 0};
  COTAN_ASSIGN_OR_RETURN(memory_.saved, SavedBytesOnDevice(forward_, planner_));
  return absl::OkStatus();
}

absl::StatusOr<bool> SavedValues::FitBudget(int64_t limit) {
  while (memory_.Total() > limit) {
    std::vector<Candidate> candidates = FindCandidates();
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    bool applied = false;
    int failures = 0;
    for (const Candidate& candidate : candidates) {
      COTAN_ASSIGN_OR_RETURN(applied, Apply(candidate));
      if (applied || ++failures == kMaxFailures) break;
    }
    if (!applied) return false;
  }
  return true;
}

std::vector<SavedValues::Candidate> SavedValues::FindCandidates() const {
  std::vector<Candidate> candidates;
  for (int saved = 0; saved < num_saved(); ++saved) AddCandidates(saved, candidates);
  return candidates;
}

// Returns how op `before` of the backward can read a root value of the forward without saved value
// number `dropped`.
SavedValues::Access SavedValues::AccessTo(uint32_t value, int dropped, int before) const {
  for (int saved = 0; saved < num_saved(); ++saved) {
    if (saved != dropped && SavedValue(saved) == value) return Access::kAtHand;
  }
  if (const auto copies = repeated_.find(value); copies != repeated_.end()) {
    for (const uint32_t copy : copies->second) {
      if (backward_facts_.producer[copy] >= 0 && backward_facts_.producer[copy] < before) return Access::kAtHand;
    }
  }
  if (dropped_.contains(value)) return Access::kNone;
  if (facts_.producer[value] >= 0) return Access::kSave;
  const int state = StateOf(forward_, value);
  if (state >= 0) return UpdatesState(forward_, state) ? Access::kSave : Access::kAtHand;
  return WritesArguments(forward_) ? Access::kNone : Access::kSave;
}

// Adds the ways to compute a saved value again: its producer alone, then with more and more of the
// producers of its operands.
void SavedValues::AddCandidates(int saved, std::vector<Candidate>& candidates) const {
  const auto unchecked = static_cast<int>(forward_.metadata().saved().num_tensors_without_version_check());
  if (saved >= num_saved() - unchecked) return;  // the backward reads its content at that time
  const uint32_t value = SavedValue(saved);
  if (IsOnHost(value)) return;  // it takes no memory of the device
  const uint32_t taken = backward_.inputs(saved);
  const int producer = facts_.producer[value];
  const int before = FirstReader(backward_, taken);
  if (facts_.root[value] != value || producer < 0 || before < 0 || !IsRepeatable(forward_.ops(producer))) return;
  if (backward_facts_.is_kept[taken] || backward_facts_.updated_by[taken] != MethodFacts::kNever) return;
  std::set<int> chain = {producer};
  while (chain.size() <= kMaxChain) {
    Candidate candidate{.saved = saved, .ops = {chain.begin(), chain.end()}, .new_saved = {}};
    double cost = 0;
    int64_t gain = bytes_[value];
    bool is_possible = true;
    int expand = -1;
    int64_t expand_bytes = -1;
    std::set<uint32_t> seen;
    for (const int op : chain) {
      cost += cost_[static_cast<size_t>(op)];
      for (const uint32_t input : forward_.ops(op).inputs()) {
        const uint32_t root = facts_.RootOf(input);
        const int maker = facts_.producer[root];
        if (!seen.insert(root).second || (maker >= 0 && chain.contains(maker))) continue;
        const Access access = AccessTo(root, saved, before);
        if (access == Access::kAtHand) continue;
        is_possible = is_possible && access == Access::kSave;
        gain -= bytes_[root];
        candidate.new_saved.push_back(root);
        if (maker < 0 || !IsRepeatable(forward_.ops(maker)) || bytes_[root] <= expand_bytes) continue;
        expand = maker;
        expand_bytes = bytes_[root];
      }
    }
    if (is_possible && gain >= 0) {
      candidate.score = static_cast<double>(gain) / cost;
      candidates.push_back(std::move(candidate));
    }
    if (expand < 0) return;
    chain.insert(expand);
  }
}

// Applies a candidate, and keeps it if the plans do not need more memory. Candidates without a gain
// are kept too: later ones may start from the same values, and if several parts of the backward
// need the same arena, only the first candidate makes it grow.
absl::StatusOr<bool> SavedValues::Apply(const Candidate& candidate) {
  const Method forward = forward_;
  const Method backward = backward_;
  const auto forward_scratch = forward_scratch_;
  const auto backward_scratch = backward_scratch_;
  const auto repeated = repeated_;
  const PairMemory before = memory_;
  const uint32_t dropped = SavedValue(candidate.saved);
  COTAN_RETURN_IF_ERROR(Repeat(candidate));
  COTAN_RETURN_IF_ERROR(Measure());
  if (memory_.Total() <= before.Total() && memory_.saved <= before.saved) {
    dropped_.insert(dropped);
    repeated_ops_ += static_cast<int>(candidate.ops.size());
    return true;
  }
  forward_ = forward;
  backward_ = backward;
  forward_scratch_ = forward_scratch;
  backward_scratch_ = backward_scratch;
  repeated_ = repeated;
  COTAN_RETURN_IF_ERROR(Measure());
  return false;
}

absl::Status SavedValues::Repeat(const Candidate& candidate) {
  const uint32_t value = SavedValue(candidate.saved);
  const uint32_t taken = backward_.inputs(candidate.saved);
  const int before = FirstReader(backward_, taken);
  for (const uint32_t saved : candidate.new_saved) COTAN_RETURN_IF_ERROR(Save(saved));
  brought_.clear();
  new_ops_.clear();
  std::vector<int64_t> scratch;
  for (const int op : candidate.ops) CopyOp(op, candidate.saved, before);
  for (Op& op : *backward_.mutable_ops()) {
    std::replace(op.mutable_inputs()->begin(), op.mutable_inputs()->end(), taken, brought_.at(value));
  }
  const int old_size = backward_.ops_size();
  for (Op& op : new_ops_) *backward_.add_ops() = std::move(op);
  std::rotate(backward_.mutable_ops()->pointer_begin() + before, backward_.mutable_ops()->pointer_begin() + old_size,
              backward_.mutable_ops()->pointer_end());
  Drop(candidate.saved);
  DropDeadOps();
  return absl::OkStatus();
}

// Returns the value of the backward with the content of a value of the forward.
uint32_t SavedValues::Bring(uint32_t value, int dropped, int before) {
  if (const auto it = brought_.find(value); it != brought_.end()) return it->second;
  if (facts_.root[value] != value) {
    CopyOp(facts_.producer[value], dropped, before);
    return brought_.at(value);
  }
  for (int saved = 0; saved < num_saved(); ++saved) {
    if (saved != dropped && SavedValue(saved) == value) return backward_.inputs(saved);
  }
  if (const auto copies = repeated_.find(value); copies != repeated_.end()) {
    for (const uint32_t copy : copies->second) {
      if (copy >= backward_facts_.producer.size()) continue;
      if (backward_facts_.producer[copy] >= 0 && backward_facts_.producer[copy] < before) return copy;
    }
  }
  // A state that the forward does not change.
  const int state = StateOf(forward_, value);
  for (const StateRead& read : backward_.state_reads()) {
    if (static_cast<int>(read.state()) == state) return read.value();
  }
  const uint32_t added = AddBackwardValue(value);
  StateRead& read = *backward_.add_state_reads();
  read.set_state(static_cast<uint32_t>(state));
  read.set_value(added);
  return added;
}

uint32_t SavedValues::AddBackwardValue(uint32_t value) {
  *backward_.add_values() = forward_.values(static_cast<int>(value));
  return static_cast<uint32_t>(backward_.values_size()) - 1;
}

void SavedValues::CopyOp(int index, int dropped, int before) {
  Op op = forward_.ops(index);
  for (uint32_t& input : *op.mutable_inputs()) input = Bring(input, dropped, before);
  for (uint32_t& output : *op.mutable_outputs()) {
    const uint32_t copy = AddBackwardValue(output);
    brought_[output] = copy;
    if (!op.has_view()) repeated_[output].push_back(copy);
    output = copy;
  }
  const auto place = static_cast<std::ptrdiff_t>(before) + static_cast<std::ptrdiff_t>(new_ops_.size());
  backward_scratch_.insert(backward_scratch_.begin() + place, forward_scratch_[static_cast<size_t>(index)]);
  new_ops_.push_back(std::move(op));
}

// Saves one more value of the forward, after the others.
absl::Status SavedValues::Save(uint32_t value) {
  const int position = num_saved();
  const bool is_input = facts_.producer[value] < 0 && StateOf(forward_, value) < 0;
  const bool is_donated = facts_.producer[value] >= 0 && !facts_.is_kept[value];
  forward_.add_outputs(value);
  forward_.set_num_saved(forward_.num_saved() + 1);
  const uint32_t taken = AddBackwardValue(value);
  Insert(*backward_.mutable_inputs(), position, taken);
  if (backward_.input_names_size() > position) {
    backward_.add_input_names("saved");
    std::rotate(backward_.mutable_input_names()->begin() + position, backward_.mutable_input_names()->end() - 1,
                backward_.mutable_input_names()->end());
  }
  for (auto& update : *backward_.mutable_input_updates()) {
    if (static_cast<int>(update.input()) >= position) update.set_input(update.input() + 1);
  }
  for (serialization::ViewAndMutationMeta* metadata :
       {forward_.mutable_metadata(), forward_.has_program_metadata() ? forward_.mutable_program_metadata() : nullptr}) {
    if (metadata == nullptr || !metadata->has_saved()) continue;
    AppendSaved(is_input, is_donated, *metadata->mutable_saved());
    COTAN_RETURN_IF_ERROR(DescribeDims(forward_.values(static_cast<int>(value)).type(), *metadata->mutable_saved()));
  }
  return absl::OkStatus();
}

void SavedValues::Drop(int saved) {
  Erase(*forward_.mutable_outputs(), OutputOf(saved));
  forward_.set_num_saved(forward_.num_saved() - 1);
  Erase(*backward_.mutable_inputs(), saved);
  if (backward_.input_names_size() > saved) backward_.mutable_input_names()->DeleteSubrange(saved, 1);
  for (auto& update : *backward_.mutable_input_updates()) {
    if (static_cast<int>(update.input()) > saved) update.set_input(update.input() - 1);
  }
  if (forward_.metadata().has_saved()) {
    EraseSaved(static_cast<uint32_t>(saved), *forward_.mutable_metadata()->mutable_saved());
  }
  if (forward_.program_metadata().has_saved()) {
    EraseSaved(static_cast<uint32_t>(saved), *forward_.mutable_program_metadata()->mutable_saved());
  }
}

// Removes ops of the forward whose results are not read any more.
void SavedValues::DropDeadOps() {
  std::vector<bool> is_needed(static_cast<size_t>(forward_.values_size()), false);
  for (const uint32_t output : forward_.outputs()) is_needed[output] = true;
  for (const auto& update : forward_.state_updates()) is_needed[update.value()] = true;
  for (const auto& update : forward_.input_updates()) is_needed[update.value()] = true;
  for (int i = forward_.ops_size(); i-- > 0;) {
    const Op& op = forward_.ops(i);
    const bool is_live = !IsRepeatable(op) || std::any_of(op.outputs().begin(), op.outputs().end(),
                                                          [&](uint32_t output) { return is_needed[output]; });
    if (!is_live) {
      forward_.mutable_ops()->DeleteSubrange(i, 1);
      forward_scratch_.erase(forward_scratch_.begin() + i);
      continue;
    }
    for (const uint32_t input : op.inputs()) is_needed[input] = true;
  }
}

}  // namespace cotan::aot
