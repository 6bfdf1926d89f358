// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "kernels/cpu/simd/simd.h"

namespace cotan::cpu {
namespace {

constexpr int64_t kLanes = 16;  // floats that are copied at once

void FillPieces(int64_t pieces, int64_t count, float* to, int64_t to_step) {
  for (int64_t i = 0; i < pieces; ++i, to += to_step) std::fill_n(to, count, 0.0F);
}

}  // namespace

COTAN_SIMD_VERSIONS void CopyPieces(const float* from, int64_t from_step, int64_t pieces, int64_t count, float* to,
                                    int64_t to_step) {
  for (int64_t i = 0; i < pieces; ++i, from += from_step, to += to_step) {
    if (count < kLanes) {
      for (int64_t c = 0; c < count; ++c) to[c] = from[c];
      continue;
    }
    for (int64_t c = 0; c + kLanes <= count; c += kLanes) std::memcpy(to + c, from + c, kLanes * sizeof(float));
    // The rest, with some floats that have been copied.
    std::memcpy(to + count - kLanes, from + count - kLanes, kLanes * sizeof(float));
  }
}

Windows::Windows(int64_t channels, WindowAxis rows, WindowAxis columns)
    : channels_(channels), rows_(std::move(rows)), columns_(std::move(columns)) {
  for (const int64_t offset : columns_.offsets) {
    if (!runs_.empty() && offset == runs_.back().offset + runs_.back().taps) {
      ++runs_.back().taps;
    } else {
      runs_.push_back({offset, 1});
    }
  }
}

int64_t Windows::Floats() const {
  return static_cast<int64_t>(rows_.offsets.size() * columns_.offsets.size()) * channels_;
}

bool Windows::IsIdentity(const WindowAxis& axis) {
  return axis.positions == axis.size && axis.step == 1 && axis.offsets.size() == 1 && axis.offsets[0] == 0;
}

void Windows::Gather(const float* images, int64_t begin, int64_t end, float* matrix) const {
  const int64_t row_floats = columns_.size * channels_;
  const int64_t tap_floats = static_cast<int64_t>(columns_.offsets.size()) * channels_;
  while (begin < end) {
    const int64_t column = begin % columns_.positions;
    const int64_t row = begin / columns_.positions % rows_.positions;
    const float* const image = images + begin / Positions() * rows_.size * row_floats;
    const int64_t count = std::min(columns_.positions - column, end - begin);
    float* to = matrix;
    for (const int64_t offset : rows_.offsets) {
      const int64_t y = row * rows_.step + offset;
      if (y < 0 || y >= rows_.size) {
        FillPieces(count, tap_floats, to, Floats());
      } else {
        GatherRow(image + y * row_floats, column, column + count, to);
      }
      to += tap_floats;
    }
    matrix += count * Floats();
    begin += count;
  }
}

// Copies what windows at columns [begin, end) hold of one row of an image.
void Windows::GatherRow(const float* row, int64_t begin, int64_t end, float* to) const {
  const int64_t window = Floats();
  const int64_t step = columns_.step * channels_;
  for (const Run& run : runs_) {
    const int64_t floats = run.taps * channels_;
    // Columns at which all taps are inside.
    const int64_t low = run.offset < 0 ? (-run.offset + columns_.step - 1) / columns_.step : 0;
    const int64_t room = columns_.size - run.offset - run.taps;
    const int64_t high = room < 0 ? 0 : room / columns_.step + 1;
    const int64_t first = std::clamp(low, begin, end);
    const int64_t last = std::clamp(high, first, end);
    const auto at_border = [&](int64_t column) {
      float* const piece = to + (column - begin) * window;
      const int64_t x = column * columns_.step + run.offset;
      const int64_t inside = std::clamp<int64_t>(-x, 0, run.taps);
      const int64_t outside = std::clamp<int64_t>(columns_.size - x, inside, run.taps);
      std::fill_n(piece, inside * channels_, 0.0F);
      if (inside < outside) {
        std::copy_n(row + (x + inside) * channels_, (outside - inside) * channels_, piece + inside * channels_);
      }
      std::fill_n(piece + outside * channels_, (run.taps - outside) * channels_, 0.0F);
    };
    for (int64_t column = begin; column < first; ++column) at_border(column);
    if (first < last) {
      CopyPieces(row + first * step + run.offset * channels_, step, last - first, floats, to + (first - begin) * window,
                 window);
    }
    for (int64_t column = last; column < end; ++column) at_border(column);
    to += floats;
  }
}

}  // namespace cotan::cpu
