// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/window_tiling.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"

namespace cotan::cuda {
namespace {

// A block may have this much shared memory on all GPUs since sm_80.
constexpr int64_t kMaxSharedBytes = 99 << 10;
constexpr int64_t kMaxThreads = 512;
constexpr int64_t kMinThreads = 64;
constexpr int64_t kWarp = 32;
// Registers of a thread for sums and operands; the kernels need some 40 more.
constexpr int64_t kMaxValues = 84;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return CeilDiv(a, b) * b; }

// The sizes of a patch, as class Box in convolution_patch.cuh has them.
struct Patch {
  Patch(const WindowGeometry& geometry, const WindowBox& box) {
    const auto move = [&](size_t d) { return geometry.taps[d] == 1 ? 1 : geometry.stride[d]; };
    const auto extent = [&](size_t d, int64_t count) {
      return (count - 1) * move(d) + (geometry.taps[d] - 1) * geometry.dilation[d] + 1;
    };
    const int64_t width = extent(1, box.columns);
    plane = box.images * extent(0, box.rows) * (width + (width - 1) / (box.pixels * move(1)));
    window = extent(1, box.pixels);
  }
  int64_t plane;   // vectors of a plane
  int64_t window;  // vectors that a thread loads
};

int64_t NumBoxes(const WindowGeometry& geometry, const WindowBox& box) {
  return CeilDiv(geometry.images, box.images) * CeilDiv(geometry.result[0], box.rows) *
         CeilDiv(geometry.result[1], box.columns);
}

int64_t NumGroups(const WindowBox& box) { return box.images * box.rows * (box.columns / box.pixels); }

std::string BoxText(const WindowBox& box) {
  return absl::StrCat(box.images, ", ", box.rows, ", ", box.columns, ", ", box.pixels);
}

int64_t ElementBytes(const WindowGeometry& geometry) { return static_cast<int64_t>(ByteSize(geometry.dtype)); }

}  // namespace

std::string WindowTiling::Text() const {
  return absl::StrCat(BoxText(box), ", ", tile_channels, ", ", thread_channels, ", ", vector, ", ", slices, ", ",
                      slice_vectors, ", ", stages);
}

int64_t WindowTiling::NumThreads() const { return NumGroups(box) * (tile_channels / thread_channels) * slices; }

int64_t WindowTiling::NumBlocks(const WindowGeometry& geometry) const {
  return NumBoxes(geometry, box) * CeilDiv(geometry.channels, tile_channels);
}

int64_t WindowTiling::SharedBytes(const WindowGeometry& geometry) const {
  const int64_t planes = slices * slice_vectors;
  const int64_t stage = RoundUp(planes * Patch(geometry, box).plane * vector, 4) +
                        RoundUp(planes * vector * geometry.NumTaps() * (tile_channels + 4), 4);
  const int64_t exchanged = slices == 1 ? 0 : NumThreads() * box.pixels * thread_channels;
  return std::max(stages * stage, exchanged) * ElementBytes(geometry);
}

std::string WeightTiling::Text() const {
  return absl::StrCat(BoxText(box), ", ", tile_channels, ", ", thread_channels, ", ", tile_sources, ", ", vector, ", ",
                      slices, ", ", stages, ", ", splits);
}

int64_t WeightTiling::NumThreads(const WindowGeometry& geometry) const {
  return tile_channels / thread_channels * tile_sources * geometry.taps[0] * slices;
}

int64_t WeightTiling::NumTiles(const WindowGeometry& geometry) const {
  return CeilDiv(geometry.channels, tile_channels) * CeilDiv(geometry.source_channels, tile_sources * vector);
}

int64_t WeightTiling::SharedBytes(const WindowGeometry& geometry) const {
  const int64_t stage = RoundUp(tile_sources * Patch(geometry, box).plane * vector, 4) +
                        RoundUp(box.images * box.rows * box.columns * tile_channels, 4);
  const int64_t exchanged = NumThreads(geometry) * geometry.taps[1] * thread_channels * vector;
  return std::max(stages * stage, exchanged) * ElementBytes(geometry);
}

int64_t WeightTiling::NumPartialElements(const WindowGeometry& geometry) const {
  if (splits == 1) return 0;
  return NumTiles(geometry) * splits * NumThreads(geometry) / slices * geometry.taps[1] * thread_channels * vector;
}

std::optional<WindowTiling> ChooseWindowTiling(const std::vector<WindowGeometry>& parts) {
  const WindowGeometry& g = parts[0];
  WindowTiling t;
  t.box.pixels = std::min<int64_t>(g.result[1], 4);
  t.box.columns = RoundUp(std::min<int64_t>(g.result[1], 16), t.box.pixels);
  t.box.rows = std::min<int64_t>(g.result[0], 4);
  t.tile_channels = std::min<int64_t>(RoundUp(g.channels, 4), 16);
  t.thread_channels = 4;
  t.vector = std::min<int64_t>(4, g.source_channels == 0 ? 4 : g.source_channels == 3 ? 1 : g.source_channels);
  if (t.vector == 3) t.vector = 1;
  t.slices = 2;
  for (const auto& p : parts) if (t.SharedBytes(p) > kMaxSharedBytes) return std::nullopt;
  return t;
}

std::optional<WeightTiling> ChooseWeightTiling(const WindowGeometry& g) {
  WeightTiling t;
  t.box.pixels = std::min<int64_t>(g.result[1], 4);
  t.box.columns = RoundUp(std::min<int64_t>(g.result[1], 16), t.box.pixels);
  t.box.rows = std::min<int64_t>(g.result[0], 4);
  t.tile_channels = std::min<int64_t>(RoundUp(g.channels, 4), 8);
  t.thread_channels = 4;
  t.vector = std::min<int64_t>(4, g.source_channels);
  if (t.vector == 3) t.vector = 1;
  t.tile_sources = 2;
  t.slices = 4;
  t.splits = 2;
  if (t.SharedBytes(g) > kMaxSharedBytes) return std::nullopt;
  return t;
}

}  // namespace cotan::cuda
