// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/collective/collective_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/cuda/copy/copy_job.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/copy/part_copies.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda {
namespace {

using serialization::Collective;

constexpr int kThreads = 256;

// Appends the copies of all tensors, which are one after another in the bucket.
absl::Status AppendCopies(absl::Span<const TensorSpec> tensors, PartDirection direction, const KernelArgument& bucket,
                          bool guarded, KernelPlan& plan) {
  const bool packs = direction == PartDirection::kToBuffer;
  std::vector<PartCopy> copies;
  int64_t offset = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const StridedLayout& layout = tensors[i].layout;
    const size_t element_bytes = ByteSize(tensors[i].dtype);
    const DimVector dense = ContiguousStrides(layout.sizes);
    const auto index = static_cast<int>(i);
    copies.push_back({.tensor = packs ? InputArgument(index) : OutputArgument(index),
                      .offset = offset,
                      .job = packs ? MakeCopyJob(element_bytes, layout.sizes, layout.strides, dense)
                                   : MakeCopyJob(element_bytes, layout.sizes, dense, layout.strides)});
    offset += NumElements(layout.sizes) * static_cast<int64_t>(element_bytes);
  }
  return AppendPartCopies(packs ? "pack_bucket" : "unpack_bucket", copies, direction, bucket, guarded, plan);
}

constexpr char kMarkBody[] = R"(  if (threadIdx.x != 0) return;
  int* const own = marks + 2 * group[1];
  own[0] = static_cast<int>(group[3]);
  own[1] = record->op != 0 ? 1 : 0;
)";

// The body of the sum's kernel; T is the element type.
constexpr absl::string_view kSumBody = R"(  const long long ranks = group[0], rank = group[1], count = group[2];
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    for (long long other = 0; other < ranks; ++other) {
      const bool same = marks[2 * other] == marks[2 * rank];
      if (other == rank || (same && marks[2 * other + 1] == 0)) continue;
      cotan::RecordError(record, op, other, same ? 0 : 1);
      break;
    }
  }
  T* const own = bucket + rank * count;
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i >= count) return;
  T sum = rank == 0 ? own[i] : received[i];
  for (long long r = 1; r < ranks; ++r) sum += r == rank ? own[i] : received[r * count + i];
)";

// `value`: 1 if the rank runs another collective.
absl::Status ErrorOfRank(int64_t rank, int64_t value) {
  if (value == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("rank ", rank,
                     " runs another collective: the ranks call methods in different orders, or a call of one of them "
                     "failed between two collectives; end all ranks and restart them from a checkpoint"));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("rank ", rank,
                   " has an error of values, its own or of another rank, which its next call that waits returns; the "
                   "states of all ranks are left as they are until then"));
}

}  // namespace

absl::StatusOr<KernelPlan> PlanPack(absl::Span<const TensorSpec> tensors) {
  KernelPlan plan;
  COTAN_RETURN_IF_ERROR(AppendCopies(tensors, PartDirection::kToBuffer, OutputArgument(0), /*guarded=*/false, plan));
  return plan;
}

absl::StatusOr<KernelPlan> PlanUnpack(absl::Span<const TensorSpec> tensors, bool guarded) {
  KernelPlan plan;
  COTAN_RETURN_IF_ERROR(AppendCopies(tensors, PartDirection::kFromBuffer, InputArgument(0), guarded, plan));
  return plan;
}

absl::StatusOr<KernelPlan> PlanMark() {
  KernelPlan plan;
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch,
                         MakeLaunch({.entry = "mark_error",
                                     .header = "error.cuh",
                                     .parameters = {{"const long long* group", InputArgument(0)},
                                                    {"int* marks", OutputArgument(0)},
                                                    {"const cotan::ErrorRecord* record", ErrorRecordArgument()}},
                                     .body = kMarkBody,
                                     .threads = 32}));
  plan.steps.push_back(std::move(launch));
  return plan;
}

absl::StatusOr<KernelPlan> PlanSum(DType dtype, bool mean, int64_t shard_elements) {
  KernelPlan plan;
  COTAN_ASSIGN_OR_RETURN(
      KernelLaunch launch,
      MakeLaunch(
          {.entry = "sum_shards",
           .header = "error.cuh",
           .definitions = absl::StrCat("using T = ", dtype == DType::kFloat64 ? "double" : "float", ";\n"),
           .parameters = {{"const T* received", InputArgument(0)},
                          {"const int* marks", InputArgument(1)},
                          {"const long long* group", InputArgument(2)},
                          {"T* bucket", OutputArgument(0)},
                          {"cotan::ErrorRecord* record", ErrorRecordArgument()},
                          {"unsigned op", FaultIdArgument()}},
           .body = absl::StrCat(kSumBody, mean ? "  own[i] = sum / static_cast<T>(ranks);\n" : "  own[i] = sum;\n"),
           .blocks = std::max<int64_t>(1, CeilDiv(shard_elements, kThreads)),
           .threads = kThreads}));
  plan.steps.push_back(std::move(launch));
  plan.error_at = ErrorOfRank;
  return plan;
}

absl::StatusOr<KernelPlan> PlanShard(const KernelRequest& request, int64_t first) {
  const auto element_bytes = static_cast<int64_t>(ByteSize(request.outputs[0].dtype));
  int64_t elements = 0;
  for (const TensorSpec& tensor : request.inputs) elements += NumElements(tensor.layout.sizes);
  const int64_t bytes = NumElements(request.outputs[0].layout.sizes) * element_bytes;
  KernelPlan plan;
  // The bucket, and padding for the last shard, which may begin behind it.
  plan.scratch_bytes = static_cast<size_t>(std::max(elements, first) * element_bytes + bytes);
  COTAN_RETURN_IF_ERROR(
      AppendCopies(request.inputs, PartDirection::kToBuffer, ScratchArgument(0), /*guarded=*/false, plan));
  plan.steps.push_back(MemorySet{ScratchArgument(elements * element_bytes),
                                 static_cast<int64_t>(plan.scratch_bytes) - elements * element_bytes, 0});
  COTAN_RETURN_IF_ERROR(AppendCopies(request.outputs, PartDirection::kFromBuffer,
                                     ScratchArgument(first * element_bytes), request.guarded_outputs, plan));
  return plan;
}

absl::StatusOr<std::vector<KernelPlan>> PlansOfCollective(const KernelRequest& request) {
  const Collective& op = request.op.collective();
  std::vector<absl::StatusOr<KernelPlan>> planned;
  if (op.function() == Collective::SHARD) {
    planned.push_back(PlanShard(request, /*first=*/0));
  } else {
    if (op.function() != Collective::WAIT) planned.push_back(PlanPack(request.inputs));
    if (op.function() == Collective::ALL_REDUCE || op.function() == Collective::REDUCE_SCATTER) {
      planned.push_back(PlanMark());
      planned.push_back(PlanSum(request.inputs[0].dtype, op.mean(), /*shard_elements=*/1));
    }
    if (!op.starts()) planned.push_back(PlanUnpack(request.outputs, request.guarded_outputs));
  }
  std::vector<KernelPlan> plans;
  for (absl::StatusOr<KernelPlan>& plan : planned) {
    COTAN_RETURN_IF_ERROR(plan.status());
    plans.push_back(*std::move(plan));
  }
  return plans;
}

}  // namespace cotan::cuda
