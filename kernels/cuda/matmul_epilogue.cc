// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul_epilogue.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/matmul_epilogue.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/expr.h"

namespace cotan::cuda {
namespace {

// The alignment of the product in scratch, and so of the inner kernel's scratch after it.
constexpr size_t kAlignment = 64;

class MatmulEpilogueKernel final : public Kernel {
 public:
  // `bytes` is the product's size, `num_inputs` the op's.
  MatmulEpilogueKernel(std::unique_ptr<Kernel> product, std::unique_ptr<Kernel> epilogue, size_t bytes,
                       size_t num_inputs)
      : product_(std::move(product)),
        epilogue_(std::move(epilogue)),
        product_bytes_((bytes + kAlignment - 1) / kAlignment * kAlignment),
        expr_inputs_(num_inputs - 1) {
    scratch_bytes_ = product_bytes_ + std::max(product_->scratch_bytes(), epilogue_->scratch_bytes());
  }

  absl::Status Run(const KernelArgs& args) override {
    void* const product = args.scratch;
    void* const rest = static_cast<char*>(args.scratch) + product_bytes_;
    COTAN_RETURN_IF_ERROR(product_->Run({.inputs = args.inputs, .outputs = &product, .scratch = rest}));
    expr_inputs_[0] = product;
    std::copy_n(args.inputs + 2, expr_inputs_.size() - 1, expr_inputs_.begin() + 1);
    return epilogue_->Run({.inputs = expr_inputs_.data(), .outputs = args.outputs, .scratch = rest});
  }

 private:
  const std::unique_ptr<Kernel> product_;
  const std::unique_ptr<Kernel> epilogue_;
  const size_t product_bytes_;
  std::vector<void*> expr_inputs_;  // the product, then the op's inputs from 2 on
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PrepareMatmulEpilogue(const KernelRequest& request, KernelFactory product) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const MatmulParts parts, TakeApartMatmul(request));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> whole, product(parts.Product(request)));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> epilogue, PrepareExpr(parts.Epilogue(request)));
  const TensorSpec& spec = parts.expr_inputs[0];
  const size_t bytes = static_cast<size_t>(NumElements(spec.layout.sizes)) * ByteSize(spec.dtype);
  return std::make_unique<MatmulEpilogueKernel>(std::move(whole), std::move(epilogue), bytes, request.inputs.size());
}

}  // namespace cotan::cuda
