// SPDX-License-Identifier: Apache-2.0

// A group of one rank, without an engine: runs programs that were compiled for a group alone, as tools and evaluations
// do.
#ifndef COTAN_RUNTIME_DISTRIBUTED_SINGLE_RANK_H_
#define COTAN_RUNTIME_DISTRIBUTED_SINGLE_RANK_H_

#include <memory>
#include <string>
#include <vector>

#include "runtime/distributed/group_communicator.h"

namespace cotan {

// Each sum is the rank's own value. Not thread-safe.
class SingleRank final : public GroupCommunicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view bytes) override;
  absl::Status CheckOthers(bool needs_all) override;

 protected:
  absl::StatusOr<std::unique_ptr<Exchange>> NewExchange(const ExchangeSpec& spec) override;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_SINGLE_RANK_H_
