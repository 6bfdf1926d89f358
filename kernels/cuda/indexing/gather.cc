// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/indexing/gather.h"

#include <algorithm>
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

// The operands of the loops.
constexpr size_t kTable = 0;
constexpr size_t kOutput = 1;
constexpr size_t kIndex = 2;
constexpr size_t kVectors[] = {kTable, kOutput};

// Returns the loops over the output's elements.
LoopNest LoopsOf(const StridedLayout& table, size_t dim, const StridedLayout& index, const StridedLayout& output) {
  const DimVector positions = ContiguousStrides(index.sizes);
  std::vector<LoopDim> dims;
  for (size_t d = 0; d < output.sizes.size(); ++d) {
    const int64_t stride = output.strides[d];
    if (d >= dim && d < dim + index.sizes.size()) {
      dims.push_back({output.sizes[d], {0, stride, index.strides[d - dim], positions[d - dim]}});
    } else {
      const size_t from = d < dim ? d : d + 1 - index.sizes.size();
      dims.push_back({output.sizes[d], {table.strides[from], stride, 0, 0}});
    }
  }
  LoopNest nest(dims);
  nest.Simplify(kOutput);
  return nest;
}

// Returns the largest vector, in elements, whose rows begin at multiples of it.
int64_t VectorOf(const LoopNest& nest, int64_t row_stride, size_t element_bytes) {
  int64_t vector = nest.VectorSize(kVectors, static_cast<int64_t>(16 / element_bytes));
  while (row_stride % vector != 0) vector /= 2;
  return vector;
}

}  // namespace

absl::StatusOr<KernelPlan> PlanGather(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const TensorSpec& table = request.inputs[0];
  const TensorSpec& index = request.inputs[1];
  const auto dim = static_cast<size_t>(request.op.gather().dim());
  const IndexRange range = {.size = table.layout.sizes[dim], .from_end = true};
  KernelPlan plan;
  SetErrorAt(serialization::Op::kGather, range, index.layout.sizes, plan);
  const LoopNest nest = LoopsOf(table.layout, dim, index.layout, request.outputs[0].layout);
  // Blocks of a kernel that records an error do not agree on whether there is one, so that another one writes.
  const bool records = !request.guarded_outputs && nest.count() > 0;
  if (!records) COTAN_RETURN_IF_ERROR(AppendIndexCheck(index, InputArgument(1), range, plan));
  if (nest.count() == 0) return plan;

  const size_t bytes = ByteSize(table.dtype);
  const int64_t row = table.layout.strides[dim];
  const int64_t vector = VectorOf(nest, row, bytes);
  const LoopNest vectors = nest.OfVectors(kVectors, vector);
  const int64_t largest = std::max({nest.count(), nest.Extent(kTable) + row * std::max<int64_t>(range.size, 1),
                                    nest.Extent(kOutput), nest.Extent(kIndex)});
  KernelText kernel = {.entry = "gather", .header = "indexing.cuh", .guarded = request.guarded_outputs};
  kernel.parameters.push_back({"const void* table", InputArgument(0)});
  kernel.parameters.push_back({IndexDeclaration(index.dtype), InputArgument(1)});
  kernel.parameters.push_back({"void* output", OutputArgument(0)});
  if (records) AppendErrorParameters(kernel.parameters);
  kernel.body = absl::StrCat("  cotan::indexing::Gather<", WordTypeName(bytes * static_cast<size_t>(vector)), ", ",
                             WordTypeName(bytes), ", ", RangeText(range), ", ", IndexTypeFor(largest), ", ",
                             records ? "true" : "false", ", ", row / vector, ", ", row, ", ", vectors.Text(), ", ",
                             nest.Text(), ">(table, index, output, ", records ? kErrors : kNoErrors, ");\n");
  kernel.blocks = CeilDiv(vectors.count(), kernel.threads);
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(kernel));
  plan.steps.push_back(std::move(launch));
  return plan;
}

}  // namespace cotan::cuda
