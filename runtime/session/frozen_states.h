// SPDX-License-Identifier: Apache-2.0

// States that sessions share in memory: what no method writes stays in the pages of the program's file.
#ifndef COTAN_RUNTIME_SESSION_FROZEN_STATES_H_
#define COTAN_RUNTIME_SESSION_FROZEN_STATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/device.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// A smaller state is copied: it is written for less than a few pages are mapped.
inline constexpr uint64_t kMinFrozenBytes = 64 << 10;

// Returns the states, ascending, that may stay in the pages of the file: their content is a segment of at least
// kMinFrozenBytes, no method updates them, and they are neither constants, which are not copied at all, nor, if a
// method has a backward, parameters that require gradients, which the training program updates. Of several states with
// one segment only the first is returned. The artifact has passed VerifyArtifact().
std::vector<int> FindFrozenStates(const serialization::Artifact& artifact);

// The memory of one session's frozen states: mappings of the program's file, copied page by page when they are written.
class FrozenStates {
 public:
  // Maps the states of FindFrozenStates(). There are none if the program is not mapped from a file, or `device` is not
  // HostDevice(): another device that works in the host's memory may limit or place it. The message of an error names
  // the program. ResourceExhausted: out of memory. Unavailable: the file cannot be read, or another error of the
  // system.
  static absl::StatusOr<FrozenStates> Map(const Program& program, const Device& device);

  bool contains(int state) const { return memory_.contains(state); }
  // Returns the memory of a frozen state, which has its initial value and is aligned to 64 bytes. It may outlive this
  // object and the program.
  std::shared_ptr<Storage> StorageOf(int state, const Program& program, Device& device) const;

 private:
  // Maps states, in the order of their segments, and what is between them.
  absl::Status MapNeighbours(const Program& program, absl::Span<const int> states);

  absl::flat_hash_map<int, std::shared_ptr<char>> memory_;  // by state
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_FROZEN_STATES_H_
