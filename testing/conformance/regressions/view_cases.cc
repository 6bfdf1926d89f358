// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/custom_functions.h"
#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

at::Tensor NewLeaf() { return at::full({2, 3}, 2.0).requires_grad_(true); }

}  // namespace

std::vector<ConfCase> RequiresGradCases() {
  return {
      Case("new_leaf_is_returned", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor w = NewLeaf();
             return {w, in[0] * w};
           }),
      Case("new_leaf_next_to_a_leaf", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor w = NewLeaf();
             return {in[0] * w, w, w * 2};
           }),
      Case("buffer_is_written_with_a_new_leaf", Buffer,
           [](Tensors in) -> Tensors {
             in[0].mul_(NewLeaf());
             return {in[0] + 1};
           }),
      Case("views_of_what_a_new_leaf_gave", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * NewLeaf();
             return {y.t(), Flat(y)};
           }),
      Case("input_requires_grad_after_use", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             in[0].requires_grad_(true);
             return {y, in[0] * 3};
           }),
      Case(
          "input_requires_grad_next_to_a_leaf",
          [] {
            return Tensors{buf(0, {2, 3}), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].requires_grad_(true);
            return {in[0] * 3, in[1] * in[0]};
          }),
      Case("input_requires_grad_after_a_write", Buffer,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[0].requires_grad_(true);
             return {in[0] * 2, in[0]};
           }),
      Case(
          "one_of_two_that_are_one_requires_grad_now",
          [] {
            const at::Tensor x = buf(0, {2, 3});
            return Tensors{x, x, leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].requires_grad_(true);
            return {in[1] * 2, in[0] * in[2]};
          }),
      Case("view_of_input_that_requires_grad_now", Buffer,
           [](Tensors in) -> Tensors {
             in[0].requires_grad_(true);
             return {in[0].t(), in[0].sum()};
           }),
  };
}

std::vector<ConfCase> ViewCases() {
  return {
      Case("parts_and_a_view_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             Tensors parts = y.unbind(0);
             return {parts[0], parts[1], y.view(y.sizes())};
           }),
      Case("parts_of_a_buffer_s_intermediate", Buffer, [](Tensors in) -> Tensors { return (in[0] * 2).split(1, 0); }),
      Case("overlapping_parts_without_gradient", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = Flat(in[0] * 2);
             return {y.slice(0, 0, 4), y.slice(0, 2, 6)};
           }),
      Case("view_returned_twice", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = (in[0] + 1).t();
             return {y, y};
           }),
      Case(
          "view_of_permuted_intermediate_returned_twice",
          [] {
            return Tensors{leaf(0, {2, 3}).t()};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * in[0];
            const at::Tensor v = y.view(y.sizes());
            return {v, v};
          }),
      Case(
          "windows_of_an_intermediate", [] { return Tensors{leaf(0, {6})}; },
          [](Tensors in) -> Tensors { return {(in[0] * 2).unfold(0, 3, 1)}; }),
      Case(
          "windows_without_gradient_next_to_their_base", [] { return Tensors{buf(0, {6})}; },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.unfold(0, 3, 1), y};
          }),
      Case("scalar_next_to_its_expansion", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].sum();
             return {y.expand(at::IntArrayRef({3})), y};
           }),
      Case("view_of_a_detached_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor d = y.detach();
             return {y, Flat(d), d.t()};
           }),
      Case("detached_alias_written_with_its_source", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor d = in[0].detach();
             d.mul_(in[0]);
             return {d, d * 2};
           }),
      Case("view_of_detached_alias_written_with_its_source", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor d = in[0].detach();
             at::Tensor row = d.select(0, 1);
             row.mul_(in[0].select(0, 0));
             return {row};
           }),
      Case("detached_alias_unsqueezed", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor d = in[0].detach();
             d.unsqueeze_(1);
             return {d, in[0] * 2};
           }),
      Case("view_made_before_its_base_is_transposed", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 2;
             const at::Tensor column = y.select(1, 2);
             const at::Tensor flat = Flat(y);
             y.t_();
             return {column.sin(), flat.sum(), y.sin()};
           }),
      Case("custom_view_of_an_input", Leaf,
           [](Tensors in) -> Tensors {
             return {custom_view(in[0]), in[0] * 2};
           }),
  };
}

std::vector<ConfCase> ConjugateCases() {
  return {
      Case("conjugate_of_an_intermediate", Complex, [](Tensors in) -> Tensors { return {(in[0] * 2).conj()}; }),
      Case("conjugate_next_to_its_intermediate", Complex,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.conj()};
           }),
      Case("conjugate_of_a_buffer", ComplexBuffer,
           [](Tensors in) -> Tensors {
             return {in[0].conj(), in[0] * 2};
           }),
      Case("part_of_a_conjugate", Complex, [](Tensors in) -> Tensors { return {in[0].conj().slice(0, 1, 3)}; }),
      Case("conjugate_of_a_conjugate", Complex, [](Tensors in) -> Tensors { return {in[0].conj().conj()}; }),
      Case(
          "conjugate_of_what_is_written", [] { return Tensors{leaf(0, {3}, at::kComplexFloat).clone()}; },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0].conj(), in[0] * in[0]};
          }),
      Case(
          "conjugate_as_an_argument", [] { return Tensors{leaf(0, {3}, at::kComplexFloat).conj()}; },
          [](Tensors in) -> Tensors {
            return {in[0] * in[0], in[0].slice(0, 1, 3)};
          }),
      Case(
          "pairs_written_as_conjugates",
          [] {
            return Tensors{leaf(0, {3, 2}).clone()};
          },
          [](Tensors in) -> Tensors {
            at::view_as_complex(in[0]).conj().sigmoid_();
            return {in[0] * in[0]};
          }),
      Case(
          "pairs_of_a_result_written_as_conjugates",
          [] {
            return Tensors{leaf(0, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            const at::Tensor z = at::view_as_complex(y);
            z.slice(0, 1, 3).conj().mul_(z.slice(0, 0, 2));
            return {y, z.conj()};
          }),
  };
}

std::vector<ConfCase> NumberCases() {
  return {
      Case("none_comes_first", Leaf,
           [](Tensors in) -> Tensors {
             return {at::Tensor(), in[0] * 2};
           }),
      Case("numbers_between_tensors", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0], number_output(3), in[0].t(), number_output(true), at::Tensor(), number_output(0.5)};
           }),
  };
}

}  // namespace cotan::conformance
