// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/nccl/nccl_world.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::sim {
namespace {

constexpr std::chrono::seconds kJoinLimit(60);

}  // namespace

std::string NcclWorld::NewId() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return absl::StrCat("group ", ++num_ids_);
}

absl::StatusOr<std::shared_ptr<NcclGroup>> NcclWorld::Join(const std::string& id, int size, int rank,
                                                           const void* owner) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<NcclGroup>& group = groups_[id];
  if (group == nullptr) {
    group = std::make_shared<NcclGroup>();
    group->size = size;
  }
  const std::shared_ptr<NcclGroup> joined = group;
  if (joined->size != size || rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " of ", size, " joins a group of ", joined->size));
  }
  if (!joined->ranks.insert(rank).second) {
    return absl::InvalidArgumentError(absl::StrCat("two ranks have number ", rank));
  }
  if (!joined->owners.insert(owner).second) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, " has the GPU of another rank"));
  }
  changed_.notify_all();
  return joined;
}

bool NcclWorld::HasAll(const NcclGroup& group) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return group.ranks.size() == static_cast<size_t>(group.size);
}

absl::Status NcclWorld::WaitForAll(const NcclGroup& group) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto has_all = [&] { return group.ranks.size() == static_cast<size_t>(group.size); };
  if (changed_.wait_for(lock, kJoinLimit, has_all)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat("only ", group.ranks.size(), " ranks join"));
}

void NcclWorld::Send(NcclGroup& group, int from, int to, NcclMessage message) {
  const std::lock_guard<std::mutex> lock(mutex_);
  group.messages[{from, to}].push_back(std::move(message));
  changed_.notify_all();
}

absl::StatusOr<std::vector<std::byte>> NcclWorld::Receive(NcclGroup& group, int from, int to,
                                                          const NcclMessage& expected, const bool& aborted) {
  std::unique_lock<std::mutex> lock(mutex_);
  std::deque<NcclMessage>& messages = group.messages[{from, to}];
  changed_.wait(lock, [&] { return aborted || !messages.empty(); });
  if (aborted) return absl::AbortedError("the communicator was aborted");
  NcclMessage message = std::move(messages.front());
  messages.pop_front();
  if (message.call == expected.call && message.description == expected.description) return std::move(message.bytes);
  return absl::FailedPreconditionError(absl::StrCat("rank ", to, " expects ", expected.description, " of rank ", from,
                                                    " as call ", expected.call, ", which is ", message.description,
                                                    " as call ", message.call));
}

void NcclWorld::Abort(bool& aborted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  aborted = true;
  changed_.notify_all();
}

bool NcclWorld::IsSet(const bool& aborted) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return aborted;
}

}  // namespace cotan::cuda::sim
