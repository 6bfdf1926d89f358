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

// Small weights have sums for each of some parts of the batch, and a thread packs the pixels of a part for itself.
// Others have sums for the batch, whose blocks are divided among threads, which pack the pixels together. Which of both
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
        threads_(ThreadsWorthwhile(threads, p.Flops() / kRate)),
        config_(amx::ConfigOf(kBlock)),
        last_config_(amx::ConfigOf(out_ - (out_blocks_ - 1) * kBlock)),
        zeros_(static_cast<size_t>(std::max(columns_, out_))) {
    for (int64_t t = 0; t < taps_; ++t) order_.push_back(t);
    std::sort(order_.begin(), order_.end(), [&](int64_t a, int64_t b) { return PlaneOf(a) < PlaneOf(b); });
    const int64_t blocks = column_blocks_ * out_blocks_;
    const int64_t sums_bytes = blocks * taps_ * kSumsBytes;
    Divide(sums_bytes);
    tap_parts_ = threads_ == 1 ? 1 : std::min(taps_, CeilDiv(2 * threads_, blocks));
    part_taps_ = CeilDiv(taps_, tap_parts_);
    tap_parts_ = CeilDiv(taps_, part_taps_);
    items_ = blocks * tap_parts_;
    keeps_sums_ = parts_ > 1 || group_strips_ < strips_;
    slots_ = keeps_sums_ ? parts_ * items_ : threads_;
    packed_bytes_ = group_strips_ * StripBytes();
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

  // Strips that are packed together.
  struct Group {
    int64_t first;
    int64_t strips;
    uint16_t* packed_source;       // [strips, blocks of columns, phases, parities, pairs of pixels, kPairElements]
    uint16_t* packed_destination;  // [strips, blocks of channels, steps, kStepElements]
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
        const int64_t first = part * strips_ / parts_;
        const int64_t last = (part + 1) * strips_ / parts_;
        for (int64_t strip = first; strip < last; strip += group_strips_) {
          const Group group = GroupOf(strip, std::min(group_strips_, last - strip), packed);
          Pack(operands, group, 0, PackedParts(group));
          for (int64_t item = 0; item < items_; ++item) {
            AddProducts(group, ItemOf(item), strip == first, SumsOf(operands, part * items_ + item), tiles);
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
    for (int64_t strip = 0; strip < strips_; strip += group_strips_) {
      const int64_t strips = std::min(group_strips_, strips_ - strip);
      const Group group = GroupOf(strip, strips, operands.packed);
      const int64_t packed_parts = PackedParts(group);
      ParallelFor(threads_, packed_parts, CeilDiv(packed_parts, int64_t{threads_}),
                  [&](int64_t begin, int64_t end) { Pack(operands, group, begin, end); });
      ParallelForWorker(threads_, items_, 1, [&](int worker, int64_t begin, int64_t end) {
        amx::Registers tiles;
        for (int64_t i = begin; i < end; ++i) {
          const Item item = ItemOf(i);
          float* const sums = SumsOf(operands, keeps_sums_ ? i : worker);
          AddProducts(group, item, strip == 0, sums, tiles);
          if (strip + strips == strips_) Store(item, sums, operands.result);
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

  // Divides the pixels into strips, and strips into parts and groups. `sums_bytes`: of the sums of a part.
  void Divide(int64_t sums_bytes) {
    const auto steps_of = [&](int64_t images) {
      return CeilDiv((images - 1) * g_.image_places + g_.used_places, kDepth);
    };
    const bool joins_images = g_.image_places < RoundUp(g_.used_places, kDepth);
    strip_steps_ = steps_of(joins_images ? images_ : 1);
    const int64_t all_bytes = (joins_images ? 1 : images_) * StripBytes();
    const int64_t parts = images_ == 1 ? kMaxParts : std::min(images_, kMaxParts);
    const bool has_parts = parts * sums_bytes <= std::min(kPackedBytes, all_bytes / 2);
    const int64_t most = has_parts ? kPackedBytes : std::max(kPackedBytes, sums_bytes);
    if (joins_images) {
      strip_images_ = has_parts ? CeilDiv(images_, parts) : images_;
      strip_steps_ = steps_of(strip_images_);
      while (strip_images_ > 1 && StripBytes() > most) {
        strip_images_ = CeilDiv(strip_images_, 2);
        strip_steps_ = steps_of(strip_images_);
      }
    } else {
      while (strip_steps_ > kStepsAtOnce && StripBytes() > most) strip_steps_ = CeilDiv(strip_steps_, 2);
      image_strips_ = CeilDiv(steps_of(1), strip_steps_);
    }
    strips_ = CeilDiv(images_, strip_images_) * image_strips_;
    parts_ = has_parts ? std::min(strips_, parts) : 1;
    group_strips_ = std::clamp(most / StripBytes(), int64_t{1}, CeilDiv(strips_, parts_));
  }

  // Returns the pairs of places of the source that the steps of a strip read.
  int64_t Pairs() const { return RoundUp(strip_steps_ * kDepth + g_.last_shift, kDepth) / 2; }

  // Returns the elements of a strip's block of columns of the packed source, and of channels of the destination.
  int64_t SourceElements() const {
    return static_cast<int64_t>(g_.phases.size()) * parities_ * Pairs() * kPairElements;
  }
  int64_t DestinationElements() const { return strip_steps_ * kStepElements; }

  int64_t StripBytes() const { return (column_blocks_ * SourceElements() + out_blocks_ * DestinationElements()) * 2; }

  Group GroupOf(int64_t first, int64_t strips, char* packed) const {
    auto* const source = reinterpret_cast<uint16_t*>(packed);
    return {.first = first,
            .strips = strips,
            .packed_source = source,
            .packed_destination = source + strips * column_blocks_ * SourceElements()};
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

  // Strips are packed in parts of 32 places: first those of the destination, then of each phase of the source.
  int64_t SourceParts() const { return Pairs() * 2 / kDepth; }
  int64_t StripParts() const { return strip_steps_ + static_cast<int64_t>(g_.phases.size()) * SourceParts(); }
  int64_t PackedParts(const Group& group) const { return group.strips * StripParts(); }

  void Pack(const Operands& operands, const Group& group, int64_t begin, int64_t end) const {
    const int64_t strip_parts = StripParts();
    const int64_t source_parts = SourceParts();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t strip = i / strip_parts;
      const int64_t part = i % strip_parts;
      if (part < strip_steps_) {
        PackDestination(operands.destination, group, strip, part);
      } else {
        const int64_t at = part - strip_steps_;
        PackSource(operands.source, group, strip, at / source_parts, at % source_parts);
      }
    }
  }

  // Returns the place of part `part` of a strip in its first image.
  int64_t PlaceOf(const Group& group, int64_t strip, int64_t part) const {
    return ((group.first + strip) % image_strips_ * strip_steps_ + part) * kDepth;
  }

  // Cuts `axes` to the images of a strip, and returns the first of them.
  const uint16_t* ImagesOf(const uint16_t* tensor, const Group& group, int64_t strip, PlaceAxes& axes) const {
    const int64_t image = (group.first + strip) / image_strips_ * strip_images_;
    axes[0].size = std::min(strip_images_, images_ - image);
    return tensor + image * axes[0].stride;
  }

  void PackDestination(const uint16_t* destination, const Group& group, int64_t strip, int64_t step) const {
    PlaceAxes axes = g_.destination;
    const uint16_t* const images = ImagesOf(destination, group, strip, axes);
    PixelWalk walk(axes, images, zeros_.data(), PlaceOf(group, strip, step));
    std::array<const uint16_t*, kDepth> pixels;
    walk.Fill(pixels.data(), pixels.size());
    uint16_t* to = group.packed_destination + strip * out_blocks_ * DestinationElements() + step * kStepElements;
    for (int64_t channel = 0; channel < out_; channel += kBlock, to += DestinationElements()) {
      amx::PackRowsOf({pixels.data(), channel}, out_ - channel, to);
    }
  }

  void PackSource(const uint16_t* source, const Group& group, int64_t strip, int64_t phase, int64_t part) const {
    PlaceAxes axes = g_.phases[static_cast<size_t>(phase)];
    const uint16_t* const images = ImagesOf(source, group, strip, axes);
    PixelWalk walk(axes, images, zeros_.data(), PlaceOf(group, strip, part));
    std::array<const uint16_t*, kDepth + 1> pixels;
    std::array<uint16_t, (kDepth + 1) * kMaxColumns> copies;
    if (g_.row_taps > 1) {
      walk.FillWindows(g_.row_taps, g_.dilation, pixels.data(), kDepth + 1, copies.data());
    } else {
      walk.Fill(pixels.data(), pixels.size());
    }
    const int64_t plane = Pairs() * kPairElements;
    uint16_t* to = SourceOf(group, strip, 0, static_cast<size_t>(phase), 0) + part * kDepth / 2 * kPairElements;
    for (int64_t column = 0; column < columns_; column += kBlock, to += SourceElements()) {
      amx::PackColumnsOf({pixels.data(), column}, kDepth / 2, columns_ - column, to,
                         parities_ == 2 ? to + plane : nullptr);
    }
  }

  uint16_t* SourceOf(const Group& group, int64_t strip, int64_t block, size_t phase, int64_t parity) const {
    const int64_t plane = static_cast<int64_t>(phase) * parities_ + parity;
    return group.packed_source + (strip * column_blocks_ + block) * SourceElements() + plane * Pairs() * kPairElements;
  }

  // Adds the products of a group to the sums of an item, which begin with 0 if the group `is_first`.
  void AddProducts(const Group& group, const Item& item, bool is_first, float* sums, amx::Registers& tiles) const {
    tiles.Use(item.rows < kBlock ? last_config_ : config_);
    for (int64_t strip = 0; strip < group.strips; ++strip) {
      for (int64_t step = 0; step < strip_steps_; step += kStepsAtOnce) {
        const int64_t left = (strip * out_blocks_ + item.out_block) * strip_steps_ + step;
        for (const int64_t t : order_) {
          if (t < item.first_tap || t >= item.first_tap + item.taps) continue;
          const TapPlace& tap = g_.taps[static_cast<size_t>(t)];
          const uint16_t* const source = SourceOf(group, strip, item.column_block, tap.phase, tap.shift % 2);
          amx::Block block = amx::BlockOfPacked(group.packed_destination + left * kStepElements,
                                                source + (step * kDepth + tap.shift) / 2 * kPairElements,
                                                std::min(kStepsAtOnce, strip_steps_ - step));
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
  const int64_t parities_;  // 2: the source is packed in pairs from even and from odd places
  const int threads_;
  const amx::Config config_;
  const amx::Config last_config_;      // of the last block of output channels
  const std::vector<uint16_t> zeros_;  // a pixel in the padding
  std::vector<int64_t> order_;         // of taps, so that those that read the same plane follow each other
  // A strip has some steps of 32 places of one image, or images one after the other, if these take fewer steps together
  // than each alone. Places behind the last pixel are empty.
  int64_t strip_images_ = 1;
  int64_t strip_steps_ = 1;
  int64_t image_strips_ = 1;  // of an image, or of those that are together
  int64_t strips_ = 1;
  int64_t parts_ = 1;  // of the strips
  int64_t group_strips_ = 1;
  int64_t packed_bytes_ = 0;  // of a group
  int64_t part_taps_ = 1;
  int64_t tap_parts_ = 1;
  int64_t items_ = 1;
  bool keeps_sums_ = false;  // of each item, from group to group
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
