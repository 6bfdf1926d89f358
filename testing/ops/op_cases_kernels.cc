// SPDX-License-Identifier: Apache-2.0

// Cases of views and of ops that need kernels.
#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "testing/ops/op_case_groups.h"

namespace cotan::testing {

std::vector<OpCase> KernelCases() {
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
      {"embedding_dense_backward.default", {T({3, 5, 4}), Index({3, 5}, 10), V(10), V(2), V(true)}},
      {"embedding_dense_backward.default", {T({4}), V(at::full({}, 3, at::kLong)), V(10), V(-1), V(true)}},
      {"index_select.default", {T({10, 4}), V(0), Index({6}, 10)}},
      {"index_add.default", {T({10, 4}), V(0), Index({6}, 10), T({6, 4}), Num(1)}},
      {"index.Tensor", {T({10, 4}), OptionalList({Index({6}, 10)})}},
      {"gather.default", {T({4, 5}), V(1), Index({4, 3}, 5), V(false)}},
      {"scatter_add.default", {T({4, 5}), V(1), Index({4, 3}, 5), T({4, 3})}},
      {"gather.default", {T({4, 5}), V(1), V(at::zeros({0}, at::kLong)), V(false)}},
      {"scatter_add.default", {T({4, 5}), V(1), V(at::zeros({0}, at::kLong)), T({4, 3})}},
      {"scatter_add.default", {T({}), V(0), V(at::zeros({}, at::kLong)), T({})}},
      {"scatter_add.default", {T({5}), V(0), V(at::full({}, 3, at::kLong)), T({})}},
      {"scatter.src", {T({}), V(0), V(at::zeros({}, at::kLong)), T({})}},
      {"scatter.src", {T({5}), V(0), V(at::full({}, 3, at::kLong)), T({})}},
      {"scatter.value", {T({}), V(0), V(at::zeros({}, at::kLong)), Num(0.5)}},
      {"scatter.src", {T({4, 5}), V(1), V(at::zeros({4, 0}, at::kLong)), T({4, 0})}},
      {"scatter.src", {T({4, 5}), V(1), Index({4, 3}, 5), T({4, 3})}},
      {"scatter.src", {T({4, 5}), V(1), Index({4, 1}, 5), T({4, 2})}},
      {"scatter.value", {T({3, 4, 5}), V(1), Index({3, 1, 5}, 4), Num(0.5)}},
      {"scatter_add.default", {T({3, 4, 5}), V(-3), Index({1, 4, 5}, 3), T({1, 4, 5})}},
      {"scatter.src", {T({4, 5}), V(0), Index({3, 5}, 4), T({3, 5})}},
      {"scatter.value", {T({4, 5}), V(-1), Index({4, 3}, 5), Num(0.5)}},
      {"index_put.default", {T({10, 4}), OptionalList({Index({6}, 10)}), T({6, 4}), V(false)}},
      {"index_put.default", {T({3, 10, 4}), OptionalList({None(), Index({2, 3}, 10)}), T({4}), V(false)}},
      {"as_strided_scatter.default", {T({24}), T({2, 3}), Ints({2, 3}), Ints({3, 1}), V(4)}},
      {"as_strided_scatter.default", {T({4, 6}), T({2, 3}), Ints({2, 3}), Ints({12, 2}), V(1)}},
      {"resize.default", {T({4, 6}), Ints({2, 5}), None()}},
      {"cat.default", {List({T({2, 3}), T({2, 4}), Transposed({2, 5})}), V(1)}},
      {"stack.default", {List({T({2, 3}), T({2, 3})}), V(1)}},
      {"_scaled_dot_product_flash_attention_for_cpu.default",
       {T({2, 3, 10, 8}), T({2, 3, 12, 8}), T({2, 3, 12, 8}), V(0.0), V(false), None(), None()}},
      {"_scaled_dot_product_flash_attention_for_cpu.default",
       {T({2, 3, 10, 8}), T({2, 3, 10, 8}), T({2, 3, 10, 8}), V(0.0), V(true), None(), None()}},
  };
}

std::vector<OpCase> FurtherKernelCases() {
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

std::vector<OpCase> ViewCases() {
  std::vector<OpCase> cases;
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
                   {"view_copy.dtype", {T({4, 6}), V(static_cast<int64_t>(at::kInt))}},
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

std::vector<OpCase> ViewAndCreationCases() {
  return {
      {"view.default", {T({4, 6}), Ints({2, 12})}},
      {"view.dtype", {T({4, 6}), V(static_cast<int64_t>(at::kInt))}},
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

namespace {

// Adds the forward and the backward from `in` to `out` spatial sizes.
void AddResize(const std::string& op, const Sizes& in, const Sizes& out, const std::vector<Arg>& settings,
               std::vector<OpCase>& cases) {
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

}  // namespace

std::vector<OpCase> ResizeCases() {
  std::vector<OpCase> cases;
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
  // The backward of whole factors sums windows.
  const std::vector<std::pair<Sizes, Sizes>> whole = {{{5}, {20}}, {{3, 4}, {6, 4}}, {{2, 3, 4}, {4, 3, 16}}};
  for (const auto& [in, out] : whole) {
    const std::string suffix = std::to_string(in.size()) + "d";
    const std::vector<Arg> no_scales(in.size(), None());
    AddResize("upsample_nearest" + suffix, in, out, no_scales, cases);
    AddResize("_upsample_nearest_exact" + suffix, in, out, no_scales, cases);
  }
  AddResize("upsample_nearest2d", {3, 4}, {12, 16}, {V(4.0), V(4.0)}, cases);
  // Factors that are not quite the quotients of the sizes.
  AddResize("upsample_nearest2d", {3, 4}, {12, 16}, {V(4.2), V(4.1)}, cases);
  AddResize("_upsample_nearest_exact2d", {3, 4}, {12, 16}, {V(4.2), V(4.1)}, cases);
  AddResize("upsample_nearest2d", {5, 5}, {8, 8}, {V(1.7), V(1.7)}, cases);
  AddResize("upsample_bilinear2d", {5, 5}, {8, 8}, {V(false), V(1.7), V(1.7)}, cases);
  return cases;
}

std::vector<OpCase> EmbeddingBagCases() {
  std::vector<OpCase> cases;
  const Arg indices = Longs({1, 4, 4, 0, 2, 3, 1});
  const Arg offsets = Longs({0, 2, 2, 5});  // the second bag is empty
  const Arg bags = Longs({0, 0, 2, 2, 2, 3, 3});
  const Arg sizes = Longs({2, 0, 3, 2});
  for (const int64_t mode : {0, 1}) {
    for (const bool by_frequency : {false, true}) {
      cases.push_back({"_embedding_bag_backward.default",
                       {T({4, 6}), indices, offsets, bags, sizes, Longs({0, 0, 0, 0}), V(5), V(by_frequency), V(mode),
                        V(false), None(), V(-1)}});
    }
  }
  cases.push_back(
      {"_embedding_bag_backward.default",
       {T({4, 6}), indices, offsets, bags, sizes, Index({4, 6}, 5), V(5), V(false), V(2), V(false), None(), V(-1)}});
  cases.push_back(
      {"_embedding_bag_backward.default",
       {T({4, 6}), indices, offsets, bags, sizes, Longs({0, 0, 0, 0}), V(5), V(false), V(0), V(false), T({7}), V(-1)}});
  cases.push_back({"_embedding_bag_per_sample_weights_backward.default",
                   {T({4, 6}), T({5, 6}), indices, offsets, bags, V(0), V(-1)}});
  return cases;
}

std::vector<OpCase> PaddingCases() {
  std::vector<OpCase> cases;
  for (const char* op : {"reflection_pad", "replication_pad"}) {
    const std::string name = op;
    cases.push_back({name + "1d.default", {T({2, 3, 5}), Ints({2, 4})}});
    cases.push_back({name + "1d_backward.default", {T({2, 3, 11}), T({2, 3, 5}), Ints({2, 4})}});
    cases.push_back({name + "2d.default", {T({2, 3, 5, 4}), Ints({1, 3, 2, 0})}});
    cases.push_back({name + "2d.default", {T({3, 5, 4}), Ints({1, 3, 2, 0})}});
    cases.push_back({name + "2d_backward.default", {T({2, 3, 7, 8}), T({2, 3, 5, 4}), Ints({1, 3, 2, 0})}});
    cases.push_back({name + "3d.default", {T({2, 3, 4, 4, 4}), Ints({1, 0, 2, 1, 0, 3})}});
    cases.push_back({name + "3d_backward.default", {T({2, 3, 7, 7, 5}), T({2, 3, 4, 4, 4}), Ints({1, 0, 2, 1, 0, 3})}});
  }
  cases.push_back({"pixel_shuffle.default", {T({2, 12, 3, 4}), V(2)}});
  cases.push_back({"pixel_unshuffle.default", {T({2, 3, 4, 6}), V(2)}});
  cases.push_back({"channel_shuffle.default", {T({2, 6, 3, 4}), V(3)}});
  cases.push_back({"native_channel_shuffle.default", {T({2, 6, 3, 4}), V(3)}});
  return cases;
}

std::vector<OpCase> WindowCases() {
  return {
      {"im2col.default", {T({2, 3, 6, 7}), Ints({2, 3}), Ints({1, 1}), Ints({0, 0}), Ints({1, 1})}},
      {"im2col.default", {T({2, 3, 6, 7}), Ints({2, 3}), Ints({2, 1}), Ints({1, 2}), Ints({2, 1})}},
      {"im2col.default", {T({3, 6, 7}), Ints({2, 2}), Ints({1, 1}), Ints({0, 0}), Ints({2, 2})}},
      {"col2im.default", {T({2, 18, 25}), Ints({6, 7}), Ints({2, 3}), Ints({1, 1}), Ints({0, 0}), Ints({1, 1})}},
      {"col2im.default", {T({2, 18, 27}), Ints({6, 7}), Ints({2, 3}), Ints({2, 1}), Ints({1, 2}), Ints({2, 1})}},
      {"col2im.default", {T({12, 9}), Ints({6, 7}), Ints({2, 2}), Ints({1, 1}), Ints({0, 0}), Ints({2, 2})}},
      // Windows of different sizes that overlap.
      {"_adaptive_avg_pool2d.default", {T({2, 3, 7, 5}), Ints({3, 4})}},
      {"_adaptive_avg_pool2d.default", {T({3, 3, 4}), Ints({5, 3})}},
      {"_adaptive_avg_pool2d.default", {T({2, 3, 2, 9}), Ints({6, 6})}},
      {"_adaptive_avg_pool2d_backward.default", {T({2, 3, 3, 4}), T({2, 3, 7, 5})}},
      {"_adaptive_avg_pool2d_backward.default", {T({3, 5, 3}), T({3, 3, 4})}},
      {"_adaptive_avg_pool2d_backward.default", {T({2, 3, 6, 6}), T({2, 3, 2, 9})}},
      {"_adaptive_avg_pool3d.default", {T({2, 3, 7, 5, 4}), Ints({3, 4, 2})}},
      {"_adaptive_avg_pool3d_backward.default", {T({2, 3, 3, 4, 2}), T({2, 3, 7, 5, 4})}},
      {"adaptive_max_pool2d.default", {T({2, 3, 7, 5}), Ints({3, 4})}},
      {"adaptive_max_pool2d_backward.default", {T({2, 3, 3, 4}), T({2, 3, 7, 5}), Index({2, 3, 3, 4}, 35)}},
      {"adaptive_max_pool3d.default", {T({2, 3, 7, 5, 4}), Ints({3, 4, 2})}},
      {"adaptive_max_pool3d_backward.default", {T({2, 3, 3, 4, 2}), T({2, 3, 7, 5, 4}), Index({2, 3, 3, 4, 2}, 140)}},
  };
}

std::vector<OpCase> FurtherIndexingCases() {
  std::vector<OpCase> cases = {
      {"take.default", {T({4, 5}), Longs({3, -1, 19, 3})}},
      {"put.default", {T({4, 5}), Longs({3, -1, 18, 3}), T({4}), V(true)}},
      {"put.default", {T({4, 5}), Longs({3, -1, 18, 0}), T({4}), V(false)}},
      {"index_copy.default", {T({4, 5}), V(1), Longs({3, 0, 1}), T({4, 3})}},
      {"index_copy.default", {T({4, 5}), V(1), Longs({}), T({4, 0})}},
      {"index_fill.int_Scalar", {T({4, 5}), V(-1), Longs({3, -5, 3}), Num(0.5)}},
      {"index_fill.int_Tensor", {T({4, 5}), V(0), Longs({1}), T({})}},
      {"nonzero_static.default", {Index({4, 5}, 3), V(9), V(-1)}},
      {"nonzero_static.default", {T({3}), V(2), V(0)}},
      {"repeat_interleave.Tensor", {Longs({2, 0, 3}), V(5)}},
      {"isin.Tensor_Tensor", {Index({4, 5}, 9), Longs({3, 7, 1}), V(false), V(false)}},
      {"isin.Tensor_Scalar", {Index({4, 5}, 3), V(at::Scalar(2)), V(false), V(true)}},
      {"isin.Scalar_Tensor", {V(at::Scalar(2)), Index({4, 5}, 3), V(false), V(false)}},
      {"isin.Tensor_Scalar", {Index({4, 5}, 3), V(at::Scalar(1.5)), V(false), V(false)}},
      {"isin.Scalar_Tensor", {V(at::Scalar(1.5)), Index({4, 5}, 3), V(false), V(false)}},
      {"rot90.default", {T({4, 5}), V(1), Ints({0, 1})}},
      {"rot90.default", {T({2, 4, 5}), V(-1), Ints({2, 0})}},
      {"rot90.default", {T({4, 5}), V(6), Ints({1, 0})}},
      {"linalg_cross.default", {T({4, 3}), T({4, 3}), V(-1)}},
      {"linalg_cross.default", {T({2, 3, 4}), T({1, 3, 4}), V(-2)}},
      {"addbmm.default", {T({5, 3}), T({2, 5, 7}), T({2, 7, 3}), Num(0.5), Num(2)}},
      {"addr.default", {T({5, 3}), T({5}), T({3}), Num(1), Num(2)}},
  };
  const Arg sorted = [](at::ScalarType dtype) { return at::linspace(-1, 1, 9, dtype); };
  const Arg unsorted = [](at::ScalarType dtype) { return at::tensor({0.25, -1.0, 0.5, 0.75, -0.5}).to(dtype); };
  const Arg rows = [](at::ScalarType dtype) {
    return at::tensor({0.5, -0.5, 0.0, -0.25, 0.75, 0.5}).view({2, 3}).to(dtype);
  };
  const Arg sorter = [](at::ScalarType) { return at::tensor({1, 2, 0, 0, 2, 1}, at::kLong).view({2, 3}); };
  for (const bool right : {false, true}) {
    cases.push_back({"bucketize.Tensor", {T({4, 5}), sorted, V(false), V(right)}});
    cases.push_back({"bucketize.Scalar", {Num(0.25), sorted, V(false), V(right)}});
    cases.push_back({"searchsorted.Tensor", {sorted, T({4, 5}), V(true), V(right), None(), None()}});
    cases.push_back({"searchsorted.Scalar", {sorted, Num(0.25), V(false), V(right), None(), None()}});
    cases.push_back({"searchsorted.Tensor", {unsorted, T({4, 5}), V(false), V(right), None(), Longs({1, 4, 0, 2, 3})}});
    cases.push_back({"searchsorted.Tensor", {rows, T({2, 7}), V(true), V(right), None(), sorter}});
    cases.push_back({"searchsorted.Scalar", {unsorted, Num(0.5), V(false), V(right), None(), Longs({1, 4, 0, 2, 3})}});
  }
  return cases;
}

}  // namespace cotan::testing
