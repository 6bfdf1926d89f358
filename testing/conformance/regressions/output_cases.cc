// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {

std::vector<ConfCase> OutputCases() {
  return {
      Case("detached_input_next_to_another_input", TwoLeaves,
           [](Tensors in) -> Tensors {
             return {in[0].detach(), in[1]};
           }),
      Case("detached_result_next_to_an_input", TwoLeaves,
           [](Tensors in) -> Tensors {
             return {(in[0] + 1).detach(), in[1]};
           }),
      Case("view_twice_and_its_base", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             return {Flat(y), y, Flat(y)};
           }),
      Case("base_view_base", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             return {y, Flat(y), y};
           }),
      Case("parts_only", Leaf, [](Tensors in) -> Tensors { return (in[0] * 3).unbind(0); }),
      Case("parts_and_a_view", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             Tensors parts = y.unbind(0);
             parts.push_back(y.view(y.sizes()));
             return parts;
           }),
      Case("transposed_in_place_and_returned", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 3;
             y.t_();
             return {y};
           }),
      Case("view_of_a_buffer_s_result", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             return {Flat(in[0] * 3), in[1] + 1};
           }),
      Case("detached_transposed_and_transposed", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor a = (in[0] + 1).transpose(0, 1);
             return {a.detach(), a};
           }),
      Case("detached_transposed_and_transposed_square", Square,
           [](Tensors in) -> Tensors {
             const at::Tensor a = (in[0] + 1).transpose(0, 1);
             return {a.detach(), a};
           }),
      Case("detached_and_viewed", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] + 1;
             return {y.detach(), Flat(y)};
           }),
      Case("result_view_and_detached_view", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] + 1;
             const at::Tensor v = Flat(y);
             return {y, v, v.detach()};
           }),
      Case("detached_view_of_a_detached_view", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] + 1;
             const at::Tensor d = Flat(y).detach();
             return {d.slice(0, 1, 3), d, y};
           }),
      Case("input_view_made_to_require_grad", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             at::Tensor v = Flat(in[0]);
             v.requires_grad_(true);
             return {v};
           }),
      Case(
          "expanded_result",
          [] {
            return Tensors{leaf(0, {1, 3})};
          },
          [](Tensors in) -> Tensors {
            return {(in[0] * 2).expand(at::IntArrayRef({4, 3}))};
          }),
      Case(
          "sliced_result",
          [] {
            return Tensors{leaf(0, {4, 3})};
          },
          [](Tensors in) -> Tensors { return {(in[0] * 2).slice(0, 1, 3)}; }),
      Case("comparison_and_result", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0] > 0, in[0] * 2};
           }),
      Case("result_twice", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].sin();
             return {y, y};
           }),
      Case(
          "halves_of_an_input",
          [] {
            return Tensors{leaf(0, {4, 2}).clone()};
          },
          [](Tensors in) -> Tensors { return in[0].chunk(2); }),
      Case(
          "halves_of_a_leaf_and_a_sum",
          [] {
            return Tensors{leaf(0, {4, 2})};
          },
          [](Tensors in) -> Tensors {
            const Tensors halves = in[0].chunk(2);
            return {halves[0], halves[1], in[0].sum()};
          }),
      Case(
          "part_of_memory_of_an_input", [] { return Tensors{leaf(0, {4}).clone()}; },
          [](Tensors in) -> Tensors {
            return {in[0].as_strided({2, 2}, {1, 1})};
          }),
      Case("flattened_transposed_input_is_a_copy", Computed,
           [](Tensors in) -> Tensors { return {in[0].t().reshape({-1})}; }),
      Case("written_then_viewed", Computed,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             return {Flat(in[0])};
           }),
      Case(
          "two_of_three_written_views_returned",
          [] {
            return Tensors{leaf(0, {3}).clone(), leaf(1, {3}).clone(), leaf(2, {3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[2].mul_(3);
            return {in[1].view({3, 1}), in[2].view({1, 3})};
          }),
      Case(
          "moved_written_and_computed",
          [] {
            return Tensors{leaf(0, {2, 2}), leaf(1, {2, 2}).clone(), leaf(2, {2, 2}).clone(), leaf(3, {2, 2})};
          },
          [](Tensors in) -> Tensors {
            in[1].transpose_(1, 0);
            in[2].add_(1);
            return {in[3] + 1, in[1].diagonal(), in[0] + in[2]};
          }),
      Case("moved_input_and_views_of_both", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             return {in[1].view(in[1].sizes()), in[0].view(in[0].sizes())};
           }),
      Case("alias_before_a_write", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor t = in[0].detach();
             in[0].mul_(2);
             return {in[0], t};
           }),
      Case(
          "part_and_part_of_the_part",
          [] {
            return Tensors{leaf(0, {4, 3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor a = (in[0] * 2).slice(0, 1);
            return {a, a.select(0, 0)};
          }),
      Case("nothing_comes_out", Leaf, [](Tensors) -> Tensors { return {}; }),
      Case("input_returned_twice", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0], in[0]};
           }),
      Case("written_input_returned_twice", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0], in[0]};
           }),
      Case("view_of_input_returned_twice", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor v = in[0].t();
             return {v, v};
           }),
      Case("view_of_view_of_view", Leaf,
           [](Tensors in) -> Tensors { return {in[0].t().unsqueeze(0).select(1, 2).slice(1, 0, 1)}; }),
      Case("view_of_view_of_intermediate_and_base", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.t().select(0, 1), y.select(0, 1), y};
           }),
      Case("base_written_with_several_views_out", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor a = in[0].select(0, 1);
             const at::Tensor b = in[0].t();
             in[0].mul_(2);
             return {a, b, Flat(in[0]), in[0].sum()};
           }),
      Case("intermediate_written_with_several_views_out", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             const at::Tensor a = y.select(0, 1);
             const at::Tensor b = y.t();
             y.mul_(2);
             return {a, b, y};
           }),
      Case("view_of_intermediate_written", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             const at::Tensor a = y.select(0, 1);
             a.mul_(2);
             return {a, y};
           }),
      Case("two_views_of_intermediate_written", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             y.select(0, 1).mul_(2);
             y.select(1, 0).add_(1);
             return {y.t(), y};
           }),
      Case("constants_and_views_of_constants", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor ones = at::ones({2, 3});
             return {ones, ones.t(), in[0] * ones};
           }),
      Case("arange_and_view", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor r = at::arange(6, at::kFloat);
             return {r.view({2, 3}) * in[0], r};
           }),
      Case("zeros_like_written_and_returned", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor z = at::zeros_like(in[0]);
             z.select(0, 0).add_(in[0].select(0, 1));
             return {z};
           }),
      Case("unsafe_view_and_its_base", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {at::_unsafe_view(y, {6}), y};
           }),
      Case("split_with_sizes_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             return (in[0] * 2).split_with_sizes({1, 2}, 1);
           }),
      Case("stacked_and_unbound", TwoLeaves,
           [](Tensors in) -> Tensors {
             return at::stack({in[0], in[1]}).unbind(0);
           }),
      Case("topk_and_view_of_values", Leaf,
           [](Tensors in) -> Tensors {
             const auto [values, indices] = in[0].topk(2, 1);
             return {values, Flat(values), indices, Flat(indices)};
           }),
      Case("leaf_and_view_of_leaf_and_computed", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0], in[0].t(), in[0] * 2};
           }),
      Case(
          "swapaxes_and_movedim",
          [] {
            return Tensors{leaf(0, {2, 3, 4})};
          },
          [](Tensors in) -> Tensors {
            return {in[0].swapaxes(0, 2), (in[0] * 2).movedim(0, 1)};
          }),
      Case(
          "unflattened_input", [] { return Tensors{leaf(0, {6})}; },
          [](Tensors in) -> Tensors {
            return {in[0].unflatten(0, {2, 3}), in[0].sum()};
          }),
      Case("view_as_other", TwoLeaves,
           [](Tensors in) -> Tensors {
             return {Flat(in[0]).view_as(in[1]), in[1] * 2};
           }),
      Case(
          "narrowed_intermediates_that_overlap", [] { return Tensors{leaf(0, {6})}; },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.narrow(0, 0, 4), y.narrow(0, 2, 4)};
          }),
      Case("input_and_contiguous_of_transposed", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0].t().contiguous(), in[0].contiguous()};
           }),
      Case(
          "squeezed_and_unsqueezed",
          [] {
            return Tensors{leaf(0, {1, 3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.squeeze(), y.unsqueeze(0)};
          }),
      Case("positive_and_alias", Leaf,
           [](Tensors in) -> Tensors {
             return {at::positive(in[0]), at::alias(in[0]), in[0] * 2};
           }),
      Case("split_parts_of_a_computed_input_written", Computed,
           [](Tensors in) -> Tensors {
             const Tensors parts = in[0].split(2, 1);
             const at::Tensor sums = parts[0].sum() + parts[1].sum();
             in[0].mul_(2);
             return {sums, in[0] * 1};
           }),
  };
}

}  // namespace cotan::conformance
