// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors Rows() { return {leaf(0, {4, 3})}; }
Tensors RowsComputed() { return {leaf(0, {4, 3}).clone()}; }
Tensors RowsBuffer() { return {buf(0, {4, 3})}; }

}  // namespace

std::vector<ConfCase> IntermediateAliasCases() {
  return {
      Case("inner_two_transposed_views", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.t(), y.t()};
           }),
      Case("inner_view_then_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.t(), y};
           }),
      Case("inner_view_of_view_and_view", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.slice(0, 1, 3);
             return {v, v.t(), v.t().select(0, 1)};
           }),
      Case("inner_noop_views", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.view_as(y), y.alias()};
           }),
      Case("inner_noop_views_of_buffer", RowsBuffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.view_as(y)};
           }),
      Case("inner_noop_view_first_of_buffer", RowsBuffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.view_as(y), y};
           }),
      Case("inner_noop_view_of_integers", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].argmax(1);
             return {y, y.view_as(y), in[0] * 2};
           }),
      Case("inner_noop_view_without_gradient", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y;
             at::Tensor v;
             {
               at::NoGradGuard guard;
               y = in[0] * 2;
               v = y.view_as(y);
             }
             return {y, v, in[0] + 1};
           }),
      Case("inner_transposed_without_gradient_and_base", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             at::Tensor v;
             {
               at::NoGradGuard guard;
               v = y.t();
             }
             return {y, v};
           }),
      Case("inner_view_without_gradient_alone", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             at::Tensor v;
             {
               at::NoGradGuard guard;
               v = y.t();
             }
             return {v, in[0] + 1};
           }),
      Case("inner_chunks", Rows, [](Tensors in) -> Tensors { return (in[0] * 2).chunk(2); }),
      Case("inner_chunks_and_view_of_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const Tensors parts = y.chunk(2);
             return {parts[0], y.t(), parts[1]};
           }),
      Case("inner_split_with_sizes_and_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             Tensors parts = y.split_with_sizes({1, 3}, 0);
             parts.push_back(y);
             return parts;
           }),
      Case("inner_one_part", Rows, [](Tensors in) -> Tensors { return {(in[0] * 2).unbind(0)[1]}; }),
      Case("inner_one_part_and_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.unbind(0)[1], y};
           }),
      Case("inner_one_part_and_view", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.unbind(0)[1], y.t()};
           }),
      Case("inner_view_of_part_and_part", Rows,
           [](Tensors in) -> Tensors {
             const Tensors parts = (in[0] * 2).chunk(2);
             return {parts[0].t(), parts[1]};
           }),
      Case("inner_parts_of_view", Rows, [](Tensors in) -> Tensors { return (in[0] * 2).t().unbind(0); }),
      Case("inner_parts_of_view_and_view", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor v = (in[0] * 2).t();
             Tensors parts = v.unbind(0);
             parts.push_back(v);
             return parts;
           }),
      Case("inner_parts_of_two_bases", TwoLeaves,
           [](Tensors in) -> Tensors {
             const Tensors a = (in[0] * 2).unbind(0);
             const Tensors b = (in[1] * 3).unbind(0);
             return {a[0], b[0], a[1], b[1]};
           }),
      Case("inner_views_of_two_bases_mixed", TwoLeaves,
           [](Tensors in) -> Tensors {
             const at::Tensor a = in[0] * 2;
             const at::Tensor b = in[1] * 3;
             return {a.t(), b.t(), Flat(a), Flat(b), b};
           }),
      Case("inner_base_returned_twice_and_view", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.t(), y};
           }),
      Case("inner_same_view_object_twice", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor v = (in[0] * 2).t();
             return {v, v};
           }),
      Case("inner_same_view_object_twice_and_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.t();
             return {v, y, v};
           }),
      Case("inner_written_then_two_views", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             y.add_(1);
             return {y.t(), Flat(y)};
           }),
      Case("inner_view_written_and_views_out", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             y.select(0, 0).mul_(3);
             return {y.t(), y.select(0, 0)};
           }),
      Case("inner_view_written_and_returned", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.select(0, 0);
             v.mul_(3);
             return {v};
           }),
      Case("inner_view_written_with_another_leaf", TwoLeaves,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.select(0, 0);
             v.mul_(in[1].select(0, 1));
             return {v, y, y.t()};
           }),
      Case("inner_constant_written_with_leaf", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = at::zeros({2, 3});
             y.select(0, 0).copy_(in[0].select(0, 1));
             return {y, y.t()};
           }),
      Case("inner_buffer_result_written_with_leaf", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.t();
             y.add_(in[1]);
             return {v, y};
           }),
      Case("inner_moved_and_viewed", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             y.t_();
             return {y.select(0, 0), y};
           }),
      Case("inner_moved_view_and_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.view({3, 4});
             v.t_();
             return {v, y};
           }),
      Case("inner_detached_view_alone", Rows,
           [](Tensors in) -> Tensors {
             return {(in[0] * 2).t().detach(), in[0] + 1};
           }),
      Case("inner_detached_twice", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.detach(), y.detach(), y};
           }),
      Case("inner_detached_written", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             y.detach().add_(1);
             return {y, y.t()};
           }),
      Case(
          "inner_expand_alone",
          [] {
            return Tensors{leaf(0, {1, 3})};
          },
          [](Tensors in) -> Tensors {
            return {(in[0] * 2).expand({2, 3})};
          }),
      Case(
          "inner_expand_and_base",
          [] {
            return Tensors{leaf(0, {1, 3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.expand({2, 3}), y};
          }),
      Case("inner_expanded_scalar_views", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].sum();
             return {y.expand({2}), y.view({1})};
           }),
      Case(
          "inner_diagonal_and_unfold",
          [] {
            return Tensors{leaf(0, {4, 4})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.diagonal(), y.unfold(0, 2, 2)};
          }),
      Case("inner_unsafe_split", Rows, [](Tensors in) -> Tensors { return {at::_unsafe_view(in[0] * 2, {12})}; }),
      Case("inner_as_strided_pair", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.as_strided({2, 3}, {3, 1}), y.as_strided({2, 3}, {3, 1}, 6)};
           }),
      Case("inner_squeeze_of_kept_sum", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].sum(at::IntArrayRef({1}), true);
             return {y, y.squeeze(1)};
           }),
      Case(
          "inner_matmul_views",
          [] {
            return Tensors{leaf(0, {2, 3}), leaf(1, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0].matmul(in[1]);
            return {y.t(), Flat(y), y.sum()};
          }),
      Case("inner_views_and_input_views", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {in[0].t(), y.t(), y.select(0, 0), in[0]};
           }),
      Case("inner_views_with_written_input", RowsComputed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             const at::Tensor y = in[0] * 3;
             return {y.t(), Flat(y), in[0].t()};
           }),
      Case("inner_views_with_moved_input", RowsComputed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             const at::Tensor y = in[0] * 3;
             return {y.t(), y};
           }),
      Case("inner_result_and_its_contiguous", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.contiguous(), y.t().contiguous()};
           }),
      Case("inner_complex_views", Complex,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {at::view_as_real(y), y};
           }),
      Case("inner_conjugates", Complex,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.conj(), y.view({3, 1})};
           }),
      Case("inner_conjugate_beside_what_it_is_of", ComplexBuffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.conj(), y.conj().t(), y.conj().conj()};
           }),
      Case("inner_conjugate_first", ComplexBuffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.conj(), y.select(0, 1), y};
           }),
      Case("inner_conjugate_of_detached", Complex,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.view(-1), y.detach().conj()};
           }),
      Case("inner_negated_imaginary_parts", ComplexBuffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {at::imag(y), at::imag(y.conj())};
           }),
      WithoutGrad(Case("inner_conjugate_in_call_without_gradients", Complex,
                       [](Tensors in) -> Tensors {
                         const at::Tensor y = in[0] * 2;
                         return {y, y.conj()};
                       })),
      Case("inner_integers_views", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = at::argsort(in[0], 1, false);
             return {y.t(), Flat(y), in[0] * 2};
           }),
      Case("inner_sorted_values_viewed", Rows,
           [](Tensors in) -> Tensors {
             const auto [values, indices] = in[0].sort(1);
             return {values.t(), values, indices};
           }),
      Case("inner_base_view_and_none", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {at::Tensor(), y.t(), number_output(3), y};
           }),
      Case("inner_relu_of_view_in_place", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.slice(0, 0, 2).relu_();
             return {y, v};
           }),
      Case("input_returned_with_detached", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0], in[0].detach(), in[0]};
           }),
      Case(
          "inputs_only_passed_through",
          [] {
            return Tensors{leaf(0, {2}), buf(1, {2}), leaf(2, {2}).clone()};
          },
          [](Tensors in) -> Tensors {
            return {in[2], in[1], in[0], in[2]};
          }),
      Case("written_buffer_passed_through_with_leaf", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             return {in[1], in[0]};
           }),
  };
}

}  // namespace cotan::conformance
