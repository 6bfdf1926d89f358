// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul/matmul_problem.h"

#include <algorithm>
#include <utility>

#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"

namespace cotan::cuda {
namespace {

// Returns the stride of dimension `d` of an output of rank `rank` in an operand of the same or lower rank; 0 if the
// operand is broadcast along it.
int64_t BroadcastStride(const StridedLayout& layout, int rank, int d) {
  const int own = d - (rank - layout.rank());
  if (own < 0) return 0;
  const auto i = static_cast<size_t>(own);
  return layout.sizes[i] == 1 ? 0 : layout.strides[i];
}

MatmulMatrix MatrixOf(const StridedLayout& layout, int rank, const KernelArgument& argument) {
  return {BroadcastStride(layout, rank, rank - 2), BroadcastStride(layout, rank, rank - 1), argument};
}

// Returns whether `inner` continues `outer` in all operands.
bool IsEven(const MatmulBatch& outer, const MatmulBatch& inner) {
  for (size_t role = 0; role < kNumMatmulRoles; ++role) {
    if (outer.strides[role] != inner.strides[role] * inner.size) return false;
  }
  return true;
}

// Tries to make rows of d and of a (`moves` = kMatmulA), or columns of d and of b, from a dimension that repeats the
// other factor.
bool TryFold(const MatmulBatch& batch, MatmulRole moves, MatmulProblem& problem) {
  const bool is_rows = moves == kMatmulA;
  const MatmulRole repeats = is_rows ? kMatmulB : kMatmulA;
  if (batch.strides[repeats] != 0 || batch.strides[moves] == 0) return false;
  int64_t& size = is_rows ? problem.m : problem.n;
  const auto stride = [&](MatmulProblem& p, MatmulRole role) -> int64_t& {
    return is_rows ? p[role].row_stride : p[role].column_stride;
  };
  MatmulProblem folded = problem;
  for (const MatmulRole role : {moves, kMatmulC, kMatmulD}) {
    if (size == 1) {
      stride(folded, role) = batch.strides[role];
    } else if (batch.strides[role] != size * stride(problem, role)) {
      return false;
    }
  }
  (is_rows ? folded.m : folded.n) *= batch.size;
  // Single rows, and rows that overlap, may have been stored in a way that all of them together are not.
  for (const MatmulRole role : {moves, kMatmulD}) {
    const auto is_stored = [&](const MatmulProblem& p) {
      return FindBlasStorage(p.Rows(role), p.Columns(role), p[role]).has_value();
    };
    if (is_stored(problem) && !is_stored(folded)) return false;
  }
  problem.m = folded.m;
  problem.n = folded.n;
  problem.matrices = folded.matrices;
  return true;
}

}  // namespace

int64_t MatmulProblem::BatchSize() const {
  int64_t count = 1;
  for (const MatmulBatch& dimension : batch) count *= dimension.size;
  return count;
}

int64_t MatmulProblem::Extent(MatmulRole role) const {
  const int64_t rows = Rows(role);
  const int64_t columns = Columns(role);
  if (rows == 0 || columns == 0 || BatchSize() == 0) return 0;
  int64_t last = (rows - 1) * matrices[role].row_stride + (columns - 1) * matrices[role].column_stride;
  for (const MatmulBatch& dimension : batch) last += (dimension.size - 1) * dimension.strides[role];
  return last + 1;
}

void MergeMatmulBatch(MatmulProblem& problem) {
  std::vector<MatmulBatch>& batch = problem.batch;
  std::stable_sort(batch.begin(), batch.end(), [](const MatmulBatch& x, const MatmulBatch& y) {
    return x.strides[kMatmulD] > y.strides[kMatmulD];
  });
  bool changes = true;
  while (changes) {
    changes = false;
    for (size_t i = batch.size(); i-- > 1;) {
      if (!IsEven(batch[i - 1], batch[i])) continue;
      batch[i].size *= batch[i - 1].size;
      batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(i) - 1);
    }
    for (size_t i = batch.size(); i-- > 0;) {
      const MatmulBatch dimension = batch[i];
      if (!TryFold(dimension, kMatmulA, problem) && !TryFold(dimension, kMatmulB, problem)) continue;
      batch.erase(batch.begin() + static_cast<std::ptrdiff_t>(i));
      changes = true;
    }
  }
}

absl::StatusOr<MatmulProblem> AnalyzeMatmul(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const StridedLayout& d = request.outputs[0].layout;
  const int rank = d.rank();
  MatmulProblem problem;
  problem.dtype = request.outputs[0].dtype;
  problem.m = d.sizes[d.sizes.size() - 2];
  problem.n = d.sizes.back();
  problem.k = request.inputs[0].layout.sizes.back();
  problem.has_c = request.inputs.size() == 3;
  problem[kMatmulD] = MatrixOf(d, rank, OutputArgument(0));
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    problem.matrices[i] = MatrixOf(request.inputs[i].layout, rank, InputArgument(static_cast<int>(i)));
  }
  for (int i = 0; i < rank - 2; ++i) {
    MatmulBatch dimension{.size = d.sizes[static_cast<size_t>(i)]};
    if (dimension.size == 1) continue;
    for (size_t role = 0; role < request.inputs.size(); ++role) {
      dimension.strides[role] = BroadcastStride(request.inputs[role].layout, rank, i);
    }
    dimension.strides[kMatmulD] = d.strides[static_cast<size_t>(i)];
    problem.batch.push_back(dimension);
  }
  if (!problem.IsEmpty()) MergeMatmulBatch(problem);
  return problem;
}

MatmulProblem TransposeMatmul(const MatmulProblem& problem) {
  MatmulProblem result = problem;
  std::swap(result.m, result.n);
  std::swap(result.matrices[kMatmulA], result.matrices[kMatmulB]);
  for (MatmulMatrix& matrix : result.matrices) std::swap(matrix.row_stride, matrix.column_stride);
  for (MatmulBatch& dimension : result.batch) std::swap(dimension.strides[kMatmulA], dimension.strides[kMatmulB]);
  return result;
}

std::optional<BlasStorage> FindBlasStorage(int64_t rows, int64_t columns, const MatmulMatrix& matrix) {
  // The stride of a dimension of size 1 is free.
  int64_t row_stride = matrix.row_stride;
  int64_t column_stride = matrix.column_stride;
  if (rows <= 1 && columns <= 1) {
    row_stride = column_stride = 1;
  } else if (columns <= 1) {
    column_stride = row_stride == 1 ? rows : 1;
  } else if (rows <= 1) {
    row_stride = column_stride == 1 ? columns : 1;
  }
  if (row_stride == 1 && column_stride >= rows) return BlasStorage{column_stride, false};
  if (column_stride == 1 && row_stride >= columns) return BlasStorage{row_stride, true};
  return std::nullopt;
}

}  // namespace cotan::cuda
