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
// Between two looks at a call of NCCL that is in progress.
constexpr std::chrono::microseconds kCallInterval(20);
// How long NCCL may report an error before it is returned without a rank: the news of an ended rank names it.
constexpr absl::Duration kNamingTime = absl::Seconds(2);

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
  group->thread_ = std::thread([self = group.get()] { self->Watch(); });
  COTAN_RETURN_IF_ERROR(group->Connect(hellos[0].id));
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
    if (!is_aborted_ && communicator_ != nullptr) {
      static_cast<void>(error_.ok() ? table_.ncclCommDestroy(communicator_) : table_.ncclCommAbort(communicator_));
    }
  }
  device_.ClearPeers(*this, num_queued_ > 0 ? error_ : absl::OkStatus());
}

absl::Status NcclGroup::Connect(const ncclUniqueId& id) {
  return Guard([&] {
    return CallNccl([&]() -> absl::Status {
      cuda::nccl::ncclConfig_t config;
      config.blocking = 0;
      COTAN_NCCL_RETURN_IF_ERROR(table_, ncclCommInitRankConfig(&communicator_, size_, id, rank_, &config));
      return absl::OkStatus();
    });
  });
}

// --- guarded calls -------------------------------------------------------------------

absl::Status NcclGroup::Queue(absl::FunctionRef<absl::Status()> call) {
  ++num_queued_;
  is_pending_ = true;
  return Guard(call);
}

absl::Status NcclGroup::Guard(absl::FunctionRef<absl::Status()> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    COTAN_RETURN_IF_ERROR(error_);
    waits_since_ = absl::Now();
  }
  const absl::Status status = call();
  std::unique_lock<std::mutex> lock(mutex_);
  waits_since_ = absl::InfiniteFuture();
  if (!status.ok()) {
    changed_.wait_for(lock, absl::ToChronoMilliseconds(kNamingTime), [this] { return !error_.ok(); });
    error_.Update(absl::Status(status.code(), absl::StrCat(status.message(), kAdvice)));
  }
  return error_;
}

absl::Status NcclGroup::CallNccl(absl::FunctionRef<absl::Status()> call) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    COTAN_RETURN_IF_ERROR(error_);
    uses_nccl_ = true;
  }
  absl::Status status = call();
  std::unique_lock<std::mutex> lock(mutex_);
  bool is_ready = false;
  while (status.ok() && !is_ready) {
    status = error_.ok() ? AskNccl(is_ready) : error_;
    if (status.ok() && !is_ready) changed_.wait_for(lock, kCallInterval);
  }
  uses_nccl_ = false;
  changed_.notify_all();
  return status;
}

absl::Status NcclGroup::AskNccl(bool& is_ready) {
  ncclResult_t result = cuda::nccl::ncclSuccess;
  COTAN_NCCL_RETURN_IF_ERROR(table_, ncclCommGetAsyncError(communicator_, &result));
  is_ready = result != cuda::nccl::ncclInProgress;
  return table_.ToStatus(result, "a transfer of NCCL");
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
  return Queue([&] { return CallNccl([&] { return QueueScatter(spec, bucket, received, marks); }); });
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
  COTAN_NCCL_RETURN_IF_ERROR(table_, ncclSend(marks + std::ptrdiff_t{2} * rank_, 2, cuda::nccl::ncclInt32, other,
                                              communicator_, device_.stream()));
  COTAN_NCCL_RETURN_IF_ERROR(table_, ncclRecv(marks + std::ptrdiff_t{2} * other, 2, cuda::nccl::ncclInt32, other,
                                              communicator_, device_.stream()));
  return absl::OkStatus();
}

absl::Status NcclGroup::GatherShards(const ExchangeSpec& spec, char* bucket) {
  if (spec.shard_elements == 0) return absl::OkStatus();
  const char* const own = bucket + static_cast<size_t>(rank_) * spec.shard_bytes();
  const auto gather = [&]() -> absl::Status {
    COTAN_NCCL_RETURN_IF_ERROR(table_, ncclAllGather(own, bucket, static_cast<size_t>(spec.shard_elements),
                                                     TypeOf(spec.dtype), communicator_, device_.stream()));
    return absl::OkStatus();
  };
  return Queue([&] { return CallNccl(gather); });
}

// --- the thread ----------------------------------------------------------------------

void NcclGroup::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!ends_) {
    changed_.wait_for(lock, kInterval, [this] { return ends_; });
    if (ends_ || is_aborted_) continue;
    if (error_.ok()) error_ = Look();
    if (!error_.ok()) CutOff(lock);
  }
}

absl::Status NcclGroup::Look() {
  COTAN_RETURN_IF_ERROR(control_.CheckOthers(/*needs_all=*/false));
  const absl::Time now = absl::Now();
  // A thread that uses NCCL looks itself.
  if (!uses_nccl_ && communicator_ != nullptr) COTAN_RETURN_IF_ERROR(LookAtNccl(now));
  const absl::Status left = control_.CheckOthers(/*needs_all=*/true);
  if (!left.ok()) left_since_ = std::min(left_since_, now);
  if (now - std::max(left_since_, waits_since_) > limits_.leave_time) return left;
  if (now - waits_since_ <= limits_.timeout) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("a rank did not take part in a collective for ", absl::FormatDuration(limits_.timeout),
                   " (NcclOptions.timeout): it is slow, or the ranks call methods in different orders", kAdvice));
}

absl::Status NcclGroup::LookAtNccl(absl::Time now) {
  bool is_ready = false;
  const absl::Status status = AskNccl(is_ready);
  nccl_error_since_ = status.ok() ? absl::InfiniteFuture() : std::min(nccl_error_since_, now);
  if (now - nccl_error_since_ <= kNamingTime) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(status.message(), ", and no rank is known to have ended", kAdvice));
}

void NcclGroup::CutOff(std::unique_lock<std::mutex>& lock) {
  is_aborted_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !uses_nccl_; });
  if (communicator_ == nullptr) return;
  lock.unlock();
  static_cast<void>(table_.ncclCommAbort(communicator_));
  lock.lock();
}

}  // namespace cotan
