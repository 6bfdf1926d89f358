// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors ComputedAndIndex() { return {leaf(0, {4, 3}).clone(), ints({0, 2}), leaf(1, {2, 3})}; }

}  // namespace

std::vector<ConfCase> OpCases() {
  return {
      Case(
          "one_of_three_is_left_alone",
          [] {
            return Tensors{leaf(0, {3}).clone(), leaf(1, {3}), leaf(2, {3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[2].mul_(2);
            return {in[0] + in[1] + in[2]};
          }),
      Case(
          "out_variant_writes_an_input",
          [] {
            return Tensors{buf(0, {2, 3}), buf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors { return {at::sin_out(in[1], in[0])}; }),
      Case("out_variant_writes_an_intermediate", Buffer,
           [](Tensors in) -> Tensors {
             at::Tensor y = at::empty({2, 3});
             at::mul_out(y, in[0], in[0]);
             return {y, y.t()};
           }),
      Case("out_variant_resizes_an_intermediate", Buffer,
           [](Tensors in) -> Tensors {
             at::Tensor y = at::empty({0});
             at::add_out(y, in[0], in[0]);
             return {y};
           }),
      Case(
          "out_variant_writes_a_view_of_an_input",
          [] {
            return Tensors{buf(0, {2, 3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            at::Tensor row = in[0].select(0, 1);
            at::exp_out(row, in[1]);
            return {in[0] * 2};
          }),
      Case("foreach_add_writes_two_inputs", TwoComputed,
           [](Tensors in) -> Tensors {
             at::_foreach_add_(in, 2);
             return {in[0] * in[1]};
           }),
      Case(
          "foreach_mul_by_a_list",
          [] {
            return Tensors{buf(0, {3}), buf(1, {2}), leaf(2, {3}), leaf(3, {2})};
          },
          [](Tensors in) -> Tensors {
            at::_foreach_mul_({in[0], in[1]}, {in[2], in[3]});
            return {in[0].sum() + in[1].sum()};
          }),
      Case("foreach_writes_rows_of_an_input", Computed,
           [](Tensors in) -> Tensors {
             at::_foreach_mul_({in[0].select(0, 0), in[0].select(0, 1)}, 3);
             return {in[0].sin()};
           }),
      Case("foreach_returns_new_tensors", TwoLeaves, [](Tensors in) -> Tensors { return at::_foreach_exp(in); }),
      Case(
          "foreach_sgd_step",
          [] {
            return Tensors{leaf(0, {3}), leaf(1, {2}), buf(2, {3}), buf(3, {2})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            at::_foreach_add_({in[0], in[1]}, {in[2], in[3]}, -0.5);
            return {};
          }),
      Case(
          "addcdiv_writes_an_input",
          [] {
            return Tensors{leaf(0, {3}).clone(), leaf(1, {3}), leaf(2, {3})};
          },
          [](Tensors in) -> Tensors { return {in[0].addcdiv_(in[1], in[2] * in[2] + 1, 0.5) * 2}; }),
      Case(
          "addmm_writes_an_input",
          [] {
            return Tensors{leaf(0, {2, 2}).clone(), leaf(1, {2, 3}), leaf(2, {3, 2})};
          },
          [](Tensors in) -> Tensors { return {in[0].addmm_(in[1], in[2]) * 2}; }),
      Case("buffer_returned_by_the_op_that_wrote_it", BufferAndLeaf,
           [](Tensors in) -> Tensors { return {in[0].add_(in[1])}; }),
      Case("overwritten_with_ones", Computed,
           [](Tensors in) -> Tensors {
             in[0].copy_(at::ones_like(in[0]));
             return {in[0].sum()};
           }),
      Case("first_row_is_zeroed", Computed,
           [](Tensors in) -> Tensors {
             in[0].select(0, 0).fill_(0);
             return {in[0].sum()};
           }),
      Case("rows_are_put_and_the_input_returned", ComputedAndIndex,
           [](Tensors in) -> Tensors { return {in[0].index_put_({in[1]}, in[2])}; }),
      Case(
          "rows_are_put_into_a_buffer",
          [] {
            return Tensors{buf(0, {4, 3}), ints({0, 2}), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors { return {in[0].index_put_({in[1]}, in[2])}; }),
      Case("rows_are_accumulated", ComputedAndIndex,
           [](Tensors in) -> Tensors { return {in[0].index_put_({in[1]}, in[2], /*accumulate=*/true) * 2}; }),
      Case("rows_are_added_by_index", ComputedAndIndex,
           [](Tensors in) -> Tensors { return {in[0].index_add_(0, in[1], in[2]) * 2}; }),
      Case("rows_are_copied_by_index", ComputedAndIndex,
           [](Tensors in) -> Tensors { return {in[0].index_copy_(0, in[1], in[2]) * 2}; }),
      Case("rows_are_filled_by_index", ComputedAndIndex,
           [](Tensors in) -> Tensors { return {in[0].index_fill_(0, in[1], 0.5) * 2}; }),
      Case(
          "scattered_into_an_input",
          [] {
            return Tensors{leaf(0, {2, 3}).clone(), ints({0, 1, 0}).view({1, 3}), leaf(1, {1, 3})};
          },
          [](Tensors in) -> Tensors { return {in[0].scatter_(0, in[1], in[2]) * 2}; }),
      Case("masked_fill_by_a_comparison", Computed,
           [](Tensors in) -> Tensors { return {in[0].masked_fill_(in[0] > 0, 0.25) * 2}; }),
      Case("relu_in_place_saves_its_result", Computed,
           [](Tensors in) -> Tensors {
             in[0].relu_();
             return {in[0] * in[0]};
           }),
      Case("exp_in_place_saves_its_result", Computed,
           [](Tensors in) -> Tensors {
             in[0].exp_();
             return {in[0] * 2};
           }),
      Case("sigmoid_of_a_view_in_place", Computed,
           [](Tensors in) -> Tensors {
             in[0].slice(1, 0, 2).sigmoid_();
             return {in[0].sum()};
           }),
      Case(
          "cumsum_in_place_of_a_transposed_input",
          [] {
            return Tensors{leaf(0, {3, 2}).clone().t()};
          },
          [](Tensors in) -> Tensors {
            return {in[0].cumsum_(1), in[0] * 2};
          }),
      Case("clamp_in_place", Computed, [](Tensors in) -> Tensors { return {in[0].clamp_(-0.5, 0.5).sum()}; }),
      Case("pow_in_place", Computed, [](Tensors in) -> Tensors { return {in[0].pow_(2).sum()}; }),
      Case(
          "lerp_in_place_of_a_detached_alias",
          [] {
            return Tensors{leaf(0, {4, 3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[1].detach().lerp_(in[0].detach().mean(0), 0.1);
            return {in[0] * in[1]};
          }),
      Case("triu_in_place", Square, [](Tensors in) -> Tensors { return {in[0].triu_().sum()}; }),
      Case("diagonal_is_filled", Square,
           [](Tensors in) -> Tensors {
             in[0].fill_diagonal_(2);
             return {in[0] * in[0]};
           }),
      Case("diagonal_view_is_written", Square,
           [](Tensors in) -> Tensors {
             in[0].diagonal().mul_(3);
             return {in[0].sin()};
           }),
      Case(
          "windows_are_read_and_their_source_written", [] { return Tensors{leaf(0, {6}).clone()}; },
          [](Tensors in) -> Tensors {
            const at::Tensor sums = in[0].unfold(0, 3, 1).sum(1);
            in[0].mul_(2);
            return {sums, in[0].unfold(0, 2, 2)};
          }),
      Case("sum_broadcast_into_an_input", Computed,
           [](Tensors in) -> Tensors {
             in[0].add_(in[0].sum(0));
             return {in[0] * 2};
           }),
      Case(
          "scalar_input_is_added",
          [] {
            return Tensors{leaf(0, {}).clone(), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(in[1].sum());
            return {in[0] * in[1]};
          }),
      Case("input_used_three_times", Leaf, [](Tensors in) -> Tensors { return {in[0] * in[0] + in[0].sin() * in[0]}; }),
      Case("normalized_in_place", Computed,
           [](Tensors in) -> Tensors {
             in[0].sub_(in[0].mean()).div_(in[0].detach().abs().sum() + 1);
             return {in[0] * 2};
           }),
      Case("softmax_written_back", Computed,
           [](Tensors in) -> Tensors {
             in[0].copy_(in[0].softmax(1));
             return {in[0].log()};
           }),
      Case(
          "narrowed_input_is_overwritten_by_its_other_half",
          [] {
            return Tensors{leaf(0, {4, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].narrow(0, 0, 2).copy_(in[0].narrow(0, 2, 2));
            return {in[0] * 2};
          }),
      Case(
          "copied_with_another_dtype",
          [] {
            return Tensors{buf(0, {3}, at::kDouble), leaf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[0].copy_(in[1]);
            return {in[0] * 2};
          }),
      Case(
          "copied_with_broadcasting",
          [] {
            return Tensors{leaf(0, {2, 3}).clone(), leaf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[0].copy_(in[1]);
            return {in[0] * 2};
          }),
      Case(
          "swapped_halves", [] { return Tensors{leaf(0, {6}).clone()}; },
          [](Tensors in) -> Tensors {
            const at::Tensor first = in[0].slice(0, 0, 3).clone();
            in[0].slice(0, 0, 3).copy_(in[0].slice(0, 3, 6));
            in[0].slice(0, 3, 6).copy_(first);
            return {in[0] * in[0]};
          }),
      Case("constants_made_inside", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor c = at::tensor({1.0, 2.0, 3.0}, at::kFloat);
             return {in[0] * c, c};
           }),
      Case("indices_made_inside", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0].index_select(1, at::tensor({2, 0}, at::kLong))};
           }),
      Case("constant_scalar_made_inside", Leaf, [](Tensors in) -> Tensors { return {in[0] * at::tensor(2.5)}; }),
      Case("constant_made_inside_and_written", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor c = at::tensor({1.0, 2.0, 3.0}, at::kFloat);
             c.mul_(in[0].detach().select(0, 0));
             return {in[0] * c};
           }),
      Case("constant_zeros_made_inside", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0] + at::tensor({0.0, 0.0, 0.0}, at::kFloat)};
           }),
      Case("empty_memory_filled", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = at::empty({2, 3});
             y.fill_(2);
             return {in[0] * y};
           }),
      Case("empty_memory_copied_into", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = at::empty({2, 3});
             y.copy_(in[0]);
             return {y * 2, y};
           }),
  };
}

}  // namespace cotan::conformance
