// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/index_errors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/copy/loop_nest.h"

namespace cotan::cuda {

void SetErrorAt(OpKind kind, const IndexRange& range, const DimVector& sizes, KernelPlan& plan) {
  plan.error_at = [kind, range, sizes](int64_t position, int64_t value) {
    return range.OutOfRangeError(kind, sizes, position, value);
  };
}

absl::Status AppendIndexCheck(const TensorSpec& index, const KernelArgument& argument, const IndexRange& range,
                              KernelPlan& plan) {
  LoopNest nest(index.layout.sizes, {index.layout.strides, ContiguousStrides(index.layout.sizes)});
  nest.Simplify(0);
  if (nest.count() == 0) return absl::OkStatus();
  const std::string type(IndexTypeFor(std::max(nest.count(), nest.Extent(0))));
  KernelText kernel = {.entry = "check_index", .header = "indexing.cuh"};
  kernel.parameters.push_back({IndexDeclaration(index.dtype), argument});
  AppendErrorParameters(kernel.parameters);
  kernel.body = absl::StrCat("  cotan::indexing::CheckAll<", RangeText(range), ", ", type, ", ", nest.Text(),
                             ">(index, ", kErrors, ");\n");
  kernel.blocks = CeilDiv(nest.count(), kernel.threads);
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  plan.steps.push_back(std::move(launch));
  return absl::OkStatus();
}

std::string RangeText(const IndexRange& range) {
  return absl::StrCat("cotan::indexing::Range<", Literal(range.size), ", ", range.from_end ? "true" : "false", ", ",
                      range.ignored.has_value() ? "true" : "false", ", ", Literal(range.ignored.value_or(0)), ">");
}

std::string IndexDeclaration(DType dtype) { return absl::StrCat("const ", ElementTypeName(dtype), "* index"); }

void AppendErrorParameters(std::vector<KernelParameter>& parameters) {
  parameters.push_back({"cotan::ErrorRecord* record", ErrorRecordArgument()});
  parameters.push_back({"unsigned op", FaultIdArgument()});
}

}  // namespace cotan::cuda
