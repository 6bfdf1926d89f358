// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/lanes.h"

#include <algorithm>
#include <utility>

namespace cotan::cuda {
namespace {

bool Overlap(const std::vector<MemoryRange>& a, const std::vector<MemoryRange>& b) {
  return std::any_of(a.begin(), a.end(), [&](const MemoryRange& x) {
    return std::any_of(b.begin(), b.end(), [&](const MemoryRange& y) { return x.begin < y.end && y.begin < x.end; });
  });
}

bool NeedOrder(const MemoryAccess& a, const MemoryAccess& b) {
  return Overlap(a.writes, b.reads) || Overlap(a.writes, b.writes) || Overlap(a.reads, b.writes);
}

}  // namespace

Lanes::~Lanes() {
  for (driver::CUevent event : events_) static_cast<void>(driver_.cuEventDestroy_v2(event));
  for (size_t i = 1; i < kLanes; ++i) {
    if (streams_[i] != nullptr) static_cast<void>(driver_.cuStreamDestroy_v2(streams_[i]));
  }
}

absl::Status Lanes::MakeStreams() {
  for (size_t i = 1; i < kLanes; ++i) {
    if (streams_[i] != nullptr) continue;
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamCreate(&streams_[i], driver::CU_STREAM_NON_BLOCKING));
  }
  return absl::OkStatus();
}

absl::Status Lanes::EventAt(size_t index, driver::CUevent& event) {
  if (index == events_.size()) {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_,
                                      cuEventCreate(&events_.emplace_back(nullptr), driver::CU_EVENT_DISABLE_TIMING));
  }
  event = events_[index];
  return absl::OkStatus();
}

absl::Status Lanes::Begin() {
  End();
  COTAN_RETURN_IF_ERROR(MakeStreams());
  driver::CUevent start = nullptr;
  COTAN_RETURN_IF_ERROR(EventAt(0, start));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventRecord(start, streams_[0]));
  is_active_ = true;
  joined_[0] = true;
  return absl::OkStatus();
}

void Lanes::End() {
  pieces_.clear();
  last_.fill(kNone);
  joined_.fill(false);
  is_active_ = false;
  lane_ = 0;
}

std::vector<int> Lanes::FindDependences(Piece& piece) const {
  const size_t count = pieces_.size();
  piece.before.assign(count, false);
  std::vector<int> direct;
  for (size_t i = count; i-- > 0;) {
    if (piece.before[i] || !NeedOrder(pieces_[i].access, piece.access)) continue;
    direct.push_back(static_cast<int>(i));
    piece.before[i] = true;
    const std::vector<bool>& earlier = pieces_[i].before;
    for (size_t j = 0; j < earlier.size(); ++j) piece.before[j] = piece.before[j] || earlier[j];
  }
  return direct;
}

bool Lanes::IsBefore(int earlier, int later) const {
  return earlier == later ||
         (earlier < later && pieces_[static_cast<size_t>(later)].before[static_cast<size_t>(earlier)]);
}

int Lanes::ChooseLane(const Piece& piece) const {
  int best = kNone;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int last = last_[static_cast<size_t>(lane)];
    if (last != kNone && !piece.before[static_cast<size_t>(last)]) continue;
    if (best == kNone || last > last_[static_cast<size_t>(best)]) best = lane;
  }
  if (best != kNone) return best;
  // All lanes have other work: the piece comes after the oldest of it.
  return static_cast<int>(std::min_element(last_.begin(), last_.end()) - last_.begin());
}

absl::Status Lanes::BeginPiece(const MemoryAccess& access, bool& follows_one) {
  Piece piece{.access = access};
  const std::vector<int> direct = FindDependences(piece);
  lane_ = ChooseLane(piece);
  piece.lane = lane_;
  int& last = last_[static_cast<size_t>(lane_)];
  bool& joined = joined_[static_cast<size_t>(lane_)];
  std::vector<size_t> waits;
  for (const int other : direct) {
    if (last == kNone || !IsBefore(other, last)) waits.push_back(static_cast<size_t>(other) + 1);
  }
  if (waits.empty() && !joined) waits.push_back(0);
  for (const size_t index : waits) {
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuStreamWaitEvent(stream(), events_[index], 0));
  }
  joined = true;
  follows_one = waits.empty();
  if (last != kNone) {
    piece.before[static_cast<size_t>(last)] = true;
    const std::vector<bool>& earlier = pieces_[static_cast<size_t>(last)].before;
    for (size_t j = 0; j < earlier.size(); ++j) piece.before[j] = piece.before[j] || earlier[j];
  }
  last = static_cast<int>(pieces_.size());
  pieces_.push_back(std::move(piece));
  return absl::OkStatus();
}

absl::Status Lanes::EndPiece() {
  driver::CUevent event = nullptr;
  COTAN_RETURN_IF_ERROR(EventAt(pieces_.size(), event));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuEventRecord(event, stream()));
  lane_ = 0;
  return absl::OkStatus();
}

absl::Status Lanes::Join() {
  for (size_t lane = 1; lane < kLanes; ++lane) {
    if (last_[lane] == kNone) continue;
    COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_,
                                      cuStreamWaitEvent(streams_[0], events_[static_cast<size_t>(last_[lane]) + 1], 0));
  }
  return absl::OkStatus();
}

}  // namespace cotan::cuda
