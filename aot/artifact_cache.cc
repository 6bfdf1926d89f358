// SPDX-License-Identifier: Apache-2.0

#include "aot/artifact_cache.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "aot/cache/compiler_revision.h"
#include "aot/ir/size_estimate.h"
#include "aot/method_stages.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns why the cache is bypassed; empty if it is not.
absl::string_view ReasonToBypass(const CompileOptions& options) {
  if (!options.debug.dump_dir.empty()) return "dump_dir is set, and a cache entry has no graphs of the stages";
  if (options.save_policy != nullptr) return "save_policy is set, and a function cannot be part of a cache key";
  if (options.saved_tensor_hooks.is_set() && options.saved_tensor_hooks.cache_key.empty()) {
    return "saved_tensor_hooks is set without a cache_key, and functions cannot be part of a cache key";
  }
  return "";
}

std::string KeyOf(std::vector<KeyedTrace> traces, const CompileOptions& options, const WrapperStructure* wrappers) {
  absl::c_sort(traces, [](const KeyedTrace& a, const KeyedTrace& b) { return a.name < b.name; });
  KeyedOptions keyed = {.optimizer = options.optimizer,
                        .data_parallel = options.data_parallel,
                        .accumulate_gradients = options.methods.accumulate,
                        .store_references = options.debug.store_references,
                        .outline_repeats = options.outline_repeats,
                        .partitioner = options.partitioner,
                        .activation_memory_budget = options.activation_memory_budget,
                        .seed = options.module.seed,
                        .compiler = std::string(CompilerRevision()),
                        .producer = Producer()};
  const absl::Span<const UsualSize> usual_sizes = CurrentUsualSizes();
  keyed.usual_sizes.assign(usual_sizes.begin(), usual_sizes.end());
  if (const SavedTensorHooks& hooks = options.saved_tensor_hooks; hooks.is_set()) {
    keyed.saved_tensor_hooks = absl::StrCat(hooks.cache_key, " ", HookFilterName(hooks.filter), " ", hooks.min_elements,
                                            hooks.on_host ? " on_host" : "");
  }
  if (wrappers != nullptr) {
    keyed.input_wrappers = wrappers->inputs;
    keyed.output_wrappers = wrappers->outputs;
  }
  return CompileKey(traces, keyed);
}

// Returns a cache entry: a line "NAME TRACED_OPS RUNTIME_OPS" for each method, an
// empty line, and the artifact.
std::string EntryOf(absl::string_view artifact, absl::Span<const MethodSummary> methods) {
  const auto append_method = [](std::string* out, const MethodSummary& method) {
    absl::StrAppend(out, method.name, " ", method.traced_ops, " ", method.runtime_ops, "\n");
  };
  return absl::StrCat(absl::StrJoin(methods, "", append_method), "\n", artifact);
}

// Parses EntryOf(). DataLoss: a damaged entry.
absl::StatusOr<CompiledModel> ModelOf(absl::string_view entry, const CacheOutcome& outcome) {
  std::vector<MethodSummary> methods;
  while (true) {
    const std::pair<absl::string_view, absl::string_view> split = absl::StrSplit(entry, absl::MaxSplits('\n', 1));
    entry = split.second;
    if (split.first.empty()) return CompiledModel(std::string(entry), std::move(methods), outcome);
    const std::vector<absl::string_view> words = absl::StrSplit(split.first, ' ');
    MethodSummary& method = methods.emplace_back();
    if (words.size() != 3 || !absl::SimpleAtoi(words[1], &method.traced_ops) ||
        !absl::SimpleAtoi(words[2], &method.runtime_ops)) {
      return absl::DataLossError(
          absl::StrCat("compile cache: '", split.first, "' is not a method summary (NAME TRACED_OPS RUNTIME_OPS)"));
    }
    method.name = std::string(words[0]);
  }
}

}  // namespace

absl::StatusOr<ArtifactCache> ArtifactCache::Open(const CompileOptions& options) {
  ArtifactCache cache;
  if (options.cache_dir.empty()) return cache;
  if (const absl::string_view reason = ReasonToBypass(options); !reason.empty()) {
    cache.outcome_ = {CacheOutcome::Kind::kBypassed, std::string(reason)};
    return cache;
  }
  COTAN_ASSIGN_OR_RETURN(cache.cache_, CompileCache::Open(options.cache_dir));
  return cache;
}

absl::StatusOr<std::optional<CompiledModel>> ArtifactCache::Find(std::vector<KeyedTrace> traces,
                                                                 const CompileOptions& options,
                                                                 const WrapperStructure* wrappers) {
  key_ = KeyOf(std::move(traces), options, wrappers);
  const std::string entry = cache_->Find(key_, outcome_);
  if (outcome_.kind != CacheOutcome::Kind::kHit) return std::optional<CompiledModel>();
  COTAN_ASSIGN_OR_RETURN(CompiledModel model, ModelOf(entry, outcome_));
  return std::optional<CompiledModel>(std::move(model));
}

void ArtifactCache::Store(absl::string_view artifact, absl::Span<const MethodSummary> methods) {
  const absl::Status stored = cache_->Store(key_, EntryOf(artifact, methods));
  if (!stored.ok()) absl::StrAppend(&outcome_.reason, "the entry cannot be written: ", stored.message());
}

}  // namespace cotan::aot
