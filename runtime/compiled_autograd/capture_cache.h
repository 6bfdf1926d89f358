// SPDX-License-Identifier: Apache-2.0

// CaptureCache: the linked programs of a thread, by the description of their segment.
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_CACHE_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "runtime/compiled_autograd/linked_program.h"
#include "runtime/compiled_autograd/segment.h"

namespace cotan {

// The captures of one key: each was made for sizes that the earlier ones do not fit.
struct CaptureFamily {
  uint64_t id = 0;  // never 0
  std::vector<uint64_t> key;
  std::vector<std::vector<int64_t>> seen;  // numbers of the captures, at most kMaxSeen
  std::vector<std::unique_ptr<LinkedProgram>> programs;
  absl::Status refused;  // an error of the first capture: the segment is not captured again
  uint64_t last_use = 0;
};

// Not thread-safe. Drops the family that was not used for the longest time when there are more than kMaxFamilies.
class CaptureCache {
 public:
  static constexpr size_t kMaxFamilies = 256;
  static constexpr size_t kMaxSeen = 8;

  struct Found {
    CaptureFamily* family = nullptr;
    LinkedProgram* program = nullptr;
    LinkedProgram::Plan* plan = nullptr;
    std::string reason = {};  // set if the segment was captured now
    bool is_new_plan = false;
  };

  // Returns a program for the segment: one that was captured, or a new one. Errors of LinkedProgram.
  absl::StatusOr<Found> FindOrCapture(const Segment& segment, const ExecutionTarget& target, int max_plans,
                                      bool dynamic);

  void Clear() {
    families_.clear();
    last_ = nullptr;
  }
  size_t size() const { return families_.size(); }

 private:
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(absl::Span<const uint64_t> key) const { return absl::HashOf(key); }
  };
  struct KeyEqual {
    using is_transparent = void;
    bool operator()(absl::Span<const uint64_t> a, absl::Span<const uint64_t> b) const { return a == b; }
  };

  static absl::Status Capture(const Segment& segment, SizePattern pattern, const ExecutionTarget& target, int max_plans,
                              Found& found);
  CaptureFamily& FindFamily(const std::vector<uint64_t>& key);
  // Returns "new node NAME (node call I)": the first node that no family has at its place.
  std::string NewNode(const Segment& segment) const;

  // The keys point to CaptureFamily::key.
  absl::flat_hash_map<absl::Span<const uint64_t>, std::unique_ptr<CaptureFamily>, KeyHash, KeyEqual> families_;
  CaptureFamily* last_ = nullptr;
  uint64_t next_id_ = 1;
  uint64_t uses_ = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_CACHE_H_
