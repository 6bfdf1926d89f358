// SPDX-License-Identifier: Apache-2.0

// Streams on which independent pieces of work are captured.
#ifndef COTAN_KERNELS_CUDA_DEVICE_LANES_H_
#define COTAN_KERNELS_CUDA_DEVICE_LANES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/driver/driver_table.h"
#include "kernels/cuda/launch/library_call.h"

namespace cotan::cuda {

// The bytes [begin, end) of memory of the device, or pinned memory of the host.
struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// The memory that a piece of work accesses. Two pieces need an order if one writes what the other one accesses.
struct MemoryAccess {
  std::vector<MemoryRange> reads;
  std::vector<MemoryRange> writes;
};

// Makes the branches of a captured graph. Each piece of work, in the order of the program, gets a lane, which waits for
// the pieces that it needs an order with; so the graph has the order that the memory needs, and a little more, because
// lanes are few. Not thread-safe. The context is current in each call.
class Lanes {
 public:
  // Lane 0 is `main`, the others are made at first use.
  Lanes(const driver::DriverTable& driver, driver::CUstream main) : driver_(driver) { streams_[0] = main; }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  // The streams are idle.
  ~Lanes();

  // Begins a capture that has just begun on the main stream. Internal: the driver failed.
  absl::Status Begin();
  bool is_active() const { return is_active_; }

  // Begins a piece of work, which is queued on stream(). Sets `follows_one`: the first launch comes after no more than
  // one other, the last one of its stream. Errors as Begin().
  absl::Status BeginPiece(const MemoryAccess& access, bool& follows_one);
  absl::Status EndPiece();

  // Ends the capture's branches: the main stream waits for all lanes. Errors as Begin().
  absl::Status Join();
  // Forgets the capture, which was joined or has failed.
  void End();

  int lane() const { return lane_; }
  driver::CUstream stream() const { return streams_[static_cast<size_t>(lane_)]; }

 private:
  struct Piece {
    MemoryAccess access;
    int lane = 0;
    std::vector<bool> before = {};  // [piece]: ends before this one begins
  };
  static constexpr int kNone = -1;

  absl::Status MakeStreams();
  // Returns event number `index` of the capture.
  absl::Status EventAt(size_t index, driver::CUevent& event);
  // Adds to `piece` what it comes after, and returns those that nothing else of them comes after.
  std::vector<int> FindDependences(Piece& piece) const;
  // Returns whether piece `earlier` is `later`, or ends before `later` begins.
  bool IsBefore(int earlier, int later) const;
  // Returns the lane whose last piece the piece comes after anyway, the latest one if there are several.
  int ChooseLane(const Piece& piece) const;

  const driver::DriverTable& driver_;
  std::array<driver::CUstream, kLanes> streams_ = {};
  std::vector<driver::CUevent> events_;  // the start of the capture, then one per piece
  std::vector<Piece> pieces_;
  std::array<int, kLanes> last_ = {};     // piece of each lane, or kNone
  std::array<bool, kLanes> joined_ = {};  // the lane takes part in the capture
  bool is_active_ = false;
  int lane_ = 0;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_LANES_H_
