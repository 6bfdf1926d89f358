// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors Rows() { return {leaf(0, {4, 3})}; }
Tensors RowsComputed() { return {leaf(0, {4, 3}).clone()}; }
Tensors RowsBuffer() { return {buf(0, {4, 3})}; }

}  // namespace

std::vector<ConfCase> InputAliasCases() {
  return {
      Case("alias_unbind_of_leaf", Leaf, [](Tensors in) -> Tensors { return in[0].unbind(0); }),
      Case("alias_unbind_of_leaf_and_result", Leaf,
           [](Tensors in) -> Tensors {
             Tensors parts = in[0].unbind(0);
             parts.push_back(in[0] * 2);
             return parts;
           }),
      Case("alias_one_part_of_leaf", Rows,
           [](Tensors in) -> Tensors {
             return {in[0].unbind(0)[2], in[0].sum()};
           }),
      Case("alias_view_of_part_of_input", Rows,
           [](Tensors in) -> Tensors {
             const Tensors parts = in[0].chunk(2);
             return {parts[0].t(), parts[1]};
           }),
      Case("alias_split_of_buffer", RowsBuffer, [](Tensors in) -> Tensors { return in[0].split(2, 0); }),
      Case("alias_split_with_sizes_of_leaf", Rows,
           [](Tensors in) -> Tensors {
             return in[0].split_with_sizes({1, 3}, 0);
           }),
      Case("alias_narrow_and_select", Rows,
           [](Tensors in) -> Tensors {
             return {in[0].narrow(0, 1, 2), in[0].select(1, 0)};
           }),
      Case(
          "alias_permute_and_unflatten",
          [] {
            return Tensors{leaf(0, {2, 3, 4})};
          },
          [](Tensors in) -> Tensors {
            return {in[0].permute({2, 0, 1}), in[0].flatten(0, 1), in[0].view({2, 3, 2, 2})};
          }),
      Case("alias_detach_of_leaf", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0].detach(), in[0] * 2};
           }),
      Case("alias_detach_of_buffer", Buffer, [](Tensors in) -> Tensors { return {in[0].detach()}; }),
      Case("alias_detached_view_of_leaf", Rows,
           [](Tensors in) -> Tensors {
             return {in[0].detach().t(), in[0].t().detach(), in[0].sum()};
           }),
      Case("alias_only_detached", Rows, [](Tensors in) -> Tensors { return {in[0].detach().select(0, 0)}; }),
      Case("alias_only_views_of_leaf", Rows,
           [](Tensors in) -> Tensors {
             return {in[0].t(), in[0].select(0, 1)};
           }),
      Case("alias_view_made_without_gradient_and_result", Rows,
           [](Tensors in) -> Tensors {
             at::Tensor v;
             {
               at::NoGradGuard guard;
               v = in[0].select(0, 0);
             }
             return {v, in[0] * 2};
           }),
      WithoutGrad(Case("alias_views_in_call_without_gradients", Rows,
                       [](Tensors in) -> Tensors {
                         return {in[0].t(), in[0], in[0] * 2};
                       })),
      Case("alias_real_of_complex_buffer", ComplexBuffer,
           [](Tensors in) -> Tensors {
             return {at::real(in[0]), at::view_as_real(in[0])};
           }),
      Case(
          "alias_view_as_complex",
          [] {
            return Tensors{leaf(0, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            return {at::view_as_complex(in[0]), in[0] * 2};
          }),
      Case("alias_conjugate_and_view", Complex,
           [](Tensors in) -> Tensors {
             return {in[0].conj().view({3, 1}), in[0] * 2};
           }),
      Case("alias_bits_of_leaf_rows", Rows,
           [](Tensors in) -> Tensors {
             return {in[0].detach().view(at::kInt), in[0] * 2};
           }),
      Case("alias_reshape_and_ravel", RowsComputed,
           [](Tensors in) -> Tensors {
             return {in[0].reshape({2, 6}), in[0].ravel(), in[0].t().ravel()};
           }),
      Case("alias_expand_as_and_broadcast", TwoLeaves,
           [](Tensors in) -> Tensors {
             return {in[0].unsqueeze(0).expand({2, 2, 3}), at::broadcast_to(in[1], {3, 2, 3})};
           }),
      Case(
          "alias_of_view_input",
          [] {
            return Tensors{leaf(0, {4, 3}).slice(0, 1, 3)};
          },
          [](Tensors in) -> Tensors {
            return {in[0].select(0, 1), in[0]};
          }),
      Case(
          "alias_of_computed_view_input_written",
          [] {
            return Tensors{leaf(0, {4, 3}).clone().slice(0, 1, 3)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0].select(0, 1), in[0]};
          }),
      Case("alias_lots_of_input", Rows,
           [](Tensors in) -> Tensors {
             return {in[0], in[0].t(), in[0].t().t(), in[0].alias(), in[0].view({3, 4}), in[0] * 1};
           }),
      Case(
          "alias_squeeze_dims",
          [] {
            return Tensors{leaf(0, {1, 3, 1})};
          },
          [](Tensors in) -> Tensors {
            return {in[0].squeeze(), in[0].squeeze(0), in[0].squeeze(at::IntArrayRef({0, 2}))};
          }),
      Case(
          "alias_swapaxes_matrix_transpose",
          [] {
            return Tensors{leaf(0, {2, 3, 2})};
          },
          [](Tensors in) -> Tensors {
            return {in[0].mT(), in[0].swapaxes(0, 1), in[0].movedim(0, 2)};
          }),
      Case(
          "alias_unfold_of_buffer", [] { return Tensors{buf(0, {6})}; },
          [](Tensors in) -> Tensors {
            return {in[0].unfold(0, 3, 2), in[0] + 1};
          }),
      Case(
          "alias_diagonal_of_batches",
          [] {
            return Tensors{leaf(0, {2, 3, 3})};
          },
          [](Tensors in) -> Tensors {
            return {in[0].diagonal(0, 1, 2), in[0].diagonal(1, 1, 2) * 2};
          }),
      Case("alias_strided_slice_backwards_of_two", TwoLeaves,
           [](Tensors in) -> Tensors {
             return {in[1].slice(1, 0, 3, 2), in[0].slice(1, 0, 3, 2), in[0] + in[1]};
           }),
      Case("alias_type_conversions", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0].to(at::kFloat), in[0].to(at::kDouble), in[0].contiguous(), in[0].expand_as(in[0])};
           }),
      Case("alias_view_as_same_size", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0].view_as(in[0]), in[0] * 2};
           }),
  };
}

}  // namespace cotan::conformance
