// SPDX-License-Identifier: Apache-2.0

// Work that waits until something demands it, and the order within it.
#ifndef COTAN_KERNELS_CUDA_SIM_WORK_QUEUE_H_
#define COTAN_KERNELS_CUDA_SIM_WORK_QUEUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/sim/access_log.h"
#include "kernels/cuda/sim/work.h"

namespace cotan::cuda::sim {

// For each lane, the number of its items that come before something, or are it.
using OrderClock = std::vector<uint64_t>;

// A piece of queued work, or none.
struct Ticket {
  uint64_t id = 0;  // 0: none. Greater than the ids of all that it waits for.
  int lane = 0;
  std::shared_ptr<const OrderClock> clock = nullptr;
};

// Items run one at a time, those of a lane in order, each after those that it waits for; else in an order drawn
// from the seed. Two items without an order between them that access the same bytes, of which one writes, are an error
// whatever the order that was drawn. What the host has waited for is ordered before all that it queues afterwards.
class WorkQueue {
 public:
  // With seed 0, only what is demanded runs, in the order in which it was queued. Borrows `runner`.
  WorkQueue(uint64_t seed, WorkRunner& runner, DeviceMemory& memory)
      : seed_(seed), random_(seed), runner_(runner), memory_(memory) {}

  // Returns a new lane: a stream, or a branch of a graph. `name` is for messages.
  int AddLane(std::string name);

  // Queues `work` behind the last of `lane` and all of `after`.
  Ticket Add(int lane, absl::Span<const Ticket> after, Work work);

  bool IsDone(const Ticket& ticket) const { return !pending_.contains(ticket.id); }

  // Runs what `ticket` needs, and itself; the host then waits for it. Errors of the work, after which all that is
  // queued is dropped. FailedPrecondition: work without an order accesses the same bytes.
  absl::Status Complete(const Ticket& ticket);
  absl::Status CompleteAll();

  // Runs one item that `ticket` needs, if it is not done. Errors as Complete().
  absl::Status Advance(const Ticket& ticket);

  // Calls `visit` with the work that is queued.
  void ForEachPending(absl::FunctionRef<void(const Work&)> visit) const;

 private:
  struct Item {
    int lane = 0;
    uint64_t number = 0;  // Within the lane, from 1.
    std::shared_ptr<const OrderClock> clock;
    std::vector<uint64_t> after;  // Ids, some of which may be done.
    Work work;
  };
  // An item that ran.
  struct Done {
    int lane = 0;
    uint64_t number = 0;
    std::string name;
    AccessLog log;
  };

  // Runs the items of `needed`, those without open waits, and perhaps others, until none is left.
  absl::Status RunInDrawnOrder(std::vector<uint64_t> needed);
  // Returns the ids of what `ticket` needs and is not done, in order.
  std::vector<uint64_t> Needed(const Ticket& ticket) const;
  // `stays_open`: the host does not wait for the item now.
  absl::Status RunItem(uint64_t id, bool stays_open);
  bool HasUnordered(const Item& item) const;
  absl::Status CheckConflicts(const Item& item, const Done& done) const;
  static bool IsBefore(int lane, uint64_t number, const OrderClock& clock);
  void Observe(const OrderClock& clock);
  // Forgets the items that all other work comes after.
  void Prune();

  const uint64_t seed_;
  std::mt19937_64 random_;
  WorkRunner& runner_;
  DeviceMemory& memory_;
  std::vector<std::string> lane_names_;
  std::vector<uint64_t> lane_counts_;  // Items ever queued.
  std::vector<size_t> lane_pending_;   // Items in pending_.
  std::vector<Ticket> last_;           // Of each lane.
  uint64_t next_id_ = 1;
  std::map<uint64_t, Item> pending_;  // By id.
  std::vector<Done> done_;
  OrderClock host_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_WORK_QUEUE_H_
