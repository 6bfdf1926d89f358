// SPDX-License-Identifier: Apache-2.0

// A folder of compiled artifacts, named by the digest of their inputs. The counterpart of PyTorch's
// AOTAutogradCache.
#ifndef COTAN_AOT_CACHE_COMPILE_CACHE_H_
#define COTAN_AOT_CACHE_COMPILE_CACHE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::aot {

// Outcome of a look-up.
struct CacheOutcome {
  enum class Kind {
    kDisabled,  // no cache is set
    kBypassed,  // the options do not allow a cache; `reason` names them
    kHit,
    kMiss,
    kDamaged,  // the entry is invalid; `reason` says why
  };
  Kind kind = Kind::kDisabled;
  std::string reason;
};

absl::string_view CacheOutcomeName(CacheOutcome::Kind kind);

// A folder with one file per entry, "KEY.entry": the key, a digest of the content, the content.
// Files are written under a temporary name and renamed, so that several processes may use a folder
// at once: writers of one key write the same bytes. Entries are never deleted; the folder may be
// emptied at any time. Thread-safe.
class CompileCache {
 public:
  // Opens a folder, and creates it and its parents if they do not exist. Errors of the file system:
  // PermissionDenied, ResourceExhausted, Unavailable.
  static absl::StatusOr<CompileCache> Open(const std::string& folder);

  // Returns the content of the entry of `key`, or "" if there is no valid entry, and sets
  // `outcome`.
  std::string Find(const std::string& key, CacheOutcome& outcome) const;

  // Writes or replaces the entry of `key`. Errors of the file system as in Open().
  absl::Status Store(const std::string& key, absl::string_view content) const;

  std::string PathOf(const std::string& key) const;

 private:
  explicit CompileCache(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CACHE_COMPILE_CACHE_H_
