// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/matmul_epilogue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cotan {

KernelRequest MatmulParts::Product(const KernelRequest& request) const {
  return {product_op,
          request.inputs.subspan(0, 2),
          absl::MakeConstSpan(expr_inputs).subspan(0, 1),
          request.symbols,
          request.threads,
          request.device};
}

KernelRequest MatmulParts::Epilogue(const KernelRequest& request) const {
  return {.op = expr_op,
          .inputs = expr_inputs,
          .outputs = request.outputs,
          .symbols = request.symbols,
          .threads = request.threads,
          .device = request.device,
          .guarded_outputs = request.guarded_outputs,
          .name = request.name};
}

absl::StatusOr<MatmulParts> TakeApartMatmul(const KernelRequest& request) {
  if (request.inputs.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", request.inputs.size(), " inputs, expected 2 and those of the epilogue"));
  }
  const DimVector& a = request.inputs[0].layout.sizes;
  const DimVector& b = request.inputs[1].layout.sizes;
  if (a.size() < 2 || b.size() < 2) return absl::InvalidArgumentError("an operand of the product is not a matrix");
  DimVector sizes(std::max(a.size(), b.size()), 1);
  for (const DimVector* operand : {&a, &b}) {
    const size_t missing = sizes.size() - operand->size();
    for (size_t d = 0; d + 2 < operand->size(); ++d) {
      if ((*operand)[d] != 1) sizes[missing + d] = (*operand)[d];
    }
  }
  sizes[sizes.size() - 2] = a[a.size() - 2];
  sizes.back() = b.back();
  MatmulParts parts;
  parts.product_op.mutable_matmul();
  *parts.expr_op.mutable_expr() = request.op.matmul().epilogue();
  const DimVector strides = ContiguousStrides(sizes);
  parts.expr_inputs.push_back({request.inputs[0].dtype, {sizes, strides, 0}});
  parts.expr_inputs.insert(parts.expr_inputs.end(), request.inputs.begin() + 2, request.inputs.end());
  return parts;
}

bool IsSmallProduct(DType dtype, double pairs, double steps, double spared_launches) {
  if (IsInteger(dtype)) return true;
  const double most_pairs = dtype == DType::kFloat32 ? 70e6 : 7e6;
  return pairs <= most_pairs + 16e6 * spared_launches && steps <= 2048 + 512 * spared_launches;
}

bool IsSmallProduct(const TensorSpec& a, const TensorSpec& product, double spared_launches) {
  const auto steps = static_cast<double>(a.layout.sizes.back());
  const double pairs = static_cast<double>(NumElements(product.layout.sizes)) * steps;
  return IsSmallProduct(product.dtype, pairs, steps, spared_launches);
}

}  // namespace cotan
