// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/composed_ops.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/_weight_norm.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/complex.h>
#include <ATen/ops/conj_physical.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/conv1d.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/linalg_matrix_rank.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_xor.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mvlgamma.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/norm_except_dim.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/scatter_reduce.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "aot/capture/dispatch_keys.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/decompositions/zero_gradient.h"

namespace cotan::aot {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// Functionalization first runs in-place ops on meta tensors, for which these ops have no kernels. `self` is
// cloned because its derivative may need the values before the write.
template <at::Tensor (*kFunction)(const at::Tensor&)>
at::Tensor& UnaryInPlace(at::Tensor& self) {
  return self.copy_(kFunction(self.clone()));
}
at::Tensor& AbsInPlace(at::Tensor& self) {
  TORCH_CHECK(!self.is_complex(), "abs_: the result of a complex tensor is real and cannot be written to it; use abs");
  return UnaryInPlace<at::abs>(self);
}
at::Tensor& ConjInPlace(at::Tensor& self) { return self.copy_(at::conj_physical(self.clone())); }

// Writes through detach(): autograd does not record these ops.
template <at::Tensor (*kFunction)(const at::Tensor&, const at::Tensor&)>
at::Tensor& LogicalInPlace(at::Tensor& self, const at::Tensor& other) {
  at::Tensor content = self.detach();
  content.copy_(kFunction(content, other.detach()));
  return self;
}
at::Tensor& LogicalNotInPlace(at::Tensor& self) {
  at::Tensor content = self.detach();
  content.copy_(at::logical_not(content));
  return self;
}

at::Tensor& FloorDivideInPlace(at::Tensor& self, const at::Scalar& other) {
  const at::ScalarType type = at::result_type(self, other);
  TORCH_CHECK(c10::canCast(type, self.scalar_type()), "floor_divide_: the result has dtype ", type,
              ", which cannot be written to a tensor of ", self.scalar_type());
  return self.copy_(at::floor_divide(self.clone(), other));
}
at::Tensor& MvlgammaInPlace(at::Tensor& self, int64_t p) { return self.copy_(at::mvlgamma(self.clone(), p)); }
at::Tensor& NanToNumInPlace(at::Tensor& self, std::optional<double> nan, std::optional<double> posinf,
                            std::optional<double> neginf) {
  return self.copy_(at::nan_to_num(self.clone(), nan, posinf, neginf));
}

// Rows are variables, columns are observations. The weights are not validated: their values depend on data.
at::Tensor Cov(const at::Tensor& self, int64_t correction, const OptionalTensor& fweights,
               const OptionalTensor& aweights) {
  TORCH_CHECK(self.dim() <= 2 && self.scalar_type() != at::kBool, "cov: the input has sizes ", self.sizes(),
              " and dtype ", self.scalar_type(), "; it takes at most two dimensions of numbers");
  const at::Tensor x = self.dim() < 2 ? self.view({1, -1}) : self;
  at::Tensor weights;
  for (const OptionalTensor* given : {&fweights, &aweights}) {
    if (!given->has_value() || !(*given)->defined()) continue;
    weights = weights.defined() ? weights * **given : **given;
  }
  const at::Tensor weighted = weights.defined() ? x * weights : x;
  at::Tensor mean = at::sum(weighted, at::IntArrayRef{1}, /*keepdim=*/true);
  if (!weights.defined()) {
    const auto count = static_cast<double>(x.size(1));
    const at::Tensor centered = x - mean / count;
    return (at::matmul(centered, centered.t().conj()) / std::max(count - static_cast<double>(correction), 0.0))
        .squeeze();
  }
  const at::Tensor sum = at::sum(weights);
  at::Tensor norm = sum - correction;
  if (aweights.has_value() && aweights->defined() && correction != 0) {
    norm = sum - at::sum(weights * *aweights) / sum * correction;
  }
  const at::Tensor centered = x - mean / sum;
  return (at::matmul(centered, (centered * weights).t().conj()) / at::clamp(norm, 0)).squeeze();
}

// Graphs have no ZeroTensors (_efficientzerotensor).
at::Tensor Zeros(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool> pin_memory) {
  return at::zeros_symint(size, dtype, layout, device, pin_memory);
}

// The gradient of the magnitude is the one along the result, also where `abs` is negative.
at::Tensor Polar(const at::Tensor& abs, const at::Tensor& angle) {
  const at::Tensor value = abs.detach();
  const at::Tensor magnitude = abs.requires_grad() ? value + (abs - value) * at::sign(value) : abs;
  return at::complex(magnitude * at::cos(angle), magnitude * at::sin(angle));
}

// Returns a copy if the conj bit is set, else `self`.
at::Tensor ResolveConj(const at::Tensor& self) { return IsConjugateView(self) ? self.clone() : self; }

// A view as the same dtype is a detached alias: like a view as another dtype, it is not differentiable.
at::Tensor ViewAsDType(const at::Tensor& self, at::ScalarType dtype) {
  if (dtype == self.scalar_type()) return self.detach();
  c10::impl::ExcludeDispatchKeyGuard guard(kRewriteKey);
  return self.view(dtype);
}

at::Tensor BlockDiag(at::TensorList tensors) {
  TORCH_CHECK(!tensors.empty(), "block_diag: the list of matrices is empty");
  int64_t width = 0;
  at::ScalarType dtype = tensors[0].scalar_type();
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(tensor.dim() <= 2, "block_diag: expected tensors of at most 2 dimensions, got sizes ", tensor.sizes());
    dtype = c10::promoteTypes(dtype, tensor.scalar_type());
    width += tensor.dim() == 0 ? 1 : tensor.size(-1);
  }
  std::vector<at::Tensor> rows;
  int64_t before = 0;
  for (const at::Tensor& tensor : tensors) {
    const at::Tensor matrix = tensor.dim() == 2 ? tensor : tensor.view({1, -1});
    rows.push_back(at::constant_pad_nd(matrix.to(dtype), {before, width - before - matrix.size(1)}));
    before += matrix.size(1);
  }
  return at::cat(rows, 0);
}

at::Tensor IndexReduce(const at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                       std::string_view reduce, bool include_self) {
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK(reduce == "prod" || reduce == "mean" || reduce == "amax" || reduce == "amin", "index_reduce: '", reduce,
              "' is not one of prod, mean, amax, amin");
  TORCH_CHECK(self.dim() > 0 && index.dim() == 1, "index_reduce: the index has sizes ", index.sizes(), " for an input ",
              self.sizes());
  std::vector<int64_t> sizes(static_cast<size_t>(self.dim()), 1);
  sizes[static_cast<size_t>(d)] = index.size(0);
  const at::Tensor places = index.to(at::kLong).view(sizes).expand(source.sizes());
  return at::scatter_reduce(self, d, places, source, c10::string_view(reduce), include_self);
}

at::Tensor& IndexReduceInPlace(at::Tensor& self, int64_t dim, const at::Tensor& index, const at::Tensor& source,
                               std::string_view reduce, bool include_self) {
  return self.copy_(IndexReduce(self, dim, index, source, reduce, include_self));
}

at::Tensor NormInDType(const at::Tensor& self, const std::optional<at::Scalar>& p, at::ScalarType dtype) {
  return at::norm(self.to(dtype), p.value_or(2));
}
at::Tensor NormOfDimsInDType(const at::Tensor& self, const std::optional<at::Scalar>& p, at::IntArrayRef dim,
                             bool keepdim, at::ScalarType dtype) {
  return at::norm(self.to(dtype), p, dim, keepdim);
}

// The second result is for LibTorch's backward, which has no gradient of it.
std::tuple<at::Tensor, at::Tensor> WeightNormInterface(const at::Tensor& v, const at::Tensor& g, int64_t dim) {
  const at::Tensor norm = at::norm_except_dim(v.detach(), 2, dim);
  return {at::_weight_norm(v, g, dim), WithZeroGradient(norm, v)};
}

// A convolution of [steps, batch, channels] with [kernel, channels, outputs].
at::Tensor ConvTbc(const at::Tensor& self, const at::Tensor& weight, const at::Tensor& bias, int64_t pad) {
  TORCH_CHECK(self.dim() == 3 && weight.dim() == 3 && bias.dim() == 1, "conv_tbc: expected three dimensions of input ",
              "and weight and one of bias, got sizes ", self.sizes(), ", ", weight.sizes(), " and ", bias.sizes());
  const at::Tensor result = at::conv1d(self.permute({1, 2, 0}), weight.permute({2, 1, 0}), bias,
                                       /*stride=*/at::IntArrayRef{1}, /*padding=*/at::IntArrayRef{pad});
  return result.permute({2, 0, 1}).contiguous();
}

// LibTorch's kernel writes `out` in a way that functionalization does not see.
template <typename Tolerance>
at::Tensor& MatrixRankOut(const at::Tensor& self, Tolerance tolerance, bool hermitian, at::Tensor& out) {
  const at::Tensor rank = at::linalg_matrix_rank(self, tolerance, hermitian);
  if (out.sizes() != rank.sizes()) out.resize_(rank.sizes());
  return out.copy_(rank);
}

}  // namespace

bool IsConjugateView(const at::Tensor& tensor) {
  const ProxyTensorImpl* proxy = ProxyOf(tensor);
  return proxy != nullptr && tensor.is_complex() && proxy->real().is_conj();
}

void AddComposedRewrites(torch::Library& library) {
  library.impl("logical_and_", LogicalInPlace<at::logical_and>);
  library.impl("logical_or_", LogicalInPlace<at::logical_or>);
  library.impl("logical_xor_", LogicalInPlace<at::logical_xor>);
  library.impl("logical_not_", LogicalNotInPlace);
  library.impl("abs_", AbsInPlace);
  library.impl("absolute_", AbsInPlace);
  library.impl("conj_physical_", ConjInPlace);
  library.impl("floor_divide_.Scalar", FloorDivideInPlace);
  library.impl("mvlgamma_", MvlgammaInPlace);
  library.impl("nan_to_num_", NanToNumInPlace);
  library.impl("cov", Cov);
  library.impl("_efficientzerotensor", Zeros);
  library.impl("polar", Polar);
  library.impl("resolve_conj", ResolveConj);
  library.impl("view.dtype", ViewAsDType);
  library.impl("block_diag", BlockDiag);
  library.impl("norm.ScalarOpt_dtype", NormInDType);
  library.impl("norm.ScalarOpt_dim_dtype", NormOfDimsInDType);
  library.impl("_weight_norm_interface", WeightNormInterface);
  library.impl("conv_tbc", ConvTbc);
  library.impl("linalg_matrix_rank.out", MatrixRankOut<double>);
  library.impl("linalg_matrix_rank.out_tol_tensor", MatrixRankOut<const at::Tensor&>);
  library.impl("index_reduce", IndexReduce);
  library.impl("index_reduce_", IndexReduceInPlace);
}

}  // namespace cotan::aot
