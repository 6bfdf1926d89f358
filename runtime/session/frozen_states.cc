// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/frozen_states.h"

#include <algorithm>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::State;
using serialization::StateUpdate;

// Returns for each state whether a method updates it, or the training program does, by gradients of a method.
std::vector<bool> FindWrittenStates(const Artifact& artifact) {
  std::vector<bool> written(static_cast<size_t>(artifact.states_size()), false);
  bool has_backward = false;
  for (const Method& method : artifact.methods()) {
    for (const StateUpdate& update : method.state_updates()) written[update.state()] = true;
    has_backward = has_backward || !method.backward_method().empty();
  }
  for (int i = 0; i < artifact.states_size(); ++i) {
    if (has_backward && artifact.states(i).requires_grad()) written[static_cast<size_t>(i)] = true;
  }
  return written;
}

}  // namespace

std::vector<int> FindFrozenStates(const Artifact& artifact) {
  const std::vector<bool> written = FindWrittenStates(artifact);
  std::vector<bool> taken(static_cast<size_t>(artifact.segments_size()), false);
  std::vector<int> frozen;
  for (int i = 0; i < artifact.states_size(); ++i) {
    const State& state = artifact.states(i);
    if (written[static_cast<size_t>(i)] || state.role() == State::CONSTANT || !state.has_segment()) continue;
    const bool is_large = artifact.segments(static_cast<int>(state.segment())).size() >= kMinFrozenBytes;
    if (!is_large || taken[state.segment()]) continue;
    taken[state.segment()] = true;
    frozen.push_back(i);
  }
  return frozen;
}

absl::StatusOr<FrozenStates> FrozenStates::Map(const Program& program, const Device& device) {
  FrozenStates frozen;
  if (!program.is_mapped() || device.type() != DeviceType::kCpu) return frozen;
  frozen.states_ = FindFrozenStates(program.artifact());
  if (frozen.states_.empty()) return frozen;
  const auto segment = [&program](int state) { return program.state(state).segment(); };
  const auto [first, last] = std::minmax_element(frozen.states_.begin(), frozen.states_.end(),
                                                 [&](int a, int b) { return segment(a) < segment(b); });
  COTAN_ASSIGN_OR_RETURN(frozen.memory_, program.CopyOnWrite(segment(*first), segment(*last)));
  frozen.begin_ = program.segment(segment(*first)).data();
  return frozen;
}

bool FrozenStates::contains(int state) const { return std::binary_search(states_.begin(), states_.end(), state); }

std::shared_ptr<Storage> FrozenStates::StorageOf(int state, const Program& program, Device& device) const {
  const absl::string_view bytes = program.segment(program.state(state).segment());
  auto part = Storage::Borrow(device, memory_.get() + (bytes.data() - begin_), bytes.size());
  Storage* const storage = part.get();
  return std::shared_ptr<Storage>(storage, [memory = memory_, part = std::move(part)](Storage*) {});
}

}  // namespace cotan
