// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/pool/pool.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/copy/loop_nest.h"
#include "kernels/cuda/indexing/index_errors.h"

namespace cotan::cuda {
namespace {

using serialization::Pool;

constexpr size_t kAxes = 3;
// Coordinates of windows, indices and sums of a vector; with the 32 that ptxas chooses some are spilled.
constexpr int kBackwardRegisters = 64;
// The operands of the loops; three coordinates lie between the last two.
constexpr size_t kTo = 0;
constexpr size_t kFrom = 1;
constexpr size_t kIndex = 2;
constexpr size_t kPosition = 6;

// A spatial axis. `input` and `output` are those of the forward pool; strides are those of the operand that is pooled,
// of the indices and of the result.
struct Axis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t from = 0;
  int64_t index = 0;
  int64_t to = 0;
};

// One kernel of a pool.
struct PoolKernel {
  absl::string_view function;  // in kernels/cuda/source/pool.cuh
  const Pool& op;
  DType dtype;
  bool is_backward;
  const StridedLayout& from;
  const StridedLayout& to;
  const StridedLayout* index;  // null = none
  DType index_dtype = DType::kInt64;
  bool records = false;
};

class PoolPlanner {
 public:
  explicit PoolPlanner(const PoolKernel& pool)
      : pool_(pool), spatial_(static_cast<size_t>(pool.op.kernel_size())), axes_(Axes()), nest_(Elements()) {
    vector_ = VectorSize();
    index_type_ = IndexTypeFor(LargestIndex());
  }

  int64_t count() const { return nest_.count(); }

  // Returns the kernel without its parameters.
  KernelText Kernel(absl::string_view arguments) const {
    KernelText kernel = {.entry = absl::StrCat("pool_", pool_.is_backward ? "backward" : "forward"),
                         .header = "pool.cuh"};
    kernel.definitions = PoolText();
    kernel.body = absl::StrCat("  cotan::pool::", pool_.function, "<P>(", arguments, ");\n");
    kernel.blocks = CeilDiv(nest_.count() / vector_, kernel.threads);
    if (pool_.is_backward) kernel.registers = kBackwardRegisters;
    return kernel;
  }

 private:
  // Returns depth, height and width; missing ones have one position.
  std::array<Axis, kAxes> Axes() const {
    std::array<Axis, kAxes> axes;
    for (size_t d = 0; d < spatial_; ++d) {
      const size_t at = pool_.to.sizes.size() - spatial_ + d;
      const int attribute = static_cast<int>(d);
      const StridedLayout& input = pool_.is_backward ? pool_.to : pool_.from;
      const StridedLayout& output = pool_.is_backward ? pool_.from : pool_.to;
      axes[kAxes - spatial_ + d] = {.input = input.sizes[at],
                                    .output = output.sizes[at],
                                    .kernel = pool_.op.kernel(attribute),
                                    .stride = pool_.op.stride(attribute),
                                    .padding = pool_.op.padding(attribute),
                                    .dilation = pool_.op.dilation_size() == 0 ? 1 : pool_.op.dilation(attribute),
                                    .from = pool_.from.strides[at],
                                    .index = pool_.index == nullptr ? 0 : pool_.index->strides[at],
                                    .to = pool_.to.strides[at]};
    }
    return axes;
  }

  // Returns the loops over the elements of the result.
  LoopNest Elements() const {
    const DimVector positions = ContiguousStrides(pool_.from.sizes);
    std::vector<LoopDim> dims;
    const size_t outer = pool_.to.sizes.size() - spatial_;
    for (size_t d = 0; d < outer; ++d) {
      dims.push_back({pool_.to.sizes[d],
                      {pool_.to.strides[d], pool_.from.strides[d], pool_.index == nullptr ? 0 : pool_.index->strides[d],
                       0, 0, 0, pool_.is_backward ? positions[d] : 0}});
    }
    for (size_t d = 0; d < spatial_; ++d) {
      LoopDim dim{.size = pool_.to.sizes[outer + d], .strides = DimVector(kPosition + 1)};
      dim.strides[kTo] = pool_.to.strides[outer + d];
      // The forward writes the indices, at the element's own place.
      if (!pool_.is_backward && pool_.index != nullptr) dim.strides[kIndex] = pool_.index->strides[outer + d];
      dim.strides[kIndex + 1 + kAxes - spatial_ + d] = 1;
      dims.push_back(std::move(dim));
    }
    LoopNest nest(dims);
    nest.Simplify(kTo);
    return nest;
  }

  // Returns the number of consecutive elements, in a dimension before the spatial ones, that a thread computes.
  int64_t VectorSize() const {
    std::vector<size_t> operands = {kTo, kFrom};
    if (pool_.index != nullptr) operands.push_back(kIndex);
    // More indices per thread would not fit its registers.
    const auto max = static_cast<int64_t>(16 / ByteSize(pool_.dtype));
    int64_t vector = nest_.VectorSize(operands, pool_.index == nullptr ? max : std::min<int64_t>(max, 4));
    const auto fits = [&](const Axis& axis) { return axis.from % vector == 0 && axis.index % vector == 0; };
    while (vector > 1 && !std::all_of(axes_.begin(), axes_.end(), fits)) vector /= 2;
    return vector;
  }

  int64_t LargestIndex() const {
    int64_t plane = 1;
    int64_t largest = nest_.count();
    for (const StridedLayout* layout : {&pool_.from, &pool_.to, pool_.index}) {
      if (layout != nullptr) largest = std::max({largest, StorageExtent(*layout), NumElements(layout->sizes)});
    }
    for (const Axis& axis : axes_) {
      plane *= axis.input;
      largest = std::max(largest,
                         axis.input + (axis.output + 1) * axis.stride + axis.kernel * axis.dilation + 2 * axis.padding);
    }
    return std::max(largest, plane);
  }

  std::string PoolText() const {
    const std::string type(ElementTypeName(pool_.dtype));
    const bool is_half = pool_.dtype == DType::kFloat16 || pool_.dtype == DType::kBFloat16;
    std::string text =
        absl::StrCat("struct P {\n  using Element = ", type, ";\n  using Sum = ", is_half ? "float" : type,
                     ";\n  using Position = ", ElementTypeName(pool_.index_dtype), ";\n  using Index = ", index_type_,
                     ";\n  using Int = ", index_type_ == "cotan::uint32" ? "cotan::int32" : "cotan::int64", ";\n");
    constexpr absl::string_view kNames[] = {"Depth", "Height", "Width"};
    for (size_t d = 0; d < kAxes; ++d) {
      const Axis& axis = axes_[d];
      absl::StrAppend(&text, "  using ", kNames[d], " = cotan::pool::Axis<Int, ", axis.input, ", ", axis.output, ", ",
                      axis.kernel, ", ", axis.stride, ", ", axis.padding, ", ", axis.dilation, ">;\n");
      absl::StrAppend(&text, "  static constexpr cotan::int64 kFrom", d, " = ", axis.from, ";\n");
      absl::StrAppend(&text, "  static constexpr cotan::int64 kIndex", d, " = ", axis.index, ";\n");
    }
    const auto flag = [&](absl::string_view name, bool value) {
      absl::StrAppend(&text, "  static constexpr bool k", name, " = ", value ? "true" : "false", ";\n");
    };
    flag("HasIndex", pool_.index != nullptr);
    flag("Records", pool_.records);
    flag("CountPadding", pool_.op.count_include_pad());
    absl::StrAppend(&text, "  static constexpr cotan::int64 kDivisor = ", pool_.op.divisor_override(),
                    ";\n  static constexpr int kVector = ", vector_,
                    ";\n  static constexpr cotan::int64 kPositionLane = ",
                    nest_.dims().empty() ? 0 : nest_.dims().back().strides[kPosition],
                    ";\n  using Elements = ", nest_.Text(), ";\n};\n");
    return text;
  }

  const PoolKernel& pool_;
  const size_t spatial_;
  const std::array<Axis, kAxes> axes_;
  const LoopNest nest_;
  int64_t vector_ = 1;
  absl::string_view index_type_;
};

absl::Status AppendLaunch(const KernelText& kernel, KernelPlan& plan) {
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  plan.steps.push_back(std::move(launch));
  return absl::OkStatus();
}

// Plans an average, forward or backward.
absl::StatusOr<KernelPlan> PlanAverage(const KernelRequest& request, const Pool& op, bool is_backward) {
  KernelPlan plan;
  const PoolKernel pool = {.function = is_backward ? "AverageBackward" : "Average",
                           .op = op,
                           .dtype = request.outputs[0].dtype,
                           .is_backward = is_backward,
                           .from = request.inputs[0].layout,
                           .to = request.outputs[0].layout,
                           .index = nullptr};
  const PoolPlanner planner(pool);
  if (planner.count() == 0) return plan;
  KernelText kernel = planner.Kernel("from, to");
  kernel.parameters = {{"const P::Element* from", InputArgument(0)}, {"P::Element* to", OutputArgument(0)}};
  kernel.guarded = request.guarded_outputs;
  COTAN_RETURN_IF_ERROR(AppendLaunch(kernel, plan));
  return plan;
}

}  // namespace

absl::StatusOr<KernelPlan> PlanMaxPool(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  KernelPlan plan;
  const bool has_index = request.outputs.size() > 1;
  const PoolKernel pool = {.function = "Max",
                           .op = request.op.max_pool(),
                           .dtype = request.outputs[0].dtype,
                           .is_backward = false,
                           .from = request.inputs[0].layout,
                           .to = request.outputs[0].layout,
                           .index = has_index ? &request.outputs[1].layout : nullptr,
                           .index_dtype = has_index ? request.outputs[1].dtype : DType::kInt64};
  const PoolPlanner planner(pool);
  if (planner.count() == 0) return plan;
  KernelText kernel = planner.Kernel(has_index ? "from, to, index" : "from, to, nullptr");
  kernel.parameters = {{"const P::Element* from", InputArgument(0)}, {"P::Element* to", OutputArgument(0)}};
  if (has_index) kernel.parameters.push_back({"P::Position* index", OutputArgument(1)});
  kernel.guarded = request.guarded_outputs;
  COTAN_RETURN_IF_ERROR(AppendLaunch(kernel, plan));
  return plan;
}

absl::StatusOr<KernelPlan> PlanMaxPoolBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  KernelPlan plan;
  const Pool& op = request.op.max_pool_backward();
  const StridedLayout& gradient = request.outputs[0].layout;
  const int64_t elements = NumElements(absl::MakeConstSpan(gradient.sizes).last(static_cast<size_t>(op.kernel_size())));
  plan.error_at = [elements](int64_t, int64_t) {
    return absl::InvalidArgumentError(absl::StrCat("max_pool_backward: an index is outside its plane of ", elements,
                                                   " elements; the indices must come from max_pool"));
  };
  // Blocks of a kernel that records an error do not agree on whether there is one, so that another one writes.
  const bool records = !request.guarded_outputs;
  const PoolKernel pool = {.function = "MaxBackward",
                           .op = op,
                           .dtype = request.outputs[0].dtype,
                           .is_backward = true,
                           .from = request.inputs[0].layout,
                           .to = gradient,
                           .index = &request.inputs[1].layout,
                           .index_dtype = request.inputs[1].dtype,
                           .records = records};
  const PoolPlanner planner(pool);
  if (planner.count() == 0) return plan;
  if (!records) {
    COTAN_RETURN_IF_ERROR(AppendIndexCheck(request.inputs[1], InputArgument(1), {.size = elements}, plan));
  }
  KernelText kernel = planner.Kernel(records ? "from, index, to, record, op" : "from, index, to, nullptr, 0");
  kernel.parameters = {{"const P::Element* from", InputArgument(0)},
                       {"const P::Position* index", InputArgument(1)},
                       {"P::Element* to", OutputArgument(0)}};
  if (records) AppendErrorParameters(kernel.parameters);
  kernel.guarded = request.guarded_outputs;
  COTAN_RETURN_IF_ERROR(AppendLaunch(kernel, plan));
  return plan;
}

absl::StatusOr<KernelPlan> PlanAvgPool(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  return PlanAverage(request, request.op.avg_pool(), /*is_backward=*/false);
}

absl::StatusOr<KernelPlan> PlanAvgPoolBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  return PlanAverage(request, request.op.avg_pool_backward(), /*is_backward=*/true);
}

}  // namespace cotan::cuda
