// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/window_tiling.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/dtype.h"
#include "base/rounding.h"

namespace cotan::cuda {
namespace {

// A block may have this much shared memory on all GPUs since sm_80.
constexpr int64_t kMaxSharedBytes = 99 << 10;
constexpr int64_t kMaxThreads = 512;
constexpr int64_t kWarp = 32;
// Registers of a thread for sums and operands; the kernels need some 40 more.
constexpr int64_t kMaxWindowValues = 84;
constexpr int64_t kMaxWeightValues = 88;
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
// The work of a block that only stores zeros, and of a chunk and element of the kernel.
constexpr int64_t kEmptyWork = 1;
constexpr int64_t kTapWork = 20;
constexpr int64_t kReservedSharedBytes = 1 << 10;  // of each block

// What work takes on it, in picoseconds, fitted to measurements of some 200 kernels (2026-11-26), of which the
// estimates differ by 8 percent.
struct SharedCost {
  int64_t launch;
  int64_t product;   // a cycle in which all lanes multiply
  int64_t latency;   // such a cycle, divided by the number of warps
  int64_t load;      // values of a warp from shared memory
  int64_t copy;      // a warp's copies of vectors of a patch
  int64_t copies;    // such copies that follow each other, in the warp that has most
  int64_t exchange;  // sums of a warp between slices
  int64_t chunk;     // a chunk or box, after which the threads wait for each other
};
struct WindowCost : SharedCost {
  int64_t weights;  // a warp's copies of weights
  int64_t store;    // a warp's vectors of the result
};
struct WeightCost : SharedCost {
  int64_t round;    // windows that 128 threads add
  int64_t split;    // to find the last block of a tile
  int64_t partial;  // 128 sums that the last block adds
};
constexpr WindowCost kWindowCost = {{1235, 518, 1811, 88, 4898, 7308, 636, 282}, 2739, 2645};
constexpr WeightCost kWeightCost = {{2482, 106, 4403, 299, 2574, 42524, 2479, 31}, 18119, 673, 8502};

// The sizes of a patch, as class Box in convolution_patch.cuh has them.
struct Patch {
  Patch(const WindowGeometry& geometry, const WindowBox& box) {
    const auto move = [&](size_t d) { return geometry.taps[d] == 1 ? 1 : geometry.stride[d]; };
    const auto extent = [&](size_t d, int64_t count) {
      return (count - 1) * move(d) + (geometry.taps[d] - 1) * geometry.dilation[d] + 1;
    };
    lines = box.images * extent(0, box.rows);
    width = extent(1, box.columns);
    plane = lines * (width + (width - 1) / (box.pixels * move(1)));
    if (plane % 4 == 0) ++plane;
    window = extent(1, box.pixels);
  }
  int64_t lines, width;
  int64_t plane;   // vectors of a plane, with gaps
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

// Returns the numbers of neighbouring pixels that a thread may have: of 4 to 8 those that divide a row with the least
// remainder.
std::vector<int64_t> CandidatePixels(int64_t width) {
  constexpr int64_t kLeast = 4, kMost = 8;
  if (width < kLeast) return {width};
  std::vector<int64_t> candidates;
  int64_t least_padded = std::numeric_limits<int64_t>::max();
  for (int64_t pixels = std::min(width, kMost); pixels >= kLeast; --pixels) {
    const int64_t padded = RoundUp(width, pixels);
    if (padded > least_padded) continue;
    if (padded < least_padded) candidates.clear();
    least_padded = padded;
    candidates.push_back(pixels);
  }
  return candidates;
}

// Returns the boxes that may suit a result.
std::vector<WindowBox> CandidateBoxes(const WindowGeometry& geometry) {
  const int64_t height = geometry.result[0], width = geometry.result[1];
  std::vector<WindowBox> boxes;
  for (const int64_t pixels : CandidatePixels(width)) {
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

// Copies of `lines` lines of `items` vectors as ForEachItem() in convolution_patch.cuh makes them.
struct LineCopies {
  LineCopies(int64_t lines, int64_t items, int64_t warps) {
    const int64_t steps = CeilDiv(items, kWarp);
    const int64_t segments = std::min(lines < warps ? warps / lines : 1, steps);
    all = lines * steps;
    longest = CeilDiv(lines * segments, warps) * CeilDiv(steps, segments);
  }
  int64_t all;      // of the warps together
  int64_t longest;  // of the warp that has most
};

// Returns the copies of a patch of `planes` planes. Without vectors in the source each channel is copied alone.
LineCopies PatchCopies(const WindowGeometry& geometry, const Patch& patch, int64_t planes, int64_t vector,
                       int64_t warps) {
  const int64_t inner = geometry.source_strides.channel == 1 ? planes : 1;
  LineCopies copies(patch.lines * (planes / inner), patch.width * inner, warps);
  const int64_t each = geometry.source_vector % vector == 0 ? 1 : vector;
  copies.all *= each;
  copies.longest *= each;
  return copies;
}

// Blocks of a processor, and how many of them run at a time.
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

// The work of processors that get blocks in turn.
class Processors {
 public:
  void Add(int64_t blocks, int64_t work) {
    total_ += blocks * work;
    for (int64_t& one : work_) one += blocks / kProcessors * work;
    for (int64_t i = 0; i < blocks % kProcessors; ++i) work_[static_cast<size_t>(next_++ % kProcessors)] += work;
  }
  // Returns the part of `of_all` that the busiest processor has.
  int64_t ShareOf(int64_t of_all) const {
    const int64_t most = *std::max_element(work_.begin(), work_.end());
    return static_cast<int64_t>(static_cast<double>(of_all) * static_cast<double>(most) / static_cast<double>(total_));
  }

 private:
  std::array<int64_t, kProcessors> work_ = {};
  int64_t total_ = 0;
  int64_t next_ = 0;
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
      if (box.pixels * kThreadChannels + Patch(parts_[0], box).window * loaded > kMaxWindowValues) continue;
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
    const int64_t planes = tiling.slices * tiling.slice_vectors;
    int64_t blocks = 0, shared_bytes = 0, products = 0, loads = 0, copies = 0, longest = 0, weights = 0, chunks = 0;
    Processors processors;
    for (const WindowGeometry& part : parts_) {
      const int64_t part_shared = tiling.SharedBytes(part);
      if (part_shared > kMaxSharedBytes) return std::nullopt;
      shared_bytes = std::max(shared_bytes, part_shared);
      const Patch patch(part, tiling.box);
      const LineCopies patch_copies = PatchCopies(part, patch, planes, tiling.vector, threads / kWarp);
      const int64_t part_blocks = tiling.NumBlocks(part);
      const int64_t block_chunks = CeilDiv(part.source_channels, planes * tiling.vector);
      const int64_t all_chunks = block_chunks * part_blocks;
      const int64_t values = tiling.slice_vectors * tiling.vector * threads;
      blocks += part_blocks;
      processors.Add(part_blocks, kEmptyWork + block_chunks * part.NumTaps() * kTapWork);
      chunks = std::max(chunks, block_chunks);
      products += all_chunks * values * part.NumTaps() * tiling.box.pixels * tiling.thread_channels;
      loads += all_chunks * values * (part.taps[0] * patch.window + part.NumTaps() * tiling.thread_channels);
      copies += all_chunks * patch_copies.all;
      longest += all_chunks * patch_copies.longest;
      weights += all_chunks * planes * tiling.vector * part.NumTaps() * tiling.tile_channels;
    }
    const Load load(blocks, threads, shared_bytes);
    const int64_t sums = load.most * threads * tiling.box.pixels * tiling.thread_channels / kWarp;
    const int64_t cycles = processors.ShareOf(products) / kLanes;
    return kWindowCost.launch + cycles * kWindowCost.product +
           cycles * kWindowCost.latency / (load.resident * threads / kWarp) +
           processors.ShareOf(loads) / kWarp * kWindowCost.load + processors.ShareOf(copies) * kWindowCost.copy +
           processors.ShareOf(longest) * kWindowCost.copies +
           processors.ShareOf(weights) / kWarp * kWindowCost.weights +
           (tiling.slices == 1 ? 0 : sums * kWindowCost.exchange) + chunks * load.waves * kWindowCost.chunk +
           sums / tiling.slices / parts_[0].result_vector * kWindowCost.store;
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
      if (sums + Patch(geometry_, box).window * vector > kMaxWeightValues) continue;
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
    const WindowBox& box = tiling.box;
    const Patch patch(geometry_, box);
    const int64_t threads = tiling.NumThreads(geometry_);
    const int64_t warps = threads / kWarp;
    const Load load(tiling.NumTiles(geometry_) * tiling.splits, threads, shared_bytes);
    const int64_t boxes = CeilDiv(NumBoxes(geometry_, box), tiling.splits);
    const LineCopies patch_copies = PatchCopies(geometry_, patch, tiling.tile_sources, tiling.vector, warps);
    const int64_t vectors = CeilDiv(tiling.tile_channels, 4);
    const int64_t inner = geometry_.result_strides.channel == 1 ? vectors : 1;
    const LineCopies box_copies(box.images * box.rows * (vectors / inner), box.columns * inner, warps);
    const int64_t each = 4 / geometry_.result_vector;
    const int64_t rounds = load.most * boxes * CeilDiv(NumGroups(box), tiling.slices) * threads;
    const int64_t sums = geometry_.taps[1] * tiling.thread_channels * tiling.vector;
    const int64_t cycles = rounds * box.pixels * sums / kLanes;
    const int64_t loads = rounds * (patch.window * tiling.vector + box.pixels * tiling.thread_channels);
    const int64_t tile_sums = tiling.NumWorkers(geometry_) / tiling.slices * sums;
    const int64_t shared_sums =
        tiling.splits == 1 ? 0 : kWeightCost.split + tile_sums * tiling.splits * kWeightCost.partial / kLanes;
    return kWeightCost.launch + cycles * kWeightCost.product + cycles * kWeightCost.latency / (load.resident * warps) +
           loads / kWarp * kWeightCost.load +
           load.most * boxes * (patch_copies.all + box_copies.all * each) * kWeightCost.copy +
           load.most * boxes * (patch_copies.longest + box_copies.longest * each) * kWeightCost.copies +
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
  // The sums of a column of the kernel, or of all, if there is room for them.
  const int64_t exchanged = NumWorkers(geometry) * thread_channels * vector;
  const int64_t staged = stages * stage;
  return std::max(staged, exchanged) * ElementBytes(geometry);
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
