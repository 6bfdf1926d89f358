// SPDX-License-Identifier: Apache-2.0

// Cases of ops that become expressions.
#include "testing/ops/op_case_groups.h"

namespace cotan::testing {

std::vector<OpCase> PointwiseCases() {
  return {
      {"celu.default", {T({3, 4}), Num(0.7)}},
      {"logit_backward.default", {T({3, 4}), Positive({3, 4}), V(0.2)}},
      {"round.decimals", {T({3, 4}), V(2)}},
      {"special_xlog1py.default", {T({3, 4}), Positive({4})}},
      {"clamp.Tensor", {T({3, 4}), T({4}), None()}},
      {"clamp.default", {T({3, 4}), Num(-0.5), Num(0.5)}},
      {"clamp.default", {T({3, 4}), None(), Num(0.5)}},
      {"diagonal_backward.default", {T({3}), Ints({3, 4}), V(0), V(0), V(1)}},
      {"diagonal_scatter.default", {T({3, 4}), T({3}), V(0), V(0), V(1)}},
      {"glu_backward.default", {T({3, 2}), T({3, 4}), V(1)}},
      {"select_backward.default", {T({3, 5}), Ints({3, 4, 5}), V(1), V(2)}},
      {"select_scatter.default", {T({3, 4}), T({3}), V(1), V(2)}},
  };
}

std::vector<OpCase> ReductionCases() {
  std::vector<OpCase> cases;
  for (const char* op : {"sum", "mean"}) {
    cases.push_back({std::string(op) + ".default", {Positive({3, 70, 5}), None()}});
    const std::string dim = std::string(op) + (op[0] == 's' ? ".dim_IntList" : ".dim");
    cases.push_back({dim, {T({3, 70, 5}), Ints({1}), V(true), None()}});
    cases.push_back({dim, {Transposed({3, 70, 5}), Ints({-1}), V(false), None()}});
    cases.push_back({dim, {ChannelsLast({2, 8, 5, 6}), Ints({0, 2, 3}), V(false), None()}});
    cases.push_back({dim, {T({3000, 9}), Ints({0}), V(false), None()}});
  }
  for (const char* op : {"amax", "amin"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 7, 5}), Ints({0, 2}), V(false)}});
    cases.push_back({std::string(op) + ".default", {T({4, 2000}), Ints({1}), V(true)}});
  }
  for (const char* op : {"max", "min"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 7})}});
    cases.push_back({std::string(op) + ".dim", {T({3, 7, 4}), V(1), V(false)}});
  }
  for (const char* op : {"argmax", "argmin"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 7}), V(1), V(false)}});
    cases.push_back({std::string(op) + ".default", {T({3, 7}), None(), V(false)}});
  }
  for (const char* op : {"all", "any"}) {
    cases.push_back({std::string(op) + ".default", {Mask({3, 7})}});
    cases.push_back({std::string(op) + ".dim", {Mask({3, 7}), V(1), V(true)}});
    cases.push_back({std::string(op) + ".dims", {Mask({3, 7, 2}), Ints({0, 1}), V(false)}});
  }
  for (const char* op : {"var", "std", "var_mean", "std_mean"}) {
    cases.push_back({std::string(op) + ".correction", {T({5, 40}), Ints({1}), Num(1), V(true)}});
    cases.push_back({std::string(op) + ".correction", {T({5, 4, 6}), Ints({0, 2}), Num(0), V(false)}});
    cases.push_back({std::string(op) + ".correction", {T({5, 40}), Ints({1}), Num(0.5), V(false)}});
  }
  cases.insert(cases.end(),
               {
                   {"prod.default", {Positive({3, 4}), None()}},
                   {"prod.dim_int", {Positive({3, 4}), V(1), V(false), None()}},
                   {"count_nonzero.default", {T({3, 4}), None()}},
                   {"count_nonzero.dim_IntList", {T({3, 4}), Ints({1})}},
                   {"logsumexp.default", {T({3, 40}), Ints({1}), V(true)}},
                   {"linalg_vector_norm.default", {T({3, 40}), Num(2), Ints({1}), V(false), None()}},
                   {"linalg_vector_norm.default", {T({3, 40}), Num(1), None(), V(false), None()}},
                   {"_trilinear.default",
                    {T({4, 3}), T({5, 3, 2}), T({4, 2}), Ints({1, 3}), Ints({0}), Ints({1, 2}), Ints({2, 3}), V(1)}},
                   {"aminmax.default", {T({3, 40}), V(1), V(true)}},
                   {"aminmax.default", {T({3, 40}), None(), V(false)}},
                   {"dist.default", {T({3, 40}), T({40}), Num(3)}},
                   {"nansum.default", {T({3, 40}), Ints({0}), V(false), None()}},
                   {"trace.default", {T({5, 7})}},
                   {"norm.Scalar", {T({3, 40}), Num(2)}},
                   {"norm.ScalarOpt_dim", {T({3, 40}), V(at::Scalar(2.0)), Ints({1}), V(true)}},
               });
  return cases;
}

std::vector<OpCase> CompositeCases() {
  std::vector<OpCase> cases;
  for (const char* op : {"_softmax", "_log_softmax"}) {
    for (const int64_t dim : {0, 1, 2})
      cases.push_back({std::string(op) + ".default", {T({4, 33, 3}), V(dim), V(false)}});
    cases.push_back({std::string(op) + ".default", {Transposed({12, 1500}), V(1), V(false)}});
    cases.push_back({std::string(op) + "_backward_data.default",
                     {T({4, 33}), Positive({4, 33}), V(1), V(c10::IValue(static_cast<int64_t>(at::kFloat)))}});
  }
  for (const int64_t reduction : {0, 1, 2}) {
    for (const char* op : {"mse_loss", "l1_loss"}) {
      cases.push_back({std::string(op) + ".default", {T({4, 5}), T({4, 5}), V(reduction)}});
    }
    cases.push_back({"smooth_l1_loss.default", {T({4, 5}), T({4, 5}), V(reduction), V(0.5)}});
    cases.push_back({"huber_loss.default", {T({4, 5}), T({4, 5}), V(reduction), V(0.5)}});
    cases.push_back({"soft_margin_loss.default", {T({4, 5}), T({4, 5}), V(reduction)}});
    cases.push_back(
        {"binary_cross_entropy.default", {Positive({4, 5}), Positive({4, 5}), Positive({5}), V(reduction)}});
    cases.push_back({"binary_cross_entropy_with_logits.default",
                     {T({4, 5}), Positive({4, 5}), None(), Positive({5}), V(reduction)}});
    cases.push_back({"nll_loss_forward.default", {T({6, 5}), Index({6}, 5), Positive({5}), V(reduction), V(2)}});
    cases.push_back(
        {"nll_loss2d_forward.default", {T({2, 5, 3, 3}), Index({2, 3, 3}, 5), None(), V(reduction), V(-100)}});
    const Sizes grad = reduction == 0 ? Sizes{4, 5} : Sizes{};
    cases.push_back({"mse_loss_backward.default", {T(grad), T({4, 5}), T({4, 5}), V(reduction)}});
    cases.push_back({"smooth_l1_loss_backward.default", {T(grad), T({4, 5}), T({4, 5}), V(reduction), V(0.5)}});
    cases.push_back({"huber_loss_backward.default", {T(grad), T({4, 5}), T({4, 5}), V(reduction), V(0.5)}});
    cases.push_back({"soft_margin_loss_backward.default", {T(grad), T({4, 5}), T({4, 5}), V(reduction)}});
    cases.push_back(
        {"binary_cross_entropy_backward.default", {T(grad), Positive({4, 5}), Positive({4, 5}), None(), V(reduction)}});
  }
  cases.insert(cases.end(),
               {
                   {"_safe_softmax.default", {T({4, 33}), V(1), None()}},
                   {"native_layer_norm.default", {T({4, 3, 40}), Ints({40}), T({40}), T({40}), V(1e-5)}},
                   {"native_layer_norm.default", {T({4, 3, 5}), Ints({3, 5}), None(), None(), V(1e-5)}},
                   {"native_layer_norm_backward.default",
                    {T({6, 40}), T({6, 40}), Ints({40}), T({6, 1}), Positive({6, 1}), T({40}), T({40}),
                     Bools({true, true, true})}},
                   {"_native_batch_norm_legit_functional.default",
                    {ChannelsLast({4, 6, 5, 5}), T({6}), T({6}), T({6}), Positive({6}), V(true), V(0.1), V(1e-5)}},
                   {"native_batch_norm.default",
                    {T({4, 6, 5, 5}), T({6}), T({6}), T({6}), Positive({6}), V(false), V(0.1), V(1e-5)}},
                   {"_native_batch_norm_legit_functional.default",
                    {T({4, 6, 5}), T({6}), T({6}), T({6}), Positive({6}), V(true), V(0.1), V(1e-5)}},
                   {"_native_batch_norm_legit_no_training.default",
                    {T({4, 6, 5}), T({6}), T({6}), T({6}), Positive({6}), V(0.1), V(1e-5)}},
                   {"_native_batch_norm_legit.no_stats", {T({4, 6, 5}), T({6}), T({6}), V(true), V(0.1), V(1e-5)}},
                   {"native_batch_norm_backward.default",
                    {T({4, 6, 5, 5}), T({4, 6, 5, 5}), T({6}), T({6}), Positive({6}), T({6}), Positive({6}), V(true),
                     V(1e-5), Bools({true, true, true})}},
                   {"native_batch_norm_backward.default",
                    {T({4, 6, 5, 5}), T({4, 6, 5, 5}), T({6}), T({6}), Positive({6}), T({6}), Positive({6}), V(false),
                     V(1e-5), Bools({true, true, true})}},
                   {"native_group_norm.default", {T({2, 6, 5, 5}), T({6}), T({6}), V(2), V(6), V(25), V(3), V(1e-5)}},
                   {"native_group_norm.default", {T({4, 6}), T({6}), T({6}), V(4), V(6), V(1), V(2), V(1e-5)}},
                   {"native_group_norm_backward.default",
                    {T({2, 6, 5, 5}), T({2, 6, 5, 5}), T({2, 3}), Positive({2, 3}), T({6}), V(2), V(6), V(25), V(3),
                     Bools({true, true, true})}},
               });
  return cases;
}

std::vector<OpCase> FurtherCompositeCases() {
  std::vector<OpCase> cases = {
      {"_fused_rms_norm.default", {T({6, 40}), Ints({40}), T({40}), V(1e-5)}},
      {"_native_batch_norm_legit.default",
       {T({4, 6, 5}), T({6}), T({6}), T({6}), Positive({6}), V(false), V(0.1), V(1e-5)}},
  };
  for (const int64_t reduction : {0, 1, 2}) {
    cases.push_back({"nll_loss_backward.default",
                     {T(reduction == 0 ? Sizes{6} : Sizes{}), T({6, 5}), Index({6}, 5), Positive({5}), V(reduction),
                      V(2), Positive({})}});
    cases.push_back({"nll_loss2d_backward.default",
                     {T(reduction == 0 ? Sizes{2, 3, 3} : Sizes{}), T({2, 5, 3, 3}), Index({2, 3, 3}, 5), None(),
                      V(reduction), V(-100), Positive({})}});
  }
  return cases;
}

std::vector<OpCase> CreationCases() {
  std::vector<OpCase> cases;
  for (const at::ScalarType integer : {at::kLong, at::kInt, at::kChar}) {
    const Arg dtype = V(c10::IValue(static_cast<int64_t>(integer)));
    cases.push_back({"linspace.default", {Num(-5.5), Num(5), V(4), dtype, None(), None(), None()}});
    cases.push_back({"linspace.default", {Num(3), Num(3.9), V(1), dtype, None(), None(), None()}});
  }
  for (const char* op : {"zeros.default", "ones.default"}) {
    cases.push_back({op, {Ints({2, 3}), Dtype(), None(), None(), None()}});
  }
  for (const char* op : {"zeros_like.default", "ones_like.default"}) {
    cases.push_back({op, {T({2, 3}), Dtype(), None(), None(), None(), None()}});
  }
  for (const char* op : {"new_zeros.default", "new_ones.default"}) {
    cases.push_back({op, {T({4}), Ints({2, 3}), Dtype(), None(), None(), None()}});
  }
  cases.insert(cases.end(), {
                                {"full.default", {Ints({2, 3}), Num(0.5), Dtype(), None(), None(), None()}},
                                {"full_like.default", {T({2, 3}), Num(0.5), Dtype(), None(), None(), None(), None()}},
                                {"new_full.default", {T({4}), Ints({2, 3}), Num(0.5), Dtype(), None(), None(), None()}},
                                {"fill.Scalar", {T({2, 3}), Num(0.5)}},
                                {"fill.Tensor", {T({2, 3}), T({})}},
                                {"zero.default", {T({2, 3})}},
                                {"scalar_tensor.default", {Num(0.5), Dtype(), None(), None(), None()}},
                                {"arange.default", {V(at::Scalar(7)), Dtype(), None(), None(), None()}},
                                {"arange.start", {V(at::Scalar(2)), V(at::Scalar(9)), Dtype(), None(), None(), None()}},
                                {"arange.start_step", {Num(0.5), Num(4), Num(0.25), Dtype(), None(), None(), None()}},
                                {"linspace.default", {Num(-1), Num(2), V(9), Dtype(), None(), None(), None()}},
                                {"eye.default", {V(4), Dtype(), None(), None(), None()}},
                                {"eye.m", {V(4), V(6), Dtype(), None(), None(), None()}},
                            });
  return cases;
}

std::vector<OpCase> ScanCases() {
  std::vector<OpCase> cases;
  for (const char* op : {"cumsum", "cumprod"}) {
    for (const int64_t dim : {0, 1, -1}) {
      cases.push_back({std::string(op) + ".default", {T({3, 7, 5}), V(dim), None()}});
    }
    cases.push_back({std::string(op) + ".default", {T({}), V(0), None()}});
    cases.push_back({std::string(op) + ".default", {Index({4, 9}, 3), V(1), None()}});
    cases.push_back({std::string(op) + ".default", {Mask({4, 9}), V(1), None()}});
  }
  cases.push_back({"cumsum.default", {Transposed({6, 130}), V(1), None()}});
  cases.push_back({"logcumsumexp.default", {T({3, 40}), V(1)}});
  cases.push_back({"logcumsumexp.default", {T({3, 40}), V(0)}});
  for (const char* op : {"cummax", "cummin"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 40}), V(1)}});
    cases.push_back({std::string(op) + ".default", {T({5, 4}), V(0)}});
  }
  return cases;
}

}  // namespace cotan::testing
