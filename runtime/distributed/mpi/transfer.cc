// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/mpi/transfer.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace cotan {

absl::Status MpiStatus(int error, absl::string_view what) {
  if (error == MPI_SUCCESS) return absl::OkStatus();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(error, text, &length);
  return absl::UnavailableError(
      absl::StrCat("MPI failed in ", what, ": ", absl::string_view(text, static_cast<size_t>(length))));
}

Transfer::Transfer(const ExchangeSpec& spec, MPI_Comm communicator, int rank, int size)
    : spec_(spec),
      communicator_(communicator),
      rank_(rank),
      size_(size),
      bucket_(static_cast<size_t>(size) * spec.shard_bytes()) {
  if (spec.kind != ExchangeSpec::Kind::kAllGather) {
    received_.resize(bucket_.size());
    for (int r = 0; r < size; ++r) {
      char* const copy = received_.data() + static_cast<size_t>(r) * spec.shard_bytes();
      parts_.push_back(r == rank ? shard(rank) : copy);
    }
  }
  requests_.reserve(2 * static_cast<size_t>(size));
  senders_.reserve(static_cast<size_t>(size));
}

// The tag has the number, so that exchanges do not mix, and the op: the messages of a rank that runs another op stay
// unreceived.
int Transfer::Tag() const {
  const auto number = static_cast<uint32_t>(number_) & 0x3fff;
  const uint32_t gathers = round_ == Round::kGather ? 1 : 0;
  return static_cast<int>(number << 16 | (spec_.op & 0x7fff) << 1 | gathers);
}

absl::Status Transfer::Send(const char* from, int to) {
  requests_.emplace_back();
  return MpiStatus(
      MPI_Isend(from, static_cast<int>(spec_.shard_bytes()), MPI_BYTE, to, Tag(), communicator_, &requests_.back()),
      "MPI_Isend");
}

absl::Status Transfer::Receive(char* to, int from) {
  requests_.emplace_back();
  senders_.push_back(from);
  return MpiStatus(
      MPI_Irecv(to, static_cast<int>(spec_.shard_bytes()), MPI_BYTE, from, Tag(), communicator_, &requests_.back()),
      "MPI_Irecv");
}

// Ranks send in different orders, so that not all of them send to one rank at once.
absl::Status Transfer::SendShards() {
  requests_.clear();
  senders_.clear();
  for (int i = 1; i < size_; ++i) {
    const int from = (rank_ + size_ - i) % size_;
    COTAN_RETURN_IF_ERROR(Receive(received_.data() + static_cast<size_t>(from) * spec_.shard_bytes(), from));
  }
  for (int i = 1; i < size_; ++i) COTAN_RETURN_IF_ERROR(Send(shard((rank_ + i) % size_), (rank_ + i) % size_));
  return absl::OkStatus();
}

absl::Status Transfer::SendOwnShard() {
  requests_.clear();
  senders_.clear();
  for (int i = 1; i < size_; ++i) {
    const int from = (rank_ + size_ - i) % size_;
    COTAN_RETURN_IF_ERROR(Receive(shard(from), from));
  }
  for (int i = 1; i < size_; ++i) COTAN_RETURN_IF_ERROR(Send(shard(rank_), (rank_ + i) % size_));
  return absl::OkStatus();
}

absl::Status Transfer::Begin(int64_t number) {
  number_ = number;
  since_ = absl::Now();
  const bool gathers = spec_.kind == ExchangeSpec::Kind::kAllGather;
  round_ = gathers ? Round::kGather : Round::kScatter;
  return gathers ? SendOwnShard() : SendShards();
}

absl::StatusOr<bool> Transfer::Progress() {
  while (round_ != Round::kDone) {
    int complete = 0;
    COTAN_RETURN_IF_ERROR(
        MpiStatus(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &complete, MPI_STATUSES_IGNORE),
                  "MPI_Testall"));
    if (complete == 0) return false;
    const bool sums = round_ == Round::kScatter;
    if (sums) SumParts(spec_.dtype, parts_, spec_.shard_elements, spec_.mean, shard(rank_));
    round_ = sums && spec_.kind == ExchangeSpec::Kind::kAllReduce ? Round::kGather : Round::kDone;
    if (round_ == Round::kGather) COTAN_RETURN_IF_ERROR(SendOwnShard());
  }
  return true;
}

std::vector<int> Transfer::Missing() {
  std::vector<int> missing;
  for (size_t i = 0; i < senders_.size(); ++i) {
    int complete = 0;
    if (MPI_Request_get_status(requests_[i], &complete, MPI_STATUS_IGNORE) != MPI_SUCCESS || complete == 0) {
      missing.push_back(senders_[i]);
    }
  }
  return missing;
}

}  // namespace cotan
