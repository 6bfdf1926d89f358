// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/convolution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cpu/convolution/amx_weight_gradient.h"
#include "kernels/cpu/convolution/convolution_problem.h"
#include "kernels/cpu/convolution/depthwise.h"
#include "kernels/cpu/convolution/few_channels.h"
#include "kernels/cpu/convolution/onednn_blocklist.h"
#include "kernels/cpu/convolution/pointwise.h"
#include "kernels/cpu/convolution/strided_gradient.h"
#include "kernels/cpu/convolution/sum.h"
#include "kernels/cpu/convolution/winograd.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/copy/nested_layout.h"
#include "kernels/cpu/half_precision/half_precision.h"
#include "kernels/cpu/onednn/primitive.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/parallel_kernel.h"
#include "kernels/cpu/threading/pipeline.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

using onednn::Argument;
using onednn::MemoryLayout;

using Operand = ConvolutionOperand;
using Problem = ConvolutionProblem;
using Product = ConvolutionProduct;

// The layouts of the three tensors of a product.
struct Layouts {
  MemoryLayout source;
  MemoryLayout weights;
  MemoryLayout destination;
};

// A primitive descriptor and the layouts of its tensors.
struct Plan {
  onednn::OwnedDesc desc;
  Layouts layouts;
};

int64_t Size(const StridedLayout& layout) { return NumElements(layout.sizes); }

StridedLayout ChannelsLast(const StridedLayout& layout) {
  DimVector order = {0};
  for (int d = 2; d < layout.rank(); ++d) order.push_back(d);
  order.push_back(1);
  return {layout.sizes, DenseStrides(layout.sizes, order), 0};
}

bool SameStrides(const StridedLayout& a, const StridedLayout& b) {
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] != 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

bool HasZeroStride(const StridedLayout& layout) {
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] != 1 && layout.strides[d] == 0) return true;
  }
  return false;
}

// Returns the weights with groups: the first dimension is split, [groups, C_out / groups, C_in / groups,
// kernel...].
StridedLayout Grouped(const StridedLayout& weights, int64_t groups) {
  if (groups == 1) return weights;
  StridedLayout grouped = weights;
  grouped.sizes[0] /= groups;
  grouped.sizes.insert(grouped.sizes.begin(), groups);
  grouped.strides.insert(grouped.strides.begin(), grouped.sizes[1] * weights.strides[0]);
  return grouped;
}

absl::StatusOr<MemoryLayout> Memory(DType dtype, const StridedLayout& layout) {
  return onednn::StridedMemory(dtype, layout.sizes, layout.strides);
}

// Returns the convolution with these layouts; the spans are those of `p`.
onednn::ConvolutionDesc Describe(const Problem& p, const Layouts& layouts) {
  return {.source = layouts.source,
          .weights = layouts.weights,
          .destination = layouts.destination,
          .bias = {},
          .stride = p.stride,
          .dilation = p.dilation,
          .padding_before = p.padding_before,
          .padding_after = p.padding_after};
}

absl::StatusOr<onednn::OwnedDesc> MakeForwardDesc(const Problem& p, const Layouts& layouts,
                                                  const_dnnl_primitive_attr_t attr, onednn::NameFilter is_usable) {
  onednn::ConvolutionDesc convolution = Describe(p, layouts);
  if (p.bias.has_value()) {
    COTAN_ASSIGN_OR_RETURN(convolution.bias, Memory(p.dtype, {{p.destination.layout.sizes[1]}, {1}, 0}));
  }
  return onednn::MakeConvolutionForwardDesc(convolution, attr, is_usable);
}

absl::StatusOr<Plan> PlanOf(onednn::OwnedDesc desc, dnnl_query_t source, dnnl_query_t weights,
                            dnnl_query_t destination) {
  Layouts chosen;
  COTAN_ASSIGN_OR_RETURN(chosen.source, onednn::ChosenMemory(desc.get(), source));
  COTAN_ASSIGN_OR_RETURN(chosen.weights, onednn::ChosenMemory(desc.get(), weights));
  COTAN_ASSIGN_OR_RETURN(chosen.destination, onednn::ChosenMemory(desc.get(), destination));
  return Plan{std::move(desc), std::move(chosen)};
}

// Returns layouts of which oneDNN chooses the weights', and those of the activations unless they are channels
// last (`plain`).
absl::StatusOr<Layouts> RequestedLayouts(const Problem& p, bool plain) {
  const StridedLayout source_layout = ChannelsLast(p.source.layout);
  const StridedLayout destination_layout = ChannelsLast(p.destination.layout);
  COTAN_ASSIGN_OR_RETURN(const MemoryLayout weights,
                         onednn::AnyMemory(p.WeightsDType(), Grouped(p.weights.layout, p.groups).sizes));
  COTAN_ASSIGN_OR_RETURN(const MemoryLayout source,
                         plain ? Memory(p.dtype, source_layout) : onednn::AnyMemory(p.dtype, source_layout.sizes));
  COTAN_ASSIGN_OR_RETURN(const MemoryLayout destination, plain ? Memory(p.dtype, destination_layout)
                                                               : onednn::AnyMemory(p.dtype, destination_layout.sizes));
  return Layouts{source, weights, destination};
}

// Returns the forward descriptor in the operands' own dtype, which oneDNN needs as a hint for a backward one.
absl::StatusOr<onednn::OwnedDesc> ForwardHint(const Problem& p, Layouts layouts, const_dnnl_primitive_attr_t attr) {
  COTAN_ASSIGN_OR_RETURN(layouts.weights, onednn::AnyMemory(p.dtype, Grouped(p.weights.layout, p.groups).sizes));
  return MakeForwardDesc(p, layouts, attr, [](absl::string_view) { return true; });
}

// Makes a plan with `layouts`.
absl::StatusOr<Plan> MakePlan(const Problem& p, const Layouts& layouts) {
  COTAN_ASSIGN_OR_RETURN(const onednn::OwnedAttr attr, onednn::MakeAttr());
  const auto is_usable = [&](absl::string_view implementation) {
    return !IsMiscomputedByOneDnn(p, implementation, onednn::MajorVersion());
  };
  if (p.product == Product::kForward) {
    COTAN_ASSIGN_OR_RETURN(onednn::OwnedDesc desc, MakeForwardDesc(p, layouts, attr.get(), is_usable));
    return PlanOf(std::move(desc), dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md);
  }
  COTAN_ASSIGN_OR_RETURN(const onednn::OwnedDesc hint, ForwardHint(p, layouts, attr.get()));
  const onednn::ConvolutionDesc convolution = Describe(p, layouts);
  if (p.product == Product::kBackwardData) {
    COTAN_ASSIGN_OR_RETURN(onednn::OwnedDesc desc,
                           onednn::MakeConvolutionBackwardDataDesc(convolution, attr.get(), hint.get(), is_usable));
    return PlanOf(std::move(desc), dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md);
  }
  COTAN_ASSIGN_OR_RETURN(onednn::OwnedDesc desc,
                         onednn::MakeConvolutionBackwardWeightsDesc(convolution, attr.get(), hint.get(), is_usable));
  return PlanOf(std::move(desc), dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md);
}

absl::StatusOr<Plan> MakeRequestedPlan(const Problem& p, bool plain) {
  COTAN_ASSIGN_OR_RETURN(const Layouts layouts, RequestedLayouts(p, plain));
  return MakePlan(p, layouts);
}

// Returns the plan with the better implementation. Channels last wins a tie, as it needs no reorder.
absl::StatusOr<Plan> ChoosePlan(const Problem& problem) {
  absl::StatusOr<Plan> plain = MakeRequestedPlan(problem, /*plain=*/true);
  if (plain.ok() && onednn::ImplementationRank(plain->desc.get()) == 0) return plain;
  absl::StatusOr<Plan> any = MakeRequestedPlan(problem, /*plain=*/false);
  if (!any.ok()) return plain;
  if (!plain.ok()) return any;
  const bool any_is_better =
      onednn::ImplementationRank(any->desc.get()) < onednn::ImplementationRank(plain->desc.get());
  return any_is_better ? std::move(any) : std::move(plain);
}

// Returns the plan of `images` images of `problem` in the layouts of `whole`. For a batch of another size
// oneDNN may choose other layouts, of the weights too.
absl::StatusOr<Plan> MakePartPlan(const Problem& problem, const Plan& whole, int64_t images) {
  Problem part = problem;
  part.source.layout.sizes[0] = images;
  part.destination.layout.sizes[0] = images;
  Layouts layouts = whole.layouts;
  COTAN_ASSIGN_OR_RETURN(layouts.source, onednn::FirstIndices(whole.layouts.source, images));
  COTAN_ASSIGN_OR_RETURN(layouts.destination, onednn::FirstIndices(whole.layouts.destination, images));
  return MakePlan(part, layouts);
}

// AMX multiplies pairs of bf16 at eight times the rate of f32 or more, which outweighs Winograd's fewer products.
bool HasWinograd(const Problem& problem) {
  return IsWinogradWorthwhile(problem) && (problem.dtype == DType::kFloat32 || !onednn::HasAmx());
}

// Returns a kernel of this project if one is faster than a convolution of oneDNN for `problem`, or null.
absl::StatusOr<std::unique_ptr<Kernel>> MakeOwn(const Problem& problem, int threads) {
  std::unique_ptr<Kernel> kernel = HasWinograd(problem) ? MakeWinograd(problem, threads) : nullptr;
  if (kernel == nullptr) kernel = MakeDepthwiseWeightGradient(problem, threads);
  if (kernel == nullptr) kernel = MakeFewChannelsDataGradient(problem, threads);
  if (kernel != nullptr) return kernel;
  COTAN_ASSIGN_OR_RETURN(kernel, MakePointwise(problem, threads));
  if (kernel == nullptr) kernel = MakeAmxWeightGradient(problem, threads);
  return kernel != nullptr ? std::move(kernel) : MakeStridedGradient(problem, threads);
}

// Builds the steps of a convolution.
class Builder {
 public:
  Builder(Problem problem, int threads)
      : problem_(std::move(problem)),
        result_(problem_.Result()),
        element_(ByteSize(problem_.dtype)),
        threads_(threads),
        pipeline_(std::make_unique<Pipeline>(threads)) {}

  absl::StatusOr<std::unique_ptr<Kernel>> Build() {
    if (Size(result_.layout) == 0) return std::move(pipeline_);
    const bool is_sum_empty = problem_.IsSumEmpty();
    const bool leaves_pixels = CropUnmetPixels(problem_) && problem_.product == Product::kBackwardData;
    if (is_sum_empty || leaves_pixels) {
      pipeline_->Add(MakeZeroKernel(element_, result_.layout, threads_), {}, {result_.slot});
    }
    if (!is_sum_empty) {
      COTAN_RETURN_IF_ERROR(AddSum());
    }
    const bool adds_bias = problem_.bias && (is_sum_empty || problem_.product != Product::kForward);
    if (adds_bias) {
      pipeline_->Add(MakeBiasKernel(problem_.dtype, result_.layout, problem_.bias->layout.strides[0], threads_),
                     {problem_.bias->slot}, {result_.slot});
    }
    return std::move(pipeline_);
  }

 private:
  absl::Status AddSum() {
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> own, MakeOwn(problem_, threads_));
    if (own == nullptr) return problem_.product == Product::kBackwardWeights ? AddBackwardWeights() : AddProduct();
    AddOwn(std::move(own));
    return absl::OkStatus();
  }

  // Adds a kernel of this project, which reads and writes activations channels last and weights with dense kernels.
  void AddOwn(std::unique_ptr<Kernel> kernel) {
    const Operand& result = problem_.Result();
    const bool is_gradient_of_weights = problem_.product == Product::kBackwardWeights;
    std::vector<Slot> inputs;
    if (problem_.product != Product::kBackwardData) inputs.push_back(BringOwn(problem_.source));
    if (problem_.product != Product::kForward) inputs.push_back(BringOwn(problem_.destination));
    if (!is_gradient_of_weights) inputs.push_back(BringStrided(problem_.weights, OwnWeights(problem_)));
    if (problem_.bias && IsForward()) inputs.push_back(BringBias());
    const StridedLayout layout = is_gradient_of_weights ? OwnWeights(problem_) : ChannelsLast(result.layout);
    if (SameStrides(layout, result.layout)) {
      pipeline_->Add(std::move(kernel), std::move(inputs), {result.slot});
      return;
    }
    const Slot output = pipeline_->AddScratch(element_ * static_cast<size_t>(Size(layout)));
    pipeline_->Add(std::move(kernel), std::move(inputs), {output});
    pipeline_->Add(MakeCopyKernel(element_, layout.sizes, layout.strides, result.layout.strides, threads_), {output},
                   {result.slot});
  }

  Slot BringOwn(const Operand& activation) { return BringStrided(activation, ChannelsLast(activation.layout)); }

  // Adds the product of kForward or kBackwardData between reorders.
  absl::Status AddProduct() {
    COTAN_ASSIGN_OR_RETURN(Plan plan, ChoosePlan(problem_));
    const bool is_gemm = onednn::ImplementationRank(plan.desc.get()) == 1;
    if (is_gemm) {
      const ScopedThreads one_thread(1);
      COTAN_ASSIGN_OR_RETURN(plan, ChoosePlan(problem_));
    }
    COTAN_ASSIGN_OR_RETURN(const Slot weights, BringWeights(plan.layouts.weights));
    const Operand& from = IsForward() ? problem_.source : problem_.destination;
    const Operand& to = IsForward() ? problem_.destination : problem_.source;
    const MemoryLayout& to_memory = To(plan);
    COTAN_ASSIGN_OR_RETURN(const Slot input, BringActivation(from, From(plan)));
    std::vector<Slot> inputs = {input, weights};
    if (problem_.bias && IsForward()) inputs.push_back(BringBias());
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, is_gemm ? MakeParts(plan) : MakeProduct(plan, threads_));
    const StridedLayout layout = ChannelsLast(to.layout);
    COTAN_ASSIGN_OR_RETURN(const MemoryLayout plain, Memory(problem_.dtype, layout));
    const bool is_plain = plain == to_memory;
    const bool in_place = is_plain && SameStrides(layout, to.layout);
    const Slot output = in_place ? to.slot : pipeline_->AddScratch(to_memory.bytes());
    pipeline_->Add(std::move(product), std::move(inputs), {output});
    if (in_place) return absl::OkStatus();
    if (is_plain) {
      pipeline_->Add(MakeCopyKernel(element_, to.layout.sizes, layout.strides, to.layout.strides, threads_), {output},
                     {to.slot});
      return absl::OkStatus();
    }
    COTAN_ASSIGN_OR_RETURN(const MemoryLayout user, Memory(problem_.dtype, to.layout));
    return AddReorder(to_memory, output, user, to.slot);
  }

  bool IsForward() const { return problem_.product == Product::kForward; }
  const MemoryLayout& From(const Plan& plan) const {
    return IsForward() ? plan.layouts.source : plan.layouts.destination;
  }
  const MemoryLayout& To(const Plan& plan) const {
    return IsForward() ? plan.layouts.destination : plan.layouts.source;
  }

  // Returns the primitive of `plan`, on threads_ threads or on one. Inputs: activation, weights and, in a forward with
  // a bias, the bias.
  absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const Plan& plan, int threads) const {
    std::vector<Argument> arguments = {{IsForward() ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST, From(plan)},
                                       {DNNL_ARG_WEIGHTS, plan.layouts.weights}};
    if (problem_.bias && IsForward()) {
      COTAN_ASSIGN_OR_RETURN(const MemoryLayout bias, Memory(problem_.dtype, {problem_.bias->layout.sizes, {1}, 0}));
      arguments.push_back({DNNL_ARG_BIAS, bias});
    }
    std::vector<Argument> results = {{IsForward() ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC, To(plan)}};
    if (threads == 1) return onednn::MakePrimitive(plan.desc.get(), std::move(arguments), std::move(results));
    const auto describe = [&]() -> absl::StatusOr<onednn::OwnedDesc> {
      COTAN_ASSIGN_OR_RETURN(Plan alone, MakePlan(problem_, plan.layouts));
      return std::move(alone.desc);
    };
    return onednn::MakeTeamPrimitive(plan.desc.get(), describe, std::move(arguments), std::move(results));
  }

  // Returns the product in parts of the batch. oneDNN's GEMM-based code splits sums by the number of threads,
  // so each part runs on one thread. The batch is one part if oneDNN has only slower code for a part in the
  // layouts of the whole batch.
  absl::StatusOr<std::unique_ptr<Kernel>> MakeParts(const Plan& whole) const {
    const ScopedThreads one_thread(1);
    const int64_t batch = problem_.source.layout.sizes[0];
    const int64_t parts = std::min(batch, kMaxConvolutionParts);
    auto team = std::make_unique<ParallelKernel>(threads_);
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = batch * i / parts;
      const int64_t end = batch * (i + 1) / parts;
      COTAN_ASSIGN_OR_RETURN(const Plan plan, MakePartPlan(problem_, whole, end - begin));
      const bool is_slower = onednn::ImplementationRank(plan.desc.get()) > onednn::ImplementationRank(whole.desc.get());
      if (is_slower) return MakeOnePart(whole);
      COTAN_RETURN_IF_ERROR(AddPart(plan, ImageOffset(From(whole), begin), ImageOffset(To(whole), begin), *team));
    }
    return team;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeOnePart(const Plan& whole) const {
    auto team = std::make_unique<ParallelKernel>(threads_);
    COTAN_RETURN_IF_ERROR(AddPart(whole, 0, 0, *team));
    return team;
  }

  // Adds the product of the images at these byte offsets.
  absl::Status AddPart(const Plan& plan, size_t from_offset, size_t to_offset, ParallelKernel& team) const {
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, MakeProduct(plan, 1));
    std::vector<Slot> inputs = {Slot::Input(0, from_offset), Slot::Input(1)};
    if (problem_.bias && IsForward()) inputs.push_back(Slot::Input(2));
    team.Add(std::move(product), std::move(inputs), {Slot::Output(0, to_offset)});
    return absl::OkStatus();
  }

  // Returns the byte offset of an image.
  size_t ImageOffset(const MemoryLayout& memory, int64_t image) const {
    return memory.bytes() / static_cast<size_t>(problem_.source.layout.sizes[0]) * static_cast<size_t>(image);
  }

  // Adds the weight gradient: parts of the batch, whose number depends on the sizes only, compute partial
  // gradients, which are then added in order.
  absl::Status AddBackwardWeights() {
    const int64_t batch = problem_.source.layout.sizes[0];
    int64_t parts = std::min(batch, kMaxConvolutionParts);
    const int64_t pixels = Size(problem_.destination.layout) / problem_.destination.layout.sizes[1];
    while (parts > 1 && pixels / parts < kMinPixelsPerPart) parts /= 2;

    const ScopedThreads one_thread(1);
    COTAN_ASSIGN_OR_RETURN(const Plan whole, ChoosePlan(problem_));
    COTAN_ASSIGN_OR_RETURN(const Slot source, BringActivation(problem_.source, whole.layouts.source));
    COTAN_ASSIGN_OR_RETURN(const Slot destination, BringActivation(problem_.destination, whole.layouts.destination));
    const size_t weight_bytes = whole.layouts.weights.bytes();
    auto team = std::make_unique<ParallelKernel>(threads_);
    std::vector<Slot> partial;
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = batch * i / parts;
      const int64_t end = batch * (i + 1) / parts;
      COTAN_ASSIGN_OR_RETURN(const Plan plan, MakePartPlan(problem_, whole, end - begin));
      COTAN_ASSIGN_OR_RETURN(
          std::unique_ptr<Kernel> product,
          onednn::MakePrimitive(plan.desc.get(),
                                {{DNNL_ARG_SRC, plan.layouts.source}, {DNNL_ARG_DIFF_DST, plan.layouts.destination}},
                                {{DNNL_ARG_DIFF_WEIGHTS, plan.layouts.weights}}));
      team->Add(std::move(product),
                {Slot::Input(0, ImageOffset(whole.layouts.source, begin)),
                 Slot::Input(1, ImageOffset(whole.layouts.destination, begin))},
                {Slot::Output(static_cast<size_t>(i))});
      partial.push_back(pipeline_->AddScratch(weight_bytes));
    }
    const Slot sum = partial[0];
    pipeline_->Add(std::move(team), {source, destination}, partial);
    if (parts > 1) {
      pipeline_->Add(MakeSum(partial.size(), weight_bytes / sizeof(float), threads_), partial, {sum});
    }
    COTAN_ASSIGN_OR_RETURN(const MemoryLayout user,
                           Memory(problem_.dtype, Grouped(problem_.weights.layout, problem_.groups)));
    return AddReorder(whole.layouts.weights, sum, user, problem_.weights.slot);
  }

  absl::Status AddReorder(const MemoryLayout& from, Slot input, const MemoryLayout& to, Slot output) {
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reorder, onednn::MakeReorder(from, to, threads_));
    pipeline_->Add(std::move(reorder), {input}, {output});
    return absl::OkStatus();
  }

  // Returns a slot with the operand in the strides of `layout`: its own, or scratch.
  Slot BringStrided(const Operand& operand, const StridedLayout& layout) {
    if (SameStrides(operand.layout, layout)) return operand.slot;
    const Slot slot = pipeline_->AddScratch(element_ * static_cast<size_t>(Size(layout)));
    pipeline_->Add(MakeCopyKernel(element_, layout.sizes, operand.layout.strides, layout.strides, threads_),
                   {operand.slot}, {slot});
    return slot;
  }

  // Returns a slot with the operand in the layout `target` of oneDNN. `plain` describes `layout`.
  absl::StatusOr<Slot> Bring(const Operand& operand, const StridedLayout& layout, const MemoryLayout& target,
                             const MemoryLayout& plain) {
    const Slot slot = BringStrided(operand, layout);
    if (plain == target) return slot;
    const Slot ordered = pipeline_->AddScratch(target.bytes());
    COTAN_RETURN_IF_ERROR(AddReorder(plain, slot, target, ordered));
    return ordered;
  }

  absl::StatusOr<Slot> BringActivation(const Operand& operand, const MemoryLayout& target) {
    const StridedLayout layout = ChannelsLast(operand.layout);
    COTAN_ASSIGN_OR_RETURN(const MemoryLayout plain, Memory(problem_.dtype, layout));
    return Bring(operand, layout, target, plain);
  }

  absl::StatusOr<Slot> BringWeights(const MemoryLayout& target) {
    const Operand& weights = problem_.weights;
    StridedLayout layout = weights.layout;
    if (HasZeroStride(layout) || !IsNested(layout)) layout.strides = ContiguousStrides(layout.sizes);
    COTAN_ASSIGN_OR_RETURN(const MemoryLayout plain, Memory(problem_.dtype, Grouped(layout, problem_.groups)));
    return Bring(weights, layout, target, plain);
  }

  Slot BringBias() { return BringStrided(*problem_.bias, {problem_.bias->layout.sizes, {1}, 0}); }

  Problem problem_;
  const Operand result_;
  size_t element_;  // bytes
  int threads_;
  std::unique_ptr<Pipeline> pipeline_;
};

// Returns true if oneDNN's convolution with AMX takes longer than one in f32: a gradient of data with few channels and
// strides, up to a hundred times as long.
bool IsSlowWithAmx(const Problem& problem) {
  return onednn::HasAmx() && !AllAre(problem.stride, 1) && HasFewChannelsDataGradient(problem);
}

// Returns true if the op must be computed in f32: oneDNN and Winograd's algorithm add a bias to the forward product
// only, and MakeBiasKernel() supports f32 and f64 only.
bool NeedsWidening(const Problem& problem) {
  if (problem.dtype == DType::kFloat32) return false;
  const bool adds_bias = problem.bias && (problem.IsSumEmpty() || problem.product != Product::kForward);
  return adds_bias || !(onednn::HasFast(problem.dtype) || HasWinograd(problem)) || IsSlowWithAmx(problem);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeProblem(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(Problem problem, DescribeConvolution(request));
  if (NeedsWidening(problem)) return MakeWidenedKernel(request, MakeProblem);
  const int threads = ThreadsWorthwhile(request.threads, problem.Flops());
  const ScopedThreads scoped(threads);
  return Builder(std::move(problem), threads).Build();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolution(const KernelRequest& request) { return MakeProblem(request); }

absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolutionBackwardInput(const KernelRequest& request) {
  return MakeProblem(request);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolutionBackwardWeight(const KernelRequest& request) {
  return MakeProblem(request);
}

}  // namespace cotan::cpu
