// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_geometry.h"

#include "base/status_macros.h"
#include "kernels/api/op_check.h"

namespace cotan::cpu {
namespace {

// Returns the stride of dimension `d` of the output in an operand of the same or lower rank; 0 if the operand
// is broadcast along it.
int64_t BatchStride(const StridedLayout& layout, int rank, int d) {
  const int own = d - (rank - layout.rank());
  if (own < 0) return 0;
  const auto i = static_cast<size_t>(own);
  return layout.sizes[i] == 1 ? 0 : layout.strides[i];
}

MatrixStrides LastStrides(const StridedLayout& layout) {
  const size_t rank = layout.strides.size();
  return {layout.strides[rank - 2], layout.strides[rank - 1]};
}

void MergeBatch(MatmulGeometry& geometry) {
  std::vector<BatchLoop> merged;
  for (const BatchLoop& loop : geometry.batch) {
    const bool joins = !merged.empty() && merged.back().a == loop.a * loop.size &&
                       merged.back().b == loop.b * loop.size && merged.back().c == loop.c * loop.size;
    if (joins) {
      merged.back() = {merged.back().size * loop.size, loop.a, loop.b, loop.c};
    } else {
      merged.push_back(loop);
    }
  }
  geometry.batch = merged;
}

void FoldBatchIntoRows(MatmulGeometry& geometry) {
  while (!geometry.batch.empty()) {
    const BatchLoop& loop = geometry.batch.back();
    if (loop.b != 0 || loop.a == 0) return;
    if (geometry.m == 1) {
      // The single rows of the batch's matrices become the rows of one matrix if that is dense.
      const bool stays_dense =
          geometry.a.column == 1 && loop.a >= geometry.k && geometry.c.column == 1 && loop.c >= geometry.n;
      if (!stays_dense) return;
      geometry.a.row = loop.a;
      geometry.c.row = loop.c;
    } else if (loop.a != geometry.m * geometry.a.row || loop.c != geometry.m * geometry.c.row) {
      return;
    }
    geometry.m *= loop.size;
    geometry.batch.pop_back();
  }
}

}  // namespace

int64_t MatmulGeometry::BatchSize() const {
  int64_t count = 1;
  for (const BatchLoop& loop : batch) count *= loop.size;
  return count;
}

BatchOffsets MatmulGeometry::OffsetsOf(int64_t item) const {
  BatchOffsets offsets;
  for (size_t l = batch.size(); l-- > 0;) {
    const BatchLoop& loop = batch[l];
    const int64_t at = item % loop.size;
    item /= loop.size;
    offsets.a += at * loop.a;
    offsets.b += at * loop.b;
    offsets.c += at * loop.c;
  }
  return offsets;
}

double MatmulGeometry::Flops() const {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
         static_cast<double>(BatchSize());
}

absl::StatusOr<MatmulGeometry> AnalyzeMatmul(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const StridedLayout& a = request.inputs[0].layout;
  const StridedLayout& b = request.inputs[1].layout;
  const StridedLayout& c = request.outputs[0].layout;
  const int rank = c.rank();
  MatmulGeometry geometry;
  geometry.m = a.sizes[a.sizes.size() - 2];
  geometry.k = a.sizes.back();
  geometry.n = b.sizes.back();
  geometry.a = LastStrides(a);
  geometry.b = LastStrides(b);
  geometry.c = LastStrides(c);
  for (int d = 0; d < rank - 2; ++d) {
    const int64_t size = c.sizes[static_cast<size_t>(d)];
    if (size == 1) continue;
    geometry.batch.push_back(
        {size, BatchStride(a, rank, d), BatchStride(b, rank, d), c.strides[static_cast<size_t>(d)]});
  }
  MergeBatch(geometry);
  FoldBatchIntoRows(geometry);
  return geometry;
}

}  // namespace cotan::cpu
