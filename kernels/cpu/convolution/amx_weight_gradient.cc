// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/amx_weight_gradient.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "kernels/cpu/convolution/pixel_places.h"
#include "kernels/cpu/convolution/sum.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace {

using amx::kBlock;
using amx::kDepth;
using amx::kStepElements;

constexpr int64_t kBlockSums = kBlock * kBlock;
constexpr int64_t kSumsBytes = kBlockSums * sizeof(float);
// Elements of a pair of pixels in a packed block of the source.
constexpr int64_t kPairElements = 2 * kBlock;

// What stays in the first-level cache while taps pass: 8 steps of 32 pixels, of both tensors.
constexpr int64_t kStepsAtOnce = 8;
// Packed images should stay in the second-level cache, unless sums take more memory.
constexpr int64_t kPackedBytes = 1 << 20;
// Parts of the batch with sums of their own, which take half as much memory as packed images at most.
constexpr int64_t kMaxParts = 4;
// With fewer channels of the source, which leave most of a tile empty, the taps of a kernel's row are columns, too.
constexpr int64_t kMinChannels = 6;
constexpr int64_t kMinColumns = 8;
constexpr int64_t kMaxColumns = 128;
constexpr double kRate = 8;  // of AMX, relative to what ThreadsWorthwhile() expects

// Small weights have sums for each of some parts of the batch, and a thread packs the images of a part for itself.
// Others have sums for the batch, whose blocks are divided among threads, which pack the images together. Which of both
// depends on the problem only.
class AmxWeightGradient final : public Kernel {
 public:
  AmxWeightGradient(const ConvolutionProblem& p, int threads)
      : g_(PixelPlacesOf(p, p.source.layout.sizes[1] < kMinChannels)),
        images_(p.source.layout.sizes[0]),
        in_(p.source.layout.sizes[1]),
        out_(p.destination.layout.sizes[1]),
        taps_(static_cast<int64_t>(g_.taps.size())),
        columns_(in_ * g_.row_taps),
        column_blocks_(CeilDiv(columns_, kBlock)),
        out_blocks_(CeilDiv(out_, kBlock)),
        parities_(g_.has_odd_shifts ? 2 : 1),
        joins_images_(g_.image_places < RoundUp(g_.used_places, kDepth)),
        threads_(ThreadsWorthwhile(threads, p.Flops() / kRate)),
        config_(amx::ConfigOf(kBlock)),
        last_config_(amx::ConfigOf(out_ - (out_blocks_ - 1) * kBlock)),
        zeros_(static_cast<size_t>(std::max(columns_, out_))) {
    for (int64_t t = 0; t < taps_; ++t) order_.push_back(t);
    std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) { return PlaneOf(a) < PlaneOf(b); });
    const int64_t blocks = column_blocks_ * out_blocks_;
    const int64_t block_bytes = blocks * taps_ * kSumsBytes;
    parts_ = std::min(images_, kMaxParts);
    if (parts_ * block_bytes > std::min(kPackedBytes, PackedBytes(images_) / 2)) parts_ = 1;
    tap_parts_ = threads_ == 1 ? 1 : std::min(taps_, CeilDiv(2 * threads_, blocks));
    part_taps_ = CeilDiv(taps_, tap_parts_);
    tap_parts_ = CeilDiv(taps_, part_taps_);
    items_ = blocks * tap_parts_;
    group_images_ = CeilDiv(images_, parts_);
    const int64_t most = std::max(kPackedBytes, parts_ == 1 ? block_bytes : 0);
    while (group_images_ > 1 && PackedBytes(group_images_) > most) group_images_ = CeilDiv(group_images_, 2);
    packed_bytes_ = PackedBytes(group_images_);
    const bool keeps_sums = parts_ > 1 || group_images_ < images_;
    slots_ = keeps_sums ? parts_ * items_ : threads_;
    scratch_bytes_ = static_cast<size_t>((parts_ > 1 ? threads_ : 1) * packed_bytes_ + slots_ * SlotFloats() * 4);
  }

  absl::Status Run(const KernelArgs& args) override {
    const Operands operands = {.source = static_cast<const uint16_t*>(args.inputs[0]),
                               .destination = static_cast<const uint16_t*>(args.inputs[1]),
                               .sums = static_cast<float*>(args.scratch),
                               .packed = static_cast<char*>(args.scratch) + slots_ * SlotFloats() * 4,
                               .result = static_cast<uint16_t*>(args.outputs[0])};
    if (parts_ > 1) {
      RunParts(operands);
    } else {
      RunBlocks(operands);
    }
    return absl::OkStatus();
  }

 private:
  struct Operands {
    const uint16_t* source;
    const uint16_t* destination;
    float* sums;   // [slots, taps of an item, 32, 32]
    char* packed;  // of one group for each thread, or of one
    uint16_t* result;
  };

  // Images that are packed together: strips of one image each, or one strip with all, without steps between them, if
  // that takes fewer steps.
  struct Group {
    const uint16_t* source;
    const uint16_t* destination;
    uint16_t* packed_source;       // [strips, blocks of channels, phases, parities, pairs of pixels, kPairElements]
    uint16_t* packed_destination;  // [strips, blocks of channels, steps, kStepElements]
    int64_t strips;
    int64_t strip_images;
    int64_t steps;  // of 32 places of a strip
    int64_t pairs;  // of places of a strip
  };

  // A block of channels of either tensor, and some taps.
  struct Item {
    int64_t out_block;
    int64_t column_block;
    int64_t first_tap;
    int64_t taps;
    int64_t rows;
    int64_t columns;
  };

  void RunParts(const Operands& operands) const {
    ParallelForWorker(threads_, parts_, 1, [&](int worker, int64_t begin, int64_t end) {
      amx::Registers tiles;
      char* const packed = operands.packed + worker * packed_bytes_;
      for (int64_t part = begin; part < end; ++part) {
        const int64_t first = part * images_ / parts_;
        const int64_t last = (part + 1) * images_ / parts_;
        for (int64_t image = first; image < last; image += group_images_) {
          const Group group = GroupOf(operands, image, std::min(group_images_, last - image), packed);
          Pack(group, 0, PackedParts(group));
          for (int64_t item = 0; item < items_; ++item) {
            AddProducts(group, ItemOf(item), image == first, SumsOf(operands, part * items_ + item), tiles);
          }
        }
      }
    });
    ParallelFor(threads_, items_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        float* const sums = SumsOf(operands, item);
        for (int64_t part = 1; part < parts_; ++part) {
          AddTo(SumsOf(operands, part * items_ + item), SlotFloats(), sums);
        }
        Store(ItemOf(item), sums, operands.result);
      }
    });
  }

  void RunBlocks(const Operands& operands) const {
    const bool keeps_sums = group_images_ < images_;
    for (int64_t image = 0; image < images_; image += group_images_) {
      const int64_t images = std::min(group_images_, images_ - image);
      const Group group = GroupOf(operands, image, images, operands.packed);
      const int64_t packed_parts = PackedParts(group);
      ParallelFor(threads_, packed_parts, CeilDiv(packed_parts, int64_t{threads_}),
                  [&](int64_t begin, int64_t end) { Pack(group, begin, end); });
      ParallelForWorker(threads_, items_, 1, [&](int worker, int64_t begin, int64_t end) {
        amx::Registers tiles;
        for (int64_t i = begin; i < end; ++i) {
          const Item item = ItemOf(i);
          float* const sums = SumsOf(operands, keeps_sums ? i : worker);
          AddProducts(group, item, image == 0, sums, tiles);
          if (image + images == images_) Store(item, sums, operands.result);
        }
      });
    }
  }

  int64_t SlotFloats() const { return part_taps_ * kBlockSums; }
  float* SumsOf(const Operands& operands, int64_t slot) const { return operands.sums + slot * SlotFloats(); }

  // Returns what a tap reads of the packed source, and the tap.
  std::array<int64_t, 3> PlaneOf(int64_t tap) const {
    const TapPlace& at = g_.taps[static_cast<size_t>(tap)];
    return {static_cast<int64_t>(at.phase), at.shift % 2, tap};
  }

  // Returns the steps of 32 places of the destination that `images` images take together.
  int64_t StepsOf(int64_t images) const { return CeilDiv((images - 1) * g_.image_places + g_.used_places, kDepth); }
  // Returns the pairs of places of the source that these steps read.
  int64_t PairsOf(int64_t steps) const { return RoundUp(steps * kDepth + g_.last_shift, kDepth) / 2; }

  // Returns the elements of a strip's block of channels of the packed source.
  int64_t BlockElements(int64_t pairs) const {
    return static_cast<int64_t>(g_.phases.size()) * parities_ * pairs * kPairElements;
  }

  int64_t PackedBytes(int64_t images) const {
    const int64_t strips = joins_images_ ? 1 : images;
    const int64_t steps = StepsOf(joins_images_ ? images : 1);
    return strips * (column_blocks_ * BlockElements(PairsOf(steps)) + out_blocks_ * steps * kStepElements) * 2;
  }

  Group GroupOf(const Operands& operands, int64_t image, int64_t images, char* packed) const {
    Group group = {.source = operands.source + image * g_.phases[0][0].stride,
                   .destination = operands.destination + image * g_.destination[0].stride,
                   .packed_source = reinterpret_cast<uint16_t*>(packed),
                   .packed_destination = nullptr,
                   .strips = joins_images_ ? 1 : images,
                   .strip_images = joins_images_ ? images : 1,
                   .steps = 0,
                   .pairs = 0};
    group.steps = StepsOf(group.strip_images);
    group.pairs = PairsOf(group.steps);
    group.packed_destination = group.packed_source + group.strips * column_blocks_ * BlockElements(group.pairs);
    return group;
  }

  Item ItemOf(int64_t item) const {
    const int64_t first_tap = item % tap_parts_ * part_taps_;
    const int64_t column_block = item / tap_parts_ % column_blocks_;
    const int64_t out_block = item / tap_parts_ / column_blocks_;
    return {.out_block = out_block,
            .column_block = column_block,
            .first_tap = first_tap,
            .taps = std::min(part_taps_, taps_ - first_tap),
            .rows = std::min(kBlock, out_ - out_block * kBlock),
            .columns = std::min(kBlock, columns_ - column_block * kBlock)};
  }

  // Images are packed in parts of 32 places: first those of the destination, then of each phase of the source.
  int64_t SourceParts(const Group& group) const { return group.pairs * 2 / kDepth; }
  int64_t StripParts(const Group& group) const {
    return group.steps + static_cast<int64_t>(g_.phases.size()) * SourceParts(group);
  }
  int64_t PackedParts(const Group& group) const { return group.strips * StripParts(group); }

  void Pack(const Group& group, int64_t begin, int64_t end) const {
    const int64_t strip_parts = StripParts(group);
    const int64_t source_parts = SourceParts(group);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t strip = i / strip_parts;
      const int64_t part = i % strip_parts;
      if (part < group.steps) {
        PackDestination(group, strip, part);
      } else {
        PackSource(group, strip, (part - group.steps) / source_parts, (part - group.steps) % source_parts);
      }
    }
  }

  void PackDestination(const Group& group, int64_t strip, int64_t step) const {
    PlaceAxes axes = g_.destination;
    axes[0].size = group.strip_images;
    PixelWalk walk(axes, group.destination + strip * axes[0].stride, zeros_.data(), step * kDepth);
    std::array<const uint16_t*, kDepth> pixels;
    walk.Fill(pixels.data(), pixels.size());
    uint16_t* to = group.packed_destination + (strip * out_blocks_ * group.steps + step) * kStepElements;
    for (int64_t channel = 0; channel < out_; channel += kBlock, to += group.steps * kStepElements) {
      amx::PackRowsOf({pixels.data(), channel}, out_ - channel, to);
    }
  }

  void PackSource(const Group& group, int64_t strip, int64_t phase, int64_t part) const {
    PlaceAxes axes = g_.phases[static_cast<size_t>(phase)];
    axes[0].size = group.strip_images;
    PixelWalk walk(axes, group.source + strip * axes[0].stride, zeros_.data(), part * kDepth);
    std::array<const uint16_t*, kDepth + 1> pixels;
    std::array<uint16_t, (kDepth + 1) * kMaxColumns> copies;
    if (g_.row_taps > 1) {
      walk.FillWindows(g_.row_taps, g_.dilation, pixels.data(), kDepth + 1, copies.data());
    } else {
      walk.Fill(pixels.data(), pixels.size());
    }
    const int64_t plane = group.pairs * kPairElements;
    uint16_t* to = SourceOf(group, strip, 0, static_cast<size_t>(phase), 0) + part * kDepth / 2 * kPairElements;
    for (int64_t column = 0; column < columns_; column += kBlock, to += BlockElements(group.pairs)) {
      amx::PackColumnsOf({pixels.data(), column}, kDepth / 2, columns_ - column, to,
                         parities_ == 2 ? to + plane : nullptr);
    }
  }

  uint16_t* SourceOf(const Group& group, int64_t strip, int64_t block, size_t phase, int64_t parity) const {
    const int64_t plane = static_cast<int64_t>(phase) * parities_ + parity;
    return group.packed_source + (strip * column_blocks_ + block) * BlockElements(group.pairs) +
           plane * group.pairs * kPairElements;
  }

  // Adds the products of a group to the sums of an item, which begin with 0 if the group `is_first`.
  void AddProducts(const Group& group, const Item& item, bool is_first, float* sums, amx::Registers& tiles) const {
    tiles.Use(item.rows < kBlock ? last_config_ : config_);
    for (int64_t strip = 0; strip < group.strips; ++strip) {
      for (int64_t step = 0; step < group.steps; step += kStepsAtOnce) {
        const int64_t left = (strip * out_blocks_ + item.out_block) * group.steps + step;
        for (const int64_t t : order_) {
          if (t < item.first_tap || t >= item.first_tap + item.taps) continue;
          const TapPlace& tap = g_.taps[static_cast<size_t>(t)];
          const uint16_t* const source = SourceOf(group, strip, item.column_block, tap.phase, tap.shift % 2);
          amx::Block block = amx::BlockOfPacked(group.packed_destination + left * kStepElements,
                                                source + (step * kDepth + tap.shift) / 2 * kPairElements,
                                                std::min(kStepsAtOnce, group.steps - step));
          block.b_row = kPairElements * 2;
          block.b_right = kDepth;
          block.continues = !is_first || strip > 0 || step > 0;
          block.sums = sums + (t - item.first_tap) * kBlockSums;
          amx::Multiply(block, item.rows, item.columns);
        }
      }
    }
  }

  // Rounds the sums of an item, [taps, 32, 32], to the result.
  void Store(const Item& item, const float* sums, uint16_t* result) const {
    if (g_.row_taps > 1) {
      StoreJoined(item, sums, result);
      return;
    }
    result += (item.out_block * kBlock * in_ + item.column_block * kBlock) * taps_ + item.first_tap;
    for (int64_t o = 0; o < item.rows; ++o, sums += kBlock, result += in_ * taps_) {
      for (int64_t i = 0; i < item.columns; i += amx::kLines) {
        for (int64_t tap = 0; tap < item.taps; tap += amx::kLines) {
          amx::RoundTransposed(sums + tap * kBlockSums + i, kBlockSums, std::min(amx::kLines, item.taps - tap),
                               item.columns - i, result + i * taps_ + tap, taps_);
        }
      }
    }
  }

  // Does the same for columns of [taps of a kernel's row, channels].
  void StoreJoined(const Item& item, const float* sums, uint16_t* result) const {
    const int64_t first = item.column_block * kBlock;
    const int64_t last = first + item.columns;
    result += item.out_block * kBlock * columns_ * taps_;
    for (int64_t tap = 0; tap < item.taps; ++tap, sums += kBlockSums) {
      for (int64_t channel = 0; channel < in_; ++channel) {
        const int64_t begin = CeilDiv(std::max(first - channel, int64_t{0}), in_);
        const int64_t end = CeilDiv(std::max(last - channel, int64_t{0}), in_);
        const int64_t row = channel * taps_ + item.first_tap + tap;  // of the kernel
        for (int64_t o = 0; o < item.rows; ++o) {
          amx::RoundStrided(sums + o * kBlock + begin * in_ + channel - first, in_, end - begin,
                            result + (o * in_ * taps_ + row) * g_.row_taps + begin);
        }
      }
    }
  }

  const PixelPlaces g_;
  const int64_t images_;
  const int64_t in_;
  const int64_t out_;
  const int64_t taps_;
  const int64_t columns_;  // of the products: channels of the source, or [taps of a kernel's row, channels]
  const int64_t column_blocks_;
  const int64_t out_blocks_;
  const int64_t parities_;   // 2: the source is packed in pairs from even and from odd places
  const bool joins_images_;  // a strip has all images of a group, otherwise one
  const int threads_;
  const amx::Config config_;
  const amx::Config last_config_;      // of the last block of output channels
  const std::vector<uint16_t> zeros_;  // a pixel in the padding
  std::vector<int64_t> order_;         // of taps, so that those that read the same plane follow each other
  int64_t parts_ = 1;                  // of the batch
  int64_t part_taps_ = 1;
  int64_t tap_parts_ = 1;
  int64_t items_ = 1;
  int64_t group_images_ = 1;
  int64_t packed_bytes_ = 0;  // of a group
  int64_t slots_ = 1;
};

bool Qualifies(const ConvolutionProblem& p) {
  if (p.product != ConvolutionProduct::kBackwardWeights || p.dtype != DType::kBFloat16 || p.groups != 1) return false;
  const int64_t channels = p.source.layout.sizes[1];
  const int64_t joined = channels * p.weights.layout.sizes.back();
  return (channels >= kMinChannels || (joined >= kMinColumns && joined <= kMaxColumns)) && amx::IsAvailable();
}

}  // namespace

std::unique_ptr<Kernel> MakeAmxWeightGradient(const ConvolutionProblem& problem, int threads) {
  if (!Qualifies(problem)) return nullptr;
  return std::make_unique<AmxWeightGradient>(problem, threads);
}

}  // namespace cotan::cpu
