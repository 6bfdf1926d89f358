// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/window_tiling.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"

namespace cotan::cuda {
namespace {

// A block may have this much shared memory on all GPUs since sm_80.
constexpr int64_t kMaxSharedBytes = 99 << 10;
constexpr int64_t kMaxThreads = 512;
constexpr int64_t kWarp = 32;
// Registers of a thread for sums and operands; the kernels need some 40 more.
constexpr int64_t kMaxValues = 80;
constexpr int64_t kThreadChannels = 4;
constexpr int64_t kMaxBoxColumns = 64;
constexpr int64_t kMaxBoxRows = 32;
constexpr int64_t kMaxBoxImages = 8;
constexpr int64_t kMaxTileChannels = 64;
constexpr int64_t kMaxSliceVectors = 4;
constexpr int64_t kMaxTileSources = 8;
constexpr int64_t kMaxSlices = 64;
constexpr int64_t kMaxSplits = 128;
constexpr int64_t kMaxWaves = 4;

// The GPU for which tilings are chosen: an H100.
constexpr int64_t kProcessors = 132;
constexpr int64_t kLanes = 128;             // fused multiply-adds of a processor in a cycle
constexpr int64_t kProcessorThreads = 512;  // of 128 registers
constexpr int64_t kProcessorSharedBytes = 227 << 10;
constexpr int64_t kReservedSharedBytes = 1 << 10;  // of each block

// What work takes on it, in picoseconds, fitted to measurements of some 200 kernels (2026-11-26).
struct SharedCost {
  int64_t launch;
  int64_t product;   // a cycle in which all lanes multiply
  int64_t latency;   // such a cycle, divided by the number of warps
  int64_t load;      // values of a warp from shared memory
  int64_t vectors;   // a warp's copies of vectors, which go to neighbouring places
  int64_t exchange;  // sums of a warp between slices
  int64_t chunk;     // a chunk or box, after which the threads wait for each other
};
struct WindowCost : SharedCost {
  int64_t weights;  // a warp's copies of weights, which many blocks read
  int64_t store;    // a warp's vectors of the result
};
struct WeightCost : SharedCost {
  int64_t round;    // windows that 128 threads add
  int64_t split;    // to find the last block of a tile
  int64_t partial;  // 128 sums that the last block adds
};
constexpr WindowCost kWindowCost = {{1050, 404, 2254, 160, 15070, 2770, 246}, 1170, 2600};
constexpr WeightCost kWeightCost = {{2730, 31, 5800, 162, 8520, 2060, 50}, 20170, 390, 10640};

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
    if (plane % 4 == 0) ++plane;
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

// Returns sizes of boxes along a dimension of `size` in units of `unit`: each is the smallest for its number of boxes.
std::vector<int64_t> BoxSizes(int64_t size, int64_t unit, int64_t limit) {
  const int64_t units = CeilDiv(size, unit);
  std::vector<int64_t> sizes;
  for (int64_t boxes = 1; boxes <= units; ++boxes) {
    const int64_t one = CeilDiv(units, boxes) * unit;
    if (one <= limit && (sizes.empty() || sizes.back() != one)) sizes.push_back(one);
  }
  return sizes;
}

// Returns the boxes that may suit a result.
std::vector<WindowBox> CandidateBoxes(const WindowGeometry& geometry) {
  const int64_t height = geometry.result[0], width = geometry.result[1];
  std::vector<WindowBox> boxes;
  for (const int64_t pixels : {8, 7, 6, 5, 4, 3, 2, 1}) {
    const int64_t padded = RoundUp(width, pixels);
    if (padded * 8 > width * 9 && padded - width > 1) continue;
    for (const int64_t columns : BoxSizes(width, pixels, kMaxBoxColumns)) {
      for (const int64_t rows : BoxSizes(height, 1, kMaxBoxRows)) {
        for (int64_t images = 1; images <= std::min<int64_t>(geometry.images, kMaxBoxImages); images *= 2) {
          if (images > 1 && (rows != height || columns < width)) break;
          boxes.push_back({images, rows, columns, pixels});
        }
      }
    }
  }
  return boxes;
}

// Returns the channels of a vector: as many as the tensor has next to each other, or a channel of few.
int64_t VectorFor(int64_t channels) { return channels == 1 || channels == 3 ? 1 : channels == 2 ? 2 : 4; }

// Blocks of the busiest processor, and how many of them run at a time.
struct Load {
  Load(int64_t blocks, int64_t threads, int64_t shared_bytes) {
    most = CeilDiv(blocks, kProcessors);
    const int64_t by_threads = kProcessorThreads / threads;
    const int64_t by_memory = kProcessorSharedBytes / (shared_bytes + kReservedSharedBytes);
    resident = std::clamp<int64_t>(std::min(by_threads, by_memory), 1, most);
    waves = CeilDiv(most, resident);
  }
  int64_t most, resident, waves;
};

// Chooses among the tilings of a problem by estimates of their time.
class WindowSearch {
 public:
  explicit WindowSearch(const std::vector<WindowGeometry>& parts) : parts_(parts) {}

  std::optional<WindowTiling> Best() {
    // Fewer channels at a time for wide kernels, whose windows would not fit into registers.
    const int64_t vector = VectorFor(std::max<int64_t>(parts_[0].source_channels, 1));
    for (int64_t loaded = vector; loaded > 0 && !best_; loaded /= 2) TryLoaded(vector, loaded);
    return best_;
  }

 private:
  void TryLoaded(int64_t vector, int64_t loaded) {
    WindowTiling tiling;
    tiling.vector = vector;
    tiling.loaded = loaded;
    tiling.thread_channels = kThreadChannels;
    for (const WindowBox& box : CandidateBoxes(parts_[0])) {
      tiling.box = box;
      if (box.pixels * kThreadChannels + Patch(parts_[0], box).window * loaded > kMaxValues) continue;
      for (int64_t channels = kThreadChannels; channels <= kMaxTileChannels; channels *= 2) {
        if (channels >= 2 * parts_[0].channels && channels > kThreadChannels) break;
        tiling.tile_channels = channels;
        TrySlices(tiling);
      }
    }
  }

  void TrySlices(WindowTiling tiling) {
    const int64_t vectors = CeilDiv(std::max<int64_t>(parts_[0].source_channels, 1), tiling.vector);
    for (const int64_t slices : {1, 2, 3, 4, 8, 16}) {
      tiling.slices = slices;
      if (slices > vectors || tiling.NumThreads() > kMaxThreads) break;
      for (tiling.slice_vectors = 1; tiling.slice_vectors <= CeilDiv(vectors, slices); ++tiling.slice_vectors) {
        if (tiling.slice_vectors > kMaxSliceVectors) break;
        const std::optional<int64_t> cost = Estimate(tiling);
        if (!cost) break;
        if (best_ && *cost >= best_cost_) continue;
        best_ = tiling;
        best_cost_ = *cost;
      }
    }
  }

  // Returns the time in picoseconds. Nothing: a block needs more shared memory than there is.
  std::optional<int64_t> Estimate(const WindowTiling& tiling) const {
    const int64_t threads = tiling.NumThreads();
    const int64_t chunk = tiling.slices * tiling.slice_vectors * tiling.vector;
    int64_t blocks = 0, shared_bytes = 0, products = 0, loads = 0, vectors = 0, weights = 0, chunks_of_all = 0;
    for (const WindowGeometry& part : parts_) {
      const int64_t part_shared = tiling.SharedBytes(part);
      if (part_shared > kMaxSharedBytes) return std::nullopt;
      shared_bytes = std::max(shared_bytes, part_shared);
      const Patch patch(part, tiling.box);
      const int64_t part_blocks = tiling.NumBlocks(part);
      const int64_t chunks = CeilDiv(part.source_channels, chunk) * part_blocks;
      const int64_t values = tiling.slice_vectors * tiling.vector * threads;
      blocks += part_blocks;
      chunks_of_all += chunks;
      products += chunks * values * part.NumTaps() * tiling.box.pixels * tiling.thread_channels;
      loads += chunks * values * (part.taps[0] * patch.window + part.NumTaps() * tiling.thread_channels);
      const int64_t copied = part.source_vector % tiling.vector == 0 ? 1 : tiling.vector;
      vectors += chunks * chunk / tiling.vector * patch.plane * copied;
      weights += chunks * chunk * part.NumTaps() * tiling.tile_channels;
    }
    const Load load(blocks, threads, shared_bytes);
    // Of the busiest processor.
    const auto share = [&](int64_t of_all) { return of_all * load.most / blocks; };
    const int64_t warps = load.resident * threads / kWarp;
    const int64_t exchanged = tiling.slices == 1 ? 0 : load.most * threads * tiling.box.pixels * tiling.thread_channels;
    const int64_t stored =
        load.most * threads / tiling.slices * tiling.box.pixels * tiling.thread_channels / parts_[0].result_vector;
    const int64_t cycles = share(products) / kLanes;
    return kWindowCost.launch + cycles * kWindowCost.product + cycles * kWindowCost.latency / warps +
           share(loads) / kWarp * kWindowCost.load + share(vectors) / kWarp * kWindowCost.vectors +
           share(weights) / kWarp * kWindowCost.weights + exchanged / kWarp * kWindowCost.exchange +
           chunks_of_all * load.waves / blocks * kWindowCost.chunk + stored / kWarp * kWindowCost.store;
  }

  const std::vector<WindowGeometry>& parts_;
  std::optional<WindowTiling> best_;
  int64_t best_cost_ = 0;
};

class WeightSearch {
 public:
  explicit WeightSearch(const WindowGeometry& geometry) : geometry_(geometry) {}

  std::optional<WeightTiling> Best() {
    // Fewer channels a thread for wide kernels, whose sums would not fit into registers.
    for (int64_t vector = VectorFor(geometry_.source_channels); vector > 0 && !best_; vector /= 2) TryVector(vector);
    return best_;
  }

 private:
  void TryVector(int64_t vector) {
    WeightTiling tiling;
    tiling.vector = vector;
    tiling.thread_channels = kThreadChannels;
    for (const WindowBox& box : CandidateBoxes(geometry_)) {
      tiling.box = box;
      const int64_t sums = geometry_.taps[1] * kThreadChannels * vector;
      if (sums + Patch(geometry_, box).window * vector > kMaxValues) continue;
      for (int64_t channels = kThreadChannels; channels <= kMaxTileChannels; channels *= 2) {
        if (channels >= 2 * geometry_.channels && channels > kThreadChannels) break;
        tiling.tile_channels = channels;
        TrySources(tiling);
      }
    }
  }

  void TrySources(WeightTiling tiling) {
    const int64_t vectors = CeilDiv(geometry_.source_channels, tiling.vector);
    for (tiling.tile_sources = 1; tiling.tile_sources <= kMaxTileSources; ++tiling.tile_sources) {
      if (tiling.tile_sources > vectors) break;
      for (int64_t slices = 1; slices <= kMaxSlices; slices *= 2) {
        tiling.slices = slices;
        const int64_t threads = tiling.NumThreads(geometry_);
        if (threads > kMaxThreads || slices > 2 * NumGroups(tiling.box)) break;
        TrySplits(tiling);
      }
    }
  }

  void TrySplits(WeightTiling tiling) {
    const int64_t boxes = NumBoxes(geometry_, tiling.box);
    const int64_t tiles = tiling.NumTiles(geometry_);
    int64_t part_boxes = 0;
    // As many blocks as there are processors, or a few times as many.
    for (int64_t waves = 0; waves <= kMaxWaves; ++waves) {
      const int64_t splits = std::clamp<int64_t>(waves * kProcessors / tiles, 1, std::min(boxes, kMaxSplits));
      if (CeilDiv(boxes, splits) == part_boxes) continue;
      part_boxes = CeilDiv(boxes, splits);
      tiling.splits = splits;
      const std::optional<int64_t> cost = Estimate(tiling);
      if (!cost) return;
      if (best_ && *cost >= best_cost_) continue;
      best_ = tiling;
      best_cost_ = *cost;
    }
  }

  // As of WindowSearch.
  std::optional<int64_t> Estimate(const WeightTiling& tiling) const {
    const int64_t shared_bytes = tiling.SharedBytes(geometry_);
    if (shared_bytes > kMaxSharedBytes) return std::nullopt;
    const Patch patch(geometry_, tiling.box);
    const int64_t threads = tiling.NumThreads(geometry_);
    const Load load(tiling.NumTiles(geometry_) * tiling.splits, threads, shared_bytes);
    const int64_t boxes = CeilDiv(NumBoxes(geometry_, tiling.box), tiling.splits);
    const int64_t rounds = load.most * boxes * CeilDiv(NumGroups(tiling.box), tiling.slices) * threads;
    const int64_t sums = geometry_.taps[1] * tiling.thread_channels * tiling.vector;
    const int64_t cycles = rounds * tiling.box.pixels * sums / kLanes;
    const int64_t loads = rounds * (patch.window * tiling.vector + tiling.box.pixels * tiling.thread_channels);
    const int64_t copied = geometry_.source_vector % tiling.vector == 0 ? 1 : tiling.vector;
    const int64_t windows = tiling.box.images * tiling.box.rows * tiling.box.columns;
    const int64_t copies =
        load.most * boxes *
        (tiling.tile_sources * patch.plane * copied + windows * tiling.tile_channels / (geometry_.result_vector));
    const int64_t warps = load.resident * threads / kWarp;
    const int64_t tile_sums = tiling.NumWorkers(geometry_) / tiling.slices * sums;
    const int64_t shared_sums =
        tiling.splits == 1 ? 0 : kWeightCost.split + tile_sums * tiling.splits * kWeightCost.partial / kLanes;
    return kWeightCost.launch + cycles * kWeightCost.product + cycles * kWeightCost.latency / warps +
           loads / kWarp * kWeightCost.load + copies / kWarp * kWeightCost.vectors +
           load.most * threads * sums / kWarp * kWeightCost.exchange + boxes * load.waves * kWeightCost.chunk +
           rounds / kLanes * kWeightCost.round + shared_sums;
  }

  const WindowGeometry& geometry_;
  std::optional<WeightTiling> best_;
  int64_t best_cost_ = 0;
};

}  // namespace

std::string WindowTiling::Text() const {
  return absl::StrCat(BoxText(box), ", ", tile_channels, ", ", thread_channels, ", ", vector, ", ", loaded, ", ",
                      slices, ", ", slice_vectors, ", ", stages);
}

int64_t WindowTiling::NumWorkers() const { return NumGroups(box) * (tile_channels / thread_channels) * slices; }

int64_t WindowTiling::NumThreads() const { return RoundUp(NumWorkers(), kWarp); }

int64_t WindowTiling::NumBlocks(const WindowGeometry& geometry) const {
  return NumBoxes(geometry, box) * CeilDiv(geometry.channels, tile_channels);
}

int64_t WindowTiling::SharedBytes(const WindowGeometry& geometry) const {
  const int64_t planes = slices * slice_vectors;
  const int64_t stage = RoundUp(planes * Patch(geometry, box).plane * vector, 4) +
                        RoundUp(planes * vector * geometry.NumTaps() * (tile_channels + 4), 4);
  if (slices == 1) return stages * stage * ElementBytes(geometry);
  int64_t pixels = box.pixels;  // that are exchanged at a time
  while (pixels > 1 && (box.pixels % pixels != 0 || NumWorkers() * pixels * thread_channels > stages * stage)) --pixels;
  return std::max(stages * stage, NumWorkers() * pixels * thread_channels) * ElementBytes(geometry);
}

std::string WeightTiling::Text() const {
  return absl::StrCat(BoxText(box), ", ", tile_channels, ", ", thread_channels, ", ", tile_sources, ", ", vector, ", ",
                      slices, ", ", stages, ", ", splits);
}

int64_t WeightTiling::NumThreads(const WindowGeometry& geometry) const { return RoundUp(NumWorkers(geometry), kWarp); }

int64_t WeightTiling::NumWorkers(const WindowGeometry& geometry) const {
  return tile_channels / thread_channels * tile_sources * geometry.taps[0] * slices;
}

int64_t WeightTiling::NumTiles(const WindowGeometry& geometry) const {
  return CeilDiv(geometry.channels, tile_channels) * CeilDiv(geometry.source_channels, tile_sources * vector);
}

int64_t WeightTiling::SharedBytes(const WindowGeometry& geometry) const {
  const int64_t stage = RoundUp(tile_sources * Patch(geometry, box).plane * vector, 4) +
                        RoundUp(box.images * box.rows * box.columns * tile_channels, 4);
  const int64_t exchanged = NumWorkers(geometry) * thread_channels * vector;
  return std::max(stages * stage, exchanged) * ElementBytes(geometry);
}

int64_t WeightTiling::NumPartialElements(const WindowGeometry& geometry) const {
  if (splits == 1) return 0;
  return NumTiles(geometry) * splits * NumWorkers(geometry) / slices * geometry.taps[1] * thread_channels * vector;
}

std::optional<WindowTiling> ChooseWindowTiling(const std::vector<WindowGeometry>& parts) {
  return WindowSearch(parts).Best();
}

std::optional<WeightTiling> ChooseWeightTiling(const WindowGeometry& geometry) { return WeightSearch(geometry).Best(); }

}  // namespace cotan::cuda
