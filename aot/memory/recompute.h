// SPDX-License-Identifier: Apache-2.0

// Rematerialization inside one method: values that are live, but not read, while memory exceeds the
// limit are dropped and computed again before their next reader.
//
// A repeated op has operands of equal content, so that results are equal bit for bit. Random draws
// depend only on the generator's state and the op's slice of its draws, and are equal too.
#ifndef COTAN_AOT_MEMORY_RECOMPUTE_H_
#define COTAN_AOT_MEMORY_RECOMPUTE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/memory/memory_plan.h"
#include "aot/memory/method_facts.h"
#include "aot/memory/repeat_ops.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Not thread-safe. Method and planner outlive it.
class Recomputation {
 public:
  // Plans `method`. Errors of MemoryPlanner::Plan().
  static absl::StatusOr<Recomputation> Start(serialization::Method& method, const MemoryPlanner& planner);

  // Repeats ops of the method until its arena needs at most `limit` bytes. Returns false if it
  // cannot; the method then has the smallest arena that was found. Limits of successive calls must
  // decrease.
  absl::StatusOr<bool> FitBudget(int64_t limit);

  // Repeats ops where that costs little of the method's time (OpCost()) for the bytes of the arena that it saves: a
  // tenth of their share, and 1.5 percent in all. Call it once, instead of FitBudget().
  absl::Status RepeatCheapOps();

  // Returns the bytes of the arena of the current method.
  int64_t arena_bytes() const { return plan_.arena_bytes; }
  // Returns the number of ops, without views, that the rematerialization added.
  int repeated_ops() const { return repeated_ops_; }
  // Returns an estimate of the nanoseconds that it added.
  double added_ns() const { return added_ns_; }

 private:
  // A way to drop a value.
  struct Candidate {
    Rematerialization repetition;
    double score = 0;   // byte-steps above the target that are saved, per nanosecond
    double cost = 0;    // nanoseconds
    int64_t bytes = 0;  // dropped, less those of values that are kept longer
  };
  // A value that is kept beyond its last reader so that a repeated op can read it.
  struct Extension {
    uint32_t value = 0;
    int64_t bytes = 0;
    int from = 0;  // last op that reads it so far
  };
  // The values that repeated ops read and do not make.
  struct Operands {
    std::vector<Extension> extensions;
    double cost = 0;  // nanoseconds, of reads of what is not in cache any more
    bool are_available = true;
    // The op to repeat as well: the producer of an operand that is not available, or else of the one whose extension
    // takes the most memory. -1: none.
    int producer = -1;
  };

  Recomputation(serialization::Method& method, const MemoryPlanner& planner)
      : method_(method), planner_(planner), facts_(method) {}

  // Part of an expression that is repeated; without one, the whole op is.
  struct Part {
    std::optional<serialization::Op> op;
    double cost = 0;  // nanoseconds
  };

  absl::Status Measure();
  std::vector<Candidate> FindCandidates(int64_t target);
  void AddCandidates(const std::vector<uint32_t>& values, int before, int64_t target,
                     std::vector<Candidate>& candidates);
  std::optional<Operands> FindOperands(Rematerialization& repetition) const;
  std::optional<Extension> Available(uint32_t value, absl::Span<const uint32_t> dropped, int before) const;
  double UnreadResultCost(int op, absl::Span<const uint32_t> dropped, int before);
  std::vector<uint32_t> DropUnreadResults(int op);
  double Gain(const Rematerialization& repetition, const std::vector<Extension>& extensions, int64_t target) const;
  absl::StatusOr<bool> Apply(const Rematerialization& repetition, int64_t target);
  absl::StatusOr<std::optional<double>> ApplyBest(int64_t target, absl::FunctionRef<bool(const Candidate&)> may_apply);
  bool EvaluatesLargeFunctions(const serialization::Op& op) const;
  double Excess(int64_t target) const;
  int PositionOf(size_t step) const;
  double AddParts(Rematerialization& repetition);
  const Part& PartOf(int op, const std::vector<uint32_t>& results, const std::vector<uint32_t>& alive);
  int LastAccess(uint32_t value, int at) const;
  double ColdReadCost(uint32_t value, int at) const;
  bool IsReadSoon(uint32_t value, int at) const;
  uint32_t OriginalOf(uint32_t value) const { return original_[value]; }

  serialization::Method& method_;
  const MemoryPlanner& planner_;
  MethodFacts facts_;
  MemoryPlan plan_;
  std::vector<int64_t> scratch_;               // by op
  std::vector<int64_t> bytes_;                 // by value
  std::vector<uint32_t> original_;             // by value: the value it is a copy of, or itself
  std::vector<std::vector<uint32_t>> copies_;  // by original: all values with its content, itself first
  // Derived from plan_:
  std::vector<int64_t> bytes_at_;  // by step
  std::vector<int> step_of_;       // by op; that of the next step for a view
  std::vector<bool> is_in_arena_;  // by value that an op other than a view makes
  std::vector<double> cost_;       // by op
  // By op, results and results that are alive.
  absl::flat_hash_map<std::tuple<int, std::vector<uint32_t>, std::vector<uint32_t>>, Part> parts_;
  std::vector<int64_t> touched_;  // by op: bytes of operands of the ops before it
  int repeated_ops_ = 0;
  double added_ns_ = 0;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_RECOMPUTE_H_
