// SPDX-License-Identifier: Apache-2.0

// Rematerialization between a forward and its backward: the backward computes saved values again
// from other saved values, arguments of the forward, and states.
#ifndef COTAN_AOT_MEMORY_SAVED_VALUES_H_
#define COTAN_AOT_MEMORY_SAVED_VALUES_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "aot/memory/memory_plan.h"
#include "aot/memory/method_facts.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Memory in bytes of a forward and its backward: the larger arena, which they share, and the saved
// values.
struct PairMemory {
  int64_t forward_arena = 0;
  int64_t backward_arena = 0;
  int64_t saved = 0;
  int64_t Total() const { return saved + (forward_arena > backward_arena ? forward_arena : backward_arena); }
};

// Returns the bytes of the values that a forward saves, each a multiple of kArenaAlignment, without those on the host.
// Errors of MemoryPlanner::BytesOf().
absl::StatusOr<int64_t> SavedBytesOnDevice(const serialization::Method& forward, const MemoryPlanner& planner);

// The saved values of a method pair. Not thread-safe. Methods and planner outlive the object.
class SavedValues {
 public:
  // Plans both methods. Errors of MemoryPlanner::Plan().
  static absl::StatusOr<SavedValues> Start(serialization::Method& forward, serialization::Method& backward,
                                           const MemoryPlanner& planner);

  // Drops saved values until both methods need at most `limit` bytes. Returns false if it cannot;
  // the methods then need the least memory that was found.
  absl::StatusOr<bool> FitBudget(int64_t limit);

  const PairMemory& memory() const { return memory_; }
  // Returns the number of ops of the forward, without views, that the backward repeats.
  int repeated_ops() const { return repeated_ops_; }

 private:
  // A way to drop a saved value.
  struct Candidate {
    int saved = 0;                    // index among the saved values
    std::vector<int> ops;             // of the forward, to repeat, ascending
    std::vector<uint32_t> new_saved;  // values of the forward to save instead
    double score = 0;                 // bytes per nanosecond
  };
  // How the backward gets a value of the forward.
  enum class Access : uint8_t { kAtHand, kSave, kNone };

  SavedValues(serialization::Method& forward, serialization::Method& backward, const MemoryPlanner& planner)
      : forward_(forward), backward_(backward), planner_(planner), facts_(forward), backward_facts_(backward) {}

  absl::Status Measure();
  std::vector<Candidate> FindCandidates() const;
  void AddCandidates(int saved, std::vector<Candidate>& candidates) const;
  Access AccessTo(uint32_t value, int dropped, int before) const;
  absl::StatusOr<bool> Apply(const Candidate& candidate);
  absl::Status Repeat(const Candidate& candidate);
  uint32_t Bring(uint32_t value, int dropped, int before);
  uint32_t AddBackwardValue(uint32_t value);
  void CopyOp(int op, int dropped, int before);
  absl::Status Save(uint32_t value);
  void Drop(int saved);
  void DropDeadOps();

  int num_saved() const { return static_cast<int>(forward_.num_saved()); }
  int OutputOf(int saved) const { return forward_.outputs_size() - num_saved() + saved; }
  uint32_t SavedValue(int saved) const { return forward_.outputs(OutputOf(saved)); }
  bool IsOnHost(uint32_t value) const { return forward_.values(static_cast<int>(value)).on_host(); }

  serialization::Method& forward_;
  serialization::Method& backward_;
  const MemoryPlanner& planner_;
  MethodFacts facts_;  // of the forward
  MethodFacts backward_facts_;
  std::vector<int64_t> forward_scratch_;
  std::vector<int64_t> backward_scratch_;
  std::vector<int64_t> bytes_;  // by value of the forward
  std::vector<double> cost_;    // by op of the forward
  // By value of the forward: the values of equal content that the backward computes.
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> repeated_;
  // Values of the forward that are not saved any more; they are not saved again.
  absl::flat_hash_set<uint32_t> dropped_;
  // While ops are repeated: values of the backward by value of the forward.
  absl::flat_hash_map<uint32_t, uint32_t> brought_;
  std::vector<serialization::Op> new_ops_;
  PairMemory memory_;
  int repeated_ops_ = 0;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_SAVED_VALUES_H_
