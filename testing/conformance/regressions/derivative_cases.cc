// SPDX-License-Identifier: Apache-2.0

#include <torch/csrc/autograd/autograd.h>

#include <utility>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

using Sizes = at::IntArrayRef;

// Returns a function that makes one leaf for each list of sizes.
std::function<Tensors()> Leaves(std::vector<std::vector<int64_t>> sizes) {
  return [sizes = std::move(sizes)] {
    Tensors leaves;
    for (const std::vector<int64_t>& one : sizes) leaves.push_back(leaf(static_cast<int64_t>(leaves.size()), one));
    return leaves;
  };
}

// Gradients that are zero for all tangents: defined if a tangent is defined.
std::vector<ConfCase> ZeroGradientCases() {
  return {
      LossOf({0}, Case("zeroed_next_to_another_result", Leaf,
                       [](Tensors in) -> Tensors {
                         return {(in[0] * 2).zero_(), in[0] * 3};
                       })),
      LossOf({1}, Case("zeroed_and_not_asked_for", Leaf,
                       [](Tensors in) -> Tensors {
                         return {(in[0] * 2).zero_(), in[0] * 3};
                       })),
      LossOf({1}, Case("zeroed_and_not_asked_for_next_to_a_stranger", TwoLeaves,
                       [](Tensors in) -> Tensors {
                         return {(in[0] * 2).zero_(), in[1] * 3};
                       })),
      LossOf({0}, Case("filled_with_a_leaf_next_to_another_result", TwoLeaves,
                       [](Tensors in) -> Tensors {
                         return {(in[0] * 2).fill_(in[1].sum()), in[0] * 3};
                       })),
      LossOf({0}, Random(Case("drawn_anew_next_to_another_result", Leaf,
                              [](Tensors in) -> Tensors {
                                return {(in[0] * 2).normal_(), in[0] * 3};
                              }))),
      LossOf({0}, Case("floor_next_to_another_result", Leaf,
                       [](Tensors in) -> Tensors {
                         return {in[0].floor(), in[0] * 3};
                       })),
      LossOf({0}, Case("copied_over_next_to_another_result", TwoLeaves,
                       [](Tensors in) -> Tensors {
                         return {(in[0] * 2).copy_(in[1]), in[0] * 3};
                       })),
      Case("cut_from_its_history_and_written_with_another", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].detach_();
             in[0].copy_(in[1]);
             return {};
           }),
      Case("written_with_another_and_read", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].copy_(in[1]);
             return {in[0] * 2};
           }),
      Case(
          "zeroed_while_a_detached_alias_is_zeroed",
          [] {
            const at::Tensor x = leaf(0, {6});
            return Tensors{x.detach(), x};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[1] * 0.5;
            in[0].zero_();
            return {y.zero_()};
          }),
  };
}

// Returns the gradient of a scalar; it can be differentiated if `create_graph`.
at::Tensor GradientOf(const at::Tensor& scalar, const at::Tensor& x, bool create_graph) {
  return torch::autograd::grad({scalar}, {x}, {}, /*retain_graph=*/std::nullopt, create_graph)[0];
}

// Cases by saved values and rematerialization.
std::vector<ConfCase> KeptCases() {
  return {
      Case("cosines_of_cosines", Leaf, [](Tensors in) -> Tensors { return {in[0].cos().cos().cos()}; }),
      Case("cosines_of_a_sum_of_four", Leaves({{4}, {4}, {4}, {4}}),
           [](Tensors in) -> Tensors { return {(in[0] + in[1] + in[2] + in[3]).cos().cos()}; }),
      Case("rows_summed", Leaf, [](Tensors in) -> Tensors { return {in[0].sum(1)}; }),
      Case("stretched_and_joined", Leaves({{4}, {3, 4}, {2, 4}}),
           [](Tensors in) -> Tensors {
             return {at::cat({in[0].expand(Sizes({5, 4})), in[1], in[2]})};
           }),
      Case("joined_multiplied_and_viewed", Leaves({{12}, {3, 4}, {2, 4}, {4, 6}}),
           [](Tensors in) -> Tensors {
             const at::Tensor joined = at::cat({in[0].view(Sizes({3, 4})), in[1], in[2]});
             return {at::mm(at::mm(joined, in[3]), in[3].t()), in[2], in[1].view(Sizes({2, 6}))};
           }),
      Case("layer_normalized", Leaves({{3, 4}, {4}, {4}}),
           [](Tensors in) -> Tensors { return {at::layer_norm(in[0], {4}, in[1], in[2])}; }),
      Case("two_layers", Leaves({{2, 3}, {3, 4}, {4, 2}}),
           [](Tensors in) -> Tensors { return {at::relu(in[0].mm(in[1])).mm(in[2])}; }),
      Case("softmax_of_rows", Leaf, [](Tensors in) -> Tensors { return {in[0].softmax(1)}; }),
      Case("negative_elements_kept", Leaf, [](Tensors in) -> Tensors { return {(in[0] < 0) * in[0]}; }),
      Case("tanh_joined", TwoLeaves,
           [](Tensors in) -> Tensors {
             return {at::cat({in[0].tanh(), in[1]})};
           }),
      Case("outer_product_cosines_summed", Leaves({{6, 1}, {1, 6}}),
           [](Tensors in) -> Tensors { return {(in[0] * in[1]).cos().sum(1)}; }),
      Case("row_masked_in_place", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor row = in[0].select(0, 0);
             row.masked_fill_(at::ones({3}, at::kBool), 0);
             return {row};
           }),
      Case("expanded_to_its_own_sizes", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0].expand(in[0].sizes()), in[0].sin()};
           }),
      Case("gelu_of_a_product", Leaves({{2, 3}, {3, 4}}),
           [](Tensors in) -> Tensors { return {at::gelu(in[0].mm(in[1]))}; }),
      Case("sum_of_sines", Leaf, [](Tensors in) -> Tensors { return {in[0].sin().sum()}; }),
      Case(
          "rows_looked_up",
          [] {
            return Tensors{leaf(0, {5, 3}), ints({4, 0, 4, 1})};
          },
          [](Tensors in) -> Tensors { return {at::embedding(in[0], in[1])}; }),
      Case("convolved", Leaves({{1, 2, 5, 5}, {3, 2, 3, 3}}),
           [](Tensors in) -> Tensors { return {at::conv2d(in[0], in[1])}; }),
      Case("attended", Leaves({{1, 2, 4, 8}, {1, 2, 4, 8}, {1, 2, 4, 8}}),
           [](Tensors in) -> Tensors { return {at::scaled_dot_product_attention(in[0], in[1], in[2])}; }),
      Case(
          "written_buffer_as_a_factor",
          [] {
            return Tensors{leaf(0, {3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[1].add_(1);
            return {in[0] * in[1]};
          }),
      Case(
          "cross_entropy_of_rows",
          [] {
            return Tensors{leaf(0, {4, 3}), ints({2, 0, 1, 1})};
          },
          [](Tensors in) -> Tensors { return {at::cross_entropy_loss(in[0], in[1])}; }),
      Case("a_sum_is_added", TwoLeaves, [](Tensors in) -> Tensors { return {in[0] + in[1].sum()}; }),
      Case("relu_kept_by_its_result", Leaf, [](Tensors in) -> Tensors { return {in[0].relu()}; }),
      Case("product_with_a_parameter", Leaves({{2, 3}, {3, 3}}),
           [](Tensors in) -> Tensors { return {in[0].mm(in[1])}; }),
      Case("relu_and_a_parameter", TwoLeaves, [](Tensors in) -> Tensors { return {in[0].relu() + in[1]}; }),
      Case("view_times_itself_and_relu", Leaves({{3, 2}, {2, 2}}),
           [](Tensors in) -> Tensors {
             return {in[0].view(Sizes({2, 3})).mm(in[0]) + in[1].relu()};
           }),
      Case("kept_value_is_a_result", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor e = in[0].exp();
             return {e, e * 2};
           }),
  };
}

// Gradients inside the function.
std::vector<ConfCase> InnerGradientCases() {
  return {
      Case("gradient_as_a_result", Leaf,
           [](Tensors in) -> Tensors { return {GradientOf(in[0].exp().sum(), in[0], false)}; }),
      Case("gradient_is_differentiated", Leaf,
           [](Tensors in) -> Tensors { return {GradientOf(in[0].exp().sum(), in[0], true).cos()}; }),
      Case("gradient_next_to_its_scalar", Leaves({{4, 3}, {3, 2}}),
           [](Tensors in) -> Tensors {
             const at::Tensor energy = in[0].mm(in[1]).tanh().sum();
             return {energy, -GradientOf(energy, in[0], true)};
           }),
      Case("gradient_of_a_written_input", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {GradientOf((in[0] * in[0]).sum(), in[0], true)};
           }),
  };
}

std::vector<ConfCase> FormCases() {
  return {
      Case(
          "number_without_dimensions_squared", [] { return Tensors{leaf(0, {})}; },
          [](Tensors in) -> Tensors { return {in[0] * in[0]}; }),
      Case(
          "no_rows_summed",
          [] {
            return Tensors{leaf(0, {0, 3})};
          },
          [](Tensors in) -> Tensors { return {in[0].sum(0)}; }),
      Case(
          "one_column_summed",
          [] {
            return Tensors{leaf(0, {4, 1})};
          },
          [](Tensors in) -> Tensors { return {in[0].sum(0)}; }),
      Case("brain_floats_multiplied", Leaves({{2, 3}, {3, 4}}),
           [](Tensors in) -> Tensors { return {in[0].to(at::kBFloat16).mm(in[1].to(at::kBFloat16)).to(at::kFloat)}; }),
      Case("matrices_by_einsum", Leaves({{2, 3}, {3, 4}}),
           [](Tensors in) -> Tensors {
             return {at::einsum("ij,jk->ik", {in[0], in[1]})};
           }),
      Case("largest_sorted_and_first", Leaf,
           [](Tensors in) -> Tensors {
             const auto [sorted, order] = in[0].sort(1);
             const auto [top, where] = in[0].topk(2, 1);
             return {in[0].argmax(1), sorted, order, top, where};
           }),
      Case("negative_elements_are_set", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 1;
             y.index_put_({y < 0}, at::zeros({}));
             return {at::where(in[0] > 0, y, in[0] * 2)};
           }),
      Case(
          "masked_columns_get_a_row_and_a_number",
          [] {
            return Tensors{leaf(0, {3, 4}), buf(1, {3, 1}), buf(2, {})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor mask = at::remainder(at::arange(4), 2) == 1;
            const at::Tensor y = in[0] * 2;
            y.index_put_({std::nullopt, mask}, in[1]);
            return {y, in[0].index_put({in[0] > 0}, in[2], /*accumulate=*/true)};
          }),
      Case("rows_of_an_intermediate_written_in_turn", Square,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 1;
             y.select(0, 0).mul_(2);
             y.select(0, 1).add_(y.select(0, 0));
             y.select(0, 2).copy_(y.select(0, 1));
             return {y};
           }),
      Case("cell_of_a_recurrent_layer", Leaves({{2, 3}, {2, 4}, {2, 4}, {16, 3}, {16, 4}, {16}, {16}}),
           [](Tensors in) -> Tensors {
             const auto [h, c] = at::lstm_cell(in[0], {in[1], in[2]}, in[3], in[4], in[5], in[6]);
             return {h, c};
           }),
      Case("scaled_by_a_number", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0] * 2.5, in[0].sin()};
           }),
      Case(
          "mean_of_a_detached_input_copied",
          [] {
            return Tensors{leaf(0, {4, 3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[1].copy_(in[0].detach().mean(0));
            return {in[0] - in[1]};
          }),
      Case("view_and_written_base_after_it", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor base = in[0] * 3;
             const at::Tensor view = Flat(base);
             base.mul_(2);
             return {view, base};
           }),
  };
}

}  // namespace

std::vector<ConfCase> DerivativeCases() {
  std::vector<ConfCase> cases = KeptCases();
  for (const std::vector<ConfCase>& more : {InnerGradientCases(), FormCases(), ZeroGradientCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace cotan::conformance
