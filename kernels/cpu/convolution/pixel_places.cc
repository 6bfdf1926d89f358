// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/pixel_places.h"

#include <algorithm>

#include "base/rounding.h"
#include "kernels/cpu/convolution/convolution_axis.h"

namespace cotan::cpu {
namespace {

constexpr size_t kSpatial = 3;
constexpr size_t kColumns = kSpatial;  // the last axis

// How the taps of one dimension divide into phases.
struct AxisTaps {
  std::vector<int64_t> remainders;  // of the phases
  std::vector<size_t> phases;       // of each tap
  std::vector<int64_t> shifts;      // of each tap, ascending
  int64_t origin = 0;               // of place 0, in strides
};

AxisTaps TapsOf(const ConvolutionAxis& axis) {
  AxisTaps taps;
  taps.origin = FloorDiv(axis.Origin(0), axis.stride);
  for (int64_t tap = 0; tap < axis.kernel; ++tap) {
    const int64_t offset = axis.Origin(0) + tap * axis.dilation;
    const int64_t quotient = FloorDiv(offset, axis.stride);
    const int64_t remainder = offset - quotient * axis.stride;
    const auto found = std::find(taps.remainders.begin(), taps.remainders.end(), remainder);
    taps.phases.push_back(static_cast<size_t>(found - taps.remainders.begin()));
    if (found == taps.remainders.end()) taps.remainders.push_back(remainder);
    taps.shifts.push_back(quotient - taps.origin);
  }
  return taps;
}

// Returns all taps as one.
AxisTaps JoinedTaps(const ConvolutionAxis& axis) {
  return {.remainders = {axis.Origin(0)}, .phases = {0}, .shifts = {0}, .origin = 0};
}

// The spatial dimensions: planes, rows, columns.
using Axes = std::array<ConvolutionAxis, kSpatial>;
using Taps = std::array<AxisTaps, kSpatial>;

// Returns the places of the source, but for the remainders of a phase, and sets those of the destination.
PlaceAxes SetAxes(const ConvolutionProblem& p, const Axes& axes, const Taps& taps, PixelPlaces& places) {
  PlaceAxes source;
  int64_t source_stride = p.source.layout.sizes[1];
  int64_t destination_stride = p.destination.layout.sizes[1];
  for (size_t d = kSpatial; d-- > 0;) {
    const int64_t extent = axes[d].destination + taps[d].shifts.back();
    source[d + 1] = {.extent = extent,
                     .size = axes[d].source,
                     .step = axes[d].stride,
                     .first = taps[d].origin * axes[d].stride,
                     .stride = source_stride};
    places.destination[d + 1] = {.extent = extent, .size = axes[d].destination, .stride = destination_stride};
    source_stride *= axes[d].source;
    destination_stride *= axes[d].destination;
  }
  const int64_t images = p.source.layout.sizes[0];
  source[0] = {.extent = images, .size = images, .stride = source_stride};
  places.destination[0] = {.extent = images, .size = images, .stride = destination_stride};
  return source;
}

void AddPhases(const PlaceAxes& source, const Taps& taps, PixelPlaces& places) {
  for (const int64_t plane : taps[0].remainders) {
    for (const int64_t row : taps[1].remainders) {
      for (const int64_t column : taps[2].remainders) {
        PlaceAxes& phase = places.phases.emplace_back(source);
        phase[1].first += plane;
        phase[2].first += row;
        phase[3].first += column;
      }
    }
  }
}

void AddTaps(const Taps& taps, PixelPlaces& places) {
  for (size_t plane = 0; plane < taps[0].shifts.size(); ++plane) {
    for (size_t row = 0; row < taps[1].shifts.size(); ++row) {
      for (size_t column = 0; column < taps[2].shifts.size(); ++column) {
        const size_t row_phase = taps[0].phases[plane] * taps[1].remainders.size() + taps[1].phases[row];
        const int64_t row_shift = taps[0].shifts[plane] * places.destination[2].extent + taps[1].shifts[row];
        const int64_t shift = row_shift * places.destination[3].extent + taps[2].shifts[column];
        places.taps.push_back({row_phase * taps[2].remainders.size() + taps[2].phases[column], shift});
        places.last_shift = std::max(places.last_shift, shift);
        places.has_odd_shifts = places.has_odd_shifts || shift % 2 != 0;
      }
    }
  }
}

}  // namespace

PixelPlaces PixelPlacesOf(const ConvolutionProblem& problem, bool joins_rows) {
  Axes axes;
  const size_t missing = kSpatial - problem.stride.size();
  for (size_t d = missing; d < kSpatial; ++d) axes[d] = ConvolutionAxisOf(problem, d - missing);
  Taps taps;
  for (size_t d = 0; d < kSpatial; ++d) {
    taps[d] = joins_rows && d + 1 == kSpatial ? JoinedTaps(axes[d]) : TapsOf(axes[d]);
  }
  PixelPlaces places;
  places.row_taps = joins_rows ? axes.back().kernel : 1;
  places.dilation = axes.back().dilation;
  AddPhases(SetAxes(problem, axes, taps, places), taps, places);
  AddTaps(taps, places);
  for (size_t d = 1; d <= kSpatial; ++d) {
    const PlaceAxis& axis = places.destination[d];
    places.image_places *= axis.extent;
    places.used_places = (places.used_places - 1) * axis.extent + axis.size;
  }
  return places;
}

PixelWalk::PixelWalk(const PlaceAxes& axes, const uint16_t* tensor, const uint16_t* zeros, int64_t at)
    : axes_(axes), tensor_(tensor), zeros_(zeros) {
  for (size_t d = kColumns; d > 0; --d) {
    at_[d] = at % axes[d].extent;
    at /= axes[d].extent;
  }
  at_[0] = at;
  const PlaceAxis& columns = axes[kColumns];
  first_ = -FloorDiv(columns.first, columns.step);
  last_ = -FloorDiv(columns.first - columns.size, columns.step);
  FindRow();
}

void PixelWalk::Fill(const uint16_t** pixels, int64_t count) {
  const PlaceAxis& columns = axes_[kColumns];
  while (count > 0) {
    const int64_t begin = at_[kColumns];
    const int64_t end = std::min(begin + count, columns.extent);
    const int64_t first = row_ == nullptr ? end : std::clamp(first_, begin, end);
    const int64_t last = std::clamp(last_, first, end);
    pixels = std::fill_n(pixels, first - begin, zeros_);
    for (int64_t i = first; i < last; ++i) *pixels++ = row_ + (columns.first + i * columns.step) * columns.stride;
    pixels = std::fill_n(pixels, end - last, zeros_);
    count -= end - begin;
    at_[kColumns] = end;
    if (end == columns.extent) GoToNextRow();
  }
}

void PixelWalk::FillWindows(int64_t taps, int64_t dilation, const uint16_t** windows, int64_t count, uint16_t* copies) {
  const PlaceAxis& columns = axes_[kColumns];
  for (int64_t i = 0; i < count; ++i) {
    const int64_t column = columns.first + at_[kColumns] * columns.step;
    if (row_ == nullptr) {
      windows[i] = zeros_;
    } else if (dilation == 1 && column >= 0 && column + taps <= columns.size) {
      windows[i] = row_ + column * columns.stride;
    } else {
      windows[i] = copies;
      for (int64_t tap = 0; tap < taps; ++tap, copies += columns.stride) {
        const int64_t at = column + tap * dilation;
        const bool has_pixel = at >= 0 && at < columns.size;
        std::copy_n(has_pixel ? row_ + at * columns.stride : zeros_, columns.stride, copies);
      }
    }
    if (++at_[kColumns] == columns.extent) GoToNextRow();
  }
}

void PixelWalk::GoToNextRow() {
  for (size_t d = kColumns; d > 0 && at_[d] == axes_[d].extent; --d) {
    at_[d] = 0;
    ++at_[d - 1];
  }
  FindRow();
}

void PixelWalk::FindRow() {
  row_ = tensor_;
  for (size_t d = 0; d < kColumns; ++d) {
    const int64_t index = axes_[d].first + at_[d] * axes_[d].step;
    if (index < 0 || index >= axes_[d].size) {
      row_ = nullptr;
      return;
    }
    row_ += index * axes_[d].stride;
  }
}

}  // namespace cotan::cpu
