// SPDX-License-Identifier: Apache-2.0

// The communicator over MPI (docs/distributed.md). Example, started by `mpirun -np 4 --enable-recovery ./train`:
//
//   COTAN_ASSIGN_OR_RETURN(auto communicator, cotan::MpiCommunicator::Create());
//   COTAN_ASSIGN_OR_RETURN(auto session, cotan::Session::Create(program, {.kernels = &cotan::CpuKernels(),
//                                                                         .communicator = communicator.get()}));
#ifndef COTAN_RUNTIME_DISTRIBUTED_MPI_MPI_COMMUNICATOR_H_
#define COTAN_RUNTIME_DISTRIBUTED_MPI_MPI_COMMUNICATOR_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "runtime/distributed/group_communicator.h"

namespace cotan {

struct MpiOptions {
  // How long a rank waits for another one that has not ended, in a collective and when the group is made.
  absl::Duration timeout = absl::Minutes(10);
  // How long a rank may say nothing before the others assume that its machine or its network is down.
  absl::Duration silence = absl::Seconds(30);
  // Name or IPv4 address under which the other ranks reach this one. Empty: the name of this machine.
  std::string host = "";
};

// The ranks of MPI_COMM_WORLD. One per process; the calling thread makes and destroys it.
class MpiCommunicator final : public GroupCommunicator {
 public:
  // Initializes MPI, unless that was done with MPI_THREAD_SERIALIZED or more, and waits for all ranks.
  // FailedPrecondition: MPI was initialized with less, or does not support it.
  // Unavailable: MPI fails, or a neighbour cannot be reached.
  static absl::StatusOr<std::unique_ptr<MpiCommunicator>> Create(const MpiOptions& options = {});
  // Finalizes MPI if Create() initialized it and all ranks are there; other ranks that still exchange get an error.
  ~MpiCommunicator() override;

  int rank() const override;
  int size() const override;
  // Returns the number of this rank among those of its machine, from 0: for the choice of its GPU.
  int local_rank() const;
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view bytes) override;
  absl::Status CheckOthers(bool needs_all) override;

 protected:
  absl::StatusOr<std::unique_ptr<Exchange>> NewExchange(const ExchangeSpec& spec) override;

 private:
  class Impl;
  explicit MpiCommunicator(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_MPI_MPI_COMMUNICATOR_H_
