// Trades time for memory between a forward and its backward: values that are
// saved are computed again by the backward, from others that are saved, arguments
// of the forward, and states.
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

// What two methods need: the larger arena, which they share, and the saved values,
// which outlive it.
struct PairMemory {
  int64_t forward_arena = 0;
  int64_t backward_arena = 0;
  int64_t saved = 0;
  int64_t Total() const { return saved + (forward_arena > backward_arena ? forward_arena : backward_arena); }
};

// Not thread-safe. Methods and planner outlive it.
class SavedValues {
 public:
  // Errors of MemoryPlanner::Plan().
  static absl::StatusOr<SavedValues> Start(serialization::Method& forward, serialization::Method& backward,
                                           const MemoryPlanner& planner);

  // Saves less until both need at most `limit` bytes. False if that cannot be
  // done: they then need as little as was found.
  absl::StatusOr<bool> FitBudget(int64_t limit);

  const PairMemory& memory() const { return memory_; }
  // Ops of the forward, views excepted, that the backward repeats.
  int repeated_ops() const { return repeated_ops_; }

 private:
  // What the backward does to be without a saved value.
  struct Candidate {
    int saved = 0;                    // index among the saved values
    std::vector<int> ops;             // of the forward, ascending
    std::vector<uint32_t> new_saved;  // values of the forward
    double score = 0;                 // bytes per nanosecond
  };
  // How the backward gets at a value of the forward.
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

  serialization::Method& forward_;
  serialization::Method& backward_;
  const MemoryPlanner& planner_;
  MethodFacts facts_;  // of the forward
  MethodFacts backward_facts_;
  std::vector<int64_t> forward_scratch_;
  std::vector<int64_t> backward_scratch_;
  std::vector<int64_t> bytes_;  // by value of the forward
  std::vector<double> cost_;    // by op of the forward
  // By value of the forward, the values of the backward with its content that the
  // backward computes.
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> repeated_;
  // Values of the forward that are saved no more, for good.
  absl::flat_hash_set<uint32_t> dropped_;
  // While ops are repeated: values of the backward by those of the forward.
  absl::flat_hash_map<uint32_t, uint32_t> brought_;
  std::vector<serialization::Op> new_ops_;
  PairMemory memory_;
  int repeated_ops_ = 0;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_SAVED_VALUES_H_
