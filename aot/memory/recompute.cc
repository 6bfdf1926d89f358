// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/recompute.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "aot/memory/op_cost.h"
#include "aot/memory/repeated_part.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "planning/op_work.h"

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
// Results that are smaller by this factor than another one, as means beside normalized values, are read rather than
// computed again.
constexpr int64_t kSmallResult = 16;
// A value that was last accessed more bytes of operands ago is not in cache, and takes so long to read.
constexpr int64_t kCacheBytes = 16 << 20;
constexpr double kColdBytesPerNs = 20;
// The least cost of a repetition, of the time that its ops take elsewhere: it may make them read values from memory
// sooner, not for nothing.
constexpr double kLeastCost = 1.0 / 16;
// Functions of values that do not fit in caches take up to this many times as long as the estimate, which is near the
// truth for other ops.
constexpr double kLargeFunctionCost = 2;

// What RepeatCheapOps() accepts: percent of the arena for each percent of time, and the most time.
constexpr double kMemoryForTime = 10;
constexpr double kMostCheapTime = 0.015;
// The least shares of the arena that are worth a repetition and all of them, and the one that is removed per step of
// the search.
constexpr double kLeastMemory = 0.004;
constexpr double kLeastGain = 0.1;
constexpr double kCheapDescent = 0.05;

}  // namespace

absl::StatusOr<Recomputation> Recomputation::Start(Method& method, const MemoryPlanner& planner) {
  Recomputation recomputation(method, planner);
  for (const serialization::Value& value : method.values()) {
    COTAN_ASSIGN_OR_RETURN(const int64_t bytes, planner.BytesOf(value.type()));
    recomputation.bytes_.push_back(RoundUp(bytes, kArenaAlignment));
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
  parts_.clear();
  touched_.assign(num_ops + 1, 0);
  for (const ScheduledStep& step : plan_.schedule.steps) {
    if (step.op >= 0) touched_[static_cast<size_t>(step.op) + 1] = WorkOf(method_.ops(step.op), step).bytes;
  }
  std::partial_sum(touched_.begin(), touched_.end(), touched_.begin());
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
    COTAN_ASSIGN_OR_RETURN(const std::optional<double> cost, ApplyBest(target, [](const Candidate&) { return true; }));
    if (!cost.has_value()) return false;
    added_ns_ += *cost;
  }
  return true;
}

absl::Status Recomputation::RepeatCheapOps() {
  const Method original = method_;
  const int64_t before = arena_bytes();
  const double time = std::accumulate(cost_.begin(), cost_.end(), 0.0);
  double left = kMostCheapTime * time;
  const auto is_cheap = [&](const Candidate& candidate) {
    const double memory = static_cast<double>(candidate.bytes) / static_cast<double>(before);
    return memory >= kLeastMemory && candidate.cost <= left && candidate.cost / time <= memory / kMemoryForTime;
  };
  Method smallest = method_;
  int64_t smallest_bytes = before;
  int smallest_repeated = repeated_ops_;
  double smallest_left = left;
  for (;;) {
    // Bytes alive at once, of which the arena may have more because of gaps between buffers.
    const int64_t alive = *std::max_element(bytes_at_.begin(), bytes_at_.end());
    const auto target = static_cast<int64_t>(static_cast<double>(alive) * (1 - kCheapDescent));
    COTAN_ASSIGN_OR_RETURN(const std::optional<double> cost, ApplyBest(target, is_cheap));
    if (!cost.has_value()) break;
    left -= *cost;
    if (arena_bytes() >= smallest_bytes) continue;
    smallest = method_;
    smallest_bytes = arena_bytes();
    smallest_repeated = repeated_ops_;
    smallest_left = left;
  }
  const bool pays = static_cast<double>(smallest_bytes) <= static_cast<double>(before) * (1 - kLeastGain);
  method_ = pays ? std::move(smallest) : original;
  repeated_ops_ = pays ? smallest_repeated : 0;
  added_ns_ = pays ? kMostCheapTime * time - smallest_left : 0;
  scratch_.clear();
  return Measure();
}

// Returns whether the op evaluates functions, such as exp or a random draw, of values that do not fit in caches.
bool Recomputation::EvaluatesLargeFunctions(const Op& op) const {
  int64_t bytes = 0;
  for (const uint32_t input : op.inputs()) bytes += bytes_[facts_.RootOf(input)];
  for (const uint32_t output : op.outputs()) bytes += bytes_[output];
  const auto& instructions = op.expr().instructions();
  return bytes > kCacheBytes / 2 && std::any_of(instructions.begin(), instructions.end(), [](const auto& instruction) {
           return ExprCostOf(instruction.fn()) >= ExprCost::kFunction;
         });
}

// Applies the best of the candidates that may be applied and that help. Returns its cost; nothing if there is none.
absl::StatusOr<std::optional<double>> Recomputation::ApplyBest(int64_t target,
                                                               absl::FunctionRef<bool(const Candidate&)> may_apply) {
  std::vector<Candidate> candidates = FindCandidates(target);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  int failures = 0;
  for (const Candidate& candidate : candidates) {
    if (!may_apply(candidate)) continue;
    COTAN_ASSIGN_OR_RETURN(const bool applied, Apply(candidate.repetition, target));
    if (applied) return candidate.cost;
    if (++failures == kMaxFailures) break;
  }
  return std::nullopt;
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
  for (int op = 0; op < position; ++op) {
    if (!IsRepeatable(method_.ops(op))) continue;
    std::vector<uint32_t> idle;
    int first = MethodFacts::kNever;  // reader of them
    for (const uint32_t value : method_.ops(op).outputs()) {
      if (facts_.root[value] != value || !is_in_arena_[value] || facts_.is_kept[value]) continue;
      const int next = facts_.NextUse(value, position - 1);
      if (next <= position) continue;  // not used later, or used by this op
      AddCandidates({value}, next, target, candidates);
      idle.push_back(value);
      first = std::min(first, next);
    }
    // An activation and its derivative need the same operand: one of them alone saves nothing.
    if (idle.size() > 1) AddCandidates(idle, first, target, candidates);
  }
  return candidates;
}

// Returns the extension that makes the content of `value` readable before op `before`, when
// `dropped` are not available. Returns none if it cannot be made available.
std::optional<Recomputation::Extension> Recomputation::Available(uint32_t value, absl::Span<const uint32_t> dropped,
                                                                 int before) const {
  std::optional<Extension> best;
  for (const uint32_t copy : copies_[OriginalOf(value)]) {
    if (std::find(dropped.begin(), dropped.end(), copy) != dropped.end()) continue;
    if (facts_.producer[copy] >= before) continue;
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

// Returns the last op before op `at` that reads the value, or the one that computes it.
int Recomputation::LastAccess(uint32_t value, int at) const {
  int last = facts_.producer[value];
  for (const int use : facts_.uses[value]) {
    if (use < at) last = std::max(last, use);
  }
  return last;
}

// Returns the nanoseconds that op `at` waits for a value that is not in cache any more.
double Recomputation::ColdReadCost(uint32_t value, int at) const {
  const int last = LastAccess(value, at);
  const int64_t since = touched_[static_cast<size_t>(at)] - touched_[static_cast<size_t>(std::max(last, 0))];
  return std::min(since, plan_.arena_bytes) > kCacheBytes ? static_cast<double>(bytes_[value]) / kColdBytesPerNs : 0;
}

// Returns whether an op that soon follows `at` reads the value.
bool Recomputation::IsReadSoon(uint32_t value, int at) const {
  return std::any_of(facts_.uses[value].begin(), facts_.uses[value].end(), [&](int use) {
    return use >= at && touched_[static_cast<size_t>(use)] - touched_[static_cast<size_t>(at)] <= kCacheBytes;
  });
}

// Returns the nanoseconds that op `op` takes less if nothing before op `before` reads its results `dropped`.
double Recomputation::UnreadResultCost(int op, absl::Span<const uint32_t> dropped, int before) {
  std::vector<uint32_t> read;
  for (const uint32_t output : method_.ops(op).outputs()) {
    const auto& uses = facts_.uses[output];
    const bool is_dropped = std::find(dropped.begin(), dropped.end(), output) != dropped.end();
    if (!is_dropped || (!uses.empty() && uses.front() < before)) read.push_back(output);
  }
  if (read.empty() || read.size() == static_cast<size_t>(method_.ops(op).outputs_size())) return 0;
  return cost_[static_cast<size_t>(op)] - PartOf(op, read, {}).cost;
}

// Adds the ways to compute `values`, results of one op, again before op `before`: their producer alone, then with more
// and more of the producers of its operands.
void Recomputation::AddCandidates(const std::vector<uint32_t>& values, int before, int64_t target,
                                  std::vector<Candidate>& candidates) {
  const int maker = facts_.producer[values[0]];
  double saved = UnreadResultCost(maker, values, before);
  int64_t bytes = 0;
  for (const uint32_t value : values) {
    saved += ColdReadCost(value, before);
    bytes += bytes_[value];
  }
  std::set<int> chain = {maker};
  while (chain.size() <= kMaxChain) {
    Rematerialization repetition{
        .targets = values, .before = before, .ops = {chain.begin(), chain.end()}, .parts = {}, .substitutes = {}};
    double cost = AddParts(repetition);
    const std::optional<Operands> operands = FindOperands(repetition);
    if (!operands.has_value()) return;
    if (operands->are_available) {
      cost += operands->cost;
      const double gain = Gain(repetition, operands->extensions, target);
      const double net = std::max(cost - saved, cost * kLeastCost);
      int64_t kept = 0;
      for (const Extension& extension : operands->extensions) kept += extension.bytes;
      if (gain > 0) candidates.push_back({repetition, gain / net, net, bytes - kept});
    }
    if (operands->producer < 0) return;
    chain.insert(operands->producer);
  }
}

// Finds what the repetition reads of values that it does not make, and adds substitutes for those of which only a copy
// can be read. Returns none if an operand can be neither read nor made again, or if the repetition would make a second
// copy of one.
std::optional<Recomputation::Operands> Recomputation::FindOperands(Rematerialization& repetition) const {
  absl::flat_hash_set<uint32_t> made;
  absl::flat_hash_set<uint32_t> made_originals;
  for (const int op : repetition.ops) {
    for (const uint32_t output : RepeatedOpOf(repetition, method_, op).outputs()) {
      made.insert(output);
      made_originals.insert(OriginalOf(output));
    }
  }
  Operands operands;
  int64_t most_bytes = 0;  // of an extension
  absl::flat_hash_set<uint32_t> seen;
  for (const int op : repetition.ops) {
    for (const uint32_t input : RepeatedOpOf(repetition, method_, op).inputs()) {
      const uint32_t root = facts_.RootOf(input);
      if (!seen.insert(root).second || made.contains(root)) continue;
      if (made_originals.contains(OriginalOf(root))) return std::nullopt;
      const int producer = facts_.producer[root];
      const bool is_repeated =
          std::find(repetition.ops.begin(), repetition.ops.end(), producer) != repetition.ops.end();
      const bool may_repeat = producer >= 0 && !is_repeated && IsRepeatable(method_.ops(producer));
      const std::optional<Extension> extension = Available(root, repetition.targets, repetition.before);
      if (!extension.has_value()) {
        if (!may_repeat) return std::nullopt;
        operands.are_available = false;
        operands.producer = producer;
        continue;
      }
      if (!IsReadSoon(extension->value, repetition.before)) {
        operands.cost += ColdReadCost(extension->value, repetition.before);
      }
      if (extension->value != root) repetition.substitutes.emplace(root, extension->value);
      if (extension->bytes == 0) continue;
      operands.extensions.push_back(*extension);
      if (operands.are_available && may_repeat && extension->bytes > most_bytes) {
        operands.producer = producer;
        most_bytes = extension->bytes;
      }
    }
  }
  return operands;
}

// Finds the parts of expressions that suffice for the repetition. Returns the cost of what is repeated.
double Recomputation::AddParts(Rematerialization& repetition) {
  double cost = 0;
  absl::flat_hash_set<uint32_t> read(repetition.targets.begin(), repetition.targets.end());
  for (size_t i = repetition.ops.size(); i-- > 0;) {
    const int op = repetition.ops[i];
    std::vector<uint32_t> results, alive;
    for (const uint32_t output : method_.ops(op).outputs()) {
      if (read.contains(output)) {
        results.push_back(output);
      } else if (facts_.LastUse(output) >= repetition.before) {
        alive.push_back(output);
      }
    }
    const Part& part = PartOf(op, results, alive);
    if (part.op.has_value()) repetition.parts.emplace(op, *part.op);
    const Op& repeated = RepeatedOpOf(repetition, method_, op);
    cost += part.cost * (EvaluatesLargeFunctions(repeated) ? kLargeFunctionCost : 1);
    for (const uint32_t input : repeated.inputs()) read.insert(facts_.RootOf(input));
  }
  return cost;
}

// Returns what is repeated of an op for some of its results, if others are still alive.
const Recomputation::Part& Recomputation::PartOf(int op, const std::vector<uint32_t>& results,
                                                 const std::vector<uint32_t>& alive) {
  const auto [found, is_new] = parts_.try_emplace(std::tuple(op, results, alive));
  Part& part = found->second;
  if (!is_new) return part;
  part.cost = cost_[static_cast<size_t>(op)];
  const ScheduledStep& step = plan_.schedule.steps[static_cast<size_t>(step_of_[static_cast<size_t>(op)])];
  if (step.op != op) return part;  // a view, or an operand that a product computes
  const auto is_known = [&](uint32_t value) {
    return bytes_[value] * kSmallResult <= bytes_[results[0]] ||
           std::find(alive.begin(), alive.end(), value) != alive.end();
  };
  std::optional<RepeatedPart> repeated = PartFor(results, method_, step, is_known);
  if (!repeated.has_value()) return part;
  part.cost = OpCost(repeated->op, repeated->step);
  part.op = std::move(repeated->op);
  return part;
}

// Returns an estimate, without planning, of the byte-steps above the target that the repetition
// saves.
double Recomputation::Gain(const Rematerialization& repetition, const std::vector<Extension>& extensions,
                           int64_t target) const {
  const auto end = static_cast<size_t>(step_of_[static_cast<size_t>(repetition.before)]);
  std::vector<int64_t> change(bytes_at_.size() + 1);
  int64_t dropped = 0;
  for (const uint32_t value : repetition.targets) {
    const int last = LastAccess(value, repetition.before);
    change[static_cast<size_t>(step_of_[static_cast<size_t>(last)]) + 1] -= bytes_[value];
    change[end] += bytes_[value];
    dropped += bytes_[value];
  }
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
  int64_t alive = kept - dropped;
  for (const BufferLifetime& buffer : plan_.lifetimes) {
    const bool spans = buffer.first < static_cast<int>(end) && buffer.last >= static_cast<int>(end);
    if (spans) alive += RoundUp(buffer.bytes, kArenaAlignment);
  }
  absl::flat_hash_map<uint32_t, int> last_use;  // in the chain
  for (const int op : repetition.ops) {
    for (const uint32_t input : RepeatedOpOf(repetition, method_, op).inputs()) last_use[facts_.RootOf(input)] = op;
  }
  std::vector<std::pair<int, int64_t>> dying;  // after op, bytes
  for (const int op : repetition.ops) {
    int64_t dead = 0;
    for (const uint32_t output : RepeatedOpOf(repetition, method_, op).outputs()) {
      alive += bytes_[output];
      if (std::find(repetition.targets.begin(), repetition.targets.end(), output) != repetition.targets.end()) continue;
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

// Removes results of an expression that nothing reads any more, not even a view, if it has others and adds nothing up.
// Returns them.
std::vector<uint32_t> Recomputation::DropUnreadResults(int op) {
  const MethodFacts facts(method_);
  absl::flat_hash_set<uint32_t> operands;
  for (const Op& reader : method_.ops()) operands.insert(reader.inputs().begin(), reader.inputs().end());
  std::vector<uint32_t> read, unread;
  for (const uint32_t output : method_.ops(op).outputs()) {
    (facts.is_kept[output] || operands.contains(output) ? read : unread).push_back(output);
  }
  if (read.empty() || unread.empty()) return {};
  const ScheduledStep& step = plan_.schedule.steps[static_cast<size_t>(step_of_[static_cast<size_t>(op)])];
  if (step.op != op) return {};
  std::optional<RepeatedPart> part = PartFor(read, method_, step, [](uint32_t) { return false; });
  if (!part.has_value()) return {};
  *method_.mutable_ops(op) = std::move(part->op);
  scratch_[static_cast<size_t>(op)] = -1;
  return unread;
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
  for (const RepeatedOp& op : added) {
    const bool is_part = repetition.parts.contains(op.original);
    added_scratch.push_back(is_part ? -1 : scratch[static_cast<size_t>(op.original)]);
  }
  scratch_.insert(scratch_.begin() + repetition.before, added_scratch.begin(), added_scratch.end());
  const std::vector<uint32_t> unread = DropUnreadResults(facts_.producer[repetition.targets[0]]);
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
    bytes_.push_back(RoundUp(bytes, kArenaAlignment));
  }
  for (const auto& [from, to] : copies) {
    original_[to] = OriginalOf(from);
    copies_[OriginalOf(from)].push_back(to);
  }
  for (const uint32_t value : unread) {
    std::vector<uint32_t>& same = copies_[OriginalOf(value)];
    same.erase(std::find(same.begin(), same.end(), value));
  }
  for (const RepeatedOp& op : added) repeated_ops_ += method_.ops(op.position).has_view() ? 0 : 1;
  return true;
}

}  // namespace cotan::aot
