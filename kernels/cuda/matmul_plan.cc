// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul_plan.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"

namespace cotan::cuda {
namespace {

enum Role { kLhs, kRhs, kOutput, kAddend, kNumRoles };

// One batch dimension with the stride of each operand; strides are 0 where broadcast.
struct BatchDimension {
  int64_t size;
  std::array<int64_t, kNumRoles> strides;
};

std::string Describe(absl::string_view name, const StridedLayout& layout) {
  return absl::StrCat(name, " ", ToString(layout));
}

// Returns the stride along dimension `from_end`, counted from the last one; 0 if the layout lacks the
// dimension or its size is 1.
int64_t BroadcastStride(const StridedLayout& layout, int from_end) {
  const int d = layout.rank() - 1 - from_end;
  return d < 0 || layout.sizes[d] == 1 ? 0 : layout.strides[d];
}

int64_t SizeFromEnd(const StridedLayout& layout, int from_end) {
  const int d = layout.rank() - 1 - from_end;
  return d < 0 ? 1 : layout.sizes[d];
}

// Returns the matrix of the last two dimensions, [rows, columns], as an operand of the transposed product:
// for BLAS it is [columns, rows], or its transpose.
absl::StatusOr<BlasMatrix> TransposedOperand(absl::string_view name, const StridedLayout& layout) {
  const int64_t rows = SizeFromEnd(layout, 1), columns = SizeFromEnd(layout, 0);
  const int64_t row_stride = BroadcastStride(layout, 1), column_stride = BroadcastStride(layout, 0);
  // The stride of a dimension of size 1 is irrelevant: any that BLAS accepts is valid.
  if ((columns == 1 || column_stride == 1) && (rows == 1 || row_stride >= columns)) {
    return BlasMatrix{
        .rows = columns, .columns = rows, .leading_dimension = std::max({row_stride, columns, int64_t{1}})};
  }
  if ((rows == 1 || row_stride == 1) && (columns == 1 || column_stride >= rows)) {
    return BlasMatrix{.rows = rows,
                      .columns = columns,
                      .leading_dimension = std::max({column_stride, rows, int64_t{1}}),
                      .transposed = true};
  }
  return absl::UnimplementedError(absl::StrCat("the CUDA matmul needs a matrix with one contiguous dimension, not ",
                                               Describe(name, layout), ": copy it before"));
}

absl::Status PlanAddend(const StridedLayout& addend, MatmulPlan& plan) {
  const int64_t rows = SizeFromEnd(addend, 1), columns = SizeFromEnd(addend, 0);
  if (plan.k == 0) {
    return absl::UnimplementedError("the CUDA matmul has no addend for K = 0: copy it to the output instead");
  }
  if (columns == plan.m && rows == 1 && (plan.m == 1 || BroadcastStride(addend, 0) == 1)) {
    plan.addend = MatmulAddend::kBias;
    return absl::OkStatus();
  }
  if (columns == plan.m && rows == plan.n) {
    COTAN_ASSIGN_OR_RETURN(plan.c, TransposedOperand("addend", addend));
    if (!plan.c.transposed) {
      plan.addend = MatmulAddend::kMatrix;
      return absl::OkStatus();
    }
  }
  return absl::UnimplementedError(
      absl::StrCat("the CUDA matmul adds a row or a row-major matrix, not ", Describe("addend", addend)));
}

// Merges adjacent batch dimensions over which every operand has one stride, so that one call computes as many
// matrices as possible.
std::vector<BatchDimension> BatchDimensions(const KernelRequest& request) {
  const StridedLayout& output = request.outputs[0].layout;
  std::vector<BatchDimension> batch;
  for (int d = output.rank() - 1; d >= 2; --d) {
    BatchDimension next{.size = SizeFromEnd(output, d), .strides = {}};
    if (next.size == 1) continue;
    next.strides[kLhs] = BroadcastStride(request.inputs[0].layout, d);
    next.strides[kRhs] = BroadcastStride(request.inputs[1].layout, d);
    next.strides[kOutput] = BroadcastStride(output, d);
    if (request.inputs.size() == 3) next.strides[kAddend] = BroadcastStride(request.inputs[2].layout, d);
    bool even = !batch.empty();
    for (int role = 0; even && role < kNumRoles; ++role) {
      even = batch.back().strides[role] == next.strides[role] * next.size;
    }
    if (even) {
      next.size *= batch.back().size;
      batch.back() = next;
    } else {
      batch.push_back(next);
    }
  }
  return batch;
}

// The innermost batch dimension becomes the batch of BLAS; each index of the others becomes a call.
void PlanBatch(std::vector<BatchDimension> dimensions, MatmulPlan& plan) {
  if (!dimensions.empty()) {
    const BatchDimension& inner = dimensions.back();
    plan.batch = inner.size;
    plan.a.batch_stride = inner.strides[kRhs];
    plan.b.batch_stride = inner.strides[kLhs];
    plan.c.batch_stride = inner.strides[kAddend];
    plan.d.batch_stride = inner.strides[kOutput];
    plan.bias_batch_stride = inner.strides[kAddend];
    dimensions.pop_back();
  }
  plan.calls = {MatmulOffsets{}};
  for (const BatchDimension& dimension : dimensions) {
    std::vector<MatmulOffsets> calls;
    calls.reserve(plan.calls.size() * dimension.size);
    for (const MatmulOffsets& outer : plan.calls) {
      for (int64_t i = 0; i < dimension.size; ++i) {
        calls.push_back({.lhs = outer.lhs + i * dimension.strides[kLhs],
                         .rhs = outer.rhs + i * dimension.strides[kRhs],
                         .addend = outer.addend + i * dimension.strides[kAddend],
                         .output = outer.output + i * dimension.strides[kOutput]});
      }
    }
    plan.calls = std::move(calls);
  }
}

}  // namespace

absl::StatusOr<MatmulPlan> PlanMatmul(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  if (request.op.matmul().has_epilogue()) {
    return absl::InvalidArgumentError("the matmul has an epilogue: split it with TakeApartMatmul()");
  }
  const StridedLayout& output = request.outputs[0].layout;
  MatmulPlan plan;
  plan.dtype = request.outputs[0].dtype;
  plan.m = SizeFromEnd(output, 0);
  plan.n = SizeFromEnd(output, 1);
  plan.k = SizeFromEnd(request.inputs[0].layout, 0);
  if (NumElements(output.sizes) == 0) return plan;

  COTAN_ASSIGN_OR_RETURN(plan.d, TransposedOperand("output", output));
  if (plan.d.transposed) {
    return absl::UnimplementedError(
        absl::StrCat("the CUDA matmul writes a row-major matrix, not ", Describe("output", output)));
  }
  COTAN_ASSIGN_OR_RETURN(plan.a, TransposedOperand("input 1", request.inputs[1].layout));
  COTAN_ASSIGN_OR_RETURN(plan.b, TransposedOperand("input 0", request.inputs[0].layout));
  if (request.inputs.size() == 3) {
    COTAN_RETURN_IF_ERROR(PlanAddend(request.inputs[2].layout, plan));
  }
  PlanBatch(BatchDimensions(request), plan);
  return plan;
}

}  // namespace cotan::cuda
