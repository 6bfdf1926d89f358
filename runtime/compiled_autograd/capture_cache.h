// SPDX-License-Identifier: Apache-2.0

// CaptureCache: the linked programs of a thread, by the description of their segment.
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_CACHE_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/compiled_autograd/linked_methods.h"
#include "runtime/compiled_autograd/linked_program.h"
#include "runtime/compiled_autograd/segment.h"

namespace cotan {

// Called with a line for each segment that is captured or walked.
using CaptureLog = std::function<void(absl::string_view line)>;

struct CaptureSettings {
  bool dynamic = true;
  bool trace = false;
  bool check_nan = false;
  int max_plans = 8;
  bool capture = true;                          // false: only linked methods
  std::shared_ptr<const LinkedMethods> linked;  // null: none
  std::shared_ptr<const CaptureLog> log;        // null: none
};

// The captures of one key: each was made for sizes that the earlier ones do not fit.
struct CaptureFamily {
  // The part of the key that holds in any process: without the first kTargetWords words.
  absl::Span<const uint64_t> portable_key() const { return absl::MakeConstSpan(key).subspan(kTargetWords); }
  // Number of the key's first words that say where the segment runs: addresses of kernels and device, threads.
  static constexpr size_t kTargetWords = 3;

  int number = 0;
  uint64_t fingerprint = 0;  // of portable_key()
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

  // Returns a program for the segment: one that was captured, one of settings.linked, or a new one. NotFound: there is
  // none, and settings.capture is false. Errors of LinkedProgram.
  absl::StatusOr<Found> FindOrCapture(const Segment& segment, const ExecutionTarget& target,
                                      const CaptureSettings& settings);
  // Returns the methods of all programs, with different names.
  std::vector<serialization::Method> Methods() const;

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

  // Links the segment and plans it.
  static absl::Status Capture(const Segment& segment, const ExecutionTarget& target, const CaptureSettings& settings,
                              Found& found);
  static absl::Status Plan(const Segment& segment, const ExecutionTarget& target, int max_plans,
                           std::unique_ptr<LinkedProgram> made, Found& found);
  // Returns the family of the key. A new one has the programs of `linked`.
  absl::StatusOr<CaptureFamily*> FindFamily(const std::vector<uint64_t>& key, const LinkedMethods* linked);
  // Sets found.plan to a new plan of one of the family's programs; returns why the last one does not fit.
  static absl::StatusOr<std::string> FindPlan(const Segment& segment, const ExecutionTarget& target, int max_plans,
                                              Found& found);
  // Returns "new node NAME (node call I)": the first node that no family has at its place.
  std::string NewNode(const Segment& segment) const;

  // The keys point to CaptureFamily::key.
  absl::flat_hash_map<absl::Span<const uint64_t>, std::unique_ptr<CaptureFamily>, KeyHash, KeyEqual> families_;
  CaptureFamily* last_ = nullptr;
  int next_number_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_CAPTURE_CACHE_H_
