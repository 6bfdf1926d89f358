// SPDX-License-Identifier: Apache-2.0

// States that sessions share in memory: what no method writes stays in the pages of the program's file.
#ifndef COTAN_RUNTIME_SESSION_FROZEN_STATES_H_
#define COTAN_RUNTIME_SESSION_FROZEN_STATES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "runtime/execution/program.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// A smaller state is copied: it is written for less than a few pages are mapped.
inline constexpr uint64_t kMinFrozenBytes = 64 << 10;

// Returns the states, ascending, that may stay in the pages of the file: their content is a segment of at least
// kMinFrozenBytes, no method updates them, and they are neither constants, which are not copied at all, nor parameters
// whose gradients a method returns to the training program, which updates them. Of several states with one segment only
// the first is returned. The artifact has passed VerifyArtifact().
std::vector<int> FindFrozenStates(const serialization::Artifact& artifact);

// The memory of one session's frozen states: one mapping of the program's file, copied page by page when it is written.
class FrozenStates {
 public:
  // Maps the states of FindFrozenStates(). There are none if the program is not mapped from a file, or `device` is not
  // the host. ResourceExhausted: out of memory. Unavailable: another error of the system.
  static absl::StatusOr<FrozenStates> Map(const Program& program, const Device& device);

  bool contains(int state) const;
  // Returns the memory of a frozen state, which has its initial value and is aligned to 64 bytes. It may outlive this
  // object and the program.
  std::shared_ptr<Storage> StorageOf(int state, const Program& program, Device& device) const;

 private:
  std::vector<int> states_;  // ascending
  std::shared_ptr<char> memory_;
  const char* begin_ = nullptr;  // of the same bytes in the program's memory
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_FROZEN_STATES_H_
