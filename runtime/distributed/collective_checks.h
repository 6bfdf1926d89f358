// SPDX-License-Identifier: Apache-2.0

// Checks that communicators of all devices make before they prepare a collective.
#ifndef COTAN_RUNTIME_DISTRIBUTED_COLLECTIVE_CHECKS_H_
#define COTAN_RUNTIME_DISTRIBUTED_COLLECTIVE_CHECKS_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/api/kernel.h"
#include "runtime/distributed/exchange.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns OK if the op was compiled for `size` ranks, or for any number. FailedPrecondition: it was not.
absl::Status CheckRanks(const serialization::Collective& op, int size);

// Returns the exchange of an ALL_REDUCE, REDUCE_SCATTER or ALL_GATHER of `size` ranks. With `starts`, the types of its
// results are those of its WAIT, which CheckWait() checks.
// InvalidArgument: the op does not allow these operands. Unimplemented: the function or the dtype is unknown.
absl::StatusOr<ExchangeSpec> CheckExchange(const KernelRequest& request, int size);

// Returns OK if the results of a WAIT are those of an exchange with `inputs`. Errors as CheckExchange().
absl::Status CheckWait(const KernelRequest& request, const ExchangeSpec& spec, absl::Span<const TensorSpec> inputs,
                       int size);

// Returns the elements of a shard of a SHARD. Errors as CheckExchange().
absl::StatusOr<int64_t> CheckShard(const KernelRequest& request, int size);

// The exchanges of an engine, `E`, that were prepared and whose WAIT was not yet, in order.
template <typename E>
class UnpairedExchanges {
 public:
  void Add(const std::shared_ptr<E>& exchange, const ExchangeSpec& spec, absl::Span<const TensorSpec> inputs) {
    unpaired_.push_back({exchange, spec, std::vector<TensorSpec>(inputs.begin(), inputs.end())});
  }

  // Returns the exchange for which a WAIT of `size` ranks waits.
  // InvalidArgument: the program has not started one. Errors of CheckWait().
  absl::StatusOr<std::shared_ptr<E>> Take(const KernelRequest& wait, int size) {
    // Plans that could not be made left theirs.
    while (!unpaired_.empty() && unpaired_.front().exchange.expired()) unpaired_.pop_front();
    if (unpaired_.empty())
      return absl::InvalidArgumentError("the program waits for a collective that it did not start");
    const Unpaired started = std::move(unpaired_.front());
    unpaired_.pop_front();
    COTAN_RETURN_IF_ERROR(CheckWait(wait, started.spec, started.inputs, size));
    return started.exchange.lock();
  }

 private:
  struct Unpaired {
    std::weak_ptr<E> exchange;
    ExchangeSpec spec;
    std::vector<TensorSpec> inputs;
  };

  std::deque<Unpaired> unpaired_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_COLLECTIVE_CHECKS_H_
