#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

// `tensor` with its batch dimensions broadcast to those of `output`.
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

}  // namespace

KernelOr MakeMatmul(const KernelRequest& request) { return MakeFunctionKernel(request, Run); }

}  // namespace cotan::reference
