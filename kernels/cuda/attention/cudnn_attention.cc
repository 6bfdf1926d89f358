// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/attention/cudnn_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention_graph.h"
#include "kernels/cuda/cudnn/operation_graph.h"

namespace cotan::cuda {
namespace {

using serialization::Op;

constexpr int64_t kMaxRowSize = 128;
// Strides in elements of 16 bits that keep rows aligned to 16 bytes.
constexpr int64_t kRowAlignment = attention::kOperandAlignment / 2;
constexpr size_t kMinVersion = 91600;

// Returns whether all rows of a tensor of rank 4 are dense and begin at a multiple of 16 bytes, and none is shared.
bool HasAlignedRows(const StridedLayout& layout) {
  if (layout.strides[3] != 1) return false;
  for (size_t d = 0; d < 3; ++d) {
    if (layout.sizes[d] > 1 && (layout.strides[d] == 0 || layout.strides[d] % kRowAlignment != 0)) return false;
  }
  return true;
}

// Returns `layout` with strides of dimensions of size 1 that are like those of other dimensions.
StridedLayout WithAllStrides(StridedLayout layout) {
  int64_t extent = 1;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] > 1) extent = std::max(extent, layout.strides[d] * layout.sizes[d]);
  }
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == 1) layout.strides[d] = extent;
  }
  return layout;
}

// Returns the dense layout [B, H, L, 1] of a value for each query.
StridedLayout RowsOf(const StridedLayout& q) {
  const DimVector sizes = {q.sizes[0], q.sizes[1], q.sizes[2], 1};
  return {sizes, ContiguousStrides(sizes), 0};
}

// A call with its scalars: those that the graph has, since cuDNN refuses a variant pack with other ids.
class AttentionOperation final : public LibraryOperation {
 public:
  AttentionOperation(const Cudnn& cudnn, ExecutionPlan plan, std::vector<int64_t> ids, const AttentionTensors& tensors)
      : cudnn_(cudnn), plan_(std::move(plan)), ids_(std::move(ids)), scale_(tensors.scale) {
    AddScalar(attention::kScale, scale_);
    if (tensors.is_causal) AddScalar(attention::kMasked, masked_);
    if (tensors.is_backward) AddScalar(attention::kOne, one_);
  }
  AttentionOperation(const AttentionOperation&) = delete;
  AttentionOperation& operator=(const AttentionOperation&) = delete;

  absl::Status Enqueue(absl::Span<void* const> pointers) override {
    for (const void* pointer : pointers) {
      if (reinterpret_cast<uintptr_t>(pointer) % attention::kOperandAlignment == 0) continue;
      return absl::InternalError(absl::StrCat("an operand of cuDNN's attention is not aligned to ",
                                              attention::kOperandAlignment, " bytes; copy the view that it is"));
    }
    pointers_.assign(pointers.begin(), pointers.end());
    pointers_.insert(pointers_.end(), scalars_.begin(), scalars_.end());
    return plan_.Execute(cudnn_, ids_, pointers_);
  }

  bool owns_code() const override { return true; }

 private:
  void AddScalar(int64_t id, float& value) {
    ids_.push_back(id);
    scalars_.push_back(&value);
  }

  const Cudnn& cudnn_;
  ExecutionPlan plan_;
  std::vector<int64_t> ids_;
  std::vector<void*> pointers_;
  std::vector<void*> scalars_;  // members below
  float scale_;
  float masked_ = -std::numeric_limits<float>::infinity();
  float one_ = 1;
};

// Returns what a plan depends on: all but the scale, which is an operand.
std::string KeyOf(const AttentionTensors& tensors) {
  std::string key = absl::StrCat("attention ", DTypeName(tensors.dtype), tensors.is_backward ? " backward" : "",
                                 tensors.is_causal ? " causal" : "");
  for (const StridedLayout* layout : {&tensors.q, &tensors.k, &tensors.v, &tensors.result, &tensors.grad,
                                      &tensors.grad_q, &tensors.grad_k, &tensors.grad_v}) {
    absl::StrAppend(&key, " ", absl::StrJoin(layout->sizes, ","), ":", absl::StrJoin(layout->strides, ","));
  }
  return key;
}

// Returns the ids of the pointers of the call, in the order of its arguments.
std::vector<int64_t> IdsOf(const AttentionTensors& tensors) {
  using namespace attention;  // NOLINT(google-build-using-namespace): the ids
  if (tensors.is_backward) {
    return {kGrad, kQuery, kKey, kValue, kResult, kLogSumExp, kGradQuery, kGradKey, kGradValue, kDots};
  }
  return {kQuery, kKey, kValue, kResult, kLogSumExp};
}

}  // namespace

bool CudnnAttention::Supports(const KernelRequest& request) {
  const bool is_backward = request.op.kind_case() == Op::kAttentionBackward;
  const DType dtype = request.outputs[0].dtype;
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  const bool has_bias = request.inputs.size() > (is_backward ? 6U : 3U);
  if (!is_half || has_bias || request.guarded_outputs) return false;
  for (const absl::Span<const TensorSpec> specs : {request.inputs, request.outputs}) {
    for (const TensorSpec& spec : specs) {
      const bool is_taken = spec.layout.rank() == 4 ? HasAlignedRows(spec.layout) : IsContiguous(spec.layout);
      if (!is_taken || NumElements(spec.layout.sizes) == 0) return false;
    }
  }
  const size_t first = is_backward ? 1 : 0;
  const DimVector& q = request.inputs[first].layout.sizes;
  const DimVector& v = request.inputs[first + 2].layout.sizes;
  const bool is_one_score = q[2] == 1 && v[2] == 1;
  return q[3] == v[3] && q[3] % kRowAlignment == 0 && q[3] <= kMaxRowSize && !is_one_score;
}

CudnnAttention::CudnnAttention(const KernelRequest& request) {
  const auto input = [&](size_t i) { return WithAllStrides(request.inputs[i].layout); };
  const auto output = [&](size_t i) { return WithAllStrides(request.outputs[i].layout); };
  tensors_.dtype = request.outputs[0].dtype;
  tensors_.is_backward = request.op.kind_case() == Op::kAttentionBackward;
  const serialization::Attention& op = tensors_.is_backward ? request.op.attention_backward() : request.op.attention();
  tensors_.is_causal = op.is_causal();
  tensors_.scale = static_cast<float>(op.scale());
  const size_t first = tensors_.is_backward ? 1 : 0;
  tensors_.q = input(first);
  tensors_.k = input(first + 1);
  tensors_.v = input(first + 2);
  tensors_.rows = RowsOf(tensors_.q);
  if (tensors_.is_backward) {
    tensors_.grad = input(0);
    tensors_.result = input(4);
    tensors_.grad_q = output(0);
    tensors_.grad_k = output(1);
    tensors_.grad_v = output(2);
  } else {
    tensors_.result = output(0);
    returns_logsumexp_ = request.outputs.size() > 1;
  }
}

std::vector<KernelArgument> CudnnAttention::Arguments() const {
  std::vector<KernelArgument> arguments;
  const int inputs = tensors_.is_backward ? 6 : 3;
  const int outputs = tensors_.is_backward ? 3 : (returns_logsumexp_ ? 2 : 1);
  for (int i = 0; i < inputs; ++i) arguments.push_back(InputArgument(i));
  for (int i = 0; i < outputs; ++i) arguments.push_back(OutputArgument(i));
  if (scratch_bytes() > 0) arguments.push_back(ScratchArgument(0));
  return arguments;
}

size_t CudnnAttention::scratch_bytes() const {
  return returns_logsumexp_ ? 0 : static_cast<size_t>(NumElements(tensors_.rows.sizes)) * sizeof(float);
}

absl::StatusOr<ExecutionPlan> CudnnAttention::MakePlan(const Cudnn& cudnn) const {
  OperationGraph graph(cudnn);
  COTAN_RETURN_IF_ERROR(tensors_.is_backward ? attention::AddBackward(tensors_, graph)
                                             : attention::AddForward(tensors_, graph));
  return ExecutionPlan::Create(cudnn, graph.operations(), {.keep_input_precision = false});
}

absl::StatusOr<std::unique_ptr<LibraryOperation>> CudnnAttention::Prepare(VendorLibraries& libraries) const {
  COTAN_ASSIGN_OR_RETURN(Cudnn * cudnn, libraries.cudnn());
  const int capability = cudnn->compute_capability();
  const size_t version = cudnn->table().cudnnGetVersion();
  if (capability < 80 || capability >= 100 || version < kMinVersion) {
    return absl::UnimplementedError(absl::StrCat("attention by cuDNN needs sm_80 to sm_99 and cuDNN ", kMinVersion,
                                                 " or later; the device is sm_", capability, ", cuDNN is ", version));
  }
  absl::StatusOr<ExecutionPlan> plan =
      ExecutionPlan::FindOrMake(*cudnn, KeyOf(tensors_), [&] { return MakePlan(*cudnn); });
  // A graph that cuDNN finds invalid is not supported either.
  if (!plan.ok()) return absl::UnimplementedError(plan.status().message());
  COTAN_RETURN_IF_ERROR(cudnn->ReserveWorkspace(plan->workspace_bytes()));
  return std::make_unique<AttentionOperation>(*cudnn, *std::move(plan), IdsOf(tensors_), tensors_);
}

}  // namespace cotan::cuda
