// SPDX-License-Identifier: Apache-2.0

#include <utility>

#include "kernels/api/matmul_epilogue.h"
#include "kernels/reference/expr.h"
#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

// Returns `tensor` with its batch dimensions broadcast to those of `output`.
Tensor WithBatchOf(const Tensor& tensor, const Tensor& output) {
  DimVector sizes(output.sizes().begin(), output.sizes().end() - 2);
  sizes.insert(sizes.end(), tensor.sizes().end() - 2, tensor.sizes().end());
  return tensor.BroadcastTo(sizes);
}

absl::Status Run(const serialization::Op& /*op*/, const Tensors& in, const Tensors& out) {
  const Tensor a = WithBatchOf(in[0], out[0]);
  const Tensor b = WithBatchOf(in[1], out[0]);
  const size_t row = out[0].sizes().size() - 2;
  const size_t col = row + 1;
  const int64_t inner = a.sizes()[col];
  ForEachIndex(out[0].sizes(), [&](absl::Span<const int64_t> index) {
    DimVector a_index(index.begin(), index.end());
    DimVector b_index(index.begin(), index.end());
    Scalar total = in.size() > 2 ? in[2].BroadcastTo(out[0].sizes()).Get(index) : Scalar{};
    for (int64_t k = 0; k < inner; ++k) {
      a_index[col] = k;
      b_index[row] = k;
      const Scalar x = a.Get(a_index);
      const Scalar y = b.Get(b_index);
      total.f += x.f * y.f;
      total.i += x.i * y.i;
    }
    out[0].Set(index, total);
  });
  return absl::OkStatus();
}

// Computes the whole product, then the epilogue.
class EpilogueKernel final : public Kernel {
 public:
  EpilogueKernel(std::unique_ptr<Kernel> product, std::unique_ptr<Kernel> epilogue, size_t bytes, size_t num_inputs)
      : product_(std::move(product)), epilogue_(std::move(epilogue)), values_(bytes), inputs_(num_inputs - 1) {}

  absl::Status Run(const KernelArgs& args) override {
    void* const product = values_.data();
    COTAN_RETURN_IF_ERROR(product_->Run({args.inputs, &product, nullptr}));
    inputs_[0] = product;
    std::copy(args.inputs + 2, args.inputs + 1 + inputs_.size(), inputs_.begin() + 1);
    return epilogue_->Run({inputs_.data(), args.outputs, nullptr});
  }

 private:
  std::unique_ptr<Kernel> product_;
  std::unique_ptr<Kernel> epilogue_;
  std::vector<char> values_;
  std::vector<void*> inputs_;
};

KernelOr MakeWithEpilogue(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const MatmulParts parts, TakeApartMatmul(request));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> product, MakeFunctionKernel(parts.Product(request), Run));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> epilogue, MakeExpr(parts.Epilogue(request)));
  const TensorSpec& spec = parts.expr_inputs[0];
  const size_t bytes = static_cast<size_t>(NumElements(spec.layout.sizes)) * ByteSize(spec.dtype);
  return std::make_unique<EpilogueKernel>(std::move(product), std::move(epilogue), bytes, request.inputs.size());
}

}  // namespace

KernelOr MakeMatmul(const KernelRequest& request) {
  return request.op.matmul().has_epilogue() ? MakeWithEpilogue(request) : MakeFunctionKernel(request, Run);
}

}  // namespace cotan::reference
