// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/window_parts.h"

#include <algorithm>

#include "base/rounding.h"

namespace cotan::cpu {
namespace {

constexpr int64_t kBlockFloats = 48 * 1024;
constexpr int64_t kMinBlockWindows = 96;  // Packing the other matrix of the product pays only for that many.
constexpr int64_t kMaxBlockWindows = 240;

// Returns the dimension with each group of `taps` taps.
std::vector<WindowAxis> CutTaps(const WindowAxis& axis, int64_t taps) {
  std::vector<WindowAxis> parts;
  const auto count = static_cast<int64_t>(axis.offsets.size());
  for (int64_t tap = 0; tap < count; tap += taps) {
    parts.push_back(axis);
    parts.back().offsets.assign(axis.offsets.begin() + tap, axis.offsets.begin() + std::min(tap + taps, count));
  }
  return parts;
}

}  // namespace

WindowParts::WindowParts(int64_t channels, const WindowAxis& rows, const WindowAxis& columns, int64_t row_taps,
                         int64_t column_taps) {
  const std::vector<WindowAxis> column_parts = CutTaps(columns, column_taps);
  for (const WindowAxis& row : CutTaps(rows, row_taps)) {
    for (const WindowAxis& column : column_parts) parts_.emplace_back(channels, row, column);
  }
}

int64_t WindowParts::BlockWindows(int64_t count) const {
  const int64_t most = std::clamp(kBlockFloats / Floats(), kMinBlockWindows, kMaxBlockWindows);
  const int64_t blocks = std::max<int64_t>(1, (count + most / 2) / most);
  const int64_t windows = CeilDiv(count, blocks);
  return blocks == 1 ? windows : RoundUp(windows, kBlockMultiple);
}

}  // namespace cotan::cpu
