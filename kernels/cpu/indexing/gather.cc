// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/indexing/gather.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
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

  // Returns the row of an index element; negative ones count from the end.
  int64_t Row(const void* index, int64_t position) const {
    const int64_t value = Index(index, position);
    return value < 0 ? value + size : value;
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

class GatherKernel final : public Kernel {
 public:
  GatherKernel(RowGeometry geometry, size_t element_size, int threads)
      : geometry_(std::move(geometry)),
        row_bytes_(static_cast<size_t>(geometry_.inner) * element_size),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(geometry_.CheckIndex(args.inputs[1], serialization::Op::kGather));
    const auto* table = static_cast<const char*>(args.inputs[0]);
    auto* rows = static_cast<char*>(args.outputs[0]);
    const int64_t grain = std::max<int64_t>(1, kGatherBytesPerChunk / static_cast<int64_t>(row_bytes_ + 1));
    ParallelFor(threads_, geometry_.outer * geometry_.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t outer = i / geometry_.count;
        const int64_t row = geometry_.Row(args.inputs[1], i % geometry_.count);
        std::memcpy(rows + static_cast<size_t>(i) * row_bytes_,
                    table + static_cast<size_t>(outer * geometry_.size + row) * row_bytes_, row_bytes_);
      }
    });
    return absl::OkStatus();
  }

 private:
  RowGeometry geometry_;
  size_t row_bytes_;
  int threads_;
};

// Adds; integers wrap around.
template <typename T>
COTAN_SIMD_VERSIONS void AddRow(const T* __restrict from, T* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(to[i] + from[i]);
}

// Adds the rows to an output that holds the initial values.
template <typename T>
class ScatterAddKernel final : public Kernel {
 public:
  ScatterAddKernel(RowGeometry geometry, int64_t padding_index, int threads)
      : geometry_(std::move(geometry)), padding_index_(padding_index), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* rows = static_cast<const T*>(args.inputs[0]);
    const void* index = args.inputs[1];
    auto* table = static_cast<T*>(args.outputs[0]);
    COTAN_RETURN_IF_ERROR(geometry_.CheckIndex(index, serialization::Op::kScatterAdd));
    // A chunk is a range of columns at one outer position; each element is summed in index order.
    constexpr int64_t kColumns = 256 / sizeof(T);
    const int64_t chunks_per_row = (geometry_.inner + kColumns - 1) / kColumns;
    ParallelFor(threads_, geometry_.outer * chunks_per_row, ChunkGrain(chunks_per_row),
                [&](int64_t begin, int64_t end) {
                  while (begin < end) {
                    const int64_t outer = begin / chunks_per_row;
                    const int64_t first = begin % chunks_per_row;
                    const int64_t last = std::min(chunks_per_row, first + end - begin);
                    AddColumns(rows, index, table, outer, first * kColumns, std::min(last * kColumns, geometry_.inner));
                    begin += last - first;
                  }
                });
    return absl::OkStatus();
  }

 private:
  // Returns few, long ranges: each one reads the whole index.
  int64_t ChunkGrain(int64_t chunks_per_row) const {
    const int64_t chunks = geometry_.outer * chunks_per_row;
    return std::max<int64_t>(1, (chunks + threads_ - 1) / threads_);
  }

  void AddColumns(const T* rows, const void* index, T* table, int64_t outer, int64_t begin, int64_t end) const {
    for (int64_t i = 0; i < geometry_.count; ++i) {
      const int64_t row = geometry_.Row(index, i);
      if (row == padding_index_) continue;
      AddRow(rows + (outer * geometry_.count + i) * geometry_.inner + begin,
             table + (outer * geometry_.size + row) * geometry_.inner + begin, end - begin);
    }
  }

  RowGeometry geometry_;
  int64_t padding_index_;
  int threads_;
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
  const TensorSpec& table = request.inputs[0];
  const TensorSpec& output = request.outputs[0];
  const size_t element = ByteSize(output.dtype);
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const Slot rows = BringRowMajor(table, Slot::Input(0), request.threads, *pipeline);
  const Slot index = BringRowMajor(request.inputs[1], Slot::Input(1), request.threads, *pipeline);
  RowGeometry geometry(table.layout, request.op.gather().dim(), request.inputs[1]);
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
  const TensorSpec& output = request.outputs[0];
  const size_t element = ByteSize(output.dtype);
  const bool is_dense = IsContiguous(output.layout);
  const StridedLayout dense = RowMajor(output.layout);
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const Slot rows = BringRowMajor(request.inputs[0], Slot::Input(0), request.threads, *pipeline);
  const Slot index = BringRowMajor(request.inputs[1], Slot::Input(1), request.threads, *pipeline);
  const Slot result =
      is_dense ? Slot::Output(0) : pipeline->AddScratch(static_cast<size_t>(NumElements(dense.sizes)) * element);
  if (request.inputs.size() == 3) {
    pipeline->Add(MakeCopyKernel(element, dense.sizes, request.inputs[2].layout.strides,
                                 is_dense ? output.layout.strides : dense.strides, request.threads),
                  {Slot::Input(2)}, {result});
  } else {
    pipeline->Add(MakeZeroKernel(element, dense, request.threads), {}, {result});
  }
  const serialization::ScatterAdd& op = request.op.scatter_add();
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> scatter,
                         MakeScatterAddKernel(output.dtype, RowGeometry(dense, op.dim(), request.inputs[1]),
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
