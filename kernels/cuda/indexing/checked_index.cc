// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/checked_index.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/copy/loop_nest.h"
#include "kernels/cuda/indexing/index_errors.h"

namespace cotan::cuda {

absl::StatusOr<KernelPlan> PlanCheckedIndex(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const IndexRange range, IndexRange::Of(request));
  const TensorSpec& index = request.inputs[0];
  const TensorSpec& output = request.outputs[0];
  KernelPlan plan;
  SetErrorAt(serialization::Op::kCheckedIndex, range, index.layout.sizes, plan);
  LoopNest nest(index.layout.sizes,
                {index.layout.strides, output.layout.strides, ContiguousStrides(index.layout.sizes)});
  nest.Simplify(1);
  if (nest.count() == 0) return plan;
  // Blocks of a kernel that records an error do not agree on whether there is one, so that another one writes.
  const bool records = !request.guarded_outputs;
  if (!records) COTAN_RETURN_IF_ERROR(AppendIndexCheck(index, InputArgument(0), range, plan));
  const std::string type(IndexTypeFor(std::max({nest.count(), nest.Extent(0), nest.Extent(1)})));
  KernelText kernel = {.entry = "checked_index", .header = "indexing.cuh", .guarded = request.guarded_outputs};
  kernel.parameters.push_back({IndexDeclaration(index.dtype), InputArgument(0)});
  kernel.parameters.push_back({absl::StrCat(ElementTypeName(index.dtype), "* output"), OutputArgument(0)});
  if (records) AppendErrorParameters(kernel.parameters);
  kernel.body =
      absl::StrCat("  cotan::indexing::ResolveAll<", RangeText(range), ", ", type, ", ", records ? "true" : "false",
                   ", ", nest.Text(), ">(index, output, ", records ? kErrors : kNoErrors, ");\n");
  kernel.blocks = CeilDiv(nest.count(), kernel.threads);
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  plan.steps.push_back(std::move(launch));
  return plan;
}

}  // namespace cotan::cuda
