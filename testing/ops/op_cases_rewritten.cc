// SPDX-License-Identifier: Apache-2.0

// Cases of ops without a row of their own: the tracer or LibTorch rewrites them into other ops.
#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "testing/ops/op_case_groups.h"

namespace cotan::testing {
namespace {

Arg Text(const char* text) { return V(c10::IValue(std::string(text))); }

// Returns points of which some lie outside of [-1, 1].
Arg Grid(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return (at::rand(sizes, at::kDouble) * 2.4 - 1.2).to(dtype); };
}

void AddGridSamplers(std::vector<OpCase>& cases) {
  for (const int64_t mode : {0, 1, 2}) {
    for (const int64_t padding : {0, 1, 2}) {
      for (const bool align_corners : {false, true}) {
        cases.push_back(
            {"grid_sampler_2d.default", {T({2, 3, 5, 6}), Grid({2, 4, 7, 2}), V(mode), V(padding), V(align_corners)}});
        if (mode == 2) continue;
        cases.push_back({"grid_sampler_3d.default",
                         {T({2, 3, 4, 5, 6}), Grid({2, 3, 4, 2, 3}), V(mode), V(padding), V(align_corners)}});
      }
    }
  }
}

void AddDistances(std::vector<OpCase>& cases) {
  for (const double p : {0.0, 1.0, 2.0, 3.0, static_cast<double>(INFINITY)}) {
    cases.push_back({"_cdist_forward.default", {T({5, 4}), T({6, 4}), V(p), V(2)}});
    cases.push_back({"_pdist_forward.default", {T({6, 4}), V(p)}});
  }
  cases.push_back({"_cdist_forward.default", {T({2, 5, 4}), T({2, 6, 4}), V(2.0), V(1)}});
}

void AddScatterReductions(std::vector<OpCase>& cases) {
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      cases.push_back(
          {"scatter_reduce.two", {T({4, 5}), V(1), Index({4, 3}, 5), T({4, 3}), Text(reduce), V(include_self)}});
    }
    cases.push_back({"scatter_reduce.two", {T({4, 5}), V(0), Index({6, 3}, 4), T({7, 4}), Text(reduce), V(true)}});
  }
  for (const char* reduce : {"add", "multiply"}) {
    cases.push_back({"scatter.reduce", {T({4, 5}), V(1), Index({4, 3}, 5), T({4, 3}), Text(reduce)}});
    cases.push_back({"scatter.value_reduce", {T({4, 5}), V(1), Index({4, 3}, 5), Num(0.5), Text(reduce)}});
  }
}

// Adds scatters of extremes to so many positions that elements are sorted.
void AddSortedExtremes(std::vector<OpCase>& cases) {
  for (const char* reduce : {"amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      cases.push_back({"scatter_reduce.two",
                       {T({2, 300}), V(1), Index({2, 400}, 300), T({2, 400}), Text(reduce), V(include_self)}});
    }
    cases.push_back(
        {"scatter_reduce.two", {T({300, 4}), V(0), Index({350, 3}, 300), T({360, 4}), Text(reduce), V(true)}});
  }
}

// i64 of these sizes, with these elements.
Arg Table(Sizes sizes, Sizes values) {
  return [sizes, values](at::ScalarType) { return at::tensor(values, at::kLong).view(sizes); };
}

void AddSegmentReductions(std::vector<OpCase>& cases) {
  for (const char* reduce : {"sum", "mean", "max", "min", "prod"}) {
    const auto add = [&](const Arg& data, const Arg& lengths, const Arg& offsets, int64_t axis, bool unsafe,
                         const Arg& initial) {
      cases.push_back(
          {"segment_reduce.default", {data, Text(reduce), lengths, None(), offsets, V(axis), V(unsafe), initial}});
    };
    const Arg rows = T({6, 3}), batch = T({2, 6, 3});
    add(rows, Longs({2, 1, 3}), None(), 0, false, None());
    add(rows, Longs({4, 0, 2}), None(), 0, false, Num(0.25));
    add(rows, Longs({2, 0, 1}), None(), 0, true, None());  // the last rows are in no segment
    add(rows, None(), Longs({0, 3, 6}), 0, false, None());
    add(rows, None(), Longs({1, 3, 5}), 0, false, None());  // neither are the first and the last
    add(batch, Table({2, 3}, {2, 1, 3, 0, 6, 0}), None(), 1, false, Num(0.5));
    add(batch, Table({2, 3}, {2, 1, 3, 1, 4, 1}), None(), -2, false, None());
    add(batch, None(), Table({2, 3}, {0, 3, 6, 1, 2, 5}), 1, false, None());
    add(rows, Table({6, 2}, {2, 1, 1, 2, 3, 0, 0, 3, 2, 1, 1, 2}), None(), 1, false, Num(-0.5));
  }
}

void AddTransforms(std::vector<OpCase>& cases) {
  cases.push_back({"_fft_r2c.default", {T({3, 10}), Ints({1}), V(0), V(true)}});
  cases.push_back({"_fft_r2c.default", {T({4, 9, 6}), Ints({0, 2}), V(1), V(false)}});
  const Arg spectrum = [](at::ScalarType dtype) { return at::fft_rfft(at::rand({3, 10}).to(dtype)); };
  cases.push_back({"_fft_c2r.default", {spectrum, Ints({1}), V(2), V(10)}});
  cases.push_back({"_fft_c2c.default", {spectrum, Ints({0, 1}), V(0), V(true)}});
  const Arg frames = [](at::ScalarType dtype) { return at::fft_rfft(at::rand({2, 6, 16}).to(dtype)).transpose(1, 2); };
  const Arg few = [](at::ScalarType dtype) { return at::fft_fft(at::rand({3, 8}).to(dtype)).transpose(0, 1); };
  const Arg window = [](at::ScalarType dtype) { return at::hann_window(14, dtype); };
  cases.push_back({"istft.default", {frames, V(16), V(4), V(14), window, V(true), V(false), None(), None(), V(false)}});
  cases.push_back({"istft.default", {few, V(8), None(), None(), None(), V(true), V(true), V(false), V(9), V(false)}});
}

void AddAntialiasedResizes(std::vector<OpCase>& cases) {
  for (const char* op : {"_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa", "_upsample_lanczos2d_aa"}) {
    for (const bool align_corners : {false, true}) {
      cases.push_back(
          {std::string(op) + ".default", {T({2, 3, 9, 7}), Ints({4, 5}), V(align_corners), None(), None()}});
      cases.push_back(
          {std::string(op) + ".default", {T({1, 2, 3, 4}), Ints({7, 2}), V(align_corners), None(), None()}});
    }
    cases.push_back({std::string(op) + ".default", {T({1, 2, 8, 8}), Ints({4, 4}), V(false), V(0.5), V(0.5)}});
  }
}

void AddFractionalPools(std::vector<OpCase>& cases) {
  cases.push_back(
      {"fractional_max_pool2d.default", {T({2, 3, 7, 9}), Ints({2, 3}), Ints({4, 5}), Positive({2, 3, 2})}});
  cases.push_back({"fractional_max_pool2d.default", {T({3, 7, 9}), Ints({2, 3}), Ints({1, 5}), Positive({1, 3, 2})}});
  cases.push_back(
      {"fractional_max_pool3d.default", {T({2, 2, 5, 6, 7}), Ints({2, 2, 3}), Ints({3, 2, 4}), Positive({2, 2, 3})}});
}

void AddComposed(std::vector<OpCase>& cases) {
  cases.push_back({"cov.default", {T({3, 7}), V(1), None(), None()}});
  cases.push_back({"cov.default", {T({3, 4}), V(1), Longs({1, 2, 1, 3}), Positive({4})}});
  cases.push_back({"corrcoef.default", {T({3, 7})}});
  cases.push_back({"polar.default", {Positive({3, 4}), T({3, 4})}});
  cases.push_back({"block_diag.default", {List({T({2, 3}), T({4}), T({}), T({1, 2})})}});
  for (const char* reduce : {"prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      cases.push_back({"index_reduce.default",
                       {T({4, 3}), V(0), Longs({1, 3, 1, 0, 1}), T({5, 3}), Text(reduce), V(include_self)}});
    }
  }
  for (const char* op : {"abs_", "nan_to_num", "fmax", "fmin"}) {
    std::vector<Arg> arguments = {T({3, 4})};
    if (op[0] == 'f') arguments.push_back(T({3, 4}));
    if (op[0] == 'n') arguments.insert(arguments.end(), 3, None());
    cases.push_back({std::string(op) + ".default", arguments});
  }
}

// With the check of success that is an effect.
void AddLinearAlgebra(std::vector<OpCase>& cases) {
  cases.push_back({"linalg_cholesky.default", {PositiveDefinite({2, 4, 4}), V(false)}});
  cases.push_back({"linalg_inv.default", {Regular({2, 4, 4})}});
  cases.push_back({"linalg_det.default", {Regular({2, 4, 4})}});
  cases.push_back({"linalg_slogdet.default", {Regular({4, 4})}});
  cases.push_back({"linalg_solve.default", {Regular({4, 4}), T({4, 2}), V(true)}});
  cases.push_back({"linalg_solve.default", {Regular({4, 4}), T({4}), V(true)}});
  cases.push_back({"linalg_qr.default", {Regular({5, 3}), Text("reduced")}});
  cases.push_back({"linalg_eigvalsh.default", {PositiveDefinite({3, 4, 4}), Text("L")}});
  cases.push_back({"linalg_svdvals.default", {T({2, 3, 5}), None()}});
  cases.push_back({"linalg_pinv.default", {Regular({4, 4}), V(1e-6), V(false)}});
  cases.push_back(
      {"linalg_matrix_norm.str_ord", {T({4, 6}), Text("nuc"), V(c10::List<int64_t>({-2, -1})), V(false), None()}});
  cases.push_back({"linalg_lstsq.default", {Regular({6, 4}), T({6, 2}), None(), None()}});
  cases.push_back({"linalg_lstsq.default", {Regular({2, 4, 6}), T({2, 4}), V(1e-3), Text("gelsy")}});
  cases.push_back({"linalg_cond.default", {Regular({4, 4}), None()}});
  cases.push_back({"linalg_matrix_rank.default", {T({2, 4, 3}), V(1e-4), V(false)}});
  cases.push_back({"linalg_matrix_rank.out", {T({2, 4, 3}), V(1e-4), V(false), Longs({0, 0})}});
  cases.push_back({"linalg_matrix_rank.out_tol_tensor", {T({2, 4, 3}), Positive({2}), V(false), Longs({0, 0})}});
  cases.push_back({"cholesky_solve.default", {T({4, 2}), PositiveDefinite({4, 4}), V(false)}});
  const Arg large = [](at::ScalarType dtype) { return (at::rand({2, 3, 3}) * 3 - 1).to(dtype); };
  for (const Arg& matrix : {T({4, 4}), T({2, 3, 3}), T({2, 1, 1}), large}) {
    cases.push_back({"linalg_matrix_exp.default", {matrix}});
  }
  cases.push_back({"linalg_householder_product.default", {T({5, 4}), Positive({3})}});
  cases.push_back({"linalg_householder_product.default", {T({2, 4, 4}), T({2, 4})}});
}

void AddOrders(std::vector<OpCase>& cases) {
  const Arg quantiles = [](at::ScalarType dtype) { return at::tensor({0.1, 0.5, 0.77}, dtype); };
  cases.push_back({"argsort.default", {T({3, 7}), V(1), V(true)}});
  cases.push_back({"msort.default", {T({5, 3})}});
  for (const char* interpolation : {"linear", "lower", "nearest"}) {
    cases.push_back({"quantile.default", {T({4, 6}), quantiles, V(1), V(false), Text(interpolation)}});
    cases.push_back({"nanquantile.default", {T({4, 6}), quantiles, V(0), V(true), Text(interpolation)}});
  }
}

void AddInPlace(std::vector<OpCase>& cases) {
  for (const char* op : {"logical_and_", "logical_or_", "logical_xor_"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 4}), Mask({3, 4})}});
  }
  for (const char* op : {"logical_not_", "absolute_", "conj_physical_"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 4})}});
  }
  const Arg above_one = [](at::ScalarType dtype) { return at::rand({3, 4}).to(dtype) + 1.5; };
  cases.push_back({"floor_divide_.Scalar", {T({3, 4}), Num(0.3)}});
  cases.push_back({"mvlgamma_.default", {above_one, V(2)}});
  cases.push_back({"nan_to_num_.default", {T({3, 4}), None(), None(), None()}});
  cases.push_back(
      {"index_reduce_.default", {T({4, 3}), V(0), Longs({1, 3, 1, 0, 1}), T({5, 3}), Text("mean"), V(true)}});
  cases.push_back({"masked_scatter_.default", {T({4, 5}), Mask({4, 5}), T({20})}});
  cases.push_back({"scatter_reduce_.two", {T({4, 5}), V(1), Index({4, 3}, 5), T({4, 3}), Text("mean"), V(true)}});
  cases.push_back({"renorm_.default", {T({4, 5}), Num(2), V(0), Num(0.9)}});
  for (const char* op : {"embedding_renorm_.default", "embedding_renorm.default"}) {
    for (const Arg& indices : {Longs({4, 0, 4}), Longs({}), Index({4, 20}, 4)}) {
      cases.push_back({op, {T({5, 3}), indices, V(0.5), V(2.0)}});
    }
  }
}

void AddComplexParts(std::vector<OpCase>& cases) {
  const Arg complex = [](at::ScalarType dtype) {
    return at::complex(at::rand({3, 4}, dtype), at::rand({3, 4}, dtype));
  };
  for (const char* op : {"real", "imag", "resolve_conj"}) cases.push_back({std::string(op) + ".default", {complex}});
  cases.push_back({"vdot.default", {T({5}), T({5})}});
}

void AddLosses(std::vector<OpCase>& cases) {
  const Arg classes = [](at::ScalarType) { return at::tensor({0, 2, -1, 1, -1, -1}, at::kLong).view({2, 3}); };
  cases.push_back({"multi_margin_loss.default", {T({4, 5}), Index({4}, 5), Num(2), Num(0.5), Positive({5}), V(1)}});
  cases.push_back({"multilabel_margin_loss.default", {T({2, 3}), classes, V(1)}});
  const Arg likelihoods = [](at::ScalarType dtype) { return at::log_softmax(at::rand({6, 2, 4}, dtype), -1); };
  const Arg labels = [](at::ScalarType) { return at::tensor({1, 3, 3, 2, 1, 2}, at::kLong).view({2, 3}); };
  cases.push_back({"ctc_loss.IntList", {likelihoods, labels, Ints({6, 5}), Ints({3, 2}), V(0), V(1), V(false)}});
  cases.push_back({"ctc_loss.Tensor", {likelihoods, labels, Longs({6, 5}), Longs({3, 2}), V(0), V(1), V(false)}});
}

// One layer from 3 to 4 features.
void AddRecurrent(std::vector<OpCase>& cases) {
  const auto add = [&](const char* op, int64_t gates, const Arg& state) {
    const Arg weights = List({T({gates * 4, 3}), T({gates * 4, 4}), T({gates * 4}), T({gates * 4})});
    cases.push_back({std::string(op) + ".input",
                     {T({5, 2, 3}), state, weights, V(true), V(1), V(0.0), V(false), V(false), V(false)}});
  };
  add("lstm", 4, List({T({1, 2, 4}), T({1, 2, 4})}));
  add("gru", 3, T({1, 2, 4}));
  add("rnn_tanh", 1, T({1, 2, 4}));
  add("rnn_relu", 1, T({1, 2, 4}));
}

void AddLayers(std::vector<OpCase>& cases) {
  cases.push_back(
      {"batch_norm.default", {T({4, 3}), T({3}), T({3}), T({3}), Positive({3}), V(false), V(0.1), V(1e-5), V(false)}});
  cases.push_back(
      {"batch_norm.default", {T({4, 3}), T({3}), T({3}), None(), None(), V(true), V(0.1), V(1e-5), V(false)}});
  for (const bool is_causal : {false, true}) {
    cases.push_back(
        {"scaled_dot_product_attention.default",
         {T({2, 3, 4, 8}), T({2, 3, 4, 8}), T({2, 3, 4, 8}), None(), V(0.0), V(is_causal), None(), V(false)}});
  }
  cases.push_back({"rrelu.default", {T({4, 6}), Num(0.1), Num(0.3), V(false), None()}});
}

}  // namespace

std::vector<OpCase> RewrittenCases() {
  // Positions of the four elements of each plane in a plane of 4 x 4.
  const Arg places = [](at::ScalarType) {
    return at::tensor({0, 3, 9, 14}, at::kLong).view({2, 2}).expand({2, 3, 2, 2});
  };
  const Arg depths = [](at::ScalarType) {
    return at::tensor({0, 3, 25, 30}, at::kLong).view({1, 1, 2, 2}).expand({2, 1, 2, 2});
  };
  std::vector<OpCase> cases = {
      {"adaptive_avg_pool1d.default", {T({2, 3, 10}), Ints({4})}},
      {"_weight_norm.default", {T({4, 3, 2}), T({4, 1, 1}), V(0)}},
      {"_weight_norm_interface.default", {T({4, 3, 2}), T({4, 1, 1}), V(0)}},
      {"einsum.default", {Text("bij,kj->bik"), List({T({2, 3, 4}), T({5, 4})}), None()}},
      {"renorm.default", {T({4, 5}), Num(2), V(0), Num(0.9)}},
      {"repeat_interleave.self_int", {T({4, 5}), V(3), V(1), None()}},
      {"affine_grid_generator.default", {T({2, 2, 3}), Ints({2, 3, 4, 5}), V(false)}},
      {"affine_grid_generator.default", {T({2, 3, 4}), Ints({2, 3, 3, 4, 5}), V(true)}},
      {"atan2.out", {Positive({3, 4}), Positive({3, 4}), T({3, 4})}},
      {"avg_pool1d.default", {T({2, 3, 10}), Ints({3}), Ints({2}), Ints({1}), V(false), V(true)}},
      {"masked_scatter.default", {T({4, 5}), Mask({4, 5}), T({20})}},
      {"_efficientzerotensor.default", {Ints({3, 4}), Dtype(), None(), None(), None()}},
      {"_euclidean_dist.default", {T({5, 4}), T({6, 4})}},
      {"equal.default", {T({3}), T({4})}},
      {"max_unpool2d.default", {T({2, 3, 2, 2}), places, Ints({4, 4})}},
      {"max_unpool3d.default", {T({2, 1, 2, 2}), depths, Ints({2, 4, 4}), Ints({1, 2, 2}), Ints({0, 0, 0})}},
      {"one_hot.default", {Index({2, 3}, 5), V(5)}},
      {"histc.default", {T({40, 5}), V(7), Num(-1), Num(1.5)}},
      {"histc.default", {T({40, 5}), V(4), Num(0), Num(0)}},
      {"repeat.default", {T({2, 3}), Ints({2, 1, 2})}},
      {"special_chebyshev_polynomial_t.n_scalar", {T({3, 4}), V(5)}},
      {"special_chebyshev_polynomial_t.n_scalar", {T({3, 4}), V(-1)}},
      {"special_chebyshev_polynomial_u.n_scalar", {T({3, 4}), V(1)}},
      {"special_chebyshev_polynomial_v.n_scalar", {T({3, 4}), V(4)}},
      {"special_chebyshev_polynomial_w.n_scalar", {T({3, 4}), V(7)}},
      {"special_shifted_chebyshev_polynomial_t.n_scalar", {T({3, 4}), V(3)}},
      {"special_shifted_chebyshev_polynomial_u.n_scalar", {T({3, 4}), V(2)}},
      {"special_shifted_chebyshev_polynomial_v.n_scalar", {T({3, 4}), V(5)}},
      {"special_shifted_chebyshev_polynomial_w.n_scalar", {T({3, 4}), V(0)}},
      {"special_hermite_polynomial_h.n_scalar", {T({3, 4}), V(4)}},
      {"special_hermite_polynomial_he.n_scalar", {T({3, 4}), V(6)}},
      {"special_laguerre_polynomial_l.n_scalar", {T({3, 4}), V(5)}},
      {"special_legendre_polynomial_p.n_scalar", {T({3, 4}), V(6)}},
      {"resize_.default", {T({4, 6}), Ints({2, 5}), None()}},
      {"sym_is_contiguous.default", {T({4, 6}), V(0)}},
      {"sym_numel.default", {T({4, 6})}},
      {"sym_size.int", {T({4, 6}), V(1)}},
      {"sym_storage_offset.default", {T({4, 6})}},
      {"sym_stride.int", {T({4, 6}), V(0)}},
      {"unsafe_split.Tensor", {T({5, 3}), V(2), V(0)}},
      {"unsafe_split_with_sizes.default", {T({5, 3}), Ints({1, 4}), V(0)}},
      {"upsample_bilinear2d.vec", {T({2, 3, 4, 5}), Ints({6, 7}), V(false), None()}},
      {"upsample_nearest2d.vec", {T({2, 3, 4, 5}), None(), V(c10::IValue(std::vector<double>{2, 2}))}},
      {"view.dtype", {T({2, 3}), V(static_cast<int64_t>(at::kInt))}},
      {"var.dim", {T({4, 6}), Ints({1}), V(true), V(false)}},
      {"bincount.default", {Index({20}, 5), None(), V(6)}},
      {"bincount.default", {Index({20}, 5), Positive({20}), V(6)}},
      {"combinations.default", {T({5}), V(3), V(false)}},
      {"combinations.default", {T({3}), V(2), V(true)}},
      {"conv_tbc.default", {T({7, 2, 3}), T({3, 3, 4}), T({4}), V(1)}},
      {"norm.ScalarOpt_dtype", {T({4, 6}), Num(3), V(static_cast<int64_t>(at::kDouble))}},
      {"norm.ScalarOpt_dim_dtype", {T({4, 6}), None(), Ints({1}), V(true), V(static_cast<int64_t>(at::kDouble))}},
  };
  AddGridSamplers(cases);
  AddDistances(cases);
  AddScatterReductions(cases);
  AddSegmentReductions(cases);
  AddTransforms(cases);
  AddAntialiasedResizes(cases);
  AddFractionalPools(cases);
  AddLinearAlgebra(cases);
  AddOrders(cases);
  AddComposed(cases);
  AddInPlace(cases);
  AddComplexParts(cases);
  AddLosses(cases);
  AddRecurrent(cases);
  AddLayers(cases);
  AddSortedExtremes(cases);
  return cases;
}

std::vector<OpCase> RefusedCases() {
  return {
      {"_local_scalar_dense.default", {T({})}},
      {"nonzero.default", {T({3, 4})}},
  };
}

}  // namespace cotan::testing
