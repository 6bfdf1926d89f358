// SPDX-License-Identifier: Apache-2.0

#include "aot/memory_stages.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "aot/dynamic/dynamic_dim.h"
#include "aot/memory/fit_memory.h"
#include "base/status_macros.h"
#include "serialization/calls/inline_calls.h"
#include "serialization/calls/outline_calls.h"
#include "serialization/container/container.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;

// Budgets whose memory bounds that of smaller ones, in descending order.
constexpr double kComparedBudgets[] = {1, 0.75, 0.5, 0.25};

// Returns the summaries with the memory of the methods after rematerialization.
std::vector<MethodSummary> WithMemory(std::vector<MethodSummary> methods, const std::vector<MethodMemory>& memory) {
  for (MethodSummary& method : methods) {
    const auto found = std::find_if(memory.begin(), memory.end(),
                                    [&](const MethodMemory& fitted) { return fitted.name == method.name; });
    if (found == memory.end()) continue;
    method.runtime_ops = found->num_ops;
    method.memory = *found;
  }
  return methods;
}

// Returns the bytes of an artifact that was made from that of `file`, with its segments.
absl::StatusOr<std::string> SerializeWithSegments(const ArtifactFile& file, Artifact artifact) {
  ArtifactWriter writer;
  COTAN_RETURN_IF_ERROR(writer.AddSegmentsOf(file));
  artifact.clear_segments();
  return std::move(writer).Serialize(std::move(artifact));
}

// Stores equal runs of ops once, unless `fits` is then false. Methods whose calls are replaced again have the same ops
// as before, but values inside of calls have other numbers, on which the planner's choice between equal values depends.
absl::StatusOr<std::string> OutlineIfFits(const std::string& bytes,
                                          absl::FunctionRef<absl::StatusOr<bool>(const Artifact&)> fits) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(bytes, "the model", Calls::kKeep));
  Artifact outlined = file.artifact();
  OutlineCalls(outlined);
  COTAN_ASSIGN_OR_RETURN(const bool still_fits, fits(outlined));
  if (!still_fits) return bytes;
  return SerializeWithSegments(file, std::move(outlined));
}

// --- budgets -------------------------------------------------------------------------

// Returns the artifact of `model`, which outlives the result.
absl::StatusOr<ArtifactFile> ParseInPlace(const CompiledModel& model) {
  return ArtifactFile::ParseShared(model.bytes(), {std::shared_ptr<const void>(), &model});
}

// Returns whether the memory of the methods is known: sizes have a maximum, and none depends on data.
bool HasKnownPeak(const Artifact& artifact) {
  return std::all_of(artifact.symbols().begin(), artifact.symbols().end(),
                     [](const serialization::SymbolProto& symbol) { return symbol.max() < kNoMaximum; }) &&
         std::none_of(artifact.methods().begin(), artifact.methods().end(),
                      [](const serialization::Method& method) { return method.has_continuation(); });
}

absl::StatusOr<bool> HasKnownPeak(const CompiledModel& model) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ParseInPlace(model));
  return HasKnownPeak(file.artifact());
}

// Returns whether no method, with its calls replaced, needs more than its limit.
absl::StatusOr<bool> KeepsLimits(const MethodLimits& limits, const MemoryTarget& target, Artifact artifact) {
  COTAN_RETURN_IF_ERROR(InlineCalls(artifact));
  COTAN_ASSIGN_OR_RETURN(const MethodLimits peaks, MeasurePeaks(artifact, target));
  return std::all_of(peaks.begin(), peaks.end(), [&limits](const auto& peak) {
    const auto limit = limits.find(peak.first);
    return limit != limits.end() && peak.second <= limit->second;
  });
}

// Returns `smaller`, which was compiled within a smaller budget than `larger`, such that no method needs more memory
// than in `larger`; or else `larger`.
absl::StatusOr<CompiledModel> WithoutHigherPeak(const CompiledModel& larger, const CompiledModel& smaller,
                                                const CompileOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile larger_file, ParseInPlace(larger));
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ParseInPlace(smaller));
  COTAN_ASSIGN_OR_RETURN(const MethodLimits limits, MeasurePeaks(larger_file.artifact(), *options.memory_target));
  const auto fits = [&limits, &options](const Artifact& artifact) {
    return KeepsLimits(limits, *options.memory_target, artifact);
  };
  COTAN_ASSIGN_OR_RETURN(const bool needs_no_more, fits(file.artifact()));
  if (needs_no_more) return smaller;
  Artifact artifact = file.artifact();
  const absl::StatusOr<std::vector<MethodMemory>> fitted = FitIntoLimits(limits, *options.memory_target, artifact);
  if (absl::IsResourceExhausted(fitted.status())) return larger;
  COTAN_RETURN_IF_ERROR(fitted.status());
  COTAN_ASSIGN_OR_RETURN(std::string bytes, SerializeWithSegments(file, std::move(artifact)));
  if (options.outline_repeats) {
    COTAN_ASSIGN_OR_RETURN(bytes, OutlineIfFits(bytes, fits));
  }
  return CompiledModel(std::move(bytes), WithMemory(smaller.methods(), *fitted), smaller.cache(),
                       smaller.inlined_blocks());
}

}  // namespace

absl::StatusOr<CompiledModel> FitModelIntoMemory(const CompiledModel& model, const CompileOptions& options) {
  const MemoryLimit& limit = *options.max_memory;
  const bool repeat_cheap_ops = options.repeat_cheap_ops && options.target == CompileTarget::kCpu;
  std::string file = model.bytes();
  COTAN_ASSIGN_OR_RETURN(const std::vector<MethodMemory> memory,
                         FitFileIntoMemory(limit.bytes, limit.target, repeat_cheap_ops, file));
  return CompiledModel(std::move(file), WithMemory(model.methods(), memory), model.cache(), model.inlined_blocks());
}

bool RepeatsCheapOps(const CompileOptions& options) {
  return options.repeat_cheap_ops && options.memory_target.has_value() && !options.max_memory.has_value() &&
         options.target == CompileTarget::kCpu;
}

absl::StatusOr<CompiledModel> WithCheapOpsRepeated(CompiledModel model, const CompileOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(model.bytes(), "the model", Calls::kKeep));
  Artifact artifact = file.artifact();
  if (artifact.blocks_size() > 0 || !HasKnownPeak(artifact)) return model;
  COTAN_ASSIGN_OR_RETURN(std::vector<MethodMemory> memory, RepeatCheapOps(*options.memory_target, artifact));
  memory.erase(
      std::remove_if(memory.begin(), memory.end(), [](const MethodMemory& method) { return method.repeated_ops == 0; }),
      memory.end());
  if (memory.empty()) return model;
  COTAN_ASSIGN_OR_RETURN(std::string bytes, SerializeWithSegments(file, std::move(artifact)));
  return CompiledModel(std::move(bytes), WithMemory(model.methods(), memory), model.cache(), model.inlined_blocks());
}

absl::StatusOr<CompiledModel> OutlineRepeats(CompiledModel model, const CompileOptions& options) {
  const auto fits = [&options](const Artifact& artifact) -> absl::StatusOr<bool> {
    if (!options.max_memory.has_value()) return true;
    const MemoryLimit& limit = *options.max_memory;
    Artifact inlined = artifact;
    COTAN_RETURN_IF_ERROR(InlineCalls(inlined));
    COTAN_ASSIGN_OR_RETURN(const std::vector<MethodMemory> memory, MeasureMemory(inlined, limit.target));
    return std::all_of(memory.begin(), memory.end(), [&](const MethodMemory& m) { return m.after <= limit.bytes; });
  };
  COTAN_ASSIGN_OR_RETURN(std::string bytes, OutlineIfFits(model.bytes(), fits));
  return CompiledModel(std::move(bytes), model.methods(), model.cache(), model.inlined_blocks());
}

absl::StatusOr<CompiledModel> CompileWithinBudget(
    const CompileOptions& options, absl::FunctionRef<absl::StatusOr<CompiledModel>(const CompileOptions&)> compile) {
  COTAN_ASSIGN_OR_RETURN(CompiledModel wanted, compile(options));
  const bool is_compared = options.activation_memory_budget != 1 && options.memory_target.has_value();
  if (!is_compared || options.max_memory.has_value()) return wanted;
  COTAN_ASSIGN_OR_RETURN(const bool is_known, HasKnownPeak(wanted));
  if (!is_known) return wanted;
  CompileOptions larger = options;
  larger.debug.dump_dir.clear();
  std::optional<CompiledModel> best;
  for (const double budget : kComparedBudgets) {
    if (budget <= options.activation_memory_budget) break;
    larger.activation_memory_budget = budget;
    COTAN_ASSIGN_OR_RETURN(CompiledModel model, compile(larger));
    // If nothing more is repeated than with budget 1, then neither is with a budget between the two.
    if (!best.has_value() && model.bytes() == wanted.bytes()) return wanted;
    if (best.has_value()) {
      COTAN_ASSIGN_OR_RETURN(model, WithoutHigherPeak(*best, model, options));
    }
    best = std::move(model);
  }
  COTAN_ASSIGN_OR_RETURN(CompiledModel result, WithoutHigherPeak(*best, wanted, options));
  return CompiledModel(result.bytes(), result.methods(), wanted.cache(), result.inlined_blocks());
}

}  // namespace cotan::aot
