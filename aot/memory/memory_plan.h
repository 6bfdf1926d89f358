// SPDX-License-Identifier: Apache-2.0

// Memory that the runtime will need for a method, computed with the runtime's schedule, kernels
// (for scratch) and planner.
#ifndef COTAN_AOT_MEMORY_MEMORY_PLAN_H_
#define COTAN_AOT_MEMORY_MEMORY_PLAN_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/layout.h"
#include "base/memory_planner.h"
#include "kernels/api/registry.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Kernels and threads of the machine that will run the artifact, which determine the scratch.
struct MemoryTarget {
  const KernelRegistry* kernels = nullptr;  // of the host; outlives the planner
  int threads = 1;                          // of a session; scratch grows with them
};

struct MemoryPlan {
  Schedule schedule;
  // Lifetimes of the schedule's buffers, then of each step's scratch.
  std::vector<BufferLifetime> lifetimes;
  int64_t arena_bytes = 0;

  // Returns the bytes of the arena that are live at each step.
  std::vector<int64_t> BytesByStep() const;
};

// Plans methods of one artifact for a device with memory of its own: values on the host (Value.on_host) are not in the
// arena. Not thread-safe.
class MemoryPlanner {
 public:
  // `symbols`: values of the artifact's dynamic dimensions. `artifact` outlives the planner, which
  // reads only its states.
  MemoryPlanner(const serialization::Artifact& artifact, DimVector symbols, const MemoryTarget& target)
      : artifact_(artifact), symbols_(std::move(symbols)), target_(target) {}

  // Plans `method`. `scratch` caches the scratch bytes of each op, because preparing a kernel may be slow: elements
  // that are -1 are computed and set, and missing elements are appended. The scratch of a product with a computed
  // operand counts as that of the operand's expression, as the two may become separate steps in a later plan. Errors
  // of MakeSchedule() and of the kernels' factories.
  // ResourceExhausted: the arena would exceed the address space.
  absl::StatusOr<MemoryPlan> Plan(const serialization::Method& method, std::vector<int64_t>& scratch) const;

  // Returns the bytes of a value of the method.
  absl::StatusOr<int64_t> BytesOf(const serialization::TensorType& type) const;

 private:
  // Returns the scratch of a step's kernel. Equal ops on equal operands have one kernel made: a model repeats its
  // layers.
  absl::StatusOr<int64_t> ScratchOf(const serialization::Op& op, const ScheduledStep& step) const;
  // Returns the scratch of a product and its computed operand (ScheduledStep::computed).
  absl::StatusOr<int64_t> ScratchOfPair(const serialization::Method& method, const Schedule& schedule,
                                        const ScheduledStep& step) const;

  const serialization::Artifact& artifact_;
  const DimVector symbols_;
  const MemoryTarget target_;
  // Scratch by RequestKey().
  mutable absl::flat_hash_map<std::string, int64_t> scratch_by_request_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_MEMORY_PLAN_H_
