// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/finite_difference_cases.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace cotan::testing {
namespace {

Arg Text(const char* text) { return V(c10::IValue(std::string(text))); }

// Returns numbers at least 0.1 apart in a random order, so that neither a maximum nor an order changes
// under small steps.
Arg Apart(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    const int64_t count = at::empty(sizes).numel();
    return (at::randperm(count, at::kLong).to(dtype) * 0.1 + at::rand({count}, dtype) * 0.01 - 0.05 * count)
        .view(sizes);
  };
}

// Returns points of [-0.8, 0.8] away from the borders of pixels.
Arg Grid(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return at::rand(sizes, dtype) * 1.6 - 0.8; };
}

std::vector<OpCase> Pointwise() {
  std::vector<OpCase> cases = {
      {"add.Tensor", {T({3, 4}), T({4}), Num(2)}},
      {"sub.Tensor", {T({3, 1}), T({4}), Num(0.5)}},
      {"mul.Tensor", {T({3, 4}), T({3, 1})}},
      {"div.Tensor", {T({3, 4}), Positive({4})}},
      {"pow.Tensor_Tensor", {Positive({3, 4}), T({4})}},
      {"pow.Tensor_Scalar", {T({3, 4}), Num(3)}},
      {"atan2.default", {T({3, 4}), Positive({3, 4})}},
      {"hypot.default", {Positive({3, 4}), Positive({4})}},
      {"logaddexp.default", {T({3, 4}), T({3, 4})}},
      {"logaddexp2.default", {T({3, 4}), T({3, 4})}},
      {"xlogy.Tensor", {T({3, 4}), Positive({3, 4})}},
      {"lerp.Tensor", {T({3, 4}), T({3, 4}), T({3, 4})}},
      {"addcmul.default", {T({3, 4}), T({3, 4}), T({3, 4}), Num(0.7)}},
      {"addcdiv.default", {T({3, 4}), T({3, 4}), Positive({3, 4}), Num(0.7)}},
      {"where.self", {Mask({3, 4}), T({3, 4}), T({3, 4})}},
      {"clamp.default", {Apart({3, 4}), Num(-0.333), Num(0.333)}},
      {"maximum.default", {Apart({3, 4}), Apart({3, 1})}},
      {"gelu.default", {T({3, 4}), Text("none")}},
      {"gelu.default", {T({3, 4}), Text("tanh")}},
      {"softplus.default", {T({3, 4}), Num(1), Num(20)}},
      {"elu.default", {T({3, 4}), Num(1.5), Num(1), Num(1)}},
      {"glu.default", {T({3, 4}), V(1)}},
      {"prelu.default", {Apart({2, 3, 2}), T({3})}},
  };
  for (const char* op :
       {"exp", "sin",  "cos",    "tan",   "sinh", "cosh",    "tanh", "asin", "acos",        "atan", "asinh",
        "erf", "erfc", "erfinv", "expm1", "exp2", "sigmoid", "silu", "mish", "log_sigmoid", "sinc"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 4})}});
  }
  for (const char* op :
       {"log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma", "digamma", "atanh", "special_entr"}) {
    cases.push_back({std::string(op) + ".default", {Positive({3, 4})}});
  }
  return cases;
}

std::vector<OpCase> Reductions() {
  return {
      {"sum.dim_IntList", {T({3, 4, 2}), Ints({0, 2}), V(false), None()}},
      {"mean.dim", {T({3, 4, 2}), Ints({1}), V(true), None()}},
      {"prod.dim_int", {Positive({3, 4}), V(1), V(false), None()}},
      {"var.correction", {T({3, 5}), Ints({1}), Num(1), V(false)}},
      {"std.correction", {T({3, 5}), Ints({0}), Num(1), V(true)}},
      {"var_mean.correction", {T({3, 5}), Ints({1}), Num(0), V(false)}},
      {"logsumexp.default", {T({3, 5}), Ints({1}), V(false)}},
      {"linalg_vector_norm.default", {T({3, 5}), Num(3), Ints({1}), V(false), None()}},
      {"norm.ScalarOpt_dim", {T({3, 5}), Num(2), Ints({0}), V(false)}},
      {"amax.default", {Apart({3, 5}), Ints({1}), V(false)}},
      {"min.dim", {Apart({3, 5}), V(1), V(false)}},
      {"_softmax.default", {T({3, 5}), V(1), V(false)}},
      {"_log_softmax.default", {T({3, 5}), V(0), V(false)}},
  };
}

std::vector<OpCase> Products() {
  return {
      {"mm.default", {T({3, 4}), T({4, 2})}},
      {"bmm.default", {T({2, 3, 4}), Transposed({2, 4, 3})}},
      {"addmm.default", {T({2}), T({3, 4}), T({4, 2}), Num(0.5), Num(2)}},
      {"baddbmm.default", {T({2, 3, 2}), T({2, 3, 4}), T({2, 4, 2}), Num(1), Num(1)}},
      {"mv.default", {T({3, 4}), T({4})}},
      {"dot.default", {T({5}), T({5})}},
      {"linear.default", {T({2, 3, 4}), T({5, 4}), T({5})}},
      {"einsum.default", {Text("bij,kj->bik"), List({T({2, 3, 4}), T({5, 4})}), None()}},
      {"cdist.default", {T({3, 4}), T({2, 4}), V(2.0), None()}},
      {"cosine_similarity.default", {T({3, 4}), T({3, 4}), V(1), V(1e-8)}},
      {"bilinear.default", {T({3, 2}), T({3, 4}), T({2, 2, 4}), T({2})}},
  };
}

std::vector<OpCase> Convolutions() {
  return {
      {"conv1d.default", {T({2, 3, 7}), T({4, 3, 3}), T({4}), Ints({2}), Ints({1}), Ints({1}), V(1)}},
      {"conv2d.default", {T({2, 4, 5, 4}), T({4, 2, 3, 3}), T({4}), Ints({1, 1}), Ints({1, 1}), Ints({1, 1}), V(2)}},
      {"conv2d.default", {T({1, 2, 6, 6}), T({2, 2, 2, 2}), None(), Ints({2, 1}), Ints({0, 0}), Ints({2, 2}), V(1)}},
      {"conv3d.default",
       {T({1, 2, 3, 4, 3}), T({2, 2, 2, 2, 2}), T({2}), Ints({1, 1, 1}), Ints({0, 1, 0}), Ints({1, 1, 1}), V(1)}},
      {"conv_transpose2d.input",
       {T({1, 3, 3, 3}), T({3, 2, 3, 3}), T({2}), Ints({2, 2}), Ints({1, 1}), Ints({1, 1}), V(1), Ints({1, 1})}},
  };
}

std::vector<OpCase> Pools() {
  return {
      {"avg_pool2d.default", {T({1, 2, 5, 6}), Ints({2, 3}), Ints({2, 2}), Ints({1, 1}), V(false), V(true), None()}},
      {"avg_pool3d.default", {T({1, 2, 4, 4, 4}), Ints({2}), Ints({2}), Ints({0}), V(false), V(true), None()}},
      {"max_pool2d.default", {Apart({1, 2, 5, 6}), Ints({3, 2}), Ints({2, 2}), Ints({1, 1}), Ints({1, 1}), V(false)}},
      {"_adaptive_avg_pool2d.default", {T({1, 2, 5, 7}), Ints({2, 3})}},
      {"adaptive_max_pool1d.default", {Apart({1, 2, 7}), Ints({3})}},
  };
}

std::vector<OpCase> Normalizations() {
  return {
      {"layer_norm.default", {T({3, 4}), Ints({4}), T({4}), T({4}), V(1e-5), V(false)}},
      {"group_norm.default", {T({2, 4, 3}), V(2), T({4}), T({4}), V(1e-5), V(false)}},
      {"batch_norm.default", {T({4, 3, 2}), T({3}), T({3}), None(), None(), V(true), V(0.1), V(1e-5), V(false)}},
      {"instance_norm.default", {T({2, 3, 5}), T({3}), T({3}), None(), None(), V(true), V(0.1), V(1e-5), V(false)}},
      {"rms_norm.default", {T({3, 4}), Ints({4}), T({4}), V(1e-5)}},
      {"_weight_norm.default", {T({4, 3}), T({4, 1}), V(0)}},
  };
}

std::vector<OpCase> Attention() {
  const Arg q = T({1, 2, 3, 4}), k = T({1, 2, 5, 4}), v = T({1, 2, 5, 4});
  return {
      {"scaled_dot_product_attention.default", {q, k, v, None(), V(0.0), V(false), None(), V(false)}},
      {"scaled_dot_product_attention.default", {q, k, v, None(), V(0.0), V(true), V(0.3), V(false)}},
      {"scaled_dot_product_attention.default", {q, k, v, T({3, 5}), V(0.0), V(false), None(), V(false)}},
  };
}

// Omits ctc_loss: its gradient is that of log_softmax and the loss together.
std::vector<OpCase> Losses() {
  return {
      {"mse_loss.default", {T({3, 4}), T({3, 4}), V(1)}},
      {"l1_loss.default", {Apart({3, 4}), T({3, 4}), V(1)}},
      {"huber_loss.default", {T({3, 4}), T({3, 4}), V(1), V(0.37)}},
      {"smooth_l1_loss.default", {T({3, 4}), T({3, 4}), V(2), V(0.37)}},
      {"binary_cross_entropy.default", {Positive({3, 4}), Positive({3, 4}), None(), V(1)}},
      {"binary_cross_entropy_with_logits.default", {T({3, 4}), Positive({3, 4}), None(), None(), V(1)}},
      {"cross_entropy_loss.default", {T({3, 5}), Longs({0, 4, 2}), None(), V(1), V(-100), V(0.1)}},
      {"nll_loss_nd.default", {T({3, 5}), Longs({0, 4, 2}), None(), V(1), V(-100)}},
      {"kl_div.default", {T({3, 4}), Positive({3, 4}), V(1), V(false)}},
      {"triplet_margin_loss.default", {T({3, 4}), T({3, 4}), T({3, 4}), V(3.0), V(2.0), V(1e-6), V(false), V(1)}},
      {"poisson_nll_loss.default", {T({3, 4}), Positive({3, 4}), V(true), V(false), V(1e-8), V(1)}},
  };
}

std::vector<OpCase> Indexing() {
  return {
      {"embedding.default", {T({5, 3}), Index({2, 4}, 5), V(-1), V(false), V(false)}},
      {"gather.default", {T({3, 4}), V(1), Index({3, 6}, 4), V(false)}},
      {"index_select.default", {T({3, 4}), V(1), Longs({3, 0, 0})}},
      {"index.Tensor", {T({3, 4}), OptionalList({Longs({0, 2}), Longs({1, 1})})}},
      {"index_put.default", {T({3, 4}), OptionalList({Longs({0, 2}), Longs({1, 3})}), T({2}), V(false)}},
      {"index_add.default", {T({3, 4}), V(0), Longs({2, 0, 2}), T({3, 4}), Num(0.5)}},
      {"scatter_add.default", {T({3, 4}), V(1), Index({3, 6}, 4), T({3, 6})}},
      {"scatter_reduce.two", {Apart({3, 4}), V(1), Index({3, 6}, 4), Apart({3, 6}), Text("mean"), V(true)}},
      {"masked_fill.Scalar", {T({3, 4}), Mask({3, 4}), Num(2)}},
      {"masked_scatter.default", {T({3, 4}), Mask({3, 4}), T({12})}},
      {"take_along_dim.default", {T({3, 4}), Index({3, 2}, 4), V(1)}},
  };
}

std::vector<OpCase> Views() {
  return {
      {"constant_pad_nd.default", {T({2, 3}), Ints({1, 2}), Num(0.5)}},
      {"reflection_pad2d.default", {T({2, 4, 4}), Ints({1, 2, 2, 1})}},
      {"replication_pad1d.default", {T({2, 3, 4}), Ints({2, 1})}},
      {"cat.default", {List({T({2, 3}), T({2, 1})}), V(1)}},
      {"flip.default", {T({2, 3}), Ints({0, 1})}},
      {"roll.default", {T({3, 4}), Ints({1, 2}), Ints({0, 1})}},
      {"tril.default", {T({3, 4}), V(0)}},
      {"repeat.default", {T({2, 3}), Ints({2, 2})}},
      {"pixel_shuffle.default", {T({1, 8, 2, 3}), V(2)}},
      {"im2col.default", {T({1, 2, 4, 5}), Ints({2, 3}), Ints({1, 1}), Ints({1, 0}), Ints({2, 1})}},
      {"unfold.default", {T({3, 6}), V(1), V(3), V(2)}},
  };
}

std::vector<OpCase> Resampling() {
  return {
      {"upsample_nearest2d.default", {T({1, 2, 3, 4}), Ints({5, 6}), None(), None()}},
      {"upsample_bilinear2d.default", {T({1, 2, 3, 4}), Ints({5, 6}), V(false), None(), None()}},
      {"upsample_bicubic2d.default", {T({1, 2, 3, 4}), Ints({5, 3}), V(true), None(), None()}},
      {"upsample_trilinear3d.default", {T({1, 1, 2, 3, 2}), Ints({3, 4, 3}), V(false), None(), None(), None()}},
      {"grid_sampler_2d.default", {T({1, 2, 4, 5}), Grid({1, 3, 2, 2}), V(0), V(0), V(false)}},
      {"_upsample_bicubic2d_aa.default", {T({1, 1, 6, 5}), Ints({3, 4}), V(false), None(), None()}},
      {"affine_grid_generator.default", {T({1, 2, 3}), Ints({1, 1, 3, 4}), V(true)}},
  };
}

std::vector<OpCase> Scans() {
  return {
      {"cumsum.default", {T({3, 5}), V(1), None()}},
      {"cumprod.default", {Positive({3, 5}), V(1), None()}},
      {"logcumsumexp.default", {T({3, 5}), V(0)}},
      {"cummax.default", {Apart({3, 5}), V(1)}},
      {"diff.default", {T({3, 5}), V(1), V(1), None(), None()}},
  };
}

std::vector<OpCase> Sorting() {
  return {
      {"sort.default", {Apart({3, 6}), V(1), V(true)}},
      {"topk.default", {Apart({3, 6}), V(3), V(1), V(true), V(true)}},
      {"kthvalue.default", {Apart({3, 6}), V(2), V(1), V(false)}},
      {"median.dim", {Apart({3, 5}), V(1), V(false)}},
      {"nanmedian.dim", {Apart({3, 5}), V(1), V(false)}},
      {"quantile.scalar", {Apart({3, 5}), V(0.3), V(1), V(false), Text("linear")}},
  };
}

// Returns a matrix that is easy to invert, whatever its size.
Arg NearIdentity(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    const auto size = static_cast<double>(std::max(sizes[0], sizes[1]));
    return at::eye(sizes[0], sizes[1], dtype) + (at::rand(sizes, dtype) - 0.5) / size;
  };
}

// Omits Cholesky: its gradient is symmetric, but its result depends on one triangle only.
std::vector<OpCase> LinearAlgebra() {
  return {
      {"trace.default", {T({4, 4})}},
      {"kron.default", {T({2, 2}), T({2, 3})}},
      {"linalg_cross.default", {T({2, 3}), T({2, 3}), V(-1)}},
      {"outer.default", {T({3}), T({4})}},
      {"cov.default", {T({3, 5}), V(1), None(), None()}},
      {"linalg_inv.default", {Regular({2, 4, 4})}},
      {"linalg_det.default", {Regular({2, 4, 4})}},
      {"linalg_slogdet.default", {Regular({4, 4})}},
      {"linalg_solve.default", {Regular({4, 4}), T({4, 2}), V(true)}},
      {"linalg_qr.default", {Regular({5, 3}), Text("reduced")}},
      {"linalg_solve_triangular.default", {Regular({3, 3}), T({3, 2}), V(true), V(true), V(false)}},
      // The op of the runtime.
      {"linalg_solve.default", {NearIdentity({34, 34}), T({34, 1}), V(true)}},
      {"linalg_slogdet.default", {NearIdentity({33, 33})}},
      {"linalg_svdvals.default", {T({2, 40}), None()}},
      {"linalg_pinv.default", {NearIdentity({2, 40}), V(1e-6), V(false)}},
      {"linalg_qr.default", {NearIdentity({40, 2}), Text("reduced")}},
      {"linalg_solve_triangular.default", {NearIdentity({33, 33}), T({33, 1}), V(true), V(true), V(false)}},
  };
}

std::vector<OpCase> Recurrent() {
  const Arg weights = List({T({9, 2}), T({9, 3}), T({9}), T({9})});
  return {{"gru.input", {T({4, 2, 2}), T({1, 2, 3}), weights, V(true), V(1), V(0.0), V(true), V(false), V(false)}}};
}

}  // namespace

std::vector<FiniteDifferenceGroup> FiniteDifferenceCases() {
  return {{"Pointwise", Pointwise()},   {"Reductions", Reductions()},
          {"Products", Products()},     {"Convolutions", Convolutions()},
          {"Pools", Pools()},           {"Normalizations", Normalizations()},
          {"Attention", Attention()},   {"Losses", Losses()},
          {"Indexing", Indexing()},     {"Views", Views()},
          {"Resampling", Resampling()}, {"Scans", Scans()},
          {"Sorting", Sorting()},       {"LinearAlgebra", LinearAlgebra()},
          {"Recurrent", Recurrent()}};
}

}  // namespace cotan::testing
