// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/work_queue.h"

#include <algorithm>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {
namespace {

void Join(const OrderClock& from, OrderClock& into) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

// Whether the work accesses device memory.
bool HasAccesses(const Work& work) {
  return !std::holds_alternative<OrderOnly>(work) && !std::holds_alternative<EventMark>(work);
}

}  // namespace

int WorkQueue::AddLane(std::string name) {
  lane_names_.push_back(std::move(name));
  lane_counts_.push_back(0);
  lane_pending_.push_back(0);
  last_.emplace_back();
  return static_cast<int>(lane_names_.size()) - 1;
}

Ticket WorkQueue::Add(int lane, absl::Span<const Ticket> after, Work work) {
  Item item{.lane = lane, .number = ++lane_counts_[lane], .clock = nullptr, .after = {}, .work = std::move(work)};
  OrderClock clock = host_;
  const auto wait_for = [&](const Ticket& ticket) {
    if (ticket.id == 0) return;
    Join(*ticket.clock, clock);
    if (!IsDone(ticket)) item.after.push_back(ticket.id);
  };
  wait_for(last_[lane]);
  for (const Ticket& ticket : after) wait_for(ticket);
  if (clock.size() <= static_cast<size_t>(lane)) clock.resize(lane + 1);
  clock[lane] = item.number;
  item.clock = std::make_shared<const OrderClock>(std::move(clock));
  const Ticket ticket{next_id_++, lane, item.clock};
  pending_[ticket.id] = std::move(item);
  ++lane_pending_[lane];
  last_[lane] = ticket;
  return ticket;
}

std::vector<uint64_t> WorkQueue::Needed(const Ticket& ticket) const {
  std::set<uint64_t> needed;
  std::vector<uint64_t> open = {ticket.id};
  while (!open.empty()) {
    const uint64_t id = open.back();
    open.pop_back();
    const auto found = pending_.find(id);
    if (found == pending_.end() || !needed.insert(id).second) continue;
    open.insert(open.end(), found->second.after.begin(), found->second.after.end());
  }
  return {needed.begin(), needed.end()};
}

absl::Status WorkQueue::Complete(const Ticket& ticket) {
  if (ticket.id == 0) return absl::OkStatus();
  std::vector<uint64_t> needed = Needed(ticket);
  if (seed_ != 0) {
    COTAN_RETURN_IF_ERROR(RunInDrawnOrder(std::move(needed)));
  } else {
    for (const uint64_t id : needed) COTAN_RETURN_IF_ERROR(RunItem(id, false));
  }
  Observe(*ticket.clock);
  return absl::OkStatus();
}

absl::Status WorkQueue::CompleteAll() {
  std::vector<uint64_t> all;
  for (const auto& [id, item] : pending_) all.push_back(id);
  if (seed_ != 0) {
    COTAN_RETURN_IF_ERROR(RunInDrawnOrder(std::move(all)));
  } else {
    for (const uint64_t id : all) COTAN_RETURN_IF_ERROR(RunItem(id, false));
  }
  Observe(lane_counts_);
  return absl::OkStatus();
}

absl::Status WorkQueue::RunInDrawnOrder(std::vector<uint64_t> needed) {
  const std::set<uint64_t> demanded(needed.begin(), needed.end());
  std::map<uint64_t, int> waits;                       // Of each pending item: open ones.
  std::map<uint64_t, std::vector<uint64_t>> released;  // Items that wait for an item.
  std::vector<uint64_t> ready;
  for (const auto& [id, item] : pending_) {
    int open = 0;
    for (const uint64_t before : item.after) {
      if (!pending_.contains(before)) continue;
      ++open;
      released[before].push_back(id);
    }
    waits[id] = open;
    if (open == 0) ready.push_back(id);
  }
  for (size_t left = demanded.size(); left > 0;) {
    std::uniform_int_distribution<size_t> pick(0, ready.size() - 1);
    std::swap(ready[pick(random_)], ready.back());
    const uint64_t id = ready.back();
    ready.pop_back();
    const bool is_demanded = demanded.contains(id);
    COTAN_RETURN_IF_ERROR(RunItem(id, !is_demanded));
    if (is_demanded) --left;
    for (const uint64_t next : released[id]) {
      if (--waits[next] == 0) ready.push_back(next);
    }
  }
  return absl::OkStatus();
}

absl::Status WorkQueue::Advance(const Ticket& ticket) {
  if (ticket.id == 0) return absl::OkStatus();
  const std::vector<uint64_t> needed = Needed(ticket);
  if (!needed.empty()) COTAN_RETURN_IF_ERROR(RunItem(needed.front(), true));
  if (IsDone(ticket)) Observe(*ticket.clock);
  return absl::OkStatus();
}

bool WorkQueue::IsBefore(int lane, uint64_t number, const OrderClock& clock) {
  return static_cast<size_t>(lane) < clock.size() && clock[lane] >= number;
}

bool WorkQueue::HasUnordered(const Item& item) const {
  for (const Done& done : done_) {
    if (!IsBefore(done.lane, done.number, *item.clock)) return true;
  }
  if (lane_pending_[item.lane] == pending_.size()) return false;
  for (const auto& [id, other] : pending_) {
    if (!HasAccesses(other.work) || other.lane == item.lane) continue;
    if (!IsBefore(other.lane, other.number, *item.clock) && !IsBefore(item.lane, item.number, *other.clock)) {
      return true;
    }
  }
  return false;
}

absl::Status WorkQueue::RunItem(uint64_t id, bool stays_open) {
  const auto found = pending_.find(id);
  const Item item = std::move(found->second);
  pending_.erase(found);
  --lane_pending_[item.lane];
  Done done{.lane = item.lane, .number = item.number, .name = "", .log = {}};
  const bool logs = HasAccesses(item.work) && (stays_open || HasUnordered(item));
  absl::Status status = runner_.Run(item.work, logs ? &done.log : nullptr);
  if (status.ok() && logs) {
    done.name = NameOf(item.work);
    status = CheckConflicts(item, done);
    done_.push_back(std::move(done));
  }
  if (!status.ok()) {
    pending_.clear();
    std::fill(lane_pending_.begin(), lane_pending_.end(), 0);
    done_.clear();
    return absl::Status(status.code(), absl::StrCat(status.message(), " [in ", lane_names_[item.lane], "]"));
  }
  return absl::OkStatus();
}

absl::Status WorkQueue::CheckConflicts(const Item& item, const Done& done) const {
  for (const Done& other : done_) {
    if (IsBefore(other.lane, other.number, *item.clock)) continue;
    const auto conflict = AccessLog::FindConflict(other.log, done.log);
    if (!conflict.has_value()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        done.name, " ", conflict->second_writes ? "writes" : "reads", " a byte ", memory_.Describe(conflict->address),
        ", which ", other.name, " in ", lane_names_[other.lane], " ", conflict->first_writes ? "writes" : "reads",
        ", and nothing orders the two: record an event behind the first and let the stream of the second wait for it, "
        "or synchronize"));
  }
  return absl::OkStatus();
}

void WorkQueue::Observe(const OrderClock& clock) {
  Join(clock, host_);
  Prune();
}

void WorkQueue::Prune() {
  std::erase_if(done_, [&](const Done& done) {
    if (!IsBefore(done.lane, done.number, host_)) return false;
    return std::all_of(pending_.begin(), pending_.end(),
                       [&](const auto& entry) { return IsBefore(done.lane, done.number, *entry.second.clock); });
  });
}

void WorkQueue::ForEachPending(absl::FunctionRef<void(const Work&)> visit) const {
  for (const auto& [id, item] : pending_) visit(item.work);
}

}  // namespace cotan::cuda::sim
