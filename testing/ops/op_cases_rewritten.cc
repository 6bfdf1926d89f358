// Cases of ops that have no row of their own: the tracer writes them as others,
// or LibTorch does.
#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "testing/ops/op_case_groups.h"

namespace cotan::testing {
namespace {

Arg Text(const char* text) { return V(c10::IValue(std::string(text))); }

// Points of which some lie outside of [-1, 1].
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
}

void AddTransforms(std::vector<OpCase>& cases) {
  cases.push_back({"_fft_r2c.default", {T({3, 10}), Ints({1}), V(0), V(true)}});
  cases.push_back({"_fft_r2c.default", {T({4, 9, 6}), Ints({0, 2}), V(1), V(false)}});
  const Arg spectrum = [](at::ScalarType dtype) { return at::fft_rfft(at::rand({3, 10}).to(dtype)); };
  cases.push_back({"_fft_c2r.default", {spectrum, Ints({1}), V(2), V(10)}});
  cases.push_back({"_fft_c2c.default", {spectrum, Ints({0, 1}), V(0), V(true)}});
}

void AddAntialiasedResizes(std::vector<OpCase>& cases) {
  for (const char* op : {"_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"}) {
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
  cases.push_back({"cholesky_solve.default", {T({4, 2}), PositiveDefinite({4, 4}), V(false)}});
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

}  // namespace

std::vector<OpCase> RewrittenCases() {
  // Where the four elements of each plane come from in a plane of 4 x 4.
  const Arg places = [](at::ScalarType) {
    return at::tensor({0, 3, 9, 14}, at::kLong).view({2, 2}).expand({2, 3, 2, 2});
  };
  std::vector<OpCase> cases = {
      {"adaptive_avg_pool1d.default", {T({2, 3, 10}), Ints({4})}},
      {"_weight_norm.default", {T({4, 3, 2}), T({4, 1, 1}), V(0)}},
      {"einsum.default", {Text("bij,kj->bik"), List({T({2, 3, 4}), T({5, 4})}), None()}},
      {"renorm.default", {T({4, 5}), Num(2), V(0), Num(0.9)}},
      {"repeat_interleave.self_int", {T({4, 5}), V(3), V(1), None()}},
      {"affine_grid_generator.default", {T({2, 2, 3}), Ints({2, 3, 4, 5}), V(false)}},
      {"affine_grid_generator.default", {T({2, 3, 4}), Ints({2, 3, 3, 4, 5}), V(true)}},
      {"atan2.out", {Positive({3, 4}), Positive({3, 4}), T({3, 4})}},
      {"avg_pool1d.default", {T({2, 3, 10}), Ints({3}), Ints({2}), Ints({1}), V(false), V(true)}},
      {"masked_scatter.default", {T({4, 5}), Mask({4, 5}), T({20})}},
      {"max_unpool2d.default", {T({2, 3, 2, 2}), places, Ints({4, 4})}},
      {"repeat.default", {T({2, 3}), Ints({2, 1, 2})}},
      {"resize_.default", {T({4, 6}), Ints({2, 5}), None()}},
      {"sym_is_contiguous.default", {T({4, 6}), V(0)}},
      {"sym_numel.default", {T({4, 6})}},
      {"sym_size.int", {T({4, 6}), V(1)}},
      {"sym_storage_offset.default", {T({4, 6})}},
      {"sym_stride.int", {T({4, 6}), V(0)}},
      {"upsample_bilinear2d.vec", {T({2, 3, 4, 5}), Ints({6, 7}), V(false), None()}},
      {"upsample_nearest2d.vec", {T({2, 3, 4, 5}), None(), V(c10::IValue(std::vector<double>{2, 2}))}},
      {"var.dim", {T({4, 6}), Ints({1}), V(true), V(false)}},
  };
  AddGridSamplers(cases);
  AddDistances(cases);
  AddScatterReductions(cases);
  AddTransforms(cases);
  AddAntialiasedResizes(cases);
  AddFractionalPools(cases);
  AddLinearAlgebra(cases);
  AddOrders(cases);
  AddComposed(cases);
  return cases;
}

std::vector<OpCase> RandomCases() {
  return {
      {"native_dropout.default", {T({4, 6}), V(0.5), V(true)}},
      // Results that only the backward reads are not LibTorch's.
      {"_embedding_bag.default",
       {T({10, 4}), Longs({1, 4, 4, 0}), Longs({0, 2}), V(false), V(0), V(false), None(), V(false), V(-1)}},
      {"empty.memory_format", {Ints({3, 4}), Dtype(), None(), None(), None(), None()}},
      {"empty_strided.default", {Ints({3, 4}), Ints({4, 1}), Dtype(), None(), None(), None()}},
      {"rand.default", {Ints({3, 4}), Dtype(), None(), None(), None()}},
      {"randn.default", {Ints({3, 4}), Dtype(), None(), None(), None()}},
      {"randperm.default", {V(7), None(), None(), None(), None()}},
  };
}

std::vector<OpCase> RefusedCases() {
  return {
      {"_local_scalar_dense.default", {T({})}},
      {"nonzero.default", {T({3, 4})}},
  };
}

}  // namespace cotan::testing
