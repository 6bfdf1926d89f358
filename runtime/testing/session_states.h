// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_RUNTIME_TESTING_SESSION_STATES_H_
#define COTAN_RUNTIME_TESTING_SESSION_STATES_H_

#include <string>

#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"

namespace cotan::testing {

// Returns the row-major bytes of all states, one after another. Ends the process if a state cannot be read.
inline std::string StateBytes(const Session& session) {
  std::string bytes;
  for (const auto& state : session.program().artifact().states()) {
    const Tensor value = *session.State(state.name());
    bytes.append(static_cast<const char*>(value.address()), value.storage()->bytes());
  }
  return bytes;
}

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_SESSION_STATES_H_
