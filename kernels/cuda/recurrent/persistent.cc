// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/recurrent/persistent.h"

#include <algorithm>

#include "kernels/cuda/copy/kernel_text.h"

namespace cotan::cuda::recurrent {
namespace {

constexpr int64_t kVectorBytes = 16;
constexpr int64_t kRegistersOfProcessor = 65536;
constexpr int64_t kRegistersOfThread = 255;
constexpr int64_t kOtherRegisters = 36;
// Where threads have a part of their weights only.
constexpr int64_t kConditionRegisters = 20;
// Their registers are free while the threads wait.
constexpr int64_t kEarlyVectors = 4;
constexpr int64_t kMaxUnits = 4;
constexpr int64_t kMaxLanes = 16;
constexpr int64_t kMaxRows = 8;
constexpr int64_t kMaxThreads = 512;

// Returns the registers of a thread that do not hold weights: sums, factors, states, addresses.
int64_t OtherRegisters(const PersistentSizes& sizes, int64_t units, int64_t lanes) {
  const int64_t words = sizes.dtype == DType::kFloat64 ? 2 : 1;
  const int64_t items = units * sizes.entries;
  const int64_t sums = items * sizes.unit_rows, states = std::max<int64_t>(1, items / lanes) * 14;
  const int64_t factors = 8 * sizes.entries;
  const bool converts = sizes.dtype == DType::kFloat16 || sizes.dtype == DType::kBFloat16;
  return kOtherRegisters + words * (sums + states) + factors + (converts ? 8 : 0) + (words > 1 ? 16 : 0);
}

// Returns the estimated cycles of a time step that depend on how the threads share the work. Its parts overlap partly.
int64_t Cycles(const PersistentSizes& sizes, const Persistent& p) {
  const int64_t bytes = sizes.dtype == DType::kFloat64 ? 8 : 4;
  const int64_t warps = CeilDiv(p.threads, 32);
  const int64_t chunks = p.vectors / (p.units * sizes.unit_rows);
  const int64_t multiplications = CeilDiv(warps, 4) * p.vectors * (kVectorBytes / bytes) * sizes.entries * (bytes / 4);
  // Vectors of a warp take four cycles; factors, which groups of lanes share, as many as their lanes need.
  const int64_t weights = warps * (p.vectors - p.registers) * 4;
  const int64_t factors = warps * chunks * sizes.entries * CeilDiv(p.lanes, 8);
  int64_t exchanged = 0;
  for (int64_t items = p.units * sizes.entries, lanes = p.lanes; lanes > 1; lanes /= 2) {
    items = CeilDiv(items, 2);
    exchanged += items * sizes.unit_rows;
  }
  const int64_t shared = weights + factors + exchanged * warps * (bytes / 4);
  return std::max(multiplications, shared) + std::min(multiplications, shared) / 4;
}

// Returns the layout for these units and lanes, or nullopt if the weights do not fit.
std::optional<Persistent> With(const PersistentSizes& sizes, int64_t units, int64_t lanes, int64_t shared_limit) {
  const int64_t bytes = sizes.dtype == DType::kFloat64 ? 8 : 4;
  const int64_t stride = lanes * (kVectorBytes / bytes), chunks = CeilDiv(sizes.depth, stride);
  const int64_t rows = units * sizes.unit_rows;
  Persistent p = {.units = units, .lanes = lanes};
  p.threads = CeilDiv(CeilDiv(sizes.hidden, units) * lanes, 32) * 32;
  if (p.threads > kMaxThreads) return std::nullopt;
  p.vectors = chunks * rows;
  const int64_t registers = std::min(kRegistersOfThread, kRegistersOfProcessor / CeilDiv(p.threads, 128) / 128 / 8 * 8);
  // Vectors that are loaded together are kept together.
  const int64_t group = sizes.unit_rows == 1 ? units : 1;
  const bool has_partial = sizes.depth % stride != 0 || sizes.hidden / units * lanes != p.threads;
  const int64_t others = OtherRegisters(sizes, units, lanes) + (has_partial ? kConditionRegisters : 0);
  const int64_t held = (registers - others) / 4 / group * group;
  if (held <= 0) return std::nullopt;
  p.registers = std::min(p.vectors, held);
  p.early = std::min(p.vectors - p.registers, kEarlyVectors / group * group);
  p.shared_bytes = (p.vectors - p.registers) * p.threads * kVectorBytes + 2 * sizes.entries * chunks * stride * bytes;
  if (p.shared_bytes > shared_limit) return std::nullopt;
  return p;
}

}  // namespace

std::optional<Persistent> PersistentFor(const PersistentSizes& sizes, int64_t shared_bytes) {
  std::optional<Persistent> best;
  for (int64_t units = 1; units <= kMaxUnits && units * sizes.unit_rows <= kMaxRows; units *= 2) {
    for (int64_t lanes = 2; lanes <= kMaxLanes; lanes *= 2) {
      const std::optional<Persistent> p = With(sizes, units, lanes, shared_bytes);
      if (p.has_value() && (!best.has_value() || Cycles(sizes, *p) < Cycles(sizes, *best))) best = p;
    }
  }
  return best;
}

}  // namespace cotan::cuda::recurrent
