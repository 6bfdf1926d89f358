// SPDX-License-Identifier: Apache-2.0

#include "aot/cached_compile.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/cache/compile_cache.h"
#include "aot/cache/compile_key.h"
#include "aot/cache/compiler_revision.h"
#include "aot/compile_methods.h"
#include "aot/ir/size_estimate.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns why the cache is bypassed; empty if it is not.
absl::string_view ReasonToBypass(const CompileOptions& options) {
  if (!options.dump_dir.empty()) return "dump_dir is set, and a cache entry has no graphs of the stages";
  if (options.save_policy != nullptr) return "save_policy is set, and a function cannot be part of a cache key";
  return "";
}

std::string KeyOf(const TraceCache& memo, const CompileOptions& options, const WrapperStructure* wrappers) {
  std::vector<KeyedTrace> traces;
  for (const auto& [name, traced] : memo) traces.push_back({name, &traced});
  KeyedOptions keyed = {.optimizer = options.optimizer,
                        .accumulate_gradients = options.accumulate_gradients,
                        .store_references = options.store_references,
                        .seed = options.seed,
                        .compiler = std::string(CompilerRevision()),
                        .producer = Producer()};
  const absl::Span<const UsualSize> usual_sizes = CurrentUsualSizes();
  keyed.usual_sizes.assign(usual_sizes.begin(), usual_sizes.end());
  if (wrappers != nullptr) {
    keyed.input_wrappers = wrappers->inputs;
    keyed.output_wrappers = wrappers->outputs;
  }
  return CompileKey(traces, keyed);
}

// Returns the cache entry of a model: a line "NAME TRACED_OPS RUNTIME_OPS" for each method, an
// empty line, and the artifact.
std::string EntryOf(const CompiledModel& model) {
  const auto append_method = [](std::string* out, const MethodSummary& method) {
    absl::StrAppend(out, method.name, " ", method.traced_ops, " ", method.runtime_ops, "\n");
  };
  return absl::StrCat(absl::StrJoin(model.methods(), "", append_method), "\n", model.bytes());
}

// Parses EntryOf(). DataLoss: a damaged entry.
absl::StatusOr<CompiledModel> ModelOf(absl::string_view entry) {
  std::vector<MethodSummary> methods;
  while (true) {
    const std::pair<absl::string_view, absl::string_view> split = absl::StrSplit(entry, absl::MaxSplits('\n', 1));
    entry = split.second;
    if (split.first.empty()) return CompiledModel(std::string(entry), std::move(methods));
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

absl::StatusOr<CompiledModel> CompileThroughCache(const CompileFixed& compile, const std::vector<at::Tensor>& examples,
                                                  const CompileOptions& options, const DimVector& values, TraceLog* log,
                                                  const WrapperStructure* wrappers) {
  if (options.cache_dir.empty() || (log != nullptr && log->traces_only)) {
    return compile(examples, options, values, log);
  }
  if (const absl::string_view reason = ReasonToBypass(options); !reason.empty()) {
    COTAN_ASSIGN_OR_RETURN(CompiledModel model, compile(examples, options, values, log));
    model.set_cache({CacheOutcome::Kind::kBypassed, std::string(reason)});
    return model;
  }
  COTAN_ASSIGN_OR_RETURN(const CompileCache cache, CompileCache::Open(options.cache_dir));
  TraceCache memo;
  TraceLog traces{.traces_only = true, .memo = &memo};
  COTAN_RETURN_IF_ERROR(compile(examples, options, values, &traces).status());
  if (log != nullptr) log->traces = std::move(traces.traces);
  const std::string key = KeyOf(memo, options, wrappers);
  CacheOutcome outcome;
  const std::string entry = cache.Find(key, outcome);
  if (outcome.kind == CacheOutcome::Kind::kHit) {
    COTAN_ASSIGN_OR_RETURN(CompiledModel model, ModelOf(entry));
    model.set_cache(std::move(outcome));
    return model;
  }
  TraceLog remembered{.memo = &memo};
  COTAN_ASSIGN_OR_RETURN(CompiledModel model, compile(examples, options, values, &remembered));
  const absl::Status stored = cache.Store(key, EntryOf(model));
  // A failed store is not an error: the artifact is complete.
  if (!stored.ok()) absl::StrAppend(&outcome.reason, "the entry cannot be written: ", stored.message());
  model.set_cache(std::move(outcome));
  return model;
}

}  // namespace cotan::aot
