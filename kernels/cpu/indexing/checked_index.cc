// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/indexing/checked_index.h"

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/status_macros.h"
#include "kernels/api/index_range.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

// A checked_index kernel on row-major operands.
template <typename T>
class CheckedIndexKernel final : public Kernel {
 public:
  CheckedIndexKernel(IndexRange range, DimVector sizes, int threads)
      : range_(range), sizes_(std::move(sizes)), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const T*>(args.inputs[0]);
    auto* to = static_cast<T*>(args.outputs[0]);
    std::atomic<bool> all_allowed = true;
    ParallelFor(threads_, NumElements(sizes_), kElementsPerChunk, [&](int64_t begin, int64_t end) {
      if (!Resolve(from + begin, to + begin, end - begin)) all_allowed.store(false, std::memory_order_relaxed);
    });
    return all_allowed ? absl::OkStatus() : FirstError(from);
  }

 private:
  // Copies the index, with the size added to negative elements, and returns true if all are in range. The
  // loop has no branch per element.
  bool Resolve(const T* __restrict from, T* __restrict to, int64_t count) const {
    const int64_t ignored = range_.ignored.value_or(0);
    const bool ignores = range_.ignored.has_value();
    const int64_t lowest = range_.lowest();
    const int64_t size = range_.size;
    bool all_allowed = true;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = from[i];
      const bool passes = ignores & (value == ignored);
      all_allowed &= passes | ((value >= lowest) & (value < size));
      to[i] = static_cast<T>(value + ((value < 0) & !passes ? size : 0));
    }
    return all_allowed;
  }

  absl::Status FirstError(const T* from) const {
    int64_t position = 0;
    while (range_.Allows(from[position])) ++position;
    return range_.OutOfRangeError(serialization::Op::kCheckedIndex, sizes_, position, from[position]);
  }

  const IndexRange range_;
  const DimVector sizes_;
  const int threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeCheckedIndex(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const IndexRange range, IndexRange::Of(request));
  const TensorSpec& index = request.inputs[0];
  const TensorSpec& output = request.outputs[0];
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const Slot from = BringRowMajor(index, Slot::Input(0), request.threads, *pipeline);
  const size_t element = ByteSize(output.dtype);
  const bool is_dense = IsContiguous(output.layout);
  const DimVector& sizes = output.layout.sizes;
  const Slot to = is_dense ? Slot::Output(0) : pipeline->AddScratch(static_cast<size_t>(NumElements(sizes)) * element);
  if (index.dtype == DType::kInt32) {
    pipeline->Add(std::make_unique<CheckedIndexKernel<int32_t>>(range, sizes, request.threads), {from}, {to});
  } else {
    pipeline->Add(std::make_unique<CheckedIndexKernel<int64_t>>(range, sizes, request.threads), {from}, {to});
  }
  if (!is_dense) {
    pipeline->Add(MakeCopyKernel(element, sizes, ContiguousStrides(sizes), output.layout.strides, request.threads),
                  {to}, {Slot::Output(0)});
  }
  return pipeline;
}

}  // namespace cotan::cpu
