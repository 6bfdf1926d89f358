// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/pool.h"

#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/pool/average_pool.h"
#include "kernels/cpu/pool/pool_geometry.h"
#include "kernels/cpu/pool/pool_rows.h"
#include "kernels/cpu/pool/pool_windows.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

// Computes one row (all w) of the output; `index` may be null.
template <typename T>
COTAN_SIMD_VERSIONS void MaxRow(const PoolGeometry& g, int64_t d, int64_t h, const T* input, T* output,
                                int32_t* index) {
  const int64_t side = IsWhole(g.axes[1], h) ? SquareSide(g) : 0;
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    T* to = output + w * g.axes[2].output_stride;
    int32_t* at = index == nullptr ? nullptr : index + w * g.axes[2].index_stride;
    int64_t lane = 0;
    if (side != 0 && IsWhole(g.axes[2], w)) {
      const WholeWindow window = WholeWindowAt(g.axes, d, h, w);
      for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
        int32_t* const positions = at == nullptr ? nullptr : at + lane;
        if (side == 2) MaxOfWhole<T, 2>(window, input + lane, to + lane, positions);
        if (side == 3) MaxOfWhole<T, 3>(window, input + lane, to + lane, positions);
      }
    }
    for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
      MaxOfLanes(g, d, h, w, input + lane, to + lane, at == nullptr ? nullptr : at + lane);
    }
    ForEachFewLanes<T>(
        lane, g.lanes.size, [&](int64_t first, auto count) __attribute__((always_inline)) {
          int32_t* const positions = at == nullptr ? nullptr : at + first;
          if constexpr (count() > 1) {
            MaxOfFewLanes<T, count()>(g, d, h, w, input + first, to + first, positions);
          } else {
            MaxOfLane(g, d, h, w, input + first, to + first, positions);
          }
        });
  }
}

// Adds the gradients of one output row to the input taps they came from. With `assigns` each tap is in one
// window only, and its gradient is assigned.
template <typename T>
COTAN_SIMD_VERSIONS void MaxRowBackward(const PoolGeometry& g, bool assigns, int64_t d, int64_t h, const T* grad_output,
                                        const int32_t* index, T* grad_input) {
  const int64_t side = IsWhole(g.axes[1], h) ? SquareSide(g) : 0;
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    const int32_t* at = index + w * g.axes[2].index_stride;
    const T* from = grad_output + w * g.axes[2].output_stride;
    int64_t lane = 0;
    if (side != 0 && IsWhole(g.axes[2], w)) {
      const WholeWindow window = WholeWindowAt(g.axes, d, h, w);
      for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
        if (side == 2) MaxOfWholeBackward<T, 2>(window, assigns, from + lane, at + lane, grad_input + lane);
        if (side == 3) MaxOfWholeBackward<T, 3>(window, assigns, from + lane, at + lane, grad_input + lane);
      }
    }
    for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
      typename PositionsOf<T>::Stored stored;
      std::memcpy(&stored, at + lane, sizeof(stored));
      const auto position = __builtin_convertvector(stored, Positions<T>);
      Vector<T> gradient;
      Load(from + lane, gradient);
      ForEachTap(
          g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
            T* to = grad_input + offset + lane;
            const Positions<T> here = position == static_cast<Position<T>>(flat);
            Vector<T> sum = {};
            if (!assigns) Load(to, sum);
            Store<T>(sum + (here ? gradient : Vector<T>{}), to);
          });
    }
    ForEachFewLanes<T>(
        lane, g.lanes.size, [&](int64_t first, auto count) __attribute__((always_inline)) {
          if constexpr (count() > 1) {
            MaxOfFewLanesBackward<T, count()>(g, assigns, d, h, w, from + first, at + first, grad_input + first);
          } else {
            ForEachTap(
                g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
                  T& to = grad_input[offset + first];
                  to = (assigns ? T{0} : to) + (at[first] == flat ? from[first] : T{0});
                });
          }
        });
  }
}

template <typename T>
class MaxPool final : public Kernel {
 public:
  MaxPool(PoolGeometry geometry, bool has_index, int threads)
      : geometry_(std::move(geometry)), has_index_(has_index), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* input = static_cast<const T*>(args.inputs[0]);
    auto* output = static_cast<T*>(args.outputs[0]);
    auto* index = has_index_ ? static_cast<int32_t*>(args.outputs[1]) : nullptr;
    ForEachOutputRow(
        geometry_, threads_, [](int) {},
        [&](int, int64_t d, int64_t h, const PoolOffsets& at) {
          MaxRow(geometry_, d, h, input + at.input, output + at.output, has_index_ ? index + at.index : nullptr);
        });
    return absl::OkStatus();
  }

 private:
  PoolGeometry geometry_;
  bool has_index_;
  int threads_;
};

template <typename T>
class MaxPoolBackward final : public Kernel {
 public:
  MaxPoolBackward(PoolGeometry geometry, std::unique_ptr<Kernel> zero, int threads)
      : geometry_(std::move(geometry)), zero_(std::move(zero)), threads_(threads) {
    assigns_ = geometry_.lanes.size > 1 && geometry_.WindowsAreDisjoint();
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* grad_output = static_cast<const T*>(args.inputs[0]);
    const auto* index = static_cast<const int32_t*>(args.inputs[1]);
    auto* grad_input = static_cast<T*>(args.outputs[0]);
    if (!assigns_ || !geometry_.WindowsTile()) COTAN_RETURN_IF_ERROR(zero_->Run(args));
    std::atomic<int64_t> foreign{0};
    ForEachOutputRowByOuter(geometry_, threads_, [&](int64_t d, int64_t h, const PoolOffsets& at) {
      if (geometry_.lanes.size > 1) {
        MaxRowBackward(geometry_, assigns_, d, h, grad_output + at.output, index + at.index, grad_input + at.input);
      } else if (!Scatter(grad_output + at.output, index + at.index, grad_input + at.input)) {
        foreign.store(1, std::memory_order_relaxed);
      }
    });
    if (foreign.load() == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("max_pool_backward: an index is outside its plane of ", Plane(),
                                                   " elements; the indices must come from max_pool"));
  }

 private:
  int64_t Plane() const { return geometry_.axes[0].input * geometry_.axes[1].input * geometry_.axes[2].input; }

  // Scatters one row with a single lane. Returns false if an index is outside the plane.
  bool Scatter(const T* grad_output, const int32_t* index, T* grad_input) const {
    const auto& axes = geometry_.axes;
    const int64_t plane = Plane();
    for (int64_t w = 0; w < axes[2].output; ++w) {
      const int64_t flat = index[w * axes[2].index_stride];
      if (flat < 0 || flat >= plane) return false;
      const int64_t id = flat / (axes[1].input * axes[2].input);
      const int64_t ih = flat / axes[2].input % axes[1].input;
      const int64_t iw = flat % axes[2].input;
      grad_input[id * axes[0].input_stride + ih * axes[1].input_stride + iw * axes[2].input_stride] +=
          grad_output[w * axes[2].output_stride];
    }
    return true;
  }

  PoolGeometry geometry_;
  bool assigns_ = false;          // each input element has one window at most
  std::unique_ptr<Kernel> zero_;  // clears the gradient
  int threads_;
};

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
  const int threads = ThreadsWorthwhile(request.threads, geometry.Work());
  return std::make_unique<MaxPool<T>>(std::move(geometry), has_index, threads);
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
  const int threads = ThreadsWorthwhile(request.threads, geometry.Work());
  return std::make_unique<MaxPoolBackward<T>>(std::move(geometry), ZeroOutput(request), threads);
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeAvgPoolOf(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const serialization::Pool& op = request.op.avg_pool();
  const StridedLayout& output = request.outputs[0].layout;
  PoolGeometry geometry(op, request.inputs[0].layout, output, output);
  const int threads = ThreadsWorthwhile(request.threads, geometry.Work());
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
  const int threads = ThreadsWorthwhile(request.threads, geometry.Work());
  return MakeAverageBackwardKernel<T>(std::move(geometry), {op.count_include_pad(), op.divisor_override()},
                                      ZeroOutput(request), threads);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPool(const KernelRequest& request) {
  return MakeFor(request, MakeMaxPoolOf<float>, MakeMaxPoolOf<double>);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMaxPoolBackward(const KernelRequest& request) {
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
