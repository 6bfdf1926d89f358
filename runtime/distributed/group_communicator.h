// SPDX-License-Identifier: Apache-2.0

// The part of a communicator that all engines share: kernels of collectives, made of exchanges.
#ifndef COTAN_RUNTIME_DISTRIBUTED_GROUP_COMMUNICATOR_H_
#define COTAN_RUNTIME_DISTRIBUTED_GROUP_COMMUNICATOR_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/communicator.h"
#include "kernels/api/device.h"
#include "runtime/distributed/bucket.h"
#include "runtime/distributed/collective_checks.h"
#include "runtime/distributed/exchange.h"

namespace cotan {

// The exchanges that were started and not waited for yet, in order.
class StartedExchanges {
 public:
  // Makes room for one more, so that Start() allocates nothing.
  void Reserve() { started_.reserve(++reserved_); }
  // FailedPrecondition: the exchange is one of them, because a call failed before it waited.
  absl::Status CheckIsFree(const Exchange& exchange) const;
  // Starts the exchange. Errors of Exchange::Start().
  absl::Status Start(Exchange& exchange);
  // Waits for all of them. Returns the first error of Exchange::Wait().
  absl::Status WaitForAll();
  // Forgets an exchange that is about to be destroyed.
  void Forget(const Exchange& exchange);

 private:
  std::vector<Exchange*> started_;
  size_t reserved_ = 0;
};

// A communicator over an engine: the derived class. Not thread-safe.
class GroupCommunicator : public Communicator {
 public:
  absl::Status CheckProgram(const serialization::Artifact& artifact, const Device& device) final;
  absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) final;

  // Returns the bytes that each rank gives, as many as this one, in the order of the ranks. All ranks call it at the
  // same point. Errors of Exchange::Wait().
  virtual absl::StatusOr<std::vector<std::string>> Gather(absl::string_view bytes) = 0;
  // Returns OK if no rank is known to have ended before it said that it leaves; with `needs_all`, if none has left,
  // either. Does not wait. Thread-safe. Unavailable: as Exchange::Wait().
  virtual absl::Status CheckOthers(bool needs_all) = 0;

 protected:
  // Makes an exchange. ResourceExhausted: the host has not enough memory. Unimplemented: a shard is too large.
  virtual absl::StatusOr<std::unique_ptr<Exchange>> NewExchange(const ExchangeSpec& spec) = 0;

 private:
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareExchange(const KernelRequest& request);
  absl::StatusOr<std::unique_ptr<Kernel>> PrepareWait(const KernelRequest& request);

  StartedExchanges started_;
  UnpairedExchanges<Exchange> unpaired_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_GROUP_COMMUNICATOR_H_
