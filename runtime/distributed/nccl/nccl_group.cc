// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/nccl/nccl_group.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace cotan {

using cuda::nccl::ncclDataType_t;
using cuda::nccl::ncclResult_t;
using cuda::nccl::NcclTable;
using cuda::nccl::ncclUniqueId;

namespace {

// Between two looks at the other ranks.
constexpr std::chrono::milliseconds kInterval(5);
// How long NCCL may report an error before it is returned without a rank: the news of an ended rank names it.
constexpr absl::Duration kNamingTime = absl::Seconds(2);
// How long an abort waits for a call that queues work, which uses the communicator.
constexpr std::chrono::milliseconds kQueueingTime(200);

constexpr char kAdvice[] = "; end this process, and restart all ranks from the last checkpoint";

// The message of a rank to the others before they join. Sent as bytes.
struct Hello {
  int32_t version = 0;   // of NCCL; 0: there is none
  ncclUniqueId id = {};  // of rank 0
  std::array<char, 256> error = {};
};

absl::StatusOr<Hello> OwnHello(const absl::StatusOr<const NcclTable*>& table, int rank) {
  COTAN_RETURN_IF_ERROR(table.status());
  Hello hello;
  COTAN_NCCL_RETURN_IF_ERROR(**table, ncclGetVersion(&hello.version));
  if (rank == 0) COTAN_NCCL_RETURN_IF_ERROR(**table, ncclGetUniqueId(&hello.id));
  return hello;
}

// Sends the others what this rank has, and returns what all have. Errors as NcclGroup::Join().
absl::StatusOr<std::vector<Hello>> ExchangeHellos(const absl::StatusOr<Hello>& own, GroupCommunicator& control) {
  Hello hello;
  if (own.ok()) {
    hello = *own;
  } else {
    const absl::string_view message = own.status().message();
    message.copy(hello.error.data(), hello.error.size() - 1);
  }
  const auto all = control.Gather({reinterpret_cast<const char*>(&hello), sizeof(hello)});
  COTAN_RETURN_IF_ERROR(own.status());
  COTAN_RETURN_IF_ERROR(all.status());
  std::vector<Hello> hellos(all->size());
  for (size_t r = 0; r < hellos.size(); ++r) std::memcpy(&hellos[r], (*all)[r].data(), sizeof(Hello));
  return hellos;
}

absl::Status CheckHellos(const std::vector<Hello>& hellos) {
  for (size_t r = 0; r < hellos.size(); ++r) {
    if (hellos[r].version == 0) {
      return absl::UnavailableError(absl::StrCat("rank ", r, " cannot use NCCL: ", hellos[r].error.data()));
    }
    if (hellos[r].version != hellos[0].version) {
      return absl::FailedPreconditionError(absl::StrCat("rank 0 has NCCL ", hellos[0].version, ", rank ", r, " has ",
                                                        hellos[r].version, ": install the same version"));
    }
  }
  return absl::OkStatus();
}

ncclDataType_t TypeOf(DType dtype) {
  return dtype == DType::kFloat64 ? cuda::nccl::ncclFloat64 : cuda::nccl::ncclFloat32;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroup::Join(const absl::StatusOr<const NcclTable*>& table,
                                                           GroupCommunicator& control, cuda::CudaDevice& device,
                                                           const Limits& limits) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<Hello> hellos, ExchangeHellos(OwnHello(table, control.rank()), control));
  COTAN_RETURN_IF_ERROR(CheckHellos(hellos));
  COTAN_RETURN_IF_ERROR(device.Activate());
  std::unique_ptr<NcclGroup> group(new NcclGroup(**table, control, device, limits));
  COTAN_RETURN_IF_ERROR(device.SetPeers(*group));
  COTAN_NCCL_RETURN_IF_ERROR(**table,
                             ncclCommInitRank(&group->communicator_, control.size(), hellos[0].id, control.rank()));
  group->thread_ = std::thread([self = group.get()] { self->Watch(); });
  return group;
}

NcclGroup::NcclGroup(const NcclTable& table, GroupCommunicator& control, cuda::CudaDevice& device, const Limits& limits)
    : table_(table),
      control_(control),
      device_(device),
      limits_(limits),
      rank_(control.rank()),
      size_(control.size()) {}

NcclGroup::~NcclGroup() {
  if (thread_.joinable()) {
    device_.Synchronize().IgnoreError();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (error_.ok()) static_cast<void>(table_.ncclCommDestroy(communicator_));
  }
  device_.ClearPeers(*this, error_);
}

// --- guarded calls -------------------------------------------------------------------

absl::Status NcclGroup::Queue(absl::FunctionRef<absl::Status()> call) {
  ++num_queued_;
  is_pending_ = true;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    COTAN_RETURN_IF_ERROR(error_);
    is_queueing_ = true;
    waits_since_ = absl::Now();
  }
  const absl::Status status = call();
  const std::lock_guard<std::mutex> lock(mutex_);
  is_queueing_ = false;
  waits_since_ = absl::InfiniteFuture();
  changed_.notify_all();
  return error_.ok() ? status : error_;
}

absl::Status NcclGroup::Wait(absl::FunctionRef<absl::Status()> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    COTAN_RETURN_IF_ERROR(error_);
    if (is_pending_) waits_since_ = absl::Now();
  }
  const absl::Status status = call();
  is_pending_ = false;
  const std::lock_guard<std::mutex> lock(mutex_);
  waits_since_ = absl::InfiniteFuture();
  return error_.ok() ? status : error_;
}

void NcclGroup::Block(absl::FunctionRef<void()> call) {
  if (!is_pending_) {
    call();
    return;
  }
  SetWaitsSince(absl::Now());
  call();
  SetWaitsSince(absl::InfiniteFuture());
}

void NcclGroup::SetWaitsSince(absl::Time time) {
  const std::lock_guard<std::mutex> lock(mutex_);
  waits_since_ = time;
}

// --- messages ------------------------------------------------------------------------

absl::Status NcclGroup::ScatterShards(const ExchangeSpec& spec, const char* bucket, char* received, int32_t* marks) {
  return Queue([&] { return QueueScatter(spec, bucket, received, marks); });
}

absl::Status NcclGroup::QueueScatter(const ExchangeSpec& spec, const char* bucket, char* received, int32_t* marks) {
  COTAN_NCCL_RETURN_IF_ERROR(table_, ncclGroupStart());
  absl::Status status;
  for (int other = 0; other < size_ && status.ok(); ++other) {
    if (other != rank_) status = SendAndReceive(spec, other, bucket, received, marks);
  }
  // Also ends a group of which a part was refused.
  status.Update(table_.ToStatus(table_.ncclGroupEnd(), "ncclGroupEnd()"));
  return status;
}

absl::Status NcclGroup::SendAndReceive(const ExchangeSpec& spec, int other, const char* bucket, char* received,
                                       int32_t* marks) {
  const auto count = static_cast<size_t>(spec.shard_elements);
  const size_t offset = static_cast<size_t>(other) * spec.shard_bytes();
  const ncclDataType_t type = TypeOf(spec.dtype);
  if (count > 0) {
    COTAN_NCCL_RETURN_IF_ERROR(table_, ncclSend(bucket + offset, count, type, other, communicator_, device_.stream()));
    COTAN_NCCL_RETURN_IF_ERROR(table_,
                               ncclRecv(received + offset, count, type, other, communicator_, device_.stream()));
  }
  COTAN_NCCL_RETURN_IF_ERROR(table_,
                             ncclSend(marks + rank_, 1, cuda::nccl::ncclInt32, other, communicator_, device_.stream()));
  COTAN_NCCL_RETURN_IF_ERROR(table_,
                             ncclRecv(marks + other, 1, cuda::nccl::ncclInt32, other, communicator_, device_.stream()));
  return absl::OkStatus();
}

absl::Status NcclGroup::GatherShards(const ExchangeSpec& spec, char* bucket) {
  if (spec.shard_elements == 0) return absl::OkStatus();
  return Queue([&]() -> absl::Status {
    const char* const own = bucket + static_cast<size_t>(rank_) * spec.shard_bytes();
    COTAN_NCCL_RETURN_IF_ERROR(table_, ncclAllGather(own, bucket, static_cast<size_t>(spec.shard_elements),
                                                     TypeOf(spec.dtype), communicator_, device_.stream()));
    return absl::OkStatus();
  });
}

// --- the thread ----------------------------------------------------------------------

void NcclGroup::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, kInterval, [this] { return ends_; });
    if (ends_ || !error_.ok()) continue;
    const absl::Status status = Look();
    if (!status.ok()) CutOff(status, lock);
  }
}

absl::Status NcclGroup::Look() {
  COTAN_RETURN_IF_ERROR(control_.CheckOthers(/*needs_all=*/false));
  const absl::Time now = absl::Now();
  ncclResult_t error = cuda::nccl::ncclSuccess;
  absl::Status status = table_.ToStatus(table_.ncclCommGetAsyncError(communicator_, &error), "ncclCommGetAsyncError()");
  if (status.ok() && error != cuda::nccl::ncclInProgress) status = table_.ToStatus(error, "a transfer of NCCL");
  nccl_error_since_ = status.ok() ? absl::InfiniteFuture() : std::min(nccl_error_since_, now);
  if (now - nccl_error_since_ > kNamingTime) {
    return absl::UnavailableError(absl::StrCat(status.message(), ", and no rank is known to have ended", kAdvice));
  }
  const absl::Status left = control_.CheckOthers(/*needs_all=*/true);
  if (!left.ok()) left_since_ = std::min(left_since_, now);
  if (now - std::max(left_since_, waits_since_) > limits_.leave_time) return left;
  if (now - waits_since_ <= limits_.timeout) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("a rank did not take part in a collective for ", absl::FormatDuration(limits_.timeout),
                   " (NcclOptions.timeout): it is slow, or the ranks call methods in different orders", kAdvice));
}

void NcclGroup::CutOff(const absl::Status& error, std::unique_lock<std::mutex>& lock) {
  error_ = error;
  // A call that connects to another rank may wait for it; then only the abort ends it.
  changed_.wait_for(lock, kQueueingTime, [this] { return !is_queueing_; });
  lock.unlock();
  static_cast<void>(table_.ncclCommAbort(communicator_));
  lock.lock();
}

}  // namespace cotan
