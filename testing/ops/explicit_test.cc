// Rows of the op table that are not pointwise, against LibTorch: one or more
// cases each, in f32 and, where the CPU has kernels, f64.
#include <ATen/ATen.h>

#include <cstdlib>
#include <functional>
#include <set>

#include "aot/lower/op_table.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/reference/register_reference.h"
#include "testing/ops/op_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using Arg = std::function<c10::IValue(at::ScalarType)>;
using Sizes = std::vector<int64_t>;

// Uniform in [-1, 1).
Arg T(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return (at::rand(sizes, at::kDouble) * 2 - 1).to(dtype); };
}
// Uniform in [0.1, 0.9).
Arg Positive(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return (at::rand(sizes, at::kDouble) * 0.8 + 0.1).to(dtype); };
}
// As T, with the last two dimensions swapped in memory.
Arg Transposed(Sizes sizes) {
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  return [sizes](at::ScalarType dtype) { return (at::rand(sizes, at::kDouble) * 2 - 1).to(dtype).transpose(-1, -2); };
}
Arg ChannelsLast(Sizes sizes) {
  return [sizes](at::ScalarType dtype) {
    return (at::rand(sizes, at::kDouble) * 2 - 1).to(dtype).contiguous(at::MemoryFormat::ChannelsLast);
  };
}
// i64 in [0, limit).
Arg Index(Sizes sizes, int64_t limit) {
  return [sizes, limit](at::ScalarType) { return at::randint(0, limit, sizes, at::kLong); };
}
Arg Mask(Sizes sizes) {
  return [sizes](at::ScalarType) { return at::randint(0, 2, sizes, at::kLong).to(at::kBool); };
}
Arg V(c10::IValue value) {
  return [value](at::ScalarType) { return value; };
}
Arg Ints(Sizes values) { return V(c10::IValue(values)); }
Arg Bools(std::vector<bool> values) {
  c10::List<bool> list;
  for (const bool value : values) list.push_back(value);
  return V(list);
}
Arg Num(double value) { return V(at::Scalar(value)); }
Arg None() { return V(c10::IValue()); }
Arg List(std::vector<Arg> members) {
  return [members](at::ScalarType dtype) {
    c10::List<at::Tensor> list;
    for (const Arg& member : members) list.push_back(member(dtype).toTensor());
    return list;
  };
}
Arg OptionalList(std::vector<Arg> members) {
  return [members](at::ScalarType dtype) {
    c10::List<std::optional<at::Tensor>> list;
    for (const Arg& member : members) {
      const c10::IValue value = member(dtype);
      list.push_back(value.isNone() ? std::optional<at::Tensor>() : std::optional<at::Tensor>(value.toTensor()));
    }
    return list;
  };
}

struct Case {
  std::string op;  // without "aten."
  std::vector<Arg> arguments;
};

std::vector<Case> PointwiseCases() {
  return {
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

std::vector<Case> ReductionCases() {
  std::vector<Case> cases;
  for (const char* op : {"sum", "mean"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 70, 5}), None()}});
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
  }
  cases.insert(cases.end(), {
                                {"prod.default", {Positive({3, 4}), None()}},
                                {"prod.dim_int", {Positive({3, 4}), V(1), V(false), None()}},
                                {"count_nonzero.default", {T({3, 4}), None()}},
                                {"count_nonzero.dim_IntList", {T({3, 4}), Ints({1})}},
                                {"logsumexp.default", {T({3, 40}), Ints({1}), V(true)}},
                                {"linalg_vector_norm.default", {T({3, 40}), Num(2), Ints({1}), V(false), None()}},
                                {"linalg_vector_norm.default", {T({3, 40}), Num(1), None(), V(false), None()}},
                                {"norm.Scalar", {T({3, 40}), Num(2)}},
                                {"norm.ScalarOpt_dim", {T({3, 40}), V(at::Scalar(2.0)), Ints({1}), V(true)}},
                            });
  return cases;
}

std::vector<Case> CompositeCases() {
  std::vector<Case> cases;
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
                   {"native_group_norm_backward.default",
                    {T({2, 6, 5, 5}), T({2, 6, 5, 5}), T({2, 3}), Positive({2, 3}), T({6}), V(2), V(6), V(25), V(3),
                     Bools({true, true, true})}},
               });
  return cases;
}

std::vector<Case> KernelCases() {
  return {
      {"mm.default", {T({5, 7}), Transposed({7, 3})}},
      {"bmm.default", {T({2, 5, 7}), T({2, 7, 3})}},
      {"addmm.default", {T({3}), T({5, 7}), T({7, 3}), Num(1), Num(1)}},
      {"addmm.default", {T({5, 3}), Transposed({5, 7}), T({7, 3}), Num(0.5), Num(2)}},
      {"baddbmm.default", {T({2, 5, 3}), T({2, 5, 7}), T({2, 7, 3}), Num(1), Num(1)}},
      {"mv.default", {T({5, 7}), T({7})}},
      {"addmv.default", {T({5}), T({5, 7}), T({7}), Num(1), Num(1)}},
      {"dot.default", {T({70}), T({70})}},
      {"linear.default", {T({4, 5, 7}), T({3, 7}), T({3})}},
      {"convolution.default",
       {T({2, 4, 9, 8}), T({6, 4, 3, 3}), T({6}), Ints({2, 1}), Ints({1, 0}), Ints({1, 1}), V(false), Ints({0, 0}),
        V(1)}},
      {"convolution.default",
       {T({2, 4, 9, 8}), T({6, 2, 3, 3}), None(), Ints({1, 1}), Ints({2, 2}), Ints({2, 2}), V(false), Ints({0, 0}),
        V(2)}},
      {"convolution.default",
       {T({2, 4, 9}), T({6, 4, 3}), T({6}), Ints({1}), Ints({1}), Ints({1}), V(false), Ints({0}), V(1)}},
      {"convolution.default",
       {T({2, 4, 5, 5}), T({4, 3, 3, 3}), T({3}), Ints({2, 2}), Ints({1, 1}), Ints({1, 1}), V(true), Ints({1, 1}),
        V(1)}},
      {"convolution_backward.default",
       {T({2, 6, 9, 8}), T({2, 4, 9, 8}), T({6, 4, 3, 3}), Ints({6}), Ints({1, 1}), Ints({1, 1}), Ints({1, 1}),
        V(false), Ints({0, 0}), V(1), Bools({true, true, true})}},
      {"max_pool2d_with_indices.default",
       {T({2, 3, 9, 8}), Ints({3, 2}), Ints({2, 2}), Ints({1, 0}), Ints({1, 1}), V(true)}},
      {"max_pool2d_with_indices_backward.default",
       {T({2, 3, 4, 4}), T({2, 3, 8, 8}), Ints({2, 2}), Ints({2, 2}), Ints({0, 0}), Ints({1, 1}), V(false),
        Index({2, 3, 4, 4}, 64)}},
      {"avg_pool2d.default", {T({2, 3, 9, 8}), Ints({3, 2}), Ints({2, 2}), Ints({1, 0}), V(true), V(false), None()}},
      {"avg_pool2d_backward.default",
       {T({2, 3, 4, 4}), T({2, 3, 8, 8}), Ints({2, 2}), Ints({2, 2}), Ints({0, 0}), V(false), V(true), None()}},
      {"_adaptive_avg_pool2d.default", {T({2, 3, 8, 8}), Ints({4, 2})}},
      {"_adaptive_avg_pool2d.default", {T({2, 3, 7, 5}), Ints({1, 1})}},
      {"_adaptive_avg_pool2d_backward.default", {T({2, 3, 4, 2}), T({2, 3, 8, 8})}},
      {"embedding.default", {T({10, 4}), Index({3, 5}, 10), V(-1), V(false), V(false)}},
      {"embedding_dense_backward.default", {T({3, 5, 4}), Index({3, 5}, 10), V(10), V(-1), V(false)}},
      {"embedding_dense_backward.default", {T({3, 5, 4}), Index({3, 5}, 10), V(10), V(2), V(false)}},
      {"index_select.default", {T({10, 4}), V(0), Index({6}, 10)}},
      {"index_add.default", {T({10, 4}), V(0), Index({6}, 10), T({6, 4}), Num(1)}},
      {"index.Tensor", {T({10, 4}), OptionalList({Index({6}, 10)})}},
      {"gather.default", {T({4, 5}), V(1), Index({4, 3}, 5), V(false)}},
      {"scatter_add.default", {T({4, 5}), V(1), Index({4, 3}, 5), T({4, 3})}},
      {"scatter.src", {T({4, 5}), V(1), Index({4, 3}, 5), T({4, 3})}},
      {"scatter.src", {T({4, 5}), V(0), Index({3, 5}, 4), T({3, 5})}},
      {"scatter.value", {T({4, 5}), V(-1), Index({4, 3}, 5), Num(0.5)}},
      {"index_put.default", {T({10, 4}), OptionalList({Index({6}, 10)}), T({6, 4}), V(false)}},
      {"index_put.default", {T({3, 10, 4}), OptionalList({None(), Index({2, 3}, 10)}), T({4}), V(false)}},
      {"as_strided_scatter.default", {T({24}), T({2, 3}), Ints({2, 3}), Ints({3, 1}), V(4)}},
      {"as_strided_scatter.default", {T({4, 6}), T({2, 3}), Ints({2, 3}), Ints({12, 2}), V(1)}},
      {"resize.default", {T({4, 6}), Ints({2, 5}), None()}},
      {"sort.default", {T({3, 40}), V(1), V(false)}},
      {"sort.default", {T({5, 4}), V(0), V(true)}},
      {"sort.stable", {Index({3, 40}, 7), V(true), V(-1), V(true)}},
      {"topk.default", {T({3, 40}), V(5), V(-1), V(true), V(true)}},
      {"topk.default", {T({7, 3}), V(2), V(0), V(false), V(true)}},
      {"cat.default", {List({T({2, 3}), T({2, 4}), Transposed({2, 5})}), V(1)}},
      {"stack.default", {List({T({2, 3}), T({2, 3})}), V(1)}},
      {"_scaled_dot_product_flash_attention_for_cpu.default",
       {T({2, 3, 10, 8}), T({2, 3, 12, 8}), T({2, 3, 12, 8}), V(0.0), V(false), None(), None()}},
      {"_scaled_dot_product_flash_attention_for_cpu.default",
       {T({2, 3, 10, 8}), T({2, 3, 10, 8}), T({2, 3, 10, 8}), V(0.0), V(true), None(), None()}},
  };
}

// Dtype, layout, device and pin_memory of a creation op: the dtype of the run.
Arg Dtype() {
  return [](at::ScalarType dtype) { return c10::IValue(static_cast<int64_t>(dtype)); };
}

std::vector<Case> CreationCases() {
  std::vector<Case> cases;
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

std::vector<Case> ViewCases() {
  std::vector<Case> cases;
  for (const char* op : {"alias", "alias_copy", "clone", "contiguous", "detach", "detach_copy", "lift", "lift_fresh",
                         "lift_fresh_copy"}) {
    cases.push_back({std::string(op) + ".default", {Transposed({3, 4})}});
    if (std::string(op) == "clone" || std::string(op) == "contiguous")
      cases.back().arguments.push_back(V(static_cast<int64_t>(0)));
  }
  cases.insert(cases.end(),
               {
                   {"_reshape_copy.default", {T({4, 6}), Ints({24})}},
                   {"_reshape_alias.default", {T({4, 6}), Ints({24}), Ints({1})}},
                   {"_to_copy.default",
                    {T({4, 6}), V(static_cast<int64_t>(at::kLong)), None(), None(), None(), V(false), None()}},
                   {"copy.default", {T({4, 6}), T({6}), V(false)}},
                   {"view_copy.default", {T({4, 6}), Ints({24})}},
                   {"expand_copy.default", {T({3, 1}), Ints({3, 4}), V(false)}},
                   {"permute_copy.default", {T({2, 3, 4}), Ints({2, 0, 1})}},
                   {"transpose_copy.int", {T({2, 3, 4}), V(0), V(2)}},
                   {"t_copy.default", {T({2, 3})}},
                   {"slice_copy.Tensor", {T({5, 7}), V(1), V(1), V(6), V(2)}},
                   {"select_copy.int", {T({5, 7}), V(0), V(-2)}},
                   {"squeeze_copy.default", {T({5, 1, 7})}},
                   {"squeeze_copy.dim", {T({5, 1, 7}), V(1)}},
                   {"squeeze_copy.dims", {T({5, 1, 7, 1}), Ints({1, 3})}},
                   {"unsqueeze_copy.default", {T({5, 7}), V(1)}},
                   {"split_copy.Tensor", {T({5, 7}), V(3), V(1)}},
                   {"split_with_sizes_copy.default", {T({5, 7}), Ints({2, 5}), V(1)}},
                   {"unbind_copy.int", {T({3, 4}), V(0)}},
                   {"diagonal_copy.default", {T({4, 5}), V(1), V(0), V(1)}},
                   {"diag_embed.default", {T({3, 4}), V(1), V(0), V(2)}},
                   {"unfold.default", {T({3, 9}), V(1), V(4), V(2)}},
                   {"unfold_copy.default", {T({3, 9}), V(1), V(4), V(2)}},
                   {"as_strided_copy.default", {T({24}), Ints({2, 3}), Ints({12, 2}), V(1)}},
               });
  return cases;
}

std::vector<Case> FurtherCompositeCases() {
  std::vector<Case> cases = {
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

std::vector<Case> FurtherKernelCases() {
  return {
      {"_adaptive_avg_pool3d.default", {T({2, 3, 4, 8, 8}), Ints({2, 4, 2})}},
      {"_adaptive_avg_pool3d_backward.default", {T({2, 3, 2, 4, 2}), T({2, 3, 4, 8, 8})}},
      {"adaptive_max_pool2d.default", {T({2, 3, 8, 8}), Ints({4, 2})}},
      {"adaptive_max_pool2d_backward.default", {T({2, 3, 4, 4}), T({2, 3, 8, 8}), Index({2, 3, 4, 4}, 64)}},
      {"adaptive_max_pool3d.default", {T({2, 3, 4, 8, 8}), Ints({2, 4, 2})}},
      {"adaptive_max_pool3d_backward.default", {T({2, 3, 2, 4, 4}), T({2, 3, 4, 8, 8}), Index({2, 3, 2, 4, 4}, 256)}},
      {"avg_pool3d.default",
       {T({2, 3, 5, 9, 8}), Ints({2, 3, 2}), Ints({2, 2, 2}), Ints({0, 1, 0}), V(true), V(false), None()}},
      {"avg_pool3d_backward.default",
       {T({2, 3, 2, 4, 4}), T({2, 3, 4, 8, 8}), Ints({2, 2, 2}), Ints({2, 2, 2}), Ints({0, 0, 0}), V(false), V(true),
        None()}},
      {"max_pool3d_with_indices.default",
       {T({2, 3, 5, 9, 8}), Ints({2, 3, 2}), Ints({2, 2, 2}), Ints({0, 1, 0}), Ints({1, 1, 1}), V(false)}},
      {"max_pool3d_with_indices_backward.default",
       {T({2, 3, 2, 4, 4}), T({2, 3, 4, 8, 8}), Ints({2, 2, 2}), Ints({2, 2, 2}), Ints({0, 0, 0}), Ints({1, 1, 1}),
        V(false), Index({2, 3, 2, 4, 4}, 256)}},
      {"_unsafe_index.Tensor", {T({10, 4}), OptionalList({Index({6}, 10)})}},
      {"index.Tensor", {T({10, 4, 5}), OptionalList({Index({6}, 10), None(), Index({6}, 5)})}},
      {"index_put.default", {T({10, 4}), OptionalList({Index({6}, 10)}), T({6, 4}), V(true)}},
      {"_unsafe_index_put.default", {T({10, 4}), OptionalList({None(), Index({6}, 4)}), T({10, 6}), V(true)}},
      {"unfold_backward.default", {T({3, 3, 4}), Ints({3, 9}), V(1), V(4), V(2)}},
  };
}

std::vector<Case> ViewAndCreationCases() {
  return {
      {"view.default", {T({4, 6}), Ints({2, 12})}},
      {"reshape.default", {Transposed({4, 6}), Ints({3, 8})}},
      {"_unsafe_view.default", {T({4, 6}), Ints({24})}},
      {"permute.default", {T({2, 3, 4}), Ints({2, 0, 1})}},
      {"transpose.int", {T({2, 3, 4}), V(0), V(2)}},
      {"t.default", {T({2, 3})}},
      {"expand.default", {T({3, 1}), Ints({2, 3, 4}), V(false)}},
      {"slice.Tensor", {T({5, 7}), V(1), V(1), V(6), V(2)}},
      {"select.int", {T({5, 7}), V(0), V(-2)}},
      {"squeeze.dim", {T({5, 1, 7}), V(1)}},
      {"squeeze.default", {T({5, 1, 7})}},
      {"squeeze.dims", {T({5, 1, 7, 1}), Ints({1, 3})}},
      {"unsqueeze.default", {T({5, 7}), V(1)}},
      {"split.Tensor", {T({5, 7}), V(3), V(1)}},
      {"split_with_sizes.default", {T({5, 7}), Ints({2, 5}), V(1)}},
      {"unbind.int", {T({3, 4}), V(0)}},
      {"diagonal.default", {T({4, 5}), V(1), V(0), V(1)}},
      {"as_strided.default", {T({24}), Ints({2, 3}), Ints({12, 2}), V(1)}},
      {"slice_backward.default", {T({5, 3}), Ints({5, 7}), V(1), V(1), V(6), V(2)}},
      {"slice_scatter.default", {T({5, 7}), T({5, 3}), V(1), V(1), V(6), V(2)}},
      {"constant_pad_nd.default", {T({3, 4}), Ints({1, 2, 0, 1}), Num(0.5)}},
      {"repeat.default", {T({2, 3}), Ints({2, 1, 2})}},
      {"roll.default", {T({4, 5}), Ints({2}), Ints({1})}},
      {"flip.default", {T({4, 5}), Ints({1})}},
      {"tril.default", {T({4, 5}), V(1)}},
      {"triu.default", {T({2, 4, 5}), V(-1)}},
  };
}

std::vector<Case> ScanCases() {
  std::vector<Case> cases;
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

// Forward and backward from `in` to `out` spatial sizes.
void AddResize(const std::string& op, const Sizes& in, const Sizes& out, const std::vector<Arg>& settings,
               std::vector<Case>& cases) {
  Sizes input = {2, 3}, output = {2, 3};
  input.insert(input.end(), in.begin(), in.end());
  output.insert(output.end(), out.begin(), out.end());
  std::vector<Arg> forward = {T(input), Ints(out)};
  std::vector<Arg> backward = {T(output), Ints(out), Ints(input)};
  forward.insert(forward.end(), settings.begin(), settings.end());
  backward.insert(backward.end(), settings.begin(), settings.end());
  cases.push_back({op + ".default", forward});
  cases.push_back({op + "_backward.default", backward});
}

std::vector<Case> ResizeCases() {
  std::vector<Case> cases;
  const std::vector<std::pair<Sizes, Sizes>> sizes[] = {
      {{{5}, {11}}, {{9}, {4}}}, {{{5, 4}, {10, 8}}, {{6, 7}, {4, 15}}, {{4, 4}, {4, 4}}}, {{{3, 4, 5}, {6, 3, 7}}}};
  for (int rank = 1; rank <= 3; ++rank) {
    const std::string suffix = std::to_string(rank) + "d";
    const std::vector<Arg> no_scales(static_cast<size_t>(rank), None());
    for (const auto& [in, out] : sizes[rank - 1]) {
      AddResize("upsample_nearest" + suffix, in, out, no_scales, cases);
      AddResize("_upsample_nearest_exact" + suffix, in, out, no_scales, cases);
      for (const bool align_corners : {false, true}) {
        std::vector<Arg> settings = no_scales;
        settings.insert(settings.begin(), V(align_corners));
        const char* linear[] = {"upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d"};
        AddResize(linear[rank - 1], in, out, settings, cases);
        if (rank == 2) AddResize("upsample_bicubic2d", in, out, settings, cases);
      }
    }
  }
  // A factor that is not quite the quotient of the sizes.
  AddResize("upsample_nearest2d", {5, 5}, {8, 8}, {V(1.7), V(1.7)}, cases);
  AddResize("upsample_bilinear2d", {5, 5}, {8, 8}, {V(false), V(1.7), V(1.7)}, cases);
  return cases;
}

Arg Longs(Sizes values) {
  return [values](at::ScalarType) { return at::tensor(values, at::kLong); };
}

std::vector<Case> EmbeddingBagCases() {
  std::vector<Case> cases;
  const Arg indices = Longs({1, 4, 4, 0, 2, 3, 1});
  const Arg offsets = Longs({0, 2, 2, 5});  // the second bag is empty
  const Arg bags = Longs({0, 0, 2, 2, 2, 3, 3});
  const Arg sizes = Longs({2, 0, 3, 2});
  for (const int64_t mode : {0, 1}) {
    cases.push_back({"_embedding_bag_backward.default",
                     {T({4, 6}), indices, offsets, bags, sizes, Longs({0, 0, 0, 0}), V(5), V(false), V(mode), V(false),
                      None(), V(-1)}});
  }
  cases.push_back(
      {"_embedding_bag_backward.default",
       {T({4, 6}), indices, offsets, bags, sizes, Longs({0, 0, 0, 0}), V(5), V(false), V(0), V(false), T({7}), V(-1)}});
  cases.push_back({"_embedding_bag_per_sample_weights_backward.default",
                   {T({4, 6}), T({5, 6}), indices, offsets, bags, V(0), V(-1)}});
  return cases;
}

const KernelRegistry& ReferenceKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    EXPECT_TRUE(RegisterReferenceKernels(*kernels).ok());
    return kernels;
  }();
  return registry;
}

// Attributes of the kernels decide which dtypes the CPU has; the reference has
// all.
void Check(const Case& c, double tolerance) {
  SCOPED_TRACE(c.op);
  if (const char* only = std::getenv("COTAN_TEST_OP"); only != nullptr && c.op != only) return;
  at::manual_seed(3);
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    OpArguments arguments;
    for (const Arg& arg : c.arguments) arguments.push_back(arg(dtype));
    for (const KernelRegistry* kernels : {&CpuKernels(), &ReferenceKernels()}) {
      const bool cpu = kernels == &CpuKernels();
      const OpOutcome outcome = RunOpBothWays("aten." + c.op, arguments, *kernels);
      if (cpu && dtype == at::kDouble && outcome.kind == OpOutcome::Kind::kUnsupported) continue;
      EXPECT_EQ(outcome.kind, OpOutcome::Kind::kCompared)
          << at::toString(dtype) << (cpu ? " cpu: " : " reference: ") << outcome.message;
      EXPECT_LE(outcome.error, tolerance)
          << at::toString(dtype) << (cpu ? " cpu: " : " reference: ") << outcome.message;
    }
  }
}

struct Group {
  std::vector<Case> cases;
  double tolerance;
};

std::vector<Group> AllCases() {
  return {{PointwiseCases(), kTranscendental},
          {ReductionCases(), kReduction},
          {CompositeCases(), kReduction},
          {FurtherCompositeCases(), kReduction},
          {KernelCases(), kMatmul},
          {FurtherKernelCases(), kMatmul},
          {ViewAndCreationCases(), kExact},
          {ViewCases(), kExact},
          {CreationCases(), kPointwise},
          {ScanCases(), kReduction},
          {ResizeCases(), kMatmul},
          {EmbeddingBagCases(), kReduction}};
}

// Rows of pointwise ops are all run by pointwise_test. Random draws have no
// counterpart in LibTorch, empty tensors no content, nor have results of
// embedding_bag that only its backward reads (the model dlrm runs both); the
// backward of attention has a test of its own.
TEST(ExplicitOpTest, EveryOtherRowHasACase) {
  std::set<std::string> covered = {"cotan.random_uniform.default",
                                   "cotan.effect.default",  // testing/e2e/effects_test
                                   "aten.empty.memory_format",
                                   "aten.empty_like.default",
                                   "aten.new_empty.default",
                                   "aten.empty_strided.default",
                                   "aten.new_empty_strided.default",
                                   // aot/lower/complex_test and the conformance cases.
                                   "aten.view_as_real.default",
                                   "aten.view_as_complex.default",
                                   "aten._scaled_dot_product_flash_attention_for_cpu_backward.default",
                                   "aten._embedding_bag.default",
                                   "aten._embedding_bag_forward_only.default"};
  for (const Group& group : AllCases()) {
    for (const Case& c : group.cases) covered.insert("aten." + c.op);
  }
  for (const aot::OpRow& row : aot::OpTable()) {
    if (row.family == aot::OpFamily::kPointwise) continue;
    EXPECT_TRUE(covered.contains(std::string(row.op))) << row.op;
  }
}

TEST(ExplicitOpTest, PointwiseOps) {
  for (const Case& c : PointwiseCases()) Check(c, kTranscendental);
}
TEST(ExplicitOpTest, Reductions) {
  for (const Case& c : ReductionCases()) Check(c, kReduction);
}
TEST(ExplicitOpTest, CompositeOps) {
  for (const Case& c : CompositeCases()) Check(c, kReduction);
}
TEST(ExplicitOpTest, OpsWithKernels) {
  for (const Case& c : KernelCases()) Check(c, kMatmul);
}
TEST(ExplicitOpTest, ViewsAndCreation) {
  for (const Case& c : ViewAndCreationCases()) Check(c, kExact);
}
// Its operands have to fit each other: result and logsumexp are the forward's.
TEST(ExplicitOpTest, AttentionBackward) {
  at::manual_seed(3);
  for (const bool is_causal : {false, true}) {
    std::vector<at::Tensor> qkv;
    for (int i = 0; i < 3; ++i) qkv.push_back(at::rand({2, 3, 10, 8}) * 2 - 1);
    const auto [result, logsumexp] =
        at::_scaled_dot_product_flash_attention_for_cpu(qkv[0], qkv[1], qkv[2], 0.0, is_causal);
    const OpArguments arguments = {
        at::rand({2, 3, 10, 8}), qkv[0], qkv[1], qkv[2], result, logsumexp, 0.0, is_causal, {}, {}};
    for (const KernelRegistry* kernels : {&CpuKernels(), &ReferenceKernels()}) {
      const OpOutcome outcome =
          RunOpBothWays("aten._scaled_dot_product_flash_attention_for_cpu_backward.default", arguments, *kernels);
      EXPECT_EQ(outcome.kind, OpOutcome::Kind::kCompared) << outcome.message;
      EXPECT_LE(outcome.error, kMatmul) << outcome.message;
    }
  }
}
TEST(ExplicitOpTest, FurtherCompositeOps) {
  for (const Case& c : FurtherCompositeCases()) Check(c, kReduction);
}
TEST(ExplicitOpTest, FurtherOpsWithKernels) {
  for (const Case& c : FurtherKernelCases()) Check(c, kMatmul);
}
TEST(ExplicitOpTest, Views) {
  for (const Case& c : ViewCases()) Check(c, kExact);
}
TEST(ExplicitOpTest, Creation) {
  for (const Case& c : CreationCases()) Check(c, kPointwise);
}
TEST(ExplicitOpTest, Scans) {
  for (const Case& c : ScanCases()) Check(c, kReduction);
}
TEST(ExplicitOpTest, Resizes) {
  for (const Case& c : ResizeCases()) Check(c, kMatmul);
}
TEST(ExplicitOpTest, EmbeddingBags) {
  for (const Case& c : EmbeddingBagCases()) Check(c, kReduction);
}

}  // namespace
}  // namespace cotan::testing
