// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/pool.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/half.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/pool/average_pool.h"
#include "kernels/cpu/pool/avx512_max_rows.h"
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
template <typename S>
COTAN_SIMD_VERSIONS void MaxRow(const PoolGeometry& g, int64_t d, int64_t h, const S* input, S* output,
                                int32_t* index) {
  using T = PoolValue<S>;
  const int64_t side = IsWhole(g.axes[1], h) ? SquareSide(g) : 0;
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    S* to = output + w * g.axes[2].output_stride;
    int32_t* at = index == nullptr ? nullptr : index + w * g.axes[2].index_stride;
    int64_t lane = 0;
    // GCC 12 does not vectorize loops that convert bf16 and compare: its lanes are computed in smaller groups below.
    if constexpr (!std::is_same_v<S, BFloat16>) {
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
    }
    ForEachFewLanes<T>(
        lane, g.lanes.size, [&](int64_t first, auto count) __attribute__((always_inline)) {
          int32_t* const positions = at == nullptr ? nullptr : at + first;
          if constexpr (count() > 1) {
            MaxOfFewLanes<S, count()>(g, d, h, w, input + first, to + first, positions);
          } else {
            MaxOfLane(g, d, h, w, input + first, to + first, positions);
          }
        });
  }
}

// Returns the function that computes the rows of `g`.
template <typename S>
MaxRowFunction<S> MaxRowOf(const PoolGeometry& g) {
  if constexpr (!std::is_same_v<S, double>) {
    const MaxRowFunction<S> avx512 = g.lanes.size > 1 ? Avx512MaxRow<S>() : nullptr;
    if (avx512 != nullptr) return avx512;
  }
  return MaxRow<S>;
}

// Adds the gradients of one output row to the input taps they came from. With `assigns` each tap is in one
// window only, and its gradient is assigned. A is S, or float for BFloat16.
template <typename S, typename A>
COTAN_SIMD_VERSIONS void MaxRowBackward(const PoolGeometry& g, bool assigns, int64_t d, int64_t h, const S* grad_output,
                                        const int32_t* index, A* grad_input) {
  using T = PoolValue<S>;
  const int64_t side = IsWhole(g.axes[1], h) ? SquareSide(g) : 0;
  for (int64_t w = 0; w < g.axes[2].output; ++w) {
    const int32_t* at = index + w * g.axes[2].index_stride;
    const S* from = grad_output + w * g.axes[2].output_stride;
    int64_t lane = 0;
    if (side != 0 && IsWhole(g.axes[2], w)) {
      const WholeWindow window = WholeWindowAt(g.axes, d, h, w);
      for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
        if (side == 2) MaxOfWholeBackward<2>(window, assigns, from + lane, at + lane, grad_input + lane);
        if (side == 3) MaxOfWholeBackward<3>(window, assigns, from + lane, at + lane, grad_input + lane);
      }
    }
    for (; lane + kVectorSize<T> <= g.lanes.size; lane += kVectorSize<T>) {
      MaxOfFewLanesBackward<kVectorSize<T>>(g, assigns, d, h, w, from + lane, at + lane, grad_input + lane);
    }
    ForEachFewLanes<T>(
        lane, g.lanes.size, [&](int64_t first, auto count) __attribute__((always_inline)) {
          if constexpr (count() > 1) {
            MaxOfFewLanesBackward<count()>(g, assigns, d, h, w, from + first, at + first, grad_input + first);
          } else {
            ForEachTap(
                g.axes, d, h, w, [&](int64_t offset, int64_t flat) __attribute__((always_inline)) {
                  A& to = grad_input[offset + first];
                  const T gradient = at[first] == flat ? ToValue(from[first]) : T{0};
                  if constexpr (std::is_same_v<A, BFloat16>) {
                    to = ToElement<A>(gradient);
                  } else {
                    to = (assigns ? T{0} : to) + gradient;
                  }
                });
          }
        });
  }
}

template <typename S>
class MaxPool final : public Kernel {
 public:
  MaxPool(PoolGeometry geometry, bool has_index, int threads)
      : geometry_(std::move(geometry)), row_(MaxRowOf<S>(geometry_)), has_index_(has_index), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* input = static_cast<const S*>(args.inputs[0]);
    auto* output = static_cast<S*>(args.outputs[0]);
    auto* index = has_index_ ? static_cast<int32_t*>(args.outputs[1]) : nullptr;
    ForEachOutputRow(
        geometry_, threads_, [](int) {},
        [&](int, int64_t d, int64_t h, const PoolOffsets& at) {
          row_(geometry_, d, h, input + at.input, output + at.output, has_index_ ? index + at.index : nullptr);
        });
    return absl::OkStatus();
  }

 private:
  PoolGeometry geometry_;
  MaxRowFunction<S> row_;
  bool has_index_;
  int threads_;
};

// Returns the elements of an input plane.
int64_t Plane(const PoolGeometry& g) { return g.axes[0].input * g.axes[1].input * g.axes[2].input; }

// Adds the gradients of one output row with a single lane to the taps of their indices. Returns false if an index is
// outside the plane.
template <typename S, typename A>
bool Scatter(const PoolGeometry& g, const S* grad_output, const int32_t* index, A* grad_input) {
  const auto& axes = g.axes;
  const int64_t plane = Plane(g);
  for (int64_t w = 0; w < axes[2].output; ++w) {
    const int64_t flat = index[w * axes[2].index_stride];
    if (flat < 0 || flat >= plane) return false;
    const int64_t id = flat / (axes[1].input * axes[2].input);
    const int64_t ih = flat / axes[2].input % axes[1].input;
    const int64_t iw = flat % axes[2].input;
    grad_input[id * axes[0].input_stride + ih * axes[1].input_stride + iw * axes[2].input_stride] +=
        ToValue(grad_output[w * axes[2].output_stride]);
  }
  return true;
}

absl::Status ForeignIndex(const PoolGeometry& g) {
  return absl::InvalidArgumentError(absl::StrCat("max_pool_backward: an index is outside its plane of ", Plane(g),
                                                 " elements; the indices must come from max_pool"));
}

// Returns true if each input element has one window at most, whose gradient is assigned to it.
bool AssignsGradients(const PoolGeometry& g) { return g.lanes.size > 1 && g.WindowsAreDisjoint(); }

template <typename S>
class MaxPoolBackward final : public Kernel {
 public:
  // S may be BFloat16 if AssignsGradients().
  MaxPoolBackward(PoolGeometry geometry, std::unique_ptr<Kernel> zero, int threads)
      : geometry_(std::move(geometry)),
        assigns_(AssignsGradients(geometry_)),
        zero_(std::move(zero)),
        threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    const auto* grad_output = static_cast<const S*>(args.inputs[0]);
    const auto* index = static_cast<const int32_t*>(args.inputs[1]);
    auto* grad_input = static_cast<S*>(args.outputs[0]);
    if (!assigns_ || !geometry_.WindowsTile()) COTAN_RETURN_IF_ERROR(zero_->Run(args));
    std::atomic<int64_t> foreign{0};
    ForEachOutputRowByOuter(geometry_, threads_, [&](int64_t d, int64_t h, const PoolOffsets& at) {
      if (geometry_.lanes.size > 1) {
        MaxRowBackward(geometry_, assigns_, d, h, grad_output + at.output, index + at.index, grad_input + at.input);
        return;
      }
      if constexpr (!std::is_same_v<S, BFloat16>) {
        const bool inside = Scatter(geometry_, grad_output + at.output, index + at.index, grad_input + at.input);
        if (!inside) foreign.store(1, std::memory_order_relaxed);
      }
    });
    return foreign.load() == 0 ? absl::OkStatus() : ForeignIndex(geometry_);
  }

 private:
  PoolGeometry geometry_;
  bool assigns_;
  std::unique_ptr<Kernel> zero_;  // clears the gradient
  int threads_;
};

// Rounds `positions` groups of `lanes` sums to bf16; `stride` is from group to group of the result.
COTAN_SIMD_VERSIONS void RoundRow(const float* from, int64_t positions, int64_t lanes, int64_t stride, BFloat16* to) {
  if (stride == lanes) {
    lanes *= positions;
    positions = 1;
  }
  for (int64_t i = 0; i < positions; ++i, from += lanes, to += stride) {
    for (int64_t lane = 0; lane < lanes; ++lane) to[lane].bits = FloatToBFloat16(from[lane]);
  }
}

// The backward in bf16 of windows that overlap: the gradients of a plane, with its lanes, are added in f32.
class SummedMaxPoolBackward final : public Kernel {
 public:
  SummedMaxPoolBackward(PoolGeometry geometry, int threads)
      : geometry_(std::move(geometry)), sums_(geometry_), threads_(threads) {
    int64_t stride = sums_.lanes.size;
    for (size_t d = 3; d-- > 0;) {
      sums_.axes[d].input_stride = stride;
      stride *= sums_.axes[d].input;
    }
    elements_ = stride;
    scratch_bytes_ = ScratchElements() * static_cast<size_t>(threads) * sizeof(float);
  }

  absl::Status Run(const KernelArgs& args) override {
    const auto* grad_output = static_cast<const BFloat16*>(args.inputs[0]);
    const auto* index = static_cast<const int32_t*>(args.inputs[1]);
    auto* grad_input = static_cast<BFloat16*>(args.outputs[0]);
    std::atomic<int64_t> foreign{0};
    const int64_t outer = geometry_.OuterCount();
    const int64_t grain = PoolGrain(geometry_.Work() / static_cast<double>(outer));
    ParallelForWorker(threads_, outer, grain, [&](int worker, int64_t begin, int64_t end) {
      float* const sums = static_cast<float*>(args.scratch) + ScratchElements() * static_cast<size_t>(worker);
      for (int64_t i = begin; i < end; ++i) {
        const PoolOffsets at = geometry_.OuterOffsets(i);
        if (!Sum(grad_output + at.output, index + at.index, sums)) foreign.store(1, std::memory_order_relaxed);
        Round(sums, grad_input + at.input);
      }
    });
    return foreign.load() == 0 ? absl::OkStatus() : ForeignIndex(geometry_);
  }

 private:
  // Whole cache lines, so that threads share none.
  size_t ScratchElements() const { return static_cast<size_t>((elements_ + 15) / 16 * 16); }

  // Returns false if an index is outside the plane.
  bool Sum(const BFloat16* grad_output, const int32_t* index, float* sums) const {
    std::fill_n(sums, elements_, 0.0f);
    bool inside = true;
    for (int64_t d = 0; d < sums_.axes[0].output; ++d) {
      for (int64_t h = 0; h < sums_.axes[1].output; ++h) {
        const PoolOffsets at = RowOffsets(sums_, {}, d, h);
        if (sums_.lanes.size > 1) {
          MaxRowBackward(sums_, /*assigns=*/false, d, h, grad_output + at.output, index + at.index, sums);
        } else {
          inside = Scatter(sums_, grad_output + at.output, index + at.index, sums) && inside;
        }
      }
    }
    return inside;
  }

  void Round(const float* sums, BFloat16* grad_input) const {
    const auto& axes = geometry_.axes;
    const int64_t row = axes[2].input * sums_.lanes.size;
    for (int64_t d = 0; d < axes[0].input; ++d) {
      for (int64_t h = 0; h < axes[1].input; ++h, sums += row) {
        RoundRow(sums, axes[2].input, sums_.lanes.size, axes[2].input_stride,
                 grad_input + d * axes[0].input_stride + h * axes[1].input_stride);
      }
    }
  }

  PoolGeometry geometry_;
  PoolGeometry sums_;  // of dense sums in place of the result
  int64_t elements_;   // of the sums
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
  const int threads = PoolThreads(request, geometry);
  if constexpr (std::is_same_v<T, BFloat16>) {
    const bool sums = geometry.OutputCount() != 0 && !AssignsGradients(geometry);
    if (sums) return std::make_unique<SummedMaxPoolBackward>(std::move(geometry), threads);
  }
  return std::make_unique<MaxPoolBackward<T>>(std::move(geometry), ZeroOutput(request), threads);
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
