// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/nccl/sim_nccl.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/nccl/nccl_world.h"

namespace cotan::cuda::sim {

using namespace nccl;  // The vendor's names. NOLINT(google-build-using-namespace)

namespace {

// What an aborted transfer leaves.
constexpr int kGarbage = 0xff;
constexpr uint64_t kBufferBytes = 8;

// A part of a transfer.
struct Part {
  enum class Kind : uint8_t { kSend, kReceive, kAllGather };
  Kind kind = Kind::kSend;
  uint64_t from = 0;
  uint64_t to = 0;
  size_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int peer = 0;

  uint64_t bytes() const { return count * (type == ncclFloat64 ? 8 : 4); }
  std::string Description() const {
    return absl::StrCat(kind == Kind::kAllGather ? "all-gather" : "send", " of ", count, " elements of type ",
                        static_cast<int>(type));
  }
};

struct Communicator {
  std::shared_ptr<NcclGroup> group;
  int rank = 0;
  uint64_t buffer = 0;  // device memory that every transfer writes: all need an order
  bool blocking = true;
  int64_t calls = 0;  // transfers that ran; used by the thread of the GPU only
  // Copied by each transfer that is queued or part of a graph.
  std::shared_ptr<const char> use = std::make_shared<char>();
  // The last call, while it is in progress: a transfer to queue, if there is one. Used by one thread at a time.
  bool in_progress = false;
  std::vector<Part> parts = {};
  cudaStream_t stream = nullptr;
  bool aborted = false;  // guarded by the world
};

uint64_t AddressOf(const void* memory) { return reinterpret_cast<uint64_t>(memory); }

// Runs the parts of one transfer.
class Transfer {
 public:
  Transfer(NcclWorld& world, Communicator& communicator, DeviceMemory& memory)
      : world_(world), communicator_(communicator), memory_(memory), call_(communicator.calls++) {}

  absl::Status Run(absl::Span<const Part> parts) {
    COTAN_RETURN_IF_ERROR(memory_.ViewForWrite(communicator_.buffer, kBufferBytes).status());
    for (const Part& part : parts) COTAN_RETURN_IF_ERROR(Send(part));
    for (const Part& part : parts) COTAN_RETURN_IF_ERROR(Receive(part));
    return absl::OkStatus();
  }

 private:
  int size() const { return communicator_.group->size; }

  absl::Status Send(const Part& part) {
    if (part.kind == Part::Kind::kReceive) return absl::OkStatus();
    COTAN_ASSIGN_OR_RETURN(const std::byte* const bytes, memory_.ViewForRead(part.from, part.bytes()));
    for (int r = 0; r < size(); ++r) {
      if (r == communicator_.rank || (part.kind == Part::Kind::kSend && r != part.peer)) continue;
      NcclMessage message{.call = call_, .description = part.Description()};
      message.bytes.assign(bytes, bytes + part.bytes());
      world_.Send(*communicator_.group, communicator_.rank, r, std::move(message));
    }
    return absl::OkStatus();
  }

  absl::Status Receive(const Part& part) {
    if (part.kind == Part::Kind::kSend) return absl::OkStatus();
    if (part.kind == Part::Kind::kReceive) return ReceiveFrom(part.peer, part, part.to);
    const uint64_t own = part.to + static_cast<uint64_t>(communicator_.rank) * part.bytes();
    if (part.from != own) COTAN_RETURN_IF_ERROR(memory_.Copy(own, part.from, part.bytes()));
    for (int r = 0; r < size(); ++r) {
      if (r == communicator_.rank) continue;
      COTAN_RETURN_IF_ERROR(ReceiveFrom(r, part, part.to + static_cast<uint64_t>(r) * part.bytes()));
    }
    return absl::OkStatus();
  }

  absl::Status ReceiveFrom(int rank, const Part& part, uint64_t to) {
    COTAN_RETURN_IF_ERROR(memory_.CheckBounds(to, part.bytes()));
    const NcclMessage expected{.call = call_, .description = part.Description()};
    const absl::StatusOr<std::vector<std::byte>> bytes =
        world_.Receive(*communicator_.group, rank, communicator_.rank, expected, communicator_.aborted);
    if (!bytes.ok() && !absl::IsAborted(bytes.status())) return bytes.status();
    COTAN_ASSIGN_OR_RETURN(std::byte* const target, memory_.ViewForWrite(to, part.bytes()));
    if (bytes.ok()) {
      std::copy(bytes->begin(), bytes->end(), target);
    } else {
      std::memset(target, kGarbage, part.bytes());
    }
    return absl::OkStatus();
  }

  NcclWorld& world_;
  Communicator& communicator_;
  DeviceMemory& memory_;
  const int64_t call_;
};

}  // namespace

class NcclState {
 public:
  NcclState(NcclWorld& world, SimGpu& gpu) : world_(world), gpu_(gpu) {
    FillCommunicatorFunctions();
    FillTransferFunctions();
  }
  ~NcclState() {
    for (const auto& [handle, communicator] : communicators_) {
      gpu_.memory().Free(communicator->buffer).IgnoreError();
    }
  }

  const NcclTable& table() const { return table_; }
  void SetAsyncError(ncclResult_t error) { async_error_ = error; }
  void StallCalls() { stalls_ = true; }
  int64_t num_transfers() const { return num_transfers_; }
  std::string LastViolation() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return violation_;
  }
  int Count(bool aborted) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int>(std::count_if(communicators_.begin(), communicators_.end(), [&](const auto& entry) {
      return !ended_.contains(entry.first) && world_.IsSet(entry.second->aborted) == aborted;
    }));
  }

 private:
  ncclResult_t Result(const absl::Status& status) {
    if (status.ok()) return ncclSuccess;
    const std::lock_guard<std::mutex> lock(mutex_);
    violation_ = std::string(status.message());
    return absl::IsInvalidArgument(status) ? ncclInvalidArgument : ncclInvalidUsage;
  }

  ncclResult_t Result(const absl::StatusOr<ncclResult_t>& result) {
    return result.ok() ? *result : Result(result.status());
  }

  // Returns a communicator of which no call is in progress.
  absl::StatusOr<Communicator*> FindReady(ncclComm_t handle) {
    COTAN_ASSIGN_OR_RETURN(Communicator* const communicator, Find(handle));
    if (communicator->in_progress) {
      return absl::InvalidArgumentError("the communicator is used while its last call is in progress");
    }
    return communicator;
  }

  absl::StatusOr<Communicator*> Find(ncclComm_t handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = communicators_.find(handle);
    if (found == communicators_.end() || ended_.contains(handle)) {
      return absl::InvalidArgumentError("the communicator is unknown or was destroyed");
    }
    if (world_.IsSet(found->second->aborted)) return absl::InvalidArgumentError("the communicator was aborted");
    return found->second.get();
  }

  absl::StatusOr<ncclResult_t> Join(ncclComm_t* handle, int size, const ncclUniqueId& id, int rank,
                                    const ncclConfig_t& config) {
    *handle = nullptr;
    if (config.magic != ncclConfig_t().magic) return absl::InvalidArgumentError("the configuration is not initialized");
    const std::string name(id.internal, strnlen(id.internal, sizeof(id.internal)));
    auto communicator = std::make_unique<Communicator>();
    communicator->rank = rank;
    communicator->blocking = config.blocking != 0;
    communicator->in_progress = !communicator->blocking;
    COTAN_ASSIGN_OR_RETURN(communicator->group, world_.Join(name, size, rank, this));
    if (communicator->blocking) COTAN_RETURN_IF_ERROR(world_.WaitForAll(*communicator->group));
    COTAN_ASSIGN_OR_RETURN(communicator->buffer, gpu_.memory().Allocate(kBufferBytes, "NCCL"));
    const ncclResult_t result = communicator->blocking ? ncclSuccess : ncclInProgress;
    const std::lock_guard<std::mutex> lock(mutex_);
    *handle = reinterpret_cast<ncclComm_t>(communicator.get());
    communicators_[*handle] = std::move(communicator);
    return result;
  }

  // Goes on with a call that is in progress. Returns what it returns.
  absl::StatusOr<ncclResult_t> Progress(Communicator& communicator) {
    if (async_error_ != ncclSuccess) return async_error_.load();
    if (!communicator.in_progress) return ncclSuccess;
    if (stalls_ || !world_.HasAll(*communicator.group)) return ncclInProgress;
    const std::vector<Part> parts = std::exchange(communicator.parts, {});
    communicator.in_progress = !parts.empty();
    if (parts.empty()) return ncclSuccess;
    COTAN_RETURN_IF_ERROR(Enqueue(communicator, communicator.stream, parts));
    return ncclInProgress;
  }

  absl::Status Destroy(ncclComm_t handle) {
    COTAN_ASSIGN_OR_RETURN(Communicator* const communicator, FindReady(handle));
    if (communicator->use.use_count() > 1) {
      return absl::FailedPreconditionError("transfers of the communicator are queued, or part of a graph");
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ended_.insert(handle);
    return absl::OkStatus();
  }

  void FillCommunicatorFunctions() {
    table_.ncclGetVersion = [](int* version) {
      *version = 22809;
      return ncclSuccess;
    };
    table_.ncclGetUniqueId = [this](ncclUniqueId* id) {
      *id = {};
      world_.NewId().copy(id->internal, sizeof(id->internal) - 1);
      return ncclSuccess;
    };
    table_.ncclCommInitRankConfig = [this](ncclComm_t* handle, int size, ncclUniqueId id, int rank,
                                           ncclConfig_t* config) {
      return Result(Join(handle, size, id, rank, *config));
    };
    table_.ncclCommDestroy = [this](ncclComm_t handle) { return Result(Destroy(handle)); };
    table_.ncclCommAbort = [this](ncclComm_t handle) {
      const absl::StatusOr<Communicator*> found = Find(handle);
      if (!found.ok()) return Result(found.status());
      world_.Abort((*found)->aborted);
      return ncclSuccess;
    };
    table_.ncclCommGetAsyncError = [this](ncclComm_t handle, ncclResult_t* error) {
      const absl::StatusOr<Communicator*> found = Find(handle);
      if (!found.ok()) return Result(found.status());
      *error = Result(Progress(**found));
      return ncclSuccess;
    };
    table_.ncclGetErrorString = [](ncclResult_t result) {
      return result == ncclRemoteError ? "remote process exited" : "invalid call";
    };
    table_.ncclGetLastError = [this](ncclComm_t) {
      const std::lock_guard<std::mutex> lock(mutex_);
      returned_ = violation_;
      return returned_.c_str();
    };
  }

  void FillTransferFunctions() {
    table_.ncclSend = [this](const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                             cudaStream_t stream) {
      return Result(
          Add({.kind = Part::Kind::kSend, .from = AddressOf(from), .count = count, .type = type, .peer = peer},
              communicator, stream));
    };
    table_.ncclRecv = [this](void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                             cudaStream_t stream) {
      return Result(Add({.kind = Part::Kind::kReceive, .to = AddressOf(to), .count = count, .type = type, .peer = peer},
                        communicator, stream));
    };
    table_.ncclAllGather = [this](const void* from, void* to, size_t count, ncclDataType_t type,
                                  ncclComm_t communicator, cudaStream_t stream) {
      return Result(Add(
          {.kind = Part::Kind::kAllGather, .from = AddressOf(from), .to = AddressOf(to), .count = count, .type = type},
          communicator, stream));
    };
    table_.ncclGroupStart = [this] {
      if (in_group_) return Result(absl::FailedPreconditionError("a group within a group"));
      in_group_ = true;
      return ncclSuccess;
    };
    table_.ncclGroupEnd = [this] {
      if (!in_group_) return Result(absl::FailedPreconditionError("the end of a group that was not begun"));
      in_group_ = false;
      return Result(Queue());
    };
  }

  // Adds a part to the group, or queues it.
  absl::StatusOr<ncclResult_t> Add(const Part& part, ncclComm_t handle, cudaStream_t stream) {
    COTAN_ASSIGN_OR_RETURN(Communicator* const communicator, FindReady(handle));
    if (part.type != ncclInt32 && part.type != ncclFloat32 && part.type != ncclFloat64) {
      return absl::InvalidArgumentError(absl::StrCat("type ", static_cast<int>(part.type), " is unknown"));
    }
    const bool has_peer = part.kind != Part::Kind::kAllGather;
    if (has_peer && (part.peer < 0 || part.peer >= communicator->group->size || part.peer == communicator->rank)) {
      return absl::InvalidArgumentError(absl::StrCat("rank ", communicator->rank, " has no peer ", part.peer));
    }
    if (!pending_.empty() && (communicator != pending_communicator_ || stream != pending_stream_)) {
      return absl::InvalidArgumentError("a group has parts of several communicators or streams");
    }
    pending_communicator_ = communicator;
    pending_stream_ = stream;
    pending_.push_back(part);
    if (in_group_) return ncclSuccess;
    return Queue();
  }

  // Queues what was added as one transfer, or begins to.
  absl::StatusOr<ncclResult_t> Queue() {
    std::vector<Part> parts = std::exchange(pending_, {});
    if (parts.empty()) return ncclSuccess;
    Communicator& communicator = *pending_communicator_;
    if (communicator.blocking) {
      COTAN_RETURN_IF_ERROR(Enqueue(communicator, pending_stream_, parts));
      return ncclSuccess;
    }
    communicator.in_progress = true;
    communicator.parts = std::move(parts);
    communicator.stream = pending_stream_;
    return ncclInProgress;
  }

  absl::Status Enqueue(Communicator& communicator, cudaStream_t stream, const std::vector<Part>& parts) {
    COTAN_RETURN_IF_ERROR(
        gpu_.EnqueueHostFunction(stream, absl::StrCat("NCCL: ", parts[0].Description()),
                                 [this, &communicator, parts, use = communicator.use](DeviceMemory& memory) {
                                   return Transfer(world_, communicator, memory).Run(parts);
                                 }));
    ++num_transfers_;
    return absl::OkStatus();
  }

  NcclWorld& world_;
  SimGpu& gpu_;
  NcclTable table_;
  mutable std::mutex mutex_;
  std::map<ncclComm_t, std::unique_ptr<Communicator>> communicators_;  // guarded by mutex_
  std::set<ncclComm_t> ended_;                                         // guarded by mutex_; destroyed
  std::string violation_;                                              // guarded by mutex_
  std::string returned_;                                               // guarded by mutex_
  std::atomic<ncclResult_t> async_error_ = ncclSuccess;
  std::atomic<bool> stalls_ = false;
  std::atomic<int64_t> num_transfers_ = 0;
  // Used by the thread of the GPU only:
  bool in_group_ = false;
  std::vector<Part> pending_;
  Communicator* pending_communicator_ = nullptr;
  cudaStream_t pending_stream_ = nullptr;
};

SimNcclNetwork::SimNcclNetwork() : world_(std::make_unique<NcclWorld>()) {}
SimNcclNetwork::~SimNcclNetwork() = default;

SimNccl::SimNccl(SimNcclNetwork& network, SimGpu& gpu) : state_(std::make_unique<NcclState>(network.world(), gpu)) {}
SimNccl::~SimNccl() = default;

const NcclTable& SimNccl::table() const { return state_->table(); }
void SimNccl::StallCalls() { state_->StallCalls(); }
void SimNccl::SetAsyncError(ncclResult_t error) { state_->SetAsyncError(error); }
std::string SimNccl::LastViolation() const { return state_->LastViolation(); }
int64_t SimNccl::num_transfers() const { return state_->num_transfers(); }
int SimNccl::num_communicators() const { return state_->Count(/*aborted=*/false); }
int SimNccl::num_aborted() const { return state_->Count(/*aborted=*/true); }

}  // namespace cotan::cuda::sim
