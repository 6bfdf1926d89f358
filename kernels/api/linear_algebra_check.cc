// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/linear_algebra_check.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/operand_check.h"
#include "serialization/schema/program.pb.h"

namespace cotan::op_check {
namespace {

using serialization::LinearAlgebra;

// An operand with its sizes after those of the batch.
struct Expected {
  absl::string_view name;
  DType dtype;
  DimVector sizes;
};

// The operands of a function on A [..., M, N]. The last `optional_outputs` are all there or all missing.
struct Operands {
  std::vector<Expected> inputs;  // after A
  std::vector<Expected> outputs;
  size_t optional_outputs = 0;
  bool is_square = false;
};

absl::StatusOr<int64_t> ColumnsOf(const KernelRequest& request, size_t input) {
  if (request.inputs.size() <= input) {
    return absl::InvalidArgumentError(absl::StrCat("has ", request.inputs.size(), " inputs, expected ", input + 1));
  }
  COTAN_RETURN_IF_ERROR(ExpectRank(absl::StrCat("input ", input), request.inputs[input], 2, 64));
  return request.inputs[input].layout.sizes.back();
}

absl::StatusOr<Operands> OperandsOf(const KernelRequest& request, int64_t m, int64_t n) {
  const LinearAlgebra& op = request.op.linear_algebra();
  const DType dtype = request.inputs[0].dtype;
  const int64_t k = std::min(m, n);
  const bool full = op.full_matrices();
  const Expected info = {"info", DType::kInt32, {}};
  switch (op.function()) {
    case LinearAlgebra::EIGH:
      return Operands{{}, {{"the eigenvalues", dtype, {n}}, {"the eigenvectors", dtype, {n, n}}}, 1, true};
    case LinearAlgebra::SVD:
      return Operands{
          {},
          {{"the singular values", dtype, {k}}, {"U", dtype, {m, full ? m : k}}, {"Vh", dtype, {full ? n : k, n}}},
          2};
    case LinearAlgebra::QR:
      return Operands{{}, {{"Q", dtype, {m, full ? m : k}}, {"R", dtype, {full ? m : k, n}}}};
    case LinearAlgebra::LU:
      return Operands{{}, {{"LU", dtype, {m, n}}, {"the pivots", DType::kInt32, {k}}, info}};
    case LinearAlgebra::CHOLESKY:
      return Operands{{}, {{"the factor", dtype, {n, n}}, info}, 0, true};
    case LinearAlgebra::LU_SOLVE: {
      COTAN_ASSIGN_OR_RETURN(const int64_t columns, ColumnsOf(request, 2));
      return Operands{
          {{"the pivots", DType::kInt32, {n}}, {"B", dtype, {n, columns}}}, {{"X", dtype, {n, columns}}}, 0, true};
    }
    case LinearAlgebra::TRIANGULAR_SOLVE: {
      COTAN_ASSIGN_OR_RETURN(const int64_t columns, ColumnsOf(request, 1));
      return Operands{{{"B", dtype, {n, columns}}}, {{"X", dtype, {n, columns}}}, 0, true};
    }
    default:
      return absl::InvalidArgumentError(absl::StrCat("function ", op.function(), " is unknown"));
  }
}

absl::Status ExpectAll(absl::Span<const TensorSpec> specs, absl::Span<const int64_t> batch,
                       absl::Span<const Expected> expected) {
  for (size_t i = 0; i < specs.size(); ++i) {
    DimVector sizes(batch.begin(), batch.end());
    sizes.insert(sizes.end(), expected[i].sizes.begin(), expected[i].sizes.end());
    for (const int64_t size : expected[i].sizes) {
      if (size > kMaxAttribute) {
        return absl::InvalidArgumentError(
            absl::StrCat(expected[i].name, " has ", size, " rows or columns, the limit is ", kMaxAttribute));
      }
    }
    COTAN_RETURN_IF_ERROR(Expect(expected[i].name, specs[i], expected[i].dtype, sizes));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLinearAlgebra(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const int64_t n, ColumnsOf(request, 0));
  const TensorSpec& a = request.inputs[0];
  const absl::Span<const int64_t> sizes = a.layout.sizes;
  const int64_t m = sizes[sizes.size() - 2];
  if (a.dtype != DType::kFloat32 && a.dtype != DType::kFloat64) {
    return absl::InvalidArgumentError(absl::StrCat("A is ", Describe(a), ", expected f32 or f64"));
  }
  if (std::max(m, n) > kMaxAttribute) {
    return absl::InvalidArgumentError(
        absl::StrCat("A is ", Describe(a), ", the limit is ", kMaxAttribute, " rows and columns"));
  }
  COTAN_ASSIGN_OR_RETURN(const Operands operands, OperandsOf(request, m, n));
  if (operands.is_square && m != n) {
    return absl::InvalidArgumentError(absl::StrCat("A is ", Describe(a), ", expected as many rows as columns"));
  }
  const size_t inputs = 1 + operands.inputs.size(), outputs = operands.outputs.size();
  const size_t required = outputs - operands.optional_outputs;
  COTAN_RETURN_IF_ERROR(ExpectCounts(request, inputs, inputs, required, outputs));
  if (request.outputs.size() != required && request.outputs.size() != outputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", request.outputs.size(), " outputs, expected ", required, " or ", outputs));
  }
  const absl::Span<const int64_t> batch = sizes.first(sizes.size() - 2);
  COTAN_RETURN_IF_ERROR(ExpectAll(request.inputs.subspan(1), batch, operands.inputs));
  return ExpectAll(request.outputs, batch, operands.outputs);
}

}  // namespace cotan::op_check
