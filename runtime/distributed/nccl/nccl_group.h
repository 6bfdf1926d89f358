// SPDX-License-Identifier: Apache-2.0

// A rank's end of an NCCL communicator, and the thread that cuts it off when another rank has ended.
#ifndef COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_GROUP_H_
#define COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_GROUP_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/device/peer_guard.h"
#include "kernels/cuda/nccl/nccl_table.h"
#include "runtime/distributed/exchange.h"
#include "runtime/distributed/group_communicator.h"

namespace cotan {

// The messages of collectives, queued on the stream of a device, whose guard it is. NCCL does not notice that a rank on
// the same machine was killed: its kernels wait without end. So a thread asks `control` who has ended, and aborts the
// communicator, after which queued work ends with undefined results, which no call gets. NCCL's calls do not block: the
// calling thread asks whether they are complete, and leaves them when there is an error; only then may another thread
// abort. Calls of one thread at a time.
class NcclGroup final : public cuda::PeerGuard {
 public:
  struct Limits {
    absl::Duration timeout;     // as NcclOptions
    absl::Duration leave_time;  // as NcclOptions
  };

  // Joins the group, with all ranks of `control`. The arguments outlive the result.
  // Unavailable: a rank has no NCCL, or has ended; the message names it. FailedPrecondition: the ranks have different
  // versions, or the device has another group. Internal: NCCL failed.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Join(const absl::StatusOr<const cuda::nccl::NcclTable*>& table,
                                                         GroupCommunicator& control, cuda::CudaDevice& device,
                                                         const Limits& limits);
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;
  // Waits for queued work, or until it was cut off. Sessions that use the group are gone: NCCL waits for recorded work.
  ~NcclGroup() override;

  int rank() const { return rank_; }
  int size() const { return size_; }

  absl::Status Queue(absl::FunctionRef<absl::Status()> call) override;
  absl::Status Wait(absl::FunctionRef<absl::Status()> call) override;
  void Block(absl::FunctionRef<void()> call) override;
  int64_t num_queued() const override { return num_queued_; }

  // Queue messages on the stream of the device. Errors of Queue(); Internal: NCCL failed.
  // Sends each rank its shard of `bucket` and this rank's elements of `marks`, two per rank; writes what the others
  // sent to their places in `received` and `marks`.
  absl::Status ScatterShards(const ExchangeSpec& spec, const char* bucket, char* received, int32_t* marks);
  // Sends all ranks this rank's shard of `bucket`, and writes theirs to it.
  absl::Status GatherShards(const ExchangeSpec& spec, char* bucket);

 private:
  NcclGroup(const cuda::nccl::NcclTable& table, GroupCommunicator& control, cuda::CudaDevice& device,
            const Limits& limits);
  // Sets from when on the calling thread waits.
  void SetWaitsSince(absl::Time time);
  // Joins the group that `id` names. Errors of Guard().
  absl::Status Connect(const cuda::nccl::ncclUniqueId& id);
  // Calls `call`, which may wait for other ranks. Its error is that of all later calls, too.
  absl::Status Guard(absl::FunctionRef<absl::Status()> call);
  // Calls `call`, which uses the communicator, and waits until what it began is complete.
  absl::Status CallNccl(absl::FunctionRef<absl::Status()> call);
  // Returns the error that NCCL has noticed. Sets `is_ready` to whether no call is in progress. The mutex is held.
  absl::Status AskNccl(bool& is_ready);
  absl::Status QueueScatter(const ExchangeSpec& spec, const char* bucket, char* received, int32_t* marks);
  absl::Status SendAndReceive(const ExchangeSpec& spec, int other, const char* bucket, char* received, int32_t* marks);
  void Watch();
  // Returns why queued work will not end; OK if it may. The mutex is held.
  absl::Status Look();
  absl::Status LookAtNccl(absl::Time now);
  // Ends queued work, when all calls fail. `lock` holds the mutex.
  void CutOff(std::unique_lock<std::mutex>& lock);

  const cuda::nccl::NcclTable& table_;
  GroupCommunicator& control_;
  cuda::CudaDevice& device_;
  const Limits limits_;
  const int rank_, size_;
  cuda::nccl::ncclComm_t communicator_ = nullptr;  // set while uses_nccl_
  int64_t num_queued_ = 0;
  bool is_pending_ = false;  // work was queued after the last wait
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status error_;                                    // guarded by mutex_
  bool ends_ = false;                                     // guarded by mutex_
  bool uses_nccl_ = false;                                // guarded by mutex_; the calling thread does
  bool is_aborted_ = false;                               // guarded by mutex_
  absl::Time waits_since_ = absl::InfiniteFuture();       // guarded by mutex_
  absl::Time left_since_ = absl::InfiniteFuture();        // used by the thread only; a rank has left
  absl::Time nccl_error_since_ = absl::InfiniteFuture();  // used by the thread only
  std::thread thread_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_NCCL_NCCL_GROUP_H_
