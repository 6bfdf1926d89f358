// SPDX-License-Identifier: Apache-2.0

// Shuffles, votes, match and redux of WarpExecutor, and the functions of atomics.
#include <bit>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"
#include "kernels/cuda/sim/ptx/warp_executor.h"

namespace cotan::cuda::ptx {
namespace {

struct ShuffleSource {
  int lane;
  bool in_range;
};

// Follows the pseudo code of shfl.sync in the PTX ISA: `clamp` has the clamp in bits 0-4 and the
// mask of the segment in bits 8-12.
ShuffleSource FindShuffleSource(ShuffleMode mode, int lane, uint64_t distance, uint64_t clamp) {
  const auto b = static_cast<int>(distance & 31), limit = static_cast<int>(clamp & 31);
  const auto segment = static_cast<int>(clamp >> 8 & 31);
  const int max_lane = (lane & segment) | (limit & ~segment), min_lane = lane & segment;
  int source = lane;
  bool in_range = false;
  switch (mode) {
    case ShuffleMode::kUp:
      source = lane - b;
      in_range = source >= max_lane;
      break;
    case ShuffleMode::kDown:
      source = lane + b;
      in_range = source <= max_lane;
      break;
    case ShuffleMode::kButterfly:
      source = lane ^ b;
      in_range = source <= max_lane;
      break;
    case ShuffleMode::kIndex:
      source = min_lane | (b & ~segment);
      in_range = source <= max_lane;
      break;
  }
  return {in_range ? source : lane, in_range};
}

}  // namespace

uint64_t ApplyAtomic(const Operation& operation, uint64_t old, uint64_t operand, uint64_t compare) {
  const uint64_t mask = LowBits(operation.type.TotalBits());
  old &= mask;
  operand &= mask;
  switch (operation.atomic) {
    case AtomicFn::kExchange:
      return operand;
    case AtomicFn::kCompareAndSwap:
      return old == (compare & mask) ? operand : old;
    case AtomicFn::kIncrement:
      return old >= operand ? 0 : old + 1;
    case AtomicFn::kDecrement:
      return old == 0 || old > operand ? operand : old - 1;
    default: {
      const uint64_t sources[4] = {old, operand};
      return EvaluateScalar(operation.scalar, sources) & mask;
    }
  }
}

absl::Status WarpExecutor::Shuffle(Warp& warp, const Operation& operation, uint32_t mask) {
  uint64_t buffers[3][kWarpSize];
  const uint64_t* sources[3];  // Value, distance, clamp.
  for (int i = 0; i < 3; ++i) {
    sources[i] = Gather(warp, operation.sources[i], mask, buffers[i]);
    if (sources[i] == nullptr) return Undefined(warp, operation, operation.sources[i], mask);
  }
  uint64_t values[kWarpSize], in_range[kWarpSize];
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const ShuffleSource source = FindShuffleSource(operation.shuffle, lane, sources[1][lane], sources[2][lane]);
    if ((mask >> source.lane & 1) == 0) {
      return Fault(warp, operation, lane,
                   absl::FailedPreconditionError(absl::StrCat("reads lane ", source.lane, ", which is inactive")));
    }
    values[lane] = sources[0][source.lane];
    in_range[lane] = source.in_range ? 1 : 0;
  }
  WriteLanes(warp, operation.results[0], mask, values);
  if (operation.results.size() > 1) WriteLanes(warp, operation.results[1], mask, in_range);
  return absl::OkStatus();
}

absl::Status WarpExecutor::Vote(Warp& warp, const Operation& operation, uint32_t mask) {
  uint32_t ballot = 0;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    uint64_t predicate = 0;
    COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[0], lane, predicate));
    ballot |= static_cast<uint32_t>(predicate & 1) << lane;
  }
  uint64_t result = 0;
  switch (operation.vote) {
    case VoteMode::kAll:
      result = ballot == mask;
      break;
    case VoteMode::kAny:
      result = ballot != 0;
      break;
    case VoteMode::kUniform:
      result = ballot == mask || ballot == 0;
      break;
    case VoteMode::kBallot:
      result = ballot;
      break;
  }
  ForEachLane(mask, [&](int lane) { Write(warp, operation.results[0], lane, result); });
  return absl::OkStatus();
}

absl::Status WarpExecutor::MatchOrReduce(Warp& warp, const Operation& operation, uint32_t mask) {
  uint64_t values[kWarpSize] = {};
  std::optional<uint64_t> reduced;
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    COTAN_RETURN_IF_ERROR(Read(warp, operation, operation.sources[0], lane, values[lane]));
    if (operation.kind == OpKind::kMatch) continue;
    reduced = reduced.has_value() ? ApplyAtomic(operation, *reduced, values[lane], 0) : values[lane];
  }
  ForEachLane(mask, [&](int lane) {
    uint64_t result = reduced.value_or(0);
    if (operation.kind == OpKind::kMatch) {
      result = 0;
      ForEachLane(mask, [&](int other) { result |= uint64_t{values[other] == values[lane]} << other; });
    }
    Write(warp, operation.results[0], lane, result);
  });
  return absl::OkStatus();
}

}  // namespace cotan::cuda::ptx
