// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/checked_index.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/copy/loop_nest.h"
#include "kernels/cuda/indexing/index_errors.h"

namespace cotan::cuda {
namespace {

// Ops of one launch, so that its parameters stay below the 4 KiB of all architectures.
constexpr size_t kMaxMembers = 64;

// An op of a group, and where its positions begin among those of all.
struct Member {
  IndexRange range;
  DimVector sizes;
  int64_t first_position = 0;
  std::string name;
};

LoopNest NestOf(const TensorSpec& index, const TensorSpec& output) {
  LoopNest nest(index.layout.sizes,
                {index.layout.strides, output.layout.strides, ContiguousStrides(index.layout.sizes)});
  nest.Simplify(1);
  return nest;
}

std::string IndexTypeOf(const LoopNest& nest) {
  return std::string(IndexTypeFor(std::max({nest.count(), nest.Extent(0), nest.Extent(1)})));
}

// Returns an empty kernel that checks.
KernelText NewGroup() { return {.entry = "checked_indexes", .header = "indexing.cuh", .blocks = 0}; }

// Adds the op with operands number `operand` to the kernel, as blocks of its own.
void AddMember(const KernelRequest& request, const Member& member, int operand, KernelText& kernel) {
  const LoopNest nest = NestOf(request.inputs[0], request.outputs[0]);
  if (nest.count() == 0) return;
  const std::string type(ElementTypeName(request.inputs[0].dtype));
  kernel.parameters.push_back({absl::StrCat("const ", type, "* index", operand), InputArgument(operand)});
  kernel.parameters.push_back({absl::StrCat(type, "* output", operand), OutputArgument(operand)});
  const int64_t end = kernel.blocks + CeilDiv(nest.count(), kernel.threads);
  absl::StrAppend(&kernel.body, kernel.body.empty() ? "  " : " else ", "if (blockIdx.x < ", end,
                  "u) {\n    cotan::indexing::ResolveAll<", RangeText(member.range), ", ", IndexTypeOf(nest),
                  ", true, ", nest.Text(), ">(index", operand, ", output", operand, ", ", kErrors, ", ", kernel.blocks,
                  "u, ", Literal(member.first_position), ");\n  }");
  kernel.blocks = end;
}

// Appends the launch of the kernel unless it has nothing to do.
absl::Status Finish(KernelText kernel, KernelPlan& plan) {
  if (kernel.blocks == 0) return absl::OkStatus();
  kernel.body += "\n";
  AppendErrorParameters(kernel.parameters);
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  plan.steps.push_back(std::move(launch));
  return absl::OkStatus();
}

// Returns the error of the op that `position` belongs to.
absl::Status ErrorOf(const std::vector<Member>& members, int64_t position, int64_t value) {
  const auto after = std::upper_bound(members.begin(), members.end(), position,
                                      [](int64_t at, const Member& member) { return at < member.first_position; });
  const Member& member = *std::prev(after);
  const absl::Status error = member.range.OutOfRangeError(serialization::Op::kCheckedIndex, member.sizes,
                                                          position - member.first_position, value);
  if (member.name.empty()) return error;
  return absl::Status(error.code(), absl::StrCat(member.name, ": ", error.message()));
}

}  // namespace

absl::StatusOr<KernelPlan> PlanCheckedIndex(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const IndexRange range, IndexRange::Of(request));
  const TensorSpec& index = request.inputs[0];
  const TensorSpec& output = request.outputs[0];
  KernelPlan plan;
  SetErrorAt(serialization::Op::kCheckedIndex, range, index.layout.sizes, plan);
  const LoopNest nest = NestOf(index, output);
  if (nest.count() == 0) return plan;
  // Blocks of a kernel that records an error do not agree on whether there is one, so that another one writes.
  const bool records = !request.guarded_outputs;
  if (!records) COTAN_RETURN_IF_ERROR(AppendIndexCheck(index, InputArgument(0), range, plan));
  KernelText kernel = {.entry = "checked_index", .header = "indexing.cuh", .guarded = request.guarded_outputs};
  kernel.parameters.push_back({IndexDeclaration(index.dtype), InputArgument(0)});
  kernel.parameters.push_back({absl::StrCat(ElementTypeName(index.dtype), "* output"), OutputArgument(0)});
  if (records) AppendErrorParameters(kernel.parameters);
  kernel.body = absl::StrCat("  cotan::indexing::ResolveAll<", RangeText(range), ", ", IndexTypeOf(nest), ", ",
                             records ? "true" : "false", ", ", nest.Text(), ">(index, output, ",
                             records ? kErrors : kNoErrors, ");\n");
  kernel.blocks = CeilDiv(nest.count(), kernel.threads);
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  plan.steps.push_back(std::move(launch));
  return plan;
}

absl::StatusOr<KernelPlan> PlanCheckedIndexGroup(absl::Span<const KernelRequest> requests) {
  KernelPlan plan;
  KernelText kernel = NewGroup();
  std::vector<Member> members;
  int64_t position = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const KernelRequest& request = requests[i];
    COTAN_RETURN_IF_ERROR(CheckOp(request));
    if (request.guarded_outputs) {
      return absl::InvalidArgumentError("a group of checked_index ops has guarded outputs: plan them one by one");
    }
    COTAN_ASSIGN_OR_RETURN(const IndexRange range, IndexRange::Of(request));
    const DimVector& sizes = request.inputs[0].layout.sizes;
    members.push_back({range, sizes, position, std::string(request.name)});
    AddMember(request, members.back(), static_cast<int>(i), kernel);
    position += NumElements(sizes);
    if (i % kMaxMembers == kMaxMembers - 1) COTAN_RETURN_IF_ERROR(Finish(std::exchange(kernel, NewGroup()), plan));
  }
  COTAN_RETURN_IF_ERROR(Finish(std::move(kernel), plan));
  plan.error_at = [members = std::move(members)](int64_t at, int64_t value) { return ErrorOf(members, at, value); };
  return plan;
}

}  // namespace cotan::cuda
