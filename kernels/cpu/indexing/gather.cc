// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/indexing/gather.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/index_range.h"
#include "kernels/api/op_check.h"
#include "kernels/api/registry.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

// Row-major geometry of both ops: table [outer, size, inner], rows [outer, count, inner], index [count].
struct RowGeometry {
  int64_t outer = 1;
  int64_t size = 0;
  int64_t inner = 1;
  DimVector index_sizes;
  int64_t count = 0;
  bool has_long_index = false;  // i64, else i32

  // `table`: in row-major order.
  RowGeometry(const StridedLayout& table, int64_t dim, const TensorSpec& index)
      : index_sizes(index.layout.sizes), has_long_index(index.dtype == DType::kInt64) {
    for (int64_t d = 0; d < table.rank(); ++d) {
      const int64_t extent = table.sizes[static_cast<size_t>(d)];
      if (d < dim) outer *= extent;
      if (d == dim) size = extent;
      if (d > dim) inner *= extent;
    }
    count = NumElements(index_sizes);
  }

  int64_t Index(const void* index, int64_t position) const {
    return has_long_index ? static_cast<const int64_t*>(index)[position] : static_cast<const int32_t*>(index)[position];
  }

  // Calls fn with the index as a pointer to its type.
  template <typename Fn>
  void WithIndex(const void* index, Fn fn) const {
    if (has_long_index) {
      fn(static_cast<const int64_t*>(index));
    } else {
      fn(static_cast<const int32_t*>(index));
    }
  }

  // Checks all elements.
  // InvalidArgument: an element is outside [-size, size); the message names the first one.
  absl::Status CheckIndex(const void* index, OpKind kind) const {
    const IndexRange range{.size = size, .from_end = true};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = Index(index, i);
      if (!range.Allows(value)) return range.OutOfRangeError(kind, index_sizes, i, value);
    }
    return absl::OkStatus();
  }
};

// Returns the row of an index element; negative ones count from the end.
[[gnu::always_inline]] inline int64_t RowOf(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

// Calls fn(outer, first, last) for the parts of [begin, end) with one outer position each: `per_outer` items belong to
// one, of which it has those in [first, last).
template <typename Fn>
void ForEachOuter(int64_t begin, int64_t end, int64_t per_outer, Fn fn) {
  while (begin < end) {
    const int64_t outer = begin / per_outer;
    const int64_t first = begin % per_outer;
    const int64_t last = std::min(per_outer, first + end - begin);
    fn(outer, first, last);
    begin += last - first;
  }
}

// Gathers rows of one element.
template <typename T, typename Index>
void GatherElements(const T* table, const Index* index, int64_t size, int64_t count, T* rows) {
  for (int64_t i = 0; i < count; ++i) rows[i] = table[RowOf(index[i], size)];
}

template <typename Index>
void GatherRows(const char* table, const Index* index, int64_t size, int64_t count, size_t row_bytes, char* rows) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(rows + static_cast<size_t>(i) * row_bytes,
                table + static_cast<size_t>(RowOf(index[i], size)) * row_bytes, row_bytes);
  }
}

class GatherKernel final : public Kernel {
 public:
  GatherKernel(RowGeometry geometry, size_t element_size, int threads)
      : geometry_(std::move(geometry)),
        is_single_(geometry_.inner == 1),
        row_bytes_(static_cast<size_t>(geometry_.inner) * element_size),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(geometry_.CheckIndex(args.inputs[1], serialization::Op::kGather));
    const auto* table = static_cast<const char*>(args.inputs[0]);
    auto* rows = static_cast<char*>(args.outputs[0]);
    const int64_t grain = std::max<int64_t>(1, kGatherBytesPerChunk / static_cast<int64_t>(row_bytes_ + 1));
    geometry_.WithIndex(args.inputs[1], [&](const auto* index) {
      ParallelFor(threads_, geometry_.outer * geometry_.count, grain, [&](int64_t begin, int64_t end) {
        ForEachOuter(begin, end, geometry_.count, [&](int64_t outer, int64_t first, int64_t last) {
          Gather(table + static_cast<size_t>(outer * geometry_.size) * row_bytes_, index + first, last - first,
                 rows + static_cast<size_t>(outer * geometry_.count + first) * row_bytes_);
        });
      });
    });
    return absl::OkStatus();
  }

 private:
  // Gathers `count` rows of one outer position.
  template <typename Index>
  void Gather(const char* table, const Index* index, int64_t count, char* rows) const {
    if (is_single_ && row_bytes_ == sizeof(uint32_t)) {
      GatherElements(reinterpret_cast<const uint32_t*>(table), index, geometry_.size, count,
                     reinterpret_cast<uint32_t*>(rows));
    } else if (is_single_ && row_bytes_ == sizeof(uint64_t)) {
      GatherElements(reinterpret_cast<const uint64_t*>(table), index, geometry_.size, count,
                     reinterpret_cast<uint64_t*>(rows));
    } else {
      GatherRows(table, index, geometry_.size, count, row_bytes_, rows);
    }
  }

  RowGeometry geometry_;
  bool is_single_;  // rows have one element, which is aligned
  size_t row_bytes_;
  int threads_;
};

// Adds columns [begin, end) of rows of `inner` elements to those of the table, in index order; integers wrap around.
template <typename T, typename Index>
COTAN_SIMD_VERSIONS void AddColumns(const T* __restrict rows, const Index* __restrict index,
                                    const RowGeometry& geometry, int64_t padding_index, int64_t begin, int64_t end,
                                    T* __restrict table) {
  for (int64_t i = 0; i < geometry.count; ++i) {
    const int64_t row = RowOf(index[i], geometry.size);
    if (row == padding_index) continue;
    const T* __restrict from = rows + i * geometry.inner;
    T* __restrict to = table + row * geometry.inner;
    for (int64_t c = begin; c < end; ++c) to[c] = static_cast<T>(to[c] + from[c]);
  }
}

// Adds the rows to an output that holds the initial values.
template <typename T>
class ScatterAddKernel final : public Kernel {
 public:
  ScatterAddKernel(RowGeometry geometry, int64_t padding_index, int threads)
      : geometry_(std::move(geometry)), padding_index_(padding_index), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* rows = static_cast<const T*>(args.inputs[0]);
    auto* table = static_cast<T*>(args.outputs[0]);
    COTAN_RETURN_IF_ERROR(geometry_.CheckIndex(args.inputs[1], serialization::Op::kScatterAdd));
    // A chunk is a range of columns at one outer position; each element is summed in index order.
    constexpr int64_t kColumns = 256 / sizeof(T);
    const int64_t chunks_per_row = (geometry_.inner + kColumns - 1) / kColumns;
    geometry_.WithIndex(args.inputs[1], [&](const auto* index) {
      ParallelFor(threads_, geometry_.outer * chunks_per_row, ChunkGrain(chunks_per_row),
                  [&](int64_t begin, int64_t end) {
                    ForEachOuter(begin, end, chunks_per_row, [&](int64_t outer, int64_t first, int64_t last) {
                      AddColumns(rows + outer * geometry_.count * geometry_.inner, index, geometry_, padding_index_,
                                 first * kColumns, std::min(last * kColumns, geometry_.inner),
                                 table + outer * geometry_.size * geometry_.inner);
                    });
                  });
    });
    return absl::OkStatus();
  }

 private:
  // Returns few, long ranges: each one reads the whole index.
  int64_t ChunkGrain(int64_t chunks_per_row) const {
    const int64_t chunks = geometry_.outer * chunks_per_row;
    return std::max<int64_t>(1, (chunks + threads_ - 1) / threads_);
  }

  RowGeometry geometry_;
  int64_t padding_index_;
  int threads_;
};

// The operands of both ops with their dimensions in the order in which the result has them in memory, outermost first,
// so that a channels-last result is row-major as well, and operands in channels-last layout, or slices of these, are
// nearly so.
class Operands {
 public:
  // Keeps the order of dimensions if the result is not dense in any, or the index is not a vector.
  Operands(const StridedLayout& result, int64_t index_rank, int64_t dim) : dim_(dim) {
    if (index_rank != 1) return;
    DimVector order(result.sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&result](int64_t a, int64_t b) {
      return result.strides[static_cast<size_t>(a)] > result.strides[static_cast<size_t>(b)];
    });
    if (!IsContiguous(Reordered(result, order))) return;
    dim_ = std::find(order.begin(), order.end(), dim) - order.begin();
    order_ = std::move(order);
  }

  int64_t dim() const { return dim_; }

  // Returns a table or rows with the dimensions in order.
  TensorSpec InOrder(const TensorSpec& spec) const {
    return order_.empty() ? spec : TensorSpec{spec.dtype, Reordered(spec.layout, order_)};
  }

 private:
  static StridedLayout Reordered(const StridedLayout& layout, const DimVector& order) {
    StridedLayout result;
    for (const int64_t d : order) {
      result.sizes.push_back(layout.sizes[static_cast<size_t>(d)]);
      result.strides.push_back(layout.strides[static_cast<size_t>(d)]);
    }
    return result;
  }

  DimVector order_;  // empty: as it is
  int64_t dim_;
};

StridedLayout RowMajor(const StridedLayout& layout) { return {layout.sizes, ContiguousStrides(layout.sizes), 0}; }

absl::StatusOr<std::unique_ptr<Kernel>> MakeScatterAddKernel(DType dtype, RowGeometry geometry, int64_t padding_index,
                                                             int threads) {
  const auto make = [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<ScatterAddKernel<decltype(zero)>>(std::move(geometry), padding_index, threads);
  };
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt8:
      return make(uint8_t{});
    case DType::kInt16:
      return make(uint16_t{});
    case DType::kInt32:
      return make(uint32_t{});
    case DType::kInt64:
      return make(uint64_t{});
    case DType::kFloat32:
      return make(float{});
    case DType::kFloat64:
      return make(double{});
    default:
      return absl::UnimplementedError(absl::StrCat("scatter_add: dtype ", DTypeName(dtype), " is not supported"));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeGather(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const Operands operands(request.outputs[0].layout, request.inputs[1].layout.rank(), request.op.gather().dim());
  const TensorSpec table = operands.InOrder(request.inputs[0]);
  const TensorSpec output = operands.InOrder(request.outputs[0]);
  const size_t element = ByteSize(output.dtype);
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const Slot rows = BringRowMajor(table, Slot::Input(0), request.threads, *pipeline);
  const Slot index = BringRowMajor(request.inputs[1], Slot::Input(1), request.threads, *pipeline);
  RowGeometry geometry(table.layout, operands.dim(), request.inputs[1]);
  auto gather = std::make_unique<GatherKernel>(std::move(geometry), element, request.threads);
  if (IsContiguous(output.layout)) {
    pipeline->Add(std::move(gather), {rows, index}, {Slot::Output(0)});
    return pipeline;
  }
  const StridedLayout dense = RowMajor(output.layout);
  const Slot result = pipeline->AddScratch(static_cast<size_t>(NumElements(dense.sizes)) * element);
  pipeline->Add(std::move(gather), {rows, index}, {result});
  pipeline->Add(MakeCopyKernel(element, dense.sizes, dense.strides, output.layout.strides, request.threads), {result},
                {Slot::Output(0)});
  return pipeline;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeScatterAdd(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const serialization::ScatterAdd& op = request.op.scatter_add();
  const Operands operands(request.outputs[0].layout, request.inputs[1].layout.rank(), op.dim());
  const TensorSpec output = operands.InOrder(request.outputs[0]);
  const size_t element = ByteSize(output.dtype);
  const bool is_dense = IsContiguous(output.layout);
  const StridedLayout dense = RowMajor(output.layout);
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const Slot rows = BringRowMajor(operands.InOrder(request.inputs[0]), Slot::Input(0), request.threads, *pipeline);
  const Slot index = BringRowMajor(request.inputs[1], Slot::Input(1), request.threads, *pipeline);
  const Slot result =
      is_dense ? Slot::Output(0) : pipeline->AddScratch(static_cast<size_t>(NumElements(dense.sizes)) * element);
  if (request.inputs.size() == 3) {
    pipeline->Add(MakeCopyKernel(element, dense.sizes, operands.InOrder(request.inputs[2]).layout.strides,
                                 is_dense ? output.layout.strides : dense.strides, request.threads),
                  {Slot::Input(2)}, {result});
  } else {
    pipeline->Add(MakeZeroKernel(element, dense, request.threads), {}, {result});
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> scatter,
                         MakeScatterAddKernel(output.dtype, RowGeometry(dense, operands.dim(), request.inputs[1]),
                                              op.padding_index(), request.threads));
  pipeline->Add(std::move(scatter), {rows, index}, {result});
  if (!is_dense) {
    pipeline->Add(MakeCopyKernel(element, dense.sizes, dense.strides, output.layout.strides, request.threads), {result},
                  {Slot::Output(0)});
  }
  return pipeline;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeConcat(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto dim = static_cast<size_t>(request.op.concat().dim());
  const TensorSpec& output = request.outputs[0];
  const size_t element = ByteSize(output.dtype);
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  int64_t begin = 0;
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    const StridedLayout& input = request.inputs[i].layout;
    const auto offset = static_cast<size_t>(begin * output.layout.strides[dim]) * element;
    pipeline->Add(MakeCopyKernel(element, input.sizes, input.strides, output.layout.strides, request.threads),
                  {Slot::Input(i)}, {Slot::Output(0, offset)});
    begin += input.sizes[dim];
  }
  return pipeline;
}

}  // namespace cotan::cpu
