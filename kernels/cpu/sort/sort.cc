// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/sort/sort.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/sort/radix_sort.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

constexpr int64_t kMaxLine = int64_t{1} << 32;

// Lines along the sorted dimension, with the steps and strides of input, values and indices in elements.
struct Geometry {
  int64_t length = 0;  // of an input's line
  int64_t count = 0;   // of an output's line
  std::array<int64_t, 3> step{};
  DimVector outer;  // sizes of all other dimensions
  std::array<DimVector, 3> outer_strides;
};

Geometry GeometryOf(const KernelRequest& request) {
  const auto dim = static_cast<size_t>(request.op.sort().dim());
  const std::array<const StridedLayout*, 3> layouts = {&request.inputs[0].layout, &request.outputs[0].layout,
                                                       &request.outputs[1].layout};
  Geometry g;
  g.length = layouts[0]->sizes[dim];
  g.count = layouts[1]->sizes[dim];
  for (size_t d = 0; d < layouts[0]->sizes.size(); ++d) {
    if (d != dim) g.outer.push_back(layouts[0]->sizes[d]);
    for (size_t k = 0; k < layouts.size(); ++k) {
      const int64_t stride = layouts[k]->strides[d];
      d == dim ? void(g.step[k] = stride) : g.outer_strides[k].push_back(stride);
    }
  }
  return g;
}

// The conversion of a dtype's bits to an unsigned integer of the same order.
enum class Format : uint8_t { kUnsigned, kSigned, kFloat };

// Converts elements to integers of the same order. `kInfinity` has the bits of infinity of a float format.
template <typename Bits, Format kFormat, Bits kInfinity>
struct Element {
  using BitsType = Bits;

  static Bits Order(Bits bits) {
    constexpr Bits kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    if constexpr (kFormat == Format::kUnsigned) return bits;
    if constexpr (kFormat == Format::kSigned) return static_cast<Bits>(bits ^ kSign);
    const auto magnitude = static_cast<Bits>(bits & ~kSign);
    if (magnitude > kInfinity) return static_cast<Bits>(~Bits{0});  // NaN
    if (magnitude == 0) return kSign;                               // -0 equals 0
    return (bits & kSign) != 0 ? static_cast<Bits>(~bits) : static_cast<Bits>(bits | kSign);
  }
};

// An element of a line: its key, then its index.
struct WideItem {
  uint64_t order;
  uint64_t index;
  bool operator<(const WideItem& other) const {
    return order != other.order ? order < other.order : index < other.index;
  }
  uint64_t Key() const { return order; }
};

// Key and index in one integer: the key in the high 32 bits.
struct NarrowItem {
  uint64_t value;
  bool operator<(const NarrowItem& other) const { return value < other.value; }
  uint64_t Key() const { return value >> 32; }
};

template <typename E>
class SortKernel final : public Kernel {
  using Bits = typename E::BitsType;
  static constexpr bool kWide = sizeof(Bits) == 8;
  using Item = std::conditional_t<kWide, WideItem, NarrowItem>;

 public:
  SortKernel(Geometry geometry, bool descending, int threads)
      : g_(std::move(geometry)), descending_(descending), threads_(threads) {
    scratch_bytes_ = static_cast<size_t>(threads * ItemsPerWorker()) * sizeof(Item);
  }

  absl::Status Run(const KernelArgs& args) override {
    if (g_.count == 0) return absl::OkStatus();
    const int64_t grain = std::max<int64_t>(1, kSortElementsPerChunk / g_.length);
    ParallelForWorker(threads_, NumElements(g_.outer), grain, [&](int worker, int64_t begin, int64_t end) {
      Item* items = static_cast<Item*>(args.scratch) + worker * ItemsPerWorker();
      for (int64_t line = begin; line < end; ++line) SortLine(args, line, items);
    });
    return absl::OkStatus();
  }

 private:
  // Only whole lines: their items are in the order of their indices, which a radix sort keeps for equal elements.
  bool UsesRadixSort() const { return g_.count == g_.length && g_.length >= kMinRadixSort; }
  int64_t ItemsPerWorker() const { return UsesRadixSort() ? 2 * g_.length : g_.length; }

  // Sorts the first g_.count of the items of a line, and returns their place.
  Item* Sort(Item* items) const {
    if (UsesRadixSort()) return RadixSort<sizeof(Bits)>(items, items + g_.length, g_.length);
    if (g_.count < g_.length) std::nth_element(items, items + g_.count, items + g_.length);
    std::sort(items, items + g_.count);
    return items;
  }

  static Item MakeItem(Bits order, int64_t index) {
    const auto place = static_cast<uint64_t>(index);
    if constexpr (kWide) {
      return {order, place};
    } else {
      return {static_cast<uint64_t>(order) << 32 | place};
    }
  }
  static int64_t IndexOf(const Item& item) {
    if constexpr (kWide) {
      return static_cast<int64_t>(item.index);
    } else {
      return static_cast<int64_t>(item.value & 0xffffffffu);
    }
  }

  void SortLine(const KernelArgs& args, int64_t line, Item* items) const {
    std::array<int64_t, 3> offset{};
    for (size_t d = g_.outer.size(); d-- > 0;) {
      const int64_t index = line % g_.outer[d];
      line /= g_.outer[d];
      for (size_t k = 0; k < offset.size(); ++k) offset[k] += index * g_.outer_strides[k][d];
    }
    const Bits* in = static_cast<const Bits*>(args.inputs[0]) + offset[0];
    for (int64_t i = 0; i < g_.length; ++i) {
      const Bits order = E::Order(in[i * g_.step[0]]);
      items[i] = MakeItem(descending_ ? static_cast<Bits>(~order) : order, i);
    }
    const Item* const sorted = Sort(items);
    Bits* values = static_cast<Bits*>(args.outputs[0]) + offset[1];
    int64_t* indices = static_cast<int64_t*>(args.outputs[1]) + offset[2];
    for (int64_t i = 0; i < g_.count; ++i) {
      const int64_t index = IndexOf(sorted[i]);
      values[i * g_.step[1]] = in[index * g_.step[0]];
      indices[i * g_.step[2]] = index;
    }
  }

  const Geometry g_;
  const bool descending_;
  const int threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeSort(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  Geometry geometry = GeometryOf(request);
  if (geometry.length >= kMaxLine) {
    return absl::UnimplementedError(
        absl::StrCat("sort: the dimension has ", geometry.length, " elements; at most 2^32 - 1 are supported"));
  }
  const auto make = [&](auto element) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return std::make_unique<SortKernel<decltype(element)>>(std::move(geometry), request.op.sort().descending(),
                                                           request.threads);
  };
  switch (request.inputs[0].dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return make(Element<uint8_t, Format::kUnsigned, 0>());
    case DType::kInt8:
      return make(Element<uint8_t, Format::kSigned, 0>());
    case DType::kInt16:
      return make(Element<uint16_t, Format::kSigned, 0>());
    case DType::kInt32:
      return make(Element<uint32_t, Format::kSigned, 0>());
    case DType::kInt64:
      return make(Element<uint64_t, Format::kSigned, 0>());
    case DType::kFloat16:
      return make(Element<uint16_t, Format::kFloat, 0x7c00>());
    case DType::kBFloat16:
      return make(Element<uint16_t, Format::kFloat, 0x7f80>());
    case DType::kFloat32:
      return make(Element<uint32_t, Format::kFloat, 0x7f800000>());
    case DType::kFloat64:
      return make(Element<uint64_t, Format::kFloat, 0x7ff0000000000000>());
    default:
      return absl::UnimplementedError(
          absl::StrCat("sort: dtype ", DTypeName(request.inputs[0].dtype), " is not supported"));
  }
}

}  // namespace cotan::cpu
