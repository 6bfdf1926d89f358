// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/fit_memory.h"

#include <algorithm>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/dynamic/dynamic_dim.h"
#include "aot/memory/recompute.h"
#include "aot/memory/saved_values.h"
#include "base/status_macros.h"
#include "serialization/container/container.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;

// Fraction of a method's memory by which the target decreases per step, if the limit cannot be
// reached in one step.
constexpr double kDescent = 0.04;

absl::StatusOr<DimVector> LargestSizes(const Artifact& artifact) {
  DimVector sizes;
  for (const serialization::SymbolProto& symbol : artifact.symbols()) {
    if (symbol.max() >= kNoMaximum) {
      return absl::InvalidArgumentError(
          absl::StrCat("the memory of the methods is not bounded: dimension '", symbol.name(),
                       "' has no maximum; declare its range, as in --dynamic='input.0:0=", symbol.name(), "[1:64]'"));
    }
    sizes.push_back(symbol.max());
  }
  return sizes;
}

absl::StatusOr<MemoryPlanner> PlannerFor(const Artifact& artifact, const MemoryTarget& target) {
  if (target.kernels == nullptr) {
    return absl::InvalidArgumentError("MemoryTarget.kernels is not set; set it to the kernel registry of the target");
  }
  COTAN_ASSIGN_OR_RETURN(DimVector sizes, LargestSizes(artifact));
  return MemoryPlanner(artifact, std::move(sizes), target);
}

// A method that was rewritten, and what that adds to its time.
struct Fitted {
  Method method;
  int64_t arena_bytes = 0;
  int repeated_ops = 0;
  double added_ns = 0;
  bool fits = false;
};

// Fits `start` into the limit directly.
absl::StatusOr<Fitted> FitDirectly(int64_t limit, const MemoryPlanner& planner, const Method& start) {
  Fitted fitted = {.method = start};
  COTAN_ASSIGN_OR_RETURN(Recomputation search, Recomputation::Start(fitted.method, planner));
  COTAN_ASSIGN_OR_RETURN(fitted.fits, search.FitBudget(limit));
  fitted.arena_bytes = search.arena_bytes();
  fitted.repeated_ops = search.repeated_ops();
  fitted.added_ns = search.added_ns();
  return fitted;
}

// Repeats what is cheap, and then what the limit still needs.
absl::StatusOr<Fitted> FitAfterCheapOps(int64_t limit, const MemoryPlanner& planner, const Method& start) {
  Method cheap = start;
  COTAN_ASSIGN_OR_RETURN(Recomputation search, Recomputation::Start(cheap, planner));
  COTAN_RETURN_IF_ERROR(search.RepeatCheapOps());
  COTAN_ASSIGN_OR_RETURN(Fitted fitted, FitDirectly(limit, planner, cheap));
  // Cheap ops alone are counted as no loss: steps that read less memory are faster.
  const bool suffices = fitted.fits && fitted.repeated_ops == 0;
  fitted.repeated_ops += search.repeated_ops();
  fitted.added_ns += suffices ? 0 : search.added_ns();
  return fitted;
}

// Decreases the target in small steps, which reaches smaller sizes.
absl::StatusOr<Fitted> FitStepwise(int64_t limit, const MemoryPlanner& planner, const Method& start) {
  Fitted fitted = {.method = start};
  COTAN_ASSIGN_OR_RETURN(Recomputation search, Recomputation::Start(fitted.method, planner));
  bool falls = true;
  while (falls && search.arena_bytes() > limit) {
    const auto next = static_cast<int64_t>(static_cast<double>(search.arena_bytes()) * (1 - kDescent));
    COTAN_ASSIGN_OR_RETURN(falls, search.FitBudget(std::max(limit, next)));
  }
  fitted.arena_bytes = search.arena_bytes();
  fitted.repeated_ops = search.repeated_ops();
  fitted.fits = fitted.arena_bytes <= limit;
  return fitted;
}

// Returns whether `a` is to be preferred to `b`: it fits in less time, or, if neither fits, it is smaller.
bool IsBetter(const Fitted& a, const Fitted& b) {
  if (a.fits && b.fits) return a.added_ns < b.added_ns;
  return a.fits || (!b.fits && a.arena_bytes < b.arena_bytes);
}

absl::StatusOr<MethodMemory> FitMethod(int64_t limit, const MemoryPlanner& planner, bool repeat_cheap_ops,
                                       Method& method) {
  std::vector<int64_t> scratch;
  COTAN_ASSIGN_OR_RETURN(const MemoryPlan plan, planner.Plan(method, scratch));
  COTAN_ASSIGN_OR_RETURN(Fitted best, FitDirectly(limit, planner, method));
  if (repeat_cheap_ops) {
    COTAN_ASSIGN_OR_RETURN(Fitted after_cheap, FitAfterCheapOps(limit, planner, method));
    if (!IsBetter(best, after_cheap)) best = std::move(after_cheap);
  }
  if (!best.fits) {
    COTAN_ASSIGN_OR_RETURN(Fitted stepwise, FitStepwise(limit, planner, method));
    if (IsBetter(stepwise, best)) best = std::move(stepwise);
  }
  method = std::move(best.method);
  return MethodMemory{method.name(), plan.arena_bytes, best.arena_bytes, best.repeated_ops, 0};
}

// Returns the backward method of `forward`; null if there is none.
Method* BackwardOf(const Method& forward, Artifact& artifact) {
  for (Method& method : *artifact.mutable_methods()) {
    if (!method.name().empty() && method.name() == forward.backward_method()) return &method;
  }
  return nullptr;
}

bool IsBackward(const Method& method, const Artifact& artifact) {
  return std::any_of(artifact.methods().begin(), artifact.methods().end(),
                     [&](const Method& forward) { return forward.backward_method() == method.name(); });
}

// Returns the bytes of the saved values of each forward, under its name and that of its backward.
absl::StatusOr<absl::flat_hash_map<absl::string_view, int64_t>> SavedBytesByMethod(const Artifact& artifact,
                                                                                   const MemoryPlanner& planner) {
  absl::flat_hash_map<absl::string_view, int64_t> bytes;
  for (const Method& forward : artifact.methods()) {
    if (IsBackward(forward, artifact)) continue;
    for (const Method& backward : artifact.methods()) {
      if (backward.name().empty() || backward.name() != forward.backward_method()) continue;
      COTAN_ASSIGN_OR_RETURN(bytes[forward.name()], SavedBytesOnDevice(forward, planner));
      bytes[backward.name()] = bytes[forward.name()];
    }
  }
  return bytes;
}

// Fits a forward and its backward: first drops saved values, then fits each method into the rest of
// the limit.
absl::StatusOr<std::vector<MethodMemory>> FitPair(int64_t limit, const MemoryPlanner& planner, bool repeat_cheap_ops,
                                                  Method& forward, Method& backward) {
  COTAN_ASSIGN_OR_RETURN(SavedValues saved, SavedValues::Start(forward, backward, planner));
  const PairMemory before = saved.memory();
  COTAN_RETURN_IF_ERROR(saved.FitBudget(limit).status());
  const int64_t kept = saved.memory().saved;
  std::vector<MethodMemory> memory;
  for (Method* method : {&forward, &backward}) {
    COTAN_ASSIGN_OR_RETURN(memory.emplace_back(),
                           FitMethod(std::max<int64_t>(limit - kept, 1), planner, repeat_cheap_ops, *method));
    memory.back().after += kept;
  }
  memory[0].before = before.saved + before.forward_arena;
  memory[1].before = before.saved + before.backward_arena;
  memory[1].repeated_ops += saved.repeated_ops();
  return memory;
}

// Fits each method, or a forward with its backward, into its limit as far as possible. Returns one element per method,
// in order.
absl::StatusOr<std::vector<MethodMemory>> FitMethods(absl::FunctionRef<int64_t(absl::string_view)> limit_of,
                                                     const MemoryPlanner& planner, bool repeat_cheap_ops,
                                                     Artifact& artifact) {
  absl::flat_hash_map<std::string, MethodMemory> by_name;
  for (Method& method : *artifact.mutable_methods()) {
    if (IsBackward(method, artifact)) continue;
    const int64_t limit = limit_of(method.name());
    std::vector<MethodMemory> fitted;
    if (Method* backward = BackwardOf(method, artifact); backward != nullptr) {
      COTAN_ASSIGN_OR_RETURN(fitted, FitPair(limit, planner, repeat_cheap_ops, method, *backward));
    } else {
      COTAN_ASSIGN_OR_RETURN(fitted.emplace_back(), FitMethod(limit, planner, repeat_cheap_ops, method));
    }
    for (MethodMemory& memory : fitted) by_name[memory.name] = std::move(memory);
  }
  std::vector<MethodMemory> memory;
  for (const Method& method : artifact.methods()) {
    memory.push_back(std::move(by_name.at(method.name())));
    memory.back().num_ops = method.ops_size();
  }
  return memory;
}

}  // namespace

absl::StatusOr<std::vector<MethodMemory>> MeasureMemory(const Artifact& artifact, const MemoryTarget& target) {
  COTAN_ASSIGN_OR_RETURN(const MemoryPlanner planner, PlannerFor(artifact, target));
  COTAN_ASSIGN_OR_RETURN(const auto saved_bytes, SavedBytesByMethod(artifact, planner));
  std::vector<MethodMemory> memory;
  for (const Method& method : artifact.methods()) {
    std::vector<int64_t> scratch;
    COTAN_ASSIGN_OR_RETURN(const MemoryPlan plan, planner.Plan(method, scratch));
    const auto saved = saved_bytes.find(method.name());
    const int64_t bytes = plan.arena_bytes + (saved == saved_bytes.end() ? 0 : saved->second);
    memory.push_back({method.name(), bytes, bytes, 0, method.ops_size()});
  }
  return memory;
}

absl::StatusOr<MethodLimits> MeasurePeaks(const Artifact& artifact, const MemoryTarget& target) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<MethodMemory> memory, MeasureMemory(artifact, target));
  MethodLimits peaks;
  for (const MethodMemory& method : memory) peaks[method.name] = method.after;
  for (const Method& forward : artifact.methods()) {
    const auto backward = peaks.find(forward.backward_method());
    if (forward.backward_method().empty() || backward == peaks.end()) continue;
    int64_t& own = peaks.at(forward.name());
    own = backward->second = std::max(own, backward->second);
  }
  return peaks;
}

absl::StatusOr<std::vector<MethodMemory>> FitIntoMemory(int64_t limit, const MemoryTarget& target,
                                                        bool repeat_cheap_ops, Artifact& artifact) {
  if (limit <= 0)
    return absl::InvalidArgumentError(absl::StrCat(limit, " bytes is not a valid memory limit: it must be positive"));
  COTAN_ASSIGN_OR_RETURN(const MemoryPlanner planner, PlannerFor(artifact, target));
  COTAN_ASSIGN_OR_RETURN(std::vector<MethodMemory> memory,
                         FitMethods([limit](absl::string_view) { return limit; }, planner, repeat_cheap_ops, artifact));
  std::vector<std::string> too_large;
  for (const MethodMemory& fitted : memory) {
    if (fitted.after <= limit) continue;
    too_large.push_back(absl::StrCat("'", fitted.name, "' needs ", BytesText(fitted.before), ", at least ",
                                     BytesText(fitted.after), " with recomputation"));
  }
  if (too_large.empty()) return memory;
  return absl::ResourceExhaustedError(absl::StrCat("the limit of ", BytesText(limit),
                                                   " cannot be kept: ", absl::StrJoin(too_large, "; "),
                                                   "; use smaller batches or --precision=bf16"));
}

absl::StatusOr<std::vector<MethodMemory>> FitIntoLimits(const MethodLimits& limits, const MemoryTarget& target,
                                                        Artifact& artifact) {
  const auto limit_of = [&limits](absl::string_view method) {
    const auto found = limits.find(method);
    return found == limits.end() ? 0 : found->second;
  };
  COTAN_ASSIGN_OR_RETURN(const MemoryPlanner planner, PlannerFor(artifact, target));
  COTAN_ASSIGN_OR_RETURN(std::vector<MethodMemory> memory,
                         FitMethods(limit_of, planner, /*repeat_cheap_ops=*/false, artifact));
  for (const MethodMemory& fitted : memory) {
    if (fitted.after <= limit_of(fitted.name)) continue;
    return absl::ResourceExhaustedError(absl::StrCat("'", fitted.name, "' needs at least ", BytesText(fitted.after),
                                                     ", and its limit is ", BytesText(limit_of(fitted.name))));
  }
  return memory;
}

absl::StatusOr<std::vector<MethodMemory>> FitFileIntoMemory(int64_t limit, const MemoryTarget& target,
                                                            bool repeat_cheap_ops, std::string& file) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile parsed, ArtifactFile::Parse(file));
  Artifact artifact = parsed.artifact();
  COTAN_ASSIGN_OR_RETURN(std::vector<MethodMemory> memory, FitIntoMemory(limit, target, repeat_cheap_ops, artifact));
  ArtifactWriter writer;
  COTAN_RETURN_IF_ERROR(writer.AddSegmentsOf(parsed));
  artifact.clear_segments();
  COTAN_ASSIGN_OR_RETURN(file, std::move(writer).Serialize(std::move(artifact)));
  return memory;
}

absl::StatusOr<std::vector<MethodMemory>> RepeatCheapOps(const MemoryTarget& target, Artifact& artifact) {
  COTAN_ASSIGN_OR_RETURN(const MemoryPlanner planner, PlannerFor(artifact, target));
  COTAN_ASSIGN_OR_RETURN(const auto saved_bytes, SavedBytesByMethod(artifact, planner));
  std::vector<MethodMemory> memory;
  for (Method& method : *artifact.mutable_methods()) {
    COTAN_ASSIGN_OR_RETURN(Recomputation search, Recomputation::Start(method, planner));
    const auto found = saved_bytes.find(method.name());
    const int64_t saved = found == saved_bytes.end() ? 0 : found->second;
    const int64_t before = search.arena_bytes() + saved;
    COTAN_RETURN_IF_ERROR(search.RepeatCheapOps());
    memory.push_back({method.name(), before, search.arena_bytes() + saved, search.repeated_ops(), method.ops_size()});
  }
  return memory;
}

std::string BytesText(int64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const double kib = static_cast<double>(bytes) / 1024;
  return kib < 1024 ? absl::StrFormat("%.1f KiB", kib) : absl::StrFormat("%.1f MiB", kib / 1024);
}

}  // namespace cotan::aot
