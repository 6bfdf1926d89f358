// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/frozen_states.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
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

absl::string_view BytesOf(int state, const Program& program) { return program.segment(program.state(state).segment()); }

// Returns whether `next`, which comes after `bytes`, is in one mapping with them. A mapping has little more than its
// states: a strict limit of memory counts all of it. But a process has a limited number of mappings.
bool AreNeighbours(absl::string_view bytes, absl::string_view next) {
  constexpr std::ptrdiff_t kMaxGapBytes = 1 << 20;
  return next.data() - (bytes.data() + bytes.size()) <= kMaxGapBytes;
}

absl::Status MappingError(const absl::Status& status, const Program& program, int first) {
  return absl::Status(status.code(), absl::StrCat("program '", program.name(), "', frozen states from '",
                                                  program.state(first).name(), "' on: ", status.message(),
                                                  "; raise the limit of memory, or load the program with LoadBytes()"));
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
  if (!program.is_mapped() || &device != &HostDevice()) return frozen;
  std::vector<int> states = FindFrozenStates(program.artifact());
  std::sort(states.begin(), states.end(),
            [&program](int a, int b) { return program.state(a).segment() < program.state(b).segment(); });
  for (size_t begin = 0, end = 0; begin < states.size(); begin = end) {
    end = begin + 1;
    while (end < states.size() && AreNeighbours(BytesOf(states[end - 1], program), BytesOf(states[end], program))) {
      ++end;
    }
    COTAN_RETURN_IF_ERROR(frozen.MapNeighbours(program, absl::MakeConstSpan(states).subspan(begin, end - begin)));
  }
  return frozen;
}

absl::Status FrozenStates::MapNeighbours(const Program& program, absl::Span<const int> states) {
  // They were read when the file was checked. Released before they are mapped, they are not counted twice.
  for (const int state : states) program.ReleaseSegment(program.state(state).segment());
  const int first = states.front();
  const absl::StatusOr<std::shared_ptr<char>> mapped =
      program.CopyOnWrite(program.state(first).segment(), program.state(states.back()).segment());
  if (!mapped.ok()) return MappingError(mapped.status(), program, first);
  for (const int state : states) {
    const auto offset = BytesOf(state, program).data() - BytesOf(first, program).data();
    memory_.emplace(state, std::shared_ptr<char>(*mapped, mapped->get() + offset));
  }
  return absl::OkStatus();
}

std::shared_ptr<Storage> FrozenStates::StorageOf(int state, const Program& program, Device& device) const {
  const std::shared_ptr<char> memory = memory_.find(state)->second;
  auto part = Storage::Borrow(device, memory.get(), BytesOf(state, program).size());
  Storage* const storage = part.get();
  return std::shared_ptr<Storage>(storage, [memory, part = std::move(part)](Storage*) {});
}

}  // namespace cotan
