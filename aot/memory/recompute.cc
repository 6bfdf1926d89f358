// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/recompute.h"

#include <algorithm>
#include <utility>

#include "aot/memory/op_cost.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::Method;
using serialization::Op;

// Longest chain of ops that is repeated for one value.
constexpr size_t kMaxChain = 24;
// States of at most this many bytes are copied if an op reads their old content after the update.
constexpr int64_t kSmallState = 4096;
// Number of unsuccessful candidates after which the search ends.
constexpr int kMaxFailures = 12;

int64_t Aligned(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

}  // namespace

absl::StatusOr<Recomputation> Recomputation::Start(Method& method, const MemoryPlanner& planner) {
  Recomputation recomputation(method, planner);
  for (const serialization::Value& value : method.values()) {
    COTAN_ASSIGN_OR_RETURN(const int64_t bytes, planner.BytesOf(value.type()));
    recomputation.bytes_.push_back(Aligned(bytes));
    const auto index = static_cast<uint32_t>(recomputation.original_.size());
    recomputation.original_.push_back(index);
    recomputation.copies_.push_back({index});
  }
  COTAN_RETURN_IF_ERROR(recomputation.Measure());
  return recomputation;
}

// Plans the current method.
absl::Status Recomputation::Measure() {
  COTAN_ASSIGN_OR_RETURN(plan_, planner_.Plan(method_, scratch_));
  facts_ = MethodFacts(method_);
  bytes_at_ = plan_.BytesByStep();
  const auto num_ops = static_cast<size_t>(method_.ops_size());
  step_of_.assign(num_ops, -1);
  cost_.assign(num_ops, 0);
  is_in_arena_.assign(static_cast<size_t>(method_.values_size()), false);
  for (size_t i = 0; i < plan_.schedule.steps.size(); ++i) {
    const ScheduledStep& step = plan_.schedule.steps[i];
    if (step.op < 0) continue;
    const Op& op = method_.ops(step.op);
    step_of_[static_cast<size_t>(step.op)] = static_cast<int>(i);
    cost_[static_cast<size_t>(step.op)] = OpCost(op, step);
    for (int k = 0; k < op.outputs_size(); ++k) {
      const Buffer& buffer = plan_.schedule.buffers[static_cast<size_t>(step.outputs[static_cast<size_t>(k)].buffer)];
      is_in_arena_[op.outputs(k)] = buffer.kind == BufferKind::kArena && !buffer.on_host;
    }
  }
  int next = static_cast<int>(plan_.schedule.steps.size());
  for (size_t op = num_ops; op-- > 0;) {
    if (step_of_[op] < 0) step_of_[op] = next;
    next = step_of_[op];
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Recomputation::FitBudget(int64_t limit) {
  int64_t target = limit;
  while (plan_.arena_bytes > limit) {
    if (Excess(target) == 0) {
      // The arena exceeds the live bytes by gaps between buffers.
      target -= std::max<int64_t>(plan_.arena_bytes - limit, kArenaAlignment);
      if (target <= 0) return false;
      continue;
    }
    std::vector<Candidate> candidates = FindCandidates(target);
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    bool applied = false;
    int failures = 0;
    for (const Candidate& candidate : candidates) {
      COTAN_ASSIGN_OR_RETURN(applied, Apply(candidate.repetition, target));
      if (applied || ++failures == kMaxFailures) break;
    }
    if (!applied) return false;
  }
  return true;
}

// Returns the byte-steps above the target.
double Recomputation::Excess(int64_t target) const {
  double excess = 0;
  for (const int64_t bytes : bytes_at_) excess += static_cast<double>(std::max<int64_t>(bytes - target, 0));
  return excess;
}

// Returns the index of the step's op, or of the op that a copy step precedes.
int Recomputation::PositionOf(size_t step) const {
  while (step < plan_.schedule.steps.size() && plan_.schedule.steps[step].op < 0) ++step;
  return step < plan_.schedule.steps.size() ? plan_.schedule.steps[step].op : method_.ops_size();
}

std::vector<Recomputation::Candidate> Recomputation::FindCandidates(int64_t target) {
  const auto peak = static_cast<size_t>(std::max_element(bytes_at_.begin(), bytes_at_.end()) - bytes_at_.begin());
  const int position = PositionOf(peak);
  std::vector<Candidate> candidates;
  for (uint32_t value = 0; value < facts_.root.size(); ++value) {
    const int producer = facts_.producer[value];
    if (facts_.root[value] != value || producer < 0 || producer >= position) continue;
    if (!is_in_arena_[value] || facts_.is_kept[value] || !IsRepeatable(method_.ops(producer))) continue;
    const int next = facts_.NextUse(value, position - 1);
    if (next <= position) continue;  // not used later, or used by this op
    AddCandidates(value, next, target, candidates);
  }
  return candidates;
}

// Returns the extension that makes the content of `value` readable before op `before`, when
// `dropped` is not available. Returns none if it cannot be made available.
std::optional<Recomputation::Extension> Recomputation::Available(uint32_t value, uint32_t dropped, int before) const {
  std::optional<Extension> best;
  for (const uint32_t copy : copies_[OriginalOf(value)]) {
    if (copy == dropped || facts_.producer[copy] >= before) continue;
    Extension extension{copy, 0, before};
    const bool is_arena = facts_.producer[copy] >= 0 && is_in_arena_[copy] && !facts_.is_kept[copy];
    if (facts_.producer[copy] < 0 && facts_.updated_by[copy] < before && bytes_[copy] > kSmallState) continue;
    if (is_arena && facts_.LastUse(copy) < before) {
      extension.bytes = bytes_[copy];
      extension.from = facts_.LastUse(copy);
    }
    const bool is_better = !best.has_value() || extension.bytes == 0 || extension.from > best->from;
    if (is_better) best = extension;
    if (extension.bytes == 0) break;
  }
  return best;
}

// Adds the ways to compute `value` again before op `before`: its producer alone, then with more and
// more of the producers of its operands.
void Recomputation::AddCandidates(uint32_t value, int before, int64_t target, std::vector<Candidate>& candidates) {
  std::set<int> chain = {facts_.producer[value]};
  while (chain.size() <= kMaxChain) {
    Rematerialization repetition{
        .target = value, .before = before, .ops = {chain.begin(), chain.end()}, .substitutes = {}};
    std::vector<Extension> extensions;
    absl::flat_hash_map<uint32_t, bool> made;  // originals that the chain computes
    double cost = 0;
    for (const int op : chain) {
      cost += cost_[static_cast<size_t>(op)];
      for (const uint32_t output : method_.ops(op).outputs()) made[OriginalOf(output)] = true;
    }
    bool is_possible = true;
    int expand = -1;  // producer of the operand whose extension costs the most memory
    int64_t expand_bytes = 0;
    bool must_expand = false;
    std::set<uint32_t> seen;
    for (const int op : chain) {
      for (const uint32_t input : method_.ops(op).inputs()) {
        const uint32_t root = facts_.RootOf(input);
        if (!seen.insert(root).second) continue;
        const int producer = facts_.producer[root];
        if (producer >= 0 && chain.contains(producer)) continue;
        if (made.contains(OriginalOf(root))) return;  // two copies of one content in one chain
        const bool may_expand = producer >= 0 && IsRepeatable(method_.ops(producer));
        const std::optional<Extension> extension = Available(root, value, before);
        if (!extension.has_value()) {
          is_possible = false;
          if (!may_expand) return;
          must_expand = true;
          expand = producer;
          continue;
        }
        if (extension->value != root) repetition.substitutes.emplace(root, extension->value);
        if (extension->bytes == 0) continue;
        extensions.push_back(*extension);
        if (!must_expand && may_expand && extension->bytes > expand_bytes) {
          expand = producer;
          expand_bytes = extension->bytes;
        }
      }
    }
    if (is_possible) {
      const double gain = Gain(repetition, extensions, target);
      if (gain > 0) candidates.push_back({repetition, gain / cost});
    }
    if (expand < 0) return;
    chain.insert(expand);
  }
}

// Returns an estimate, without planning, of the byte-steps above the target that the repetition
// saves.
double Recomputation::Gain(const Rematerialization& repetition, const std::vector<Extension>& extensions,
                           int64_t target) const {
  const uint32_t value = repetition.target;
  // The last reader before `before`.
  int last = facts_.producer[value];
  for (const int use : facts_.uses[value]) {
    if (use < repetition.before) last = std::max(last, use);
  }
  const auto begin = static_cast<size_t>(step_of_[static_cast<size_t>(last)]) + 1;
  const auto end = static_cast<size_t>(step_of_[static_cast<size_t>(repetition.before)]);
  std::vector<int64_t> change(bytes_at_.size() + 1);
  change[begin] -= bytes_[value];
  change[end] += bytes_[value];
  int64_t kept = 0;  // by extensions
  for (const Extension& extension : extensions) {
    const auto from = static_cast<size_t>(step_of_[static_cast<size_t>(std::max(extension.from, 0))]) + 1;
    kept += extension.bytes;
    if (from >= end) continue;
    change[from] += extension.bytes;
    change[end] -= extension.bytes;
  }
  const auto excess = [target](int64_t bytes) { return static_cast<double>(std::max<int64_t>(bytes - target, 0)); };
  double gain = 0;
  int64_t sum = 0;
  for (size_t step = 0; step < end; ++step) {
    sum += change[step];
    if (sum != 0) gain += excess(bytes_at_[step]) - excess(bytes_at_[step] + sum);
  }
  // The repeated ops run between the reader before `before` and `before` itself.
  int64_t alive = kept - bytes_[value];
  for (const BufferLifetime& buffer : plan_.lifetimes) {
    const bool spans = buffer.first < static_cast<int>(end) && buffer.last >= static_cast<int>(end);
    if (spans) alive += Aligned(buffer.bytes);
  }
  absl::flat_hash_map<uint32_t, int> last_use;  // in the chain
  for (const int op : repetition.ops) {
    for (const uint32_t input : method_.ops(op).inputs()) last_use[facts_.RootOf(input)] = op;
  }
  std::vector<std::pair<int, int64_t>> dying;  // after op, bytes
  for (const int op : repetition.ops) {
    int64_t dead = 0;
    for (const uint32_t output : method_.ops(op).outputs()) {
      alive += bytes_[output];
      if (output == value) continue;
      const auto use = last_use.find(output);
      dying.emplace_back(use == last_use.end() ? op : use->second, bytes_[output]);
    }
    gain -= excess(alive + scratch_[static_cast<size_t>(op)]);
    for (auto& [at, bytes] : dying) {
      if (at == op) dead += std::exchange(bytes, 0);
    }
    alive -= dead;
  }
  return gain;
}

// Applies the repetition, and keeps it if the new plan needs less memory.
absl::StatusOr<bool> Recomputation::Apply(const Rematerialization& repetition, int64_t target) {
  const Method method = method_;
  const MemoryPlan plan = plan_;
  const std::vector<int64_t> scratch = scratch_;
  const double excess = Excess(target);
  absl::flat_hash_map<uint32_t, uint32_t> copies;
  const std::vector<RepeatedOp> added = RematerializeOps(repetition, facts_, method_, copies);
  std::vector<int64_t> added_scratch;
  for (const RepeatedOp& op : added) added_scratch.push_back(scratch[static_cast<size_t>(op.original)]);
  scratch_.insert(scratch_.begin() + repetition.before, added_scratch.begin(), added_scratch.end());
  COTAN_RETURN_IF_ERROR(Measure());
  if (Excess(target) >= excess) {
    method_ = method;
    scratch_ = scratch;
    COTAN_RETURN_IF_ERROR(Measure());
    return false;
  }
  // New values have indexes after the old ones.
  for (auto value = static_cast<uint32_t>(original_.size()); value < static_cast<uint32_t>(method_.values_size());
       ++value) {
    original_.push_back(value);
    copies_.push_back({value});
    COTAN_ASSIGN_OR_RETURN(const int64_t bytes, planner_.BytesOf(method_.values(static_cast<int>(value)).type()));
    bytes_.push_back(Aligned(bytes));
  }
  for (const auto& [from, to] : copies) {
    original_[to] = OriginalOf(from);
    copies_[OriginalOf(from)].push_back(to);
  }
  for (const RepeatedOp& op : added) repeated_ops_ += method_.ops(op.position).has_view() ? 0 : 1;
  return true;
}

}  // namespace cotan::aot
