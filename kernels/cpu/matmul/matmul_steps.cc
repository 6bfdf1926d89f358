// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_steps.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/copy/nested_layout.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

// Returns true if a library can read the matrices in place.
bool IsPlain(const StridedLayout& layout) {
  const size_t rank = layout.sizes.size();
  if (rank < 2) return true;  // CheckOp() reports it
  const int64_t rows = layout.sizes[rank - 2];
  const int64_t columns = layout.sizes[rank - 1];
  const MatrixStrides strides =
      NormalizeUnitStrides(rows, columns, {layout.strides[rank - 2], layout.strides[rank - 1]});
  return (IsRowMajor(columns, strides) || IsRowMajor(rows, {strides.column, strides.row})) && IsNested(layout);
}

// Returns true if the addend is one dense row, equal for all rows of the output.
bool IsBias(const StridedLayout& addend, int64_t n) {
  return addend.rank() >= 1 && NumElements(addend.sizes) == n && addend.sizes.back() == n &&
         (n == 1 || addend.strides.back() == 1);
}

// Adds the product, whose operands the library reads in place, and its addend.
absl::Status AddProduct(const KernelRequest& request, const ProductMaker& maker, std::vector<Slot> inputs, Slot output,
                        Pipeline& pipeline) {
  COTAN_ASSIGN_OR_RETURN(MatmulGeometry geometry, AnalyzeMatmul(request));
  if (geometry.IsEmpty()) return absl::OkStatus();
  const DType dtype = request.outputs[0].dtype;
  const size_t element = ByteSize(dtype);
  const StridedLayout& c = request.outputs[0].layout;
  const bool is_sum_empty = geometry.k == 0;
  const bool transposes = !IsRowMajor(geometry.n, NormalizeUnitStrides(geometry.m, geometry.n, geometry.c));
  Addend addend = Addend::kNone;
  if (inputs.size() == 3) {
    const StridedLayout& layout = request.inputs[2].layout;
    const bool is_bias = maker.takes_bias && !transposes && !is_sum_empty && IsBias(layout, geometry.n);
    addend = is_bias ? Addend::kBias : Addend::kInOutput;
    if (!is_bias) {
      COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> copy,
                             MakeBroadcastCopyKernel(element, layout, c, request.threads));
      pipeline.Add(std::move(copy), {inputs[2]}, {output});
      inputs.pop_back();
    }
  }
  if (is_sum_empty) {
    if (addend == Addend::kNone) pipeline.Add(MakeZeroKernel(element, c, request.threads), {}, {output});
    return absl::OkStatus();
  }
  if (transposes) {
    geometry = TransposedProduct(geometry);
    std::swap(inputs[0], inputs[1]);
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, maker.make(geometry, addend, dtype, request.threads));
  pipeline.Add(std::move(product), std::move(inputs), {output});
  return absl::OkStatus();
}

}  // namespace

MatrixStrides NormalizeUnitStrides(int64_t rows, int64_t columns, MatrixStrides strides) {
  if (columns == 1) return {rows == 1 ? 1 : strides.row, 1};
  if (rows == 1) return strides.column == 1 ? MatrixStrides{columns, 1} : MatrixStrides{1, strides.column};
  return strides;
}

MatmulGeometry WithUnitStrides(MatmulGeometry g) {
  g.a = NormalizeUnitStrides(g.m, g.k, g.a);
  g.b = NormalizeUnitStrides(g.k, g.n, g.b);
  g.c = NormalizeUnitStrides(g.m, g.n, g.c);
  return g;
}

MatmulGeometry TransposedProduct(const MatmulGeometry& geometry) {
  MatmulGeometry result = geometry;
  std::swap(result.m, result.n);
  result.a = {geometry.b.column, geometry.b.row};
  result.b = {geometry.a.column, geometry.a.row};
  result.c = {geometry.c.column, geometry.c.row};
  for (BatchLoop& loop : result.batch) std::swap(loop.a, loop.b);
  return result;
}

bool IsRowMajor(int64_t columns, MatrixStrides strides) { return strides.column == 1 && strides.row >= columns; }

bool RepeatsProducts(const MatmulGeometry& geometry) {
  return std::any_of(geometry.batch.begin(), geometry.batch.end(),
                     [](const BatchLoop& loop) { return loop.a == 0 && loop.b == 0; });
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulSteps(const KernelRequest& request, const ProductMaker& maker) {
  COTAN_ASSIGN_OR_RETURN(const MatmulGeometry geometry, AnalyzeMatmul(request));
  const size_t element = ByteSize(request.outputs[0].dtype);
  const int threads = ThreadsWorthwhile(request.threads, geometry.Flops());
  const bool repeats = RepeatsProducts(geometry);
  auto pipeline = std::make_unique<Pipeline>(threads);

  std::vector<TensorSpec> inputs(request.inputs.begin(), request.inputs.end());
  std::vector<Slot> slots;
  for (size_t i = 0; i < inputs.size(); ++i) {
    slots.push_back(Slot::Input(i));
    StridedLayout& layout = inputs[i].layout;
    if (i == 2 || (IsPlain(layout) && !repeats)) continue;
    const DimVector dense = ContiguousStrides(layout.sizes);
    const Slot packed = pipeline->AddScratch(element * static_cast<size_t>(NumElements(layout.sizes)));
    pipeline->Add(MakeCopyKernel(element, layout.sizes, layout.strides, dense, threads), {slots[i]}, {packed});
    layout.strides = dense;
    slots[i] = packed;
  }

  TensorSpec output = request.outputs[0];
  Slot output_slot = Slot::Output(0);
  const bool is_plain = IsPlain(output.layout);
  if (!is_plain) {
    output.layout.strides = ContiguousStrides(output.layout.sizes);
    output_slot = pipeline->AddScratch(element * static_cast<size_t>(NumElements(output.layout.sizes)));
  }
  const KernelRequest plain{request.op,      inputs,  absl::MakeConstSpan(&output, 1),
                            request.symbols, threads, request.device};
  COTAN_RETURN_IF_ERROR(AddProduct(plain, maker, std::move(slots), output_slot, *pipeline));
  if (!is_plain) {
    const StridedLayout& to = request.outputs[0].layout;
    pipeline->Add(MakeCopyKernel(element, to.sizes, output.layout.strides, to.strides, threads), {output_slot},
                  {Slot::Output(0)});
  }
  return pipeline;
}

}  // namespace cotan::cpu
