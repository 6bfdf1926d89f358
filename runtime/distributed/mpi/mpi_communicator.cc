// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/mpi/mpi_communicator.h"

#include <mpi.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/distributed/mpi/liveness.h"
#include "runtime/distributed/mpi/mpi_engine.h"
#include "runtime/distributed/mpi/transfer.h"

namespace cotan {
namespace {

using Job = MpiEngine::Job;

class MpiExchange final : public Exchange {
 public:
  MpiExchange(std::unique_ptr<Transfer> transfer, int rank, MpiEngine& engine)
      : job_(std::make_shared<Job>(std::move(transfer))), own_(job_->transfer->shard(rank)), engine_(engine) {}

  char* input() override { return kind() == ExchangeSpec::Kind::kAllGather ? own_ : job_->transfer->bucket(); }
  const char* output() const override {
    return kind() == ExchangeSpec::Kind::kReduceScatter ? own_ : job_->transfer->bucket();
  }
  absl::Status Start() override { return engine_.Start(job_); }
  absl::Status Wait() override { return engine_.Wait(*job_); }

 private:
  ExchangeSpec::Kind kind() const { return job_->transfer->spec().kind; }

  const std::shared_ptr<Job> job_;  // the engine's, too, while it runs
  char* const own_;
  MpiEngine& engine_;
};

// Initializes MPI. Sets `is_own` if it was not initialized before.
absl::Status InitializeMpi(bool& is_own) {
  int is_initialized = 0, level = MPI_THREAD_SINGLE;
  COTAN_RETURN_IF_ERROR(MpiStatus(MPI_Initialized(&is_initialized), "MPI_Initialized"));
  is_own = is_initialized == 0;
  if (is_own) {
    COTAN_RETURN_IF_ERROR(
        MpiStatus(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level), "MPI_Init_thread"));
  } else {
    COTAN_RETURN_IF_ERROR(MpiStatus(MPI_Query_thread(&level), "MPI_Query_thread"));
  }
  if (level >= MPI_THREAD_SERIALIZED) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("MPI has thread level ", level,
                   ", MPI_THREAD_SERIALIZED is needed: call MPI_Init_thread() with it, "
                   "or let MpiCommunicator::Create() initialize MPI"));
}

absl::StatusOr<std::string> OwnHost(const MpiOptions& options) {
  if (!options.host.empty()) return options.host;
  std::array<char, sizeof(RankAddress::host)> name = {};
  if (gethostname(name.data(), name.size() - 1) == 0) return std::string(name.data());
  return absl::UnavailableError("the machine has no name: set MpiOptions.host");
}

// Returns the addresses of all ranks.
absl::StatusOr<std::vector<RankAddress>> GatherAddresses(const RankAddress& own, MPI_Comm communicator, int size) {
  std::vector<RankAddress> all(static_cast<size_t>(size));
  COTAN_RETURN_IF_ERROR(MpiStatus(
      MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, communicator), "MPI_Allgather"));
  return all;
}

// Returns a random number of rank 0.
absl::StatusOr<uint64_t> SharedToken(MPI_Comm communicator) {
  uint64_t token = 0;
  if (getrandom(&token, sizeof(token), 0) != sizeof(token)) {
    return absl::UnavailableError("the system gives no random number");
  }
  COTAN_RETURN_IF_ERROR(MpiStatus(MPI_Bcast(&token, sizeof(token), MPI_BYTE, 0, communicator), "MPI_Bcast"));
  return token;
}

// Returns the number of this rank among those of its machine.
absl::StatusOr<int> LocalRank(MPI_Comm communicator) {
  MPI_Comm local = MPI_COMM_NULL;
  COTAN_RETURN_IF_ERROR(MpiStatus(MPI_Comm_split_type(communicator, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local),
                                  "MPI_Comm_split_type"));
  int rank = 0;
  const absl::Status status = MpiStatus(MPI_Comm_rank(local, &rank), "MPI_Comm_rank");
  MPI_Comm_free(&local);
  COTAN_RETURN_IF_ERROR(status);
  return rank;
}

// Connects the ring of the ranks.
absl::StatusOr<std::unique_ptr<Liveness>> Connect(const MpiOptions& options, MPI_Comm communicator, int rank,
                                                  int size) {
  COTAN_ASSIGN_OR_RETURN(const std::string host, OwnHost(options));
  RankAddress own;
  host.copy(own.host.data(), own.host.size() - 1);
  COTAN_ASSIGN_OR_RETURN(std::vector<RankAddress> all, GatherAddresses(own, communicator, size));
  const bool is_one_machine =
      std::all_of(all.begin(), all.end(), [&](const RankAddress& other) { return other.host == own.host; });
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Liveness> liveness, Liveness::Listen(rank, size, host, is_one_machine));
  COTAN_ASSIGN_OR_RETURN(all, GatherAddresses(liveness->address(), communicator, size));
  COTAN_ASSIGN_OR_RETURN(const uint64_t token, SharedToken(communicator));
  COTAN_RETURN_IF_ERROR(liveness->Connect(all, token, options.timeout));
  return liveness;
}

}  // namespace

class MpiCommunicator::Impl {
 public:
  bool finalizes = false;
  MPI_Comm communicator = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int local_rank = 0;
  std::unique_ptr<MpiEngine> engine;
};

absl::StatusOr<std::unique_ptr<MpiCommunicator>> MpiCommunicator::Create(const MpiOptions& options) {
  auto impl = std::make_unique<Impl>();
  COTAN_RETURN_IF_ERROR(InitializeMpi(impl->finalizes));
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  // Messages of a communicator of its own do not meet those of the application.
  COTAN_RETURN_IF_ERROR(MpiStatus(MPI_Comm_dup(MPI_COMM_WORLD, &impl->communicator), "MPI_Comm_dup"));
  MPI_Comm_set_errhandler(impl->communicator, MPI_ERRORS_RETURN);
  COTAN_RETURN_IF_ERROR(MpiStatus(MPI_Comm_rank(impl->communicator, &impl->rank), "MPI_Comm_rank"));
  COTAN_RETURN_IF_ERROR(MpiStatus(MPI_Comm_size(impl->communicator, &impl->size), "MPI_Comm_size"));
  COTAN_ASSIGN_OR_RETURN(impl->local_rank, LocalRank(impl->communicator));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Liveness> liveness,
                         Connect(options, impl->communicator, impl->rank, impl->size));
  impl->engine = std::make_unique<MpiEngine>(std::move(liveness), impl->size,
                                             MpiEngine::Limits{.timeout = options.timeout, .silence = options.silence});
  return std::unique_ptr<MpiCommunicator>(new MpiCommunicator(std::move(impl)));
}

MpiCommunicator::MpiCommunicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

MpiCommunicator::~MpiCommunicator() {
  // With a rank that has ended, MPI_Finalize() might wait for it.
  if (impl_->engine->End() && impl_->finalizes) MPI_Finalize();
}

int MpiCommunicator::rank() const { return impl_->rank; }
int MpiCommunicator::size() const { return impl_->size; }
int MpiCommunicator::local_rank() const { return impl_->local_rank; }

absl::Status MpiCommunicator::CheckOthers(bool needs_all) { return impl_->engine->Check(needs_all); }

absl::StatusOr<std::unique_ptr<Exchange>> MpiCommunicator::NewExchange(const ExchangeSpec& spec) {
  constexpr size_t kLimit = std::numeric_limits<int>::max();
  if (spec.shard_bytes() > kLimit) {
    return absl::UnimplementedError(absl::StrCat("a shard of ", spec.shard_bytes(), " bytes; MPI sends at most ",
                                                 kLimit, " at once: lower DataParallelOptions.bucket_bytes"));
  }
  auto transfer = std::make_unique<Transfer>(spec, impl_->communicator, impl_->rank, impl_->size);
  return std::make_unique<MpiExchange>(std::move(transfer), impl_->rank, *impl_->engine);
}

absl::StatusOr<std::vector<std::string>> MpiCommunicator::Gather(absl::string_view bytes) {
  ExchangeSpec spec = {.kind = ExchangeSpec::Kind::kAllGather, .dtype = DType::kFloat32};
  spec.shard_elements = static_cast<int64_t>((bytes.size() + sizeof(float) - 1) / sizeof(float));
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Exchange> exchange, NewExchange(spec));
  std::memcpy(exchange->input(), bytes.data(), bytes.size());
  COTAN_RETURN_IF_ERROR(exchange->Start());
  COTAN_RETURN_IF_ERROR(exchange->Wait());
  std::vector<std::string> all;
  for (int r = 0; r < size(); ++r) {
    all.emplace_back(exchange->output() + static_cast<size_t>(r) * spec.shard_bytes(), bytes.size());
  }
  return all;
}

}  // namespace cotan
