// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {

std::vector<ConfCase> StorageCases() {
  return {
      Case(
          "written_and_set_to_the_memory_that_it_has_already",
          [] {
            const at::Tensor b = buf(0, {2, 3});
            return Tensors{b.detach(), b};
          },
          [](Tensors in) -> Tensors {
            in[0].fill_(-1);
            in[0].set_(in[1]);
            return {in[1] * 2};
          }),
      Case(
          "part_written_and_set_to_what_has_moved",
          [] {
            const at::Tensor b = buf(0, {2, 2});
            return Tensors{b.diagonal().detach(), b};
          },
          [](Tensors in) -> Tensors {
            in[1].as_strided_({}, {}, 3);
            in[0].fill_(-1);
            in[0].set_(in[1]);
            return {in[0], in[0] * 2};
          }),
      Case(
          "written_and_set_to_another_buffer",
          [] {
            return Tensors{buf(0, {2, 3}), buf(1, {2, 3}), buf(2, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].fill_(-1);
            const at::Tensor written = in[0] + in[2];
            in[0].set_(in[1]);
            at::Tensor y = in[2].clone();
            y.mul_(in[0]);
            return {written, y};
          }),
      Case(
          "storage_set_there_and_back",
          [] {
            return Tensors{buf(0, {2, 3}), buf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor old = in[0].detach();
            in[0].set_(in[1]);
            in[0].set_(old);
            return {in[0] + 1};
          }),
      Case("storage_set_of_intermediates", Leaf,
           [](Tensors in) -> Tensors {
             const at::NoGradGuard no_grad;
             at::Tensor a = at::zeros({2, 3});
             a.set_(at::ones({2, 3}));
             return {a, in[0] * a};
           }),
      Case(
          "resized_to_the_same_number",
          [] {
            return Tensors{buf(0, {2, 2})};
          },
          [](Tensors in) -> Tensors {
            in[0].resize_({4});
            return {in[0] + 1};
          }),
      Case(
          "resized_and_returned", [] { return Tensors{buf(0, {6})}; },
          [](Tensors in) -> Tensors {
            in[0].resize_({2, 2});
            return {in[0]};
          }),
      Case(
          "intermediate_resized", [] { return Tensors{buf(0, {6})}; },
          [](Tensors in) -> Tensors {
            at::Tensor y = in[0] * 2;
            y.resize_({2, 2});
            return {y, y + 1};
          }),
      Case(
          "as_strided_in_place",
          [] {
            return Tensors{buf(0, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].as_strided_({3, 2}, {2, 1});
            return {in[0] * 2};
          }),
      Case(
          "swapped_dimensions_in_place",
          [] {
            return Tensors{leaf(0, {2, 3, 2}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].swapdims_(0, 1);
            return {in[0].sum(0)};
          }),
      Case("unsqueezed_and_returned", Computed,
           [](Tensors in) -> Tensors {
             in[0].unsqueeze_(0);
             return {in[0]};
           }),
      Case("transposed_twice", Computed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[0].t_();
             return {in[0] * 2};
           }),
      Case("transposed_once_and_used_before", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor before = in[0] * 2;
             in[0].t_();
             return {before, in[0] * 3};
           }),
      Case(
          "transposed_view_of_caller_without_gradients",
          [] {
            return Tensors{leaf(0, {3, 2}).t()};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor before = in[0] * 2;
            {
              const at::NoGradGuard no_grad;
              in[0].t_();
            }
            return {before, in[0] * 3};
          }),
      Case(
          "written_and_transposed_view_of_caller_without_gradients",
          [] {
            return Tensors{leaf(0, {3, 2}).clone().t()};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            {
              const at::NoGradGuard no_grad;
              in[0].t_();
            }
            return {in[0] * 3};
          }),
      Case("leaf_used_and_then_unsqueezed_without_gradients", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor before = in[0] * 2;
             {
               const at::NoGradGuard no_grad;
               in[0].unsqueeze_(0);
             }
             return {before};
           }),
      Case("written_without_gradients_and_transposed", Square,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].mul_(2);
             }
             in[0].t_();
             return {};
           }),
      Case("moved_input_and_its_old_view", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor v = in[0].select(0, 0);
             in[0].t_();
             v.mul_(2);
             return {in[0] * 1, v};
           }),
      Case("intermediate_moved_and_viewed", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 2;
             y.t_();
             y.unsqueeze_(1);
             return {y.select(1, 0), y.sum()};
           }),
      Case("detached_and_moved_alias_of_leaf", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor d = in[0].detach();
             d.t_();
             return {d, in[0] * 2};
           }),
      Case("data_of_an_intermediate_replaced", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 2;
             at::Tensor z = y.detach();
             z.set_(at::ones({2, 3}));
             return {y, z};
           }),
      Case(
          "multiplied_and_unsqueezed",
          [] {
            return Tensors{leaf(0, {3, 3}).clone(), leaf(1, {3, 1})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(in[1]);
            in[0].unsqueeze_(1);
            return {};
          }),
      Case("moved_and_made_another_shape", Square,
           [](Tensors in) -> Tensors {
             in[0].as_strided_({3}, {3}, 1);
             return {in[0].reshape({-1}) * 2, in[0].reshape({3, 1})};
           }),
      Case(
          "conjugate_and_bits_of_an_input_that_moves",
          [] {
            return Tensors{leaf(0, {2, 2}, at::kComplexFloat).clone(), leaf(1, {1, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor row = in[0].select(0, 1);
            const at::Tensor bits = in[1].view(at::kInt);
            in[0].t_();
            in[1].squeeze_();
            return {row.conj(), bits};
          }),
      Case(
          "row_with_a_stride_of_no_meaning", [] { return Tensors{leaf(0, {6}).clone().unsqueeze(0).t()}; },
          [](Tensors in) -> Tensors {
            in[0].sin_();
            return {in[0].add(1)};
          }),
      Case(
          "view_of_computed_input_that_leaves_elements_out", [] { return Tensors{leaf(0, {4}).clone().unsqueeze(0)}; },
          [](Tensors in) -> Tensors {
            const at::Tensor row = in[0].select(0, 0);
            in[0].as_strided_({3}, {1}, 0);
            return {row};
          }),
      Case(
          "view_of_clone_that_leaves_elements_out",
          [] {
            return Tensors{leaf(0, {2, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor columns = in[0].t();
            in[0].as_strided_({2}, {1}, 1);
            return {columns, in[0] * 2};
          }),
      Case(
          "one_element_of_a_column",
          [] {
            return Tensors{leaf(0, {2, 3}).clone().select(1, 1)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(in[0].sum());
            return {in[0].slice(0, 0, 1).clone()};
          }),
  };
}

}  // namespace cotan::conformance
