// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/pool.h"

#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/pool/average_pool.h"
#include "kernels/cpu/pool/max_pool.h"
#include "kernels/cpu/pool/pool_geometry.h"
#include "kernels/cpu/simd/avx512_lanes.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

// Converts positions in memory of the same order. Those that 32 bits cannot hold become -1, which is in no plane.
template <typename From, typename To>
class CastPositions final : public Kernel {
 public:
  CastPositions(int64_t count, int threads) : count_(count), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* from = static_cast<const From*>(args.inputs[0]);
    auto* to = static_cast<To*>(args.outputs[0]);
    ParallelFor(threads_, count_, kElementsPerChunk, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const auto position = static_cast<To>(from[i]);
        to[i] = position == from[i] ? position : To{-1};
      }
    });
    return absl::OkStatus();
  }

 private:
  int64_t count_;
  int threads_;
};

// Operand `i` of `specs`, i64 indices, as i32, and memory for it and for a dense copy.
struct NarrowIndices {
  NarrowIndices(absl::Span<const TensorSpec> specs, size_t i, Pipeline& pipeline)
      : wide(specs[i].layout), specs(specs.begin(), specs.end()) {
    const auto count = static_cast<size_t>(NumElements(wide.sizes));
    StridedLayout& layout = this->specs[i].layout;
    this->specs[i].dtype = DType::kInt32;
    narrow = pipeline.AddScratch(count * sizeof(int32_t));
    if (IsDenseNonOverlapping(wide)) return;
    layout.strides = ContiguousStrides(wide.sizes);
    dense = pipeline.AddScratch(count * sizeof(int64_t));
  }

  StridedLayout wide;
  std::vector<TensorSpec> specs;
  Slot narrow;
  std::optional<Slot> dense;  // unless the elements of `wide` are
};

// Returns a max pool of a request with i64 indices: one with i32 indices, which are then converted.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWithWideIndices(const KernelRequest& request, KernelFactory factory) {
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const NarrowIndices indices(request.outputs, 1, *pipeline);
  KernelRequest narrow = request;
  narrow.outputs = indices.specs;
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(narrow));
  pipeline->Add(std::move(kernel), {Slot::Input(0)}, {Slot::Output(0), indices.narrow});
  const int64_t count = NumElements(indices.wide.sizes);
  pipeline->Add(std::make_unique<CastPositions<int32_t, int64_t>>(count, request.threads), {indices.narrow},
                {indices.dense.value_or(Slot::Output(1))});
  if (!indices.dense.has_value()) return pipeline;
  pipeline->Add(MakeCopyKernel(sizeof(int64_t), indices.wide.sizes, ContiguousStrides(indices.wide.sizes),
                               indices.wide.strides, request.threads),
                {*indices.dense}, {Slot::Output(1)});
  return pipeline;
}

// Returns the backward of a request with i64 indices.
absl::StatusOr<std::unique_ptr<Kernel>> MakeBackwardWithWideIndices(const KernelRequest& request,
                                                                    KernelFactory factory) {
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const NarrowIndices indices(request.inputs, 1, *pipeline);
  if (indices.dense.has_value()) {
    pipeline->Add(MakeCopyKernel(sizeof(int64_t), indices.wide.sizes, indices.wide.strides,
                                 ContiguousStrides(indices.wide.sizes), request.threads),
                  {Slot::Input(1)}, {*indices.dense});
  }
  const int64_t count = NumElements(indices.wide.sizes);
  pipeline->Add(std::make_unique<CastPositions<int64_t, int32_t>>(count, request.threads),
                {indices.dense.value_or(Slot::Input(1))}, {indices.narrow});
  KernelRequest narrow = request;
  narrow.inputs = indices.specs;
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(narrow));
  pipeline->Add(std::move(kernel), {Slot::Input(0), indices.narrow}, {Slot::Output(0)});
  return pipeline;
}

// Makes a kernel by the factory of the dtype of output 0, f32 or f64.
absl::StatusOr<std::unique_ptr<Kernel>> MakeFor(const KernelRequest& request, KernelFactory f32, KernelFactory f64) {
  switch (request.outputs[0].dtype) {
    case DType::kFloat32:
      return f32(request);
    case DType::kFloat64:
      return f64(request);
    default:
      return absl::UnimplementedError(
          absl::StrCat("pool: dtype ", DTypeName(request.outputs[0].dtype), " is not supported; expected f32 or f64"));
  }
}

std::unique_ptr<Kernel> ZeroOutput(const KernelRequest& request) {
  const TensorSpec& output = request.outputs[0];
  return MakeZeroKernel(ByteSize(output.dtype), output.layout, request.threads);
}

// Checks that positions in a plane fit the 32 bits in which max pooling keeps them.
absl::Status CheckPlane(const PoolGeometry& geometry) {
  const auto& axes = geometry.axes;
  const double plane =
      static_cast<double>(axes[0].input) * static_cast<double>(axes[1].input) * static_cast<double>(axes[2].input);
  if (plane <= std::numeric_limits<int32_t>::max()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("max_pool: the input plane has ", plane, " positions; at most 2^31 - 1 are supported"));
}

// Returns how many of the request's threads are worthwhile. An operation of a pool takes as long as ten of a product.
int PoolThreads(const KernelRequest& request, const PoolGeometry& geometry) {
  return ThreadsWorthwhile(request.threads, 10 * geometry.Work());
}

// Returns true if the dimension before `spatial` ones has lanes: it is dense.
bool HasLanes(const StridedLayout& layout, int spatial) {
  const int channel = layout.rank() - spatial - 1;
  if (channel < 0) return false;
  return layout.sizes[static_cast<size_t>(channel)] > 1 && layout.strides[static_cast<size_t>(channel)] == 1;
}

// Returns dense strides in which the dimension before `spatial` ones is the innermost.
DimVector ChannelsLastStrides(const DimVector& sizes, int spatial) {
  DimVector order;
  const auto rank = static_cast<int64_t>(sizes.size());
  const int64_t channel = rank - spatial - 1;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != channel) order.push_back(d);
  }
  order.push_back(channel);
  return DenseStrides(sizes, order);
}

// Returns the kernel of a backward whose gradient of the output alone has no lanes, as after a product with a flattened
// pool: the gradient is copied to channels last first.
absl::StatusOr<std::unique_ptr<Kernel>> MakeWithReorderedGradient(const KernelRequest& request, int spatial,
                                                                  KernelFactory factory) {
  const StridedLayout& from = request.inputs[0].layout;
  std::vector<TensorSpec> inputs(request.inputs.begin(), request.inputs.end());
  inputs[0].layout.strides = ChannelsLastStrides(from.sizes, spatial);
  KernelRequest reordered = request;
  reordered.inputs = inputs;
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(reordered));
  const size_t element = ByteSize(inputs[0].dtype);
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const Slot gradient = pipeline->AddScratch(element * static_cast<size_t>(NumElements(from.sizes)));
  pipeline->Add(MakeCopyKernel(element, from.sizes, from.strides, inputs[0].layout.strides, request.threads),
                {Slot::Input(0)}, {gradient});
  std::vector<Slot> operands = {gradient};
  if (inputs.size() == 2) operands.push_back(Slot::Input(1));
  pipeline->Add(std::move(kernel), operands, {Slot::Output(0)});
  return pipeline;
}

}  // namespace

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolOf(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const bool has_index = request.outputs.size() == 2;
  if (has_index && request.outputs[1].dtype == DType::kInt64) return MakeWithWideIndices(request, MakeMaxPoolOf<T>);
  PoolGeometry geometry(request.op.max_pool(), request.inputs[0].layout, request.outputs[0].layout,
                        request.outputs[has_index ? 1 : 0].layout);
  COTAN_RETURN_IF_ERROR(CheckPlane(geometry));
  const int threads = PoolThreads(request, geometry);
  return MakeMaxPoolKernel<T>(std::move(geometry), has_index, threads);
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackwardOf(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  if (request.inputs[1].dtype == DType::kInt64) return MakeBackwardWithWideIndices(request, MakeMaxPoolBackwardOf<T>);
  const int spatial = request.op.max_pool_backward().kernel_size();
  const bool results_have_lanes =
      HasLanes(request.outputs[0].layout, spatial) && HasLanes(request.inputs[1].layout, spatial);
  if (results_have_lanes && !HasLanes(request.inputs[0].layout, spatial)) {
    return MakeWithReorderedGradient(request, spatial, MakeMaxPoolBackwardOf<T>);
  }
  PoolGeometry geometry(request.op.max_pool_backward(), request.outputs[0].layout, request.inputs[0].layout,
                        request.inputs[1].layout);
  COTAN_RETURN_IF_ERROR(CheckPlane(geometry));
  const int threads = PoolThreads(request, geometry);
  return MakeMaxPoolBackwardKernel<T>(std::move(geometry), ZeroOutput(request), threads);
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolOf(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const serialization::Pool& op = request.op.avg_pool();
  const StridedLayout& output = request.outputs[0].layout;
  PoolGeometry geometry(op, request.inputs[0].layout, output, output);
  const int threads = PoolThreads(request, geometry);
  return MakeAverageKernel<T>(std::move(geometry), {op.count_include_pad(), op.divisor_override()}, threads);
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolBackwardOf(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const serialization::Pool& op = request.op.avg_pool_backward();
  const StridedLayout& output = request.inputs[0].layout;
  if (HasLanes(request.outputs[0].layout, op.kernel_size()) && !HasLanes(output, op.kernel_size())) {
    return MakeWithReorderedGradient(request, op.kernel_size(), MakeAvgPoolBackwardOf<T>);
  }
  PoolGeometry geometry(op, request.outputs[0].layout, output, output);
  const int threads = PoolThreads(request, geometry);
  return MakeAverageBackwardKernel<T>(std::move(geometry), {op.count_include_pad(), op.divisor_override()},
                                      ZeroOutput(request), threads);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPool(const KernelRequest& request) {
  if (request.outputs[0].dtype == DType::kBFloat16) return MakeMaxPoolOf<BFloat16>(request);
  return MakeFor(request, MakeMaxPoolOf<float>, MakeMaxPoolOf<double>);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackward(const KernelRequest& request) {
  if (request.outputs[0].dtype == DType::kBFloat16) return MakeMaxPoolBackwardOf<BFloat16>(request);
  return MakeFor(request, MakeMaxPoolBackwardOf<float>, MakeMaxPoolBackwardOf<double>);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPool(const KernelRequest& request) {
  return MakeFor(request, MakeAvgPoolOf<float>, MakeAvgPoolOf<double>);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolBackward(const KernelRequest& request) {
  return MakeFor(request, MakeAvgPoolBackwardOf<float>, MakeAvgPoolBackwardOf<double>);
}

template absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolOf<float>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolOf<double>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackwardOf<float>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackwardOf<double>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolOf<float>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolOf<double>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolBackwardOf<float>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolBackwardOf<double>(const KernelRequest& request);

}  // namespace cotan::cpu
