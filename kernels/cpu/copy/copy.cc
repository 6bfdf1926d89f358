// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/copy/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/simd/transpose16.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

// A loop over one dimension. Strides count elements.
struct Loop {
  int64_t size;
  int64_t from;
  int64_t to;
};

// Side of the square block that a transposition moves at once, in elements.
constexpr int64_t kTile = 16;

// Returns loops ordered by the destination's strides, outermost first; loops that form one dense range are
// merged.
std::vector<Loop> MergedLoops(absl::Span<const int64_t> sizes, absl::Span<const int64_t> from,
                              absl::Span<const int64_t> to) {
  std::vector<Loop> loops;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != 1) loops.push_back({sizes[i], from[i], to[i]});
  }
  std::stable_sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.to > b.to; });
  std::vector<Loop> merged;
  for (const Loop& loop : loops) {
    const bool joins =
        !merged.empty() && merged.back().to == loop.to * loop.size && merged.back().from == loop.from * loop.size;
    if (!joins) {
      merged.push_back(loop);
      continue;
    }
    merged.back() = {merged.back().size * loop.size, loop.from, loop.to};
  }
  return merged;
}

#ifdef COTAN_LANES_TARGET
// Transposes a block of kTile x kTile elements.
COTAN_LANES_TARGET void TransposeBlock(const float* from, int64_t from_column, float* to, int64_t to_row) {
  Float16Lanes lanes[kTile];
#pragma GCC unroll 16
  for (int64_t c = 0; c < kTile; ++c) lanes[c] = Float16Lanes(_mm512_loadu_ps(from + c * from_column));
  Transpose16x16(lanes);
#pragma GCC unroll 16
  for (int64_t r = 0; r < kTile; ++r) _mm512_storeu_ps(to + r * to_row, __m512(lanes[r]));
}

// Transposes the whole blocks of `rows` x `columns` elements of 4 bytes.
COTAN_LANES_TARGET void TransposeBlocks(const void* source, int64_t from_column, void* destination, int64_t to_row,
                                        int64_t rows, int64_t columns) {
  const auto* from = static_cast<const float*>(source);
  auto* to = static_cast<float*>(destination);
  for (int64_t c = 0; c + kTile <= columns; c += kTile) {
    for (int64_t r = 0; r + kTile <= rows; r += kTile) {
      TransposeBlock(from + r + c * from_column, from_column, to + r * to_row + c, to_row);
    }
  }
}
#endif

// Computes to[r * to_row + c] = from[r + c * from_column]: rows of the destination are columns of the source.
template <typename T>
COTAN_SIMD_VERSIONS void TransposeElements(const T* from, int64_t from_column, T* to, int64_t to_row, int64_t rows,
                                           int64_t columns) {
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) to[r * to_row + c] = from[r + c * from_column];
      }
    }
  }
}

// TransposeElements(), by blocks in registers where there are such.
template <typename T>
void Transpose(const T* from, int64_t from_column, T* to, int64_t to_row, int64_t rows, int64_t columns) {
  int64_t done_rows = 0, done_columns = 0;
#ifdef COTAN_LANES_TARGET
  if (sizeof(T) == sizeof(float) && HasAvx512Lanes()) {
    TransposeBlocks(from, from_column, to, to_row, rows, columns);
    done_rows = rows / kTile * kTile;
    done_columns = columns / kTile * kTile;
  }
#endif
  TransposeElements(from + done_columns * from_column, from_column, to + done_columns, to_row, done_rows,
                    columns - done_columns);
  TransposeElements(from + done_rows, from_column, to + done_rows * to_row, to_row, rows - done_rows, columns);
}

template <typename T>
class CopyKernel final : public Kernel {
 public:
  CopyKernel(std::vector<Loop> loops, int threads) : outer_(std::move(loops)), threads_(threads) {
    if (outer_.empty()) outer_.push_back({1, 1, 1});
    inner_ = outer_.back();
    outer_.pop_back();
    if (inner_.to == 1 && inner_.from != 1) FindTransposition();
    if (outer_.empty()) SplitInner();
    int64_t count = 1;
    for (const Loop& loop : outer_) count *= loop.size;
    outer_count_ = inner_.size == 0 || rows_.size == 0 ? 0 : count;
    const int64_t bytes = std::max<int64_t>(1, inner_.size * rows_.size * static_cast<int64_t>(sizeof(T)));
    grain_ = std::max<int64_t>(1, kCopyBytesPerChunk / bytes);
  }

  absl::Status Run(const KernelArgs& args) override {
    const T* from = static_cast<const T*>(args.inputs[0]);
    T* to = static_cast<T*>(args.outputs[0]);
    if (from == to) return absl::OkStatus();
    ParallelFor(threads_, outer_count_, grain_, [&](int64_t begin, int64_t end) { CopyRange(from, to, begin, end); });
    return absl::OkStatus();
  }

 private:
  // Moves the loop over which the source is dense from the outer loops to `rows_`.
  void FindTransposition() {
    for (size_t i = 0; i < outer_.size(); ++i) {
      if (outer_[i].from != 1 || outer_[i].size < 4 || inner_.size < 4) continue;
      rows_ = outer_[i];
      outer_.erase(outer_.begin() + static_cast<std::ptrdiff_t>(i));
      transposes_ = true;
      return;
    }
  }

  // Splits a copy that is one long row, or one transposition, so that threads can share it.
  void SplitInner() {
    Loop& loop = transposes_ ? rows_ : inner_;
    constexpr int64_t kPiece = kCopyBytesPerChunk / static_cast<int64_t>(sizeof(T));
    const int64_t piece =
        transposes_ ? std::max(kTile, kPiece / std::max<int64_t>(1, inner_.size) / kTile * kTile) : kPiece;
    if (loop.size <= piece) return;
    last_piece_ = loop.size - (loop.size - 1) / piece * piece;
    outer_.push_back({(loop.size - 1) / piece + 1, loop.from * piece, loop.to * piece});
    loop.size = piece;
  }

  void CopyRange(const T* from, T* to, int64_t begin, int64_t end) const {
    const Loop run = outer_.empty() ? Loop{1, 0, 0} : outer_.back();
    for (int64_t i = begin; i < end;) {
      int64_t position = i % run.size;
      int64_t from_offset = position * run.from;
      int64_t to_offset = position * run.to;
      int64_t rest = i / run.size;
      for (size_t d = outer_.size() - (outer_.empty() ? 0 : 1); d-- > 0;) {
        from_offset += rest % outer_[d].size * outer_[d].from;
        to_offset += rest % outer_[d].size * outer_[d].to;
        rest /= outer_[d].size;
      }
      for (; position < run.size && i < end; ++position, ++i) {
        CopyInner(from + from_offset, to + to_offset, last_piece_ != 0 && i + 1 == outer_count_);
        from_offset += run.from;
        to_offset += run.to;
      }
    }
  }

  void CopyInner(const T* from, T* to, bool is_last_piece) const {
    if (transposes_) {
      Transpose(from, inner_.from, to, rows_.to, is_last_piece ? last_piece_ : rows_.size, inner_.size);
      return;
    }
    const int64_t count = is_last_piece ? last_piece_ : inner_.size;
    if (inner_.from == 1 && inner_.to == 1) {
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    } else if (inner_.from == 0 && inner_.to == 1) {
      std::fill_n(to, count, *from);
    } else {
      for (int64_t i = 0; i < count; ++i) to[i * inner_.to] = from[i * inner_.from];
    }
  }

  std::vector<Loop> outer_;
  Loop rows_ = {1, 1, 1};  // with transposes_: the loop over which the source is dense
  Loop inner_ = {1, 1, 1};
  bool transposes_ = false;
  int64_t last_piece_ = 0;  // size of the split loop in the last outer iteration; 0 = not split
  int64_t outer_count_ = 0;
  int64_t grain_ = 1;
  int threads_;
};

struct Wide {
  uint64_t parts[2];
};

class ZeroKernel final : public Kernel {
 public:
  explicit ZeroKernel(std::unique_ptr<Kernel> copy) : copy_(std::move(copy)) {}

  absl::Status Run(const KernelArgs& args) override {
    static const Wide kZero = {};
    void* const zero = const_cast<Wide*>(&kZero);
    return copy_->Run({&zero, args.outputs, nullptr});
  }

 private:
  std::unique_ptr<Kernel> copy_;  // of one element, repeated
};

}  // namespace

std::unique_ptr<Kernel> MakeCopyKernel(size_t element_size, absl::Span<const int64_t> sizes,
                                       absl::Span<const int64_t> from_strides, absl::Span<const int64_t> to_strides,
                                       int threads) {
  std::vector<Loop> loops = MergedLoops(sizes, from_strides, to_strides);
  switch (element_size) {
    case 1:
      return std::make_unique<CopyKernel<uint8_t>>(std::move(loops), threads);
    case 2:
      return std::make_unique<CopyKernel<uint16_t>>(std::move(loops), threads);
    case 4:
      return std::make_unique<CopyKernel<uint32_t>>(std::move(loops), threads);
    case 8:
      return std::make_unique<CopyKernel<uint64_t>>(std::move(loops), threads);
    default:
      return std::make_unique<CopyKernel<Wide>>(std::move(loops), threads);
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeBroadcastCopyKernel(size_t element_size, const StridedLayout& from,
                                                                const StridedLayout& to, int threads) {
  const int missing = to.rank() - from.rank();
  DimVector strides(to.sizes.size(), 0);
  bool fits = missing >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) {
    const auto source = static_cast<size_t>(i);
    const auto target = static_cast<size_t>(i + missing);
    if (from.sizes[source] == to.sizes[target]) {
      strides[target] = from.strides[source];
    } else {
      fits = from.sizes[source] == 1;
    }
  }
  if (!fits) {
    return absl::InvalidArgumentError(
        absl::StrCat("an operand ", ToString(from), " does not broadcast to ", ToString(to)));
  }
  return MakeCopyKernel(element_size, to.sizes, strides, to.strides, threads);
}

std::unique_ptr<Kernel> MakeZeroKernel(size_t element_size, const StridedLayout& to, int threads) {
  const DimVector repeated(to.sizes.size(), 0);
  return std::make_unique<ZeroKernel>(MakeCopyKernel(element_size, to.sizes, repeated, to.strides, threads));
}

Slot BringRowMajor(const TensorSpec& spec, Slot slot, int threads, Pipeline& pipeline) {
  if (IsContiguous(spec.layout)) return slot;
  const size_t element = ByteSize(spec.dtype);
  const Slot dense = pipeline.AddScratch(static_cast<size_t>(NumElements(spec.layout.sizes)) * element);
  pipeline.Add(
      MakeCopyKernel(element, spec.layout.sizes, spec.layout.strides, ContiguousStrides(spec.layout.sizes), threads),
      {slot}, {dense});
  return dense;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeCopy(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const TensorSpec& from = request.inputs[0];
  const TensorSpec& to = request.outputs[0];
  return MakeCopyKernel(ByteSize(to.dtype), to.layout.sizes, from.layout.strides, to.layout.strides, request.threads);
}

}  // namespace cotan::cpu
