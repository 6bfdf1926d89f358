// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/harness/custom_functions.h"
#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {

std::vector<ConfCase> MutationCases() {
  const auto no_grad = [](auto write) {
    const at::NoGradGuard guard;
    write();
  };
  return {
      Case("data_without_gradient_then_transposed", Computed,
           [no_grad](Tensors in) -> Tensors {
             no_grad([&] { in[0].add_(1); });
             in[0].t_();
             return {in[0] * 2};
           }),
      Case(
          "transposed_without_gradient",
          [] {
            return Tensors{leaf(0, {3, 3}).clone()};
          },
          [no_grad](Tensors in) -> Tensors {
            no_grad([&] { in[0].t_(); });
            return {in[0].sum()};
          }),
      Case("leaf_unsqueezed_without_gradient", Leaf,
           [no_grad](Tensors in) -> Tensors {
             no_grad([&] { in[0].unsqueeze_(1); });
             return {in[0] * 2};
           }),
      Case("unsqueezed_then_written_without_gradient", Computed,
           [no_grad](Tensors in) -> Tensors {
             in[0].unsqueeze_(0);
             no_grad([&] { in[0].mul_(2); });
             return {in[0] + 1};
           }),
      Case(
          "base_written_and_transposed_next_to_its_view",
          [] {
            const at::Tensor b = leaf(0, {3, 2}).clone();
            return Tensors{b.select(0, 1), b};
          },
          [](Tensors in) -> Tensors {
            in[1].sin_();
            in[1].unsqueeze_(1);
            return {in[0] * 2};
          }),
      Case(
          "view_transposed_then_written",
          [] {
            const at::Tensor b = leaf(0, {3, 2}).clone();
            return Tensors{b.view({3, 2}), b};
          },
          [](Tensors in) -> Tensors {
            in[0].t_();
            in[0].sin_();
            return {in[1] * 2};
          }),
      Case(
          "detached_alias_of_a_view_of_a_leaf_written",
          [] {
            return Tensors{Flat(leaf(0, {2, 3}))};
          },
          [](Tensors in) -> Tensors {
            in[0].detach().add_(-1);
            return {in[0] * 2};
          }),
      Case("custom_function_writes_twice", Computed,
           [](Tensors in) -> Tensors { return {custom_dirty(custom_dirty(in[0])) * 2}; }),
      Case("custom_function_writes_and_input_is_viewed", Computed,
           [](Tensors in) -> Tensors {
             custom_dirty(in[0]);
             return {in[0].t(), in[0].sum()};
           }),
      Case("intermediate_written_with_itself_and_dropped", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0].clone();
             y.mul_(y);
             return {in[0] * 2};
           }),
  };
}

std::vector<ConfCase> SequenceCases() {
  return {
      Case("transposed_row_written_and_viewed", Computed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[0].select(0, 0).mul_(2);
             return {in[0].view(in[0].sizes())};
           }),
      Case("written_in_three_ways", Computed,
           [](Tensors in) -> Tensors {
             in[0].detach().mul_(2);
             in[0].mul_(3);
             {
               const at::NoGradGuard guard;
               in[0].mul_(0.5);
             }
             return {in[0] + 5};
           }),
      Case("leaf_written_through_a_view_without_gradient", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor flat = Flat(in[0]);
             {
               const at::NoGradGuard guard;
               flat.mul_(2);
             }
             return {in[0] + 1};
           }),
      Case(
          "every_other_element_written", [] { return Tensors{leaf(0, {6}).clone().slice(0, 0, 6, 2)}; },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {};
          }),
      Case("zeroed_then_written", Computed,
           [](Tensors in) -> Tensors {
             in[0].zero_();
             in[0].add_(1);
             return {in[0] * 2};
           }),
      Case(
          "element_of_an_expansion_written", [] { return Tensors{buf(0, {6})}; },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0].expand(at::IntArrayRef({3, 6}));
            y.select(0, 0).select(0, 0).add_(5);
            return {y};
          }),
      Case(
          "element_of_an_expansion_written_and_used",
          [] {
            return Tensors{buf(0, {6}), leaf(1, {3, 6})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0].expand(at::IntArrayRef({3, 6}));
            y.select(0, 1).select(0, 1).mul_(5);
            return {y * in[1]};
          }),
      Case(
          "squeezed_then_written",
          [] {
            return Tensors{buf(0, {1, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].squeeze_();
            in[0].mul_(3);
            return {in[0].sum()};
          }),
      Case("written_and_result_detached", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {(in[0] + 1).detach()};
           }),
      Case("parts_of_a_computed_input", Computed, [](Tensors in) -> Tensors { return in[0].unbind(0); }),
      Case("parts_and_a_view_of_an_input", Computed,
           [](Tensors in) -> Tensors {
             Tensors parts = in[0].unbind(0);
             return {parts[0], parts[1], in[0].view(in[0].sizes())};
           }),
      Case("parts_base_and_view_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             Tensors parts = y.unbind(0);
             return {parts[0], parts[1], y, y.view(y.sizes())};
           }),
      Case("views_of_two_intermediates", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor a = in[0] * 3;
             const at::Tensor b = in[0] * 4;
             return {Flat(a), b.t(), a.t()};
           }),
      Case("intermediate_transposed_and_detached_in_place", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 3;
             y.t_();
             y.detach_();
             return {y, in[0] + 1};
           }),
      Case("detached_row_and_view_of_one_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             return {Flat(y), y, y.select(0, 0).detach()};
           }),
      Case(
          "transposed_input_and_views_of_its_double",
          [] {
            return Tensors{leaf(0, {1, 2, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].transpose_(1, 0);
            const at::Tensor t = in[0] * 2;
            return {t.squeeze(), t.transpose(1, 0), in[0].unsqueeze(0)};
          }),
      Case("custom_scale_of_an_intermediate_viewed", Leaf,
           [](Tensors in) -> Tensors { return {Flat(custom_scale(in[0] * 2))}; }),
      Case("detached_view_of_a_view_of_what_is_written", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             const at::Tensor t = in[0].t();
             return {t, t.select(0, 0).detach()};
           }),
      Case("view_without_gradient_next_to_a_sum", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             at::Tensor v;
             {
               const at::NoGradGuard guard;
               v = Flat(y);
             }
             return {y.sum(), v};
           }),
      Case(
          "three_inputs_written_moved_and_viewed",
          [] {
            return Tensors{leaf(0, {2, 3}).clone(), leaf(1, {2, 3}).clone(), leaf(2, {2, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[1].mul_(3);
            in[2].t_();
            return {Flat(in[0]), Flat(in[1]), in[2].t()};
          }),
  };
}

std::vector<ConfCase> SharedInputCases() {
  return {
      Case(
          "two_groups_with_moved_views",
          [] {
            const at::Tensor p = leaf(0, {4}).clone();
            const at::Tensor q = leaf(1, {4}).clone();
            return Tensors{p.slice(0, 0, 3), q.slice(0, 0, 3), p.slice(0, 1, 4), q.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            in[1].add_(1);
            in[3].unsqueeze_(0);
            return {in[0] + in[2] + in[3], Flat(in[1])};
          }),
      Case(
          "merged_pair_and_a_transposed_input",
          [] {
            const at::Tensor p = leaf(0, {6}).clone();
            return Tensors{p.slice(0, 0, 4), leaf(1, {2, 2}).clone(), p.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(2);
            in[1].t_();
            const at::Tensor t = in[0] + in[2];
            const at::Tensor o = t.view(at::IntArrayRef({2, 2}));
            return {o, in[1].t(), o.unsqueeze(0)};
          }),
      Case(
          "view_of_the_second_of_two_merged_inputs",
          [] {
            const at::Tensor b = buf(0, {4, 3});
            return Tensors{b, b.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(100);
            return {in[1].select(0, 0), Flat(in[1])};
          }),
      Case(
          "two_merged_inputs_both_written",
          [] {
            const at::Tensor b = leaf(0, {6}).clone();
            return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[1].mul_(3);
            return {in[0] * in[1]};
          }),
      Case(
          "same_tensor_transposed_and_unsqueezed",
          [] {
            const at::Tensor b = leaf(0, {2, 2}).clone();
            return Tensors{b, b};
          },
          [](Tensors in) -> Tensors {
            in[0].t_();
            in[1].unsqueeze_(0);
            return {in[0] + in[1]};
          }),
      Case(
          "same_tensor_truncated_twice",
          [] {
            const at::Tensor b = leaf(0, {3}).clone();
            return Tensors{b, b};
          },
          [](Tensors in) -> Tensors { return {in[0].trunc_() + in[1].trunc_()}; }),
  };
}

}  // namespace cotan::conformance
