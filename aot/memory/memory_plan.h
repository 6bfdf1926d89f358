// What memory the runtime will need for a method: its own schedule, with the
// scratch of its own kernels, laid out by its own planner.
#ifndef COTAN_AOT_MEMORY_MEMORY_PLAN_H_
#define COTAN_AOT_MEMORY_MEMORY_PLAN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/layout.h"
#include "base/memory_planner.h"
#include "kernels/api/registry.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Where the artifact will run: kernels differ in the scratch they take.
struct MemoryTarget {
  const KernelRegistry* kernels = nullptr;  // of the host; outlives the planner
  int threads = 1;                          // of a session; scratch grows with them
};

struct MemoryPlan {
  Schedule schedule;
  // Of the schedule's buffers, then of each step's scratch.
  std::vector<BufferLifetime> lifetimes;
  int64_t arena_bytes = 0;

  // Bytes of the arena alive at each step.
  std::vector<int64_t> BytesByStep() const;
};

// Plans methods of one artifact. Not thread-safe.
class MemoryPlanner {
 public:
  // `symbols`: values of the artifact's dynamic dimensions. `artifact` outlives
  // the planner; only its states matter.
  MemoryPlanner(const serialization::Artifact& artifact, DimVector symbols, const MemoryTarget& target)
      : artifact_(artifact), symbols_(std::move(symbols)), target_(target) {}

  // `scratch`: bytes for each op of the method; those that are -1 are found out
  // and set, as preparing a kernel may take long. Too short a list is extended.
  // Errors of MakeSchedule() and of the kernels' factories; ResourceExhausted: the
  // arena would exceed what can be addressed.
  absl::StatusOr<MemoryPlan> Plan(const serialization::Method& method, std::vector<int64_t>& scratch) const;

  // Bytes of a value of the method.
  absl::StatusOr<int64_t> BytesOf(const serialization::TensorType& type) const;

 private:
  absl::StatusOr<int64_t> ScratchOf(const serialization::Op& op, const ScheduledStep& step) const;

  const serialization::Artifact& artifact_;
  const DimVector symbols_;
  const MemoryTarget target_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_MEMORY_PLAN_H_
