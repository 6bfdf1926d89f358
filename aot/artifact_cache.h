// SPDX-License-Identifier: Apache-2.0

// The step of the pipeline that looks artifacts up in the compile cache. Private to
// //aot:compile_impl.
#ifndef COTAN_AOT_ARTIFACT_CACHE_H_
#define COTAN_AOT_ARTIFACT_CACHE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/aotautograd/wrap_method.h"
#include "aot/cache/compile_cache.h"
#include "aot/cache/compile_key.h"
#include "aot/compile_options.h"
#include "aot/compiled_model.h"

namespace cotan::aot {

// The cache for one artifact: opened, asked once, and given the artifact after a miss. Movable.
class ArtifactCache {
 public:
  // Opens the cache of options.cache_dir. It is not in use without one, and if the options do not
  // allow a cache. Errors of CompileCache::Open().
  static absl::StatusOr<ArtifactCache> Open(const CompileOptions& options);

  // Returns whether artifacts are looked up; Find() and Store() must not be called otherwise.
  bool in_use() const { return cache_.has_value(); }

  // Returns the artifact of these traces, in any order, and options; unset if there is no valid one.
  // `wrappers`, null without wrapper types, is part of the key.
  // DataLoss: a damaged entry.
  absl::StatusOr<std::optional<CompiledModel>> Find(std::vector<KeyedTrace> traces, const CompileOptions& options,
                                                    const WrapperStructure* wrappers);
  // Adds the artifact that Find() did not find. A failure becomes the reason of outcome(): the
  // artifact is complete.
  void Store(absl::string_view artifact, absl::Span<const MethodSummary> methods);

  // Returns the outcome of Find(), or why it was not called.
  const CacheOutcome& outcome() const { return outcome_; }

 private:
  ArtifactCache() = default;

  std::optional<CompileCache> cache_;
  std::string key_;  // of the last Find()
  CacheOutcome outcome_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_ARTIFACT_CACHE_H_
