// A folder of compiled artifacts, found again by what they were compiled from.
// The counterpart of PyTorch's AOTAutogradCache.
#ifndef COTAN_AOT_CACHE_COMPILE_CACHE_H_
#define COTAN_AOT_CACHE_COMPILE_CACHE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::aot {

// What became of a look-up, for people and tests.
struct CacheOutcome {
  enum class Kind {
    kDisabled,  // no cache was asked for
    kBypassed,  // the options forbid one; `reason` names them
    kHit,
    kMiss,
    kDamaged,  // there was an entry, not to be trusted; `reason` tells why
  };
  Kind kind = Kind::kDisabled;
  std::string reason;
};

absl::string_view CacheOutcomeName(CacheOutcome::Kind kind);

// One file per entry, "KEY.entry": the key, a digest of the content, the
// content. Files are written whole or not at all, under names of their own, so
// that any number of processes may use one folder at once: writers of one key
// write the same bytes, and the last one stays. Nobody deletes entries: a
// folder may be emptied at any time. Thread-safe.
class CompileCache {
 public:
  // Makes the folder (and those above it) if it is not there. Errors of the
  // file system: PermissionDenied, ResourceExhausted, Unavailable.
  static absl::StatusOr<CompileCache> Open(const std::string& folder);

  // The content of the entry of `key`, or an empty one; `outcome` tells which.
  std::string Find(const std::string& key, CacheOutcome& outcome) const;

  // Replaces the entry of `key`. Errors of the file system.
  absl::Status Store(const std::string& key, absl::string_view content) const;

  std::string PathOf(const std::string& key) const;

 private:
  explicit CompileCache(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CACHE_COMPILE_CACHE_H_
