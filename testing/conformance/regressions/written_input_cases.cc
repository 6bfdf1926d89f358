// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors Rows() { return {leaf(0, {4, 3}).clone()}; }
Tensors RowsBuffer() { return {buf(0, {4, 3})}; }
Tensors RowsLeaf() { return {leaf(0, {4, 3})}; }
Tensors Cube() { return {leaf(0, {2, 2, 3}).clone()}; }
Tensors ComputedAndBuffer() { return {leaf(0, {2, 3}).clone(), buf(1, {2, 3})}; }
Tensors Images() { return {leaf(0, {1, 2, 2, 3}).clone().contiguous(at::MemoryFormat::ChannelsLast)}; }

}  // namespace

std::vector<ConfCase> WrittenInputCases() {
  return {
      Case("written_leaf_detached_and_flat_view", RowsLeaf,
           [](Tensors in) -> Tensors {
             in[0].detach().mul_(2);
             return {Flat(in[0]), in[0].sum()};
           }),
      Case("written_leaf_row_without_gradient", RowsLeaf,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[0].select(0, 1).zero_();
             }
             return {in[0] * 2};
           }),
      Case("written_leaf_by_data", RowsLeaf,
           [](Tensors in) -> Tensors {
             in[0].data().add_(1);
             return {in[0] * 2, in[0].select(0, 0)};
           }),
      Case("written_computed_by_data_then_tracked", Rows,
           [](Tensors in) -> Tensors {
             in[0].data().mul_(2);
             in[0].add_(1);
             return {in[0].sin()};
           }),
      Case("written_tracked_then_by_data", Rows,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             in[0].data().mul_(2);
             return {in[0] * 3};
           }),
      Case("written_view_of_view_of_view", Cube,
           [](Tensors in) -> Tensors {
             in[0].select(0, 1).t().slice(0, 1, 3).mul_(3);
             return {in[0].sum(at::IntArrayRef({0}))};
           }),
      Case("written_diagonal", Rows,
           [](Tensors in) -> Tensors {
             in[0].diagonal().add_(5);
             return {in[0] * in[0]};
           }),
      Case("written_unsqueezed_view", Rows,
           [](Tensors in) -> Tensors {
             in[0].unsqueeze(1).mul_(2);
             return {in[0].squeeze()};
           }),
      Case("written_expanded_row_source", ComputedAndBuffer,
           [](Tensors in) -> Tensors {
             in[0].copy_(in[1].select(0, 0).expand(at::IntArrayRef({2, 3})));
             return {in[0] * 2};
           }),
      Case("written_buffer_with_leaf_row", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             in[0].select(0, 0).copy_(in[1].select(0, 1));
             return {in[0] * 3};
           }),
      Case("written_buffer_with_leaf_without_gradient", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[0].copy_(in[1]);
             }
             return {in[0] * in[1]};
           }),
      Case("written_buffer_with_leaf_detached_view_out", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             in[0].add_(in[1]);
             return {in[0].detach().t(), in[1] * 2};
           }),
      Case("written_buffer_with_leaf_view_out", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             in[0].add_(in[1]);
             return {in[0].t(), in[0].select(0, 1)};
           }),
      Case("written_buffer_before_leaf_used", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[1] * 2;
             in[0].mul_(3);
             return {y, in[0] + 1, y + in[0]};
           }),
      Case("written_both_inputs_from_each_other", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].add_(in[1]);
             in[1].add_(in[0]);
             return {in[0] * in[1]};
           }),
      Case("written_swapped_contents", TwoComputed,
           [](Tensors in) -> Tensors {
             const at::Tensor x = in[0].clone();
             in[0].copy_(in[1]);
             in[1].copy_(x);
             return {in[0] - in[1]};
           }),
      Case("written_both_nothing_out", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].mul_(in[1]);
             in[1].mul_(2);
             return {};
           }),
      Case("written_second_returned_whole", TwoComputed,
           [](Tensors in) -> Tensors {
             in[1].mul_(in[0]);
             return {in[1], in[0]};
           }),
      Case("written_and_same_view_out_twice", Rows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0].t(), in[0].t()};
           }),
      Case("written_between_two_views", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor a = in[0].select(0, 0);
             in[0].mul_(2);
             const at::Tensor b = in[0].select(0, 1);
             return {a, b, a * b};
           }),
      Case("written_through_returned_view", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor v = in[0].slice(0, 1, 3);
             v.mul_(2);
             return {v};
           }),
      Case("written_through_returned_view_of_view", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor v = in[0].slice(0, 1, 3).t();
             v.mul_(2);
             return {v, v.select(0, 0)};
           }),
      Case("written_leaf_view_under_no_grad_call", RowsLeaf,
           [](Tensors in) -> Tensors {
             in[0].slice(0, 0, 2).mul_(2);
             return {in[0].t(), in[0] + 1};
           }),
      WithoutGrad(Case("written_leaf_in_call_without_gradients", RowsLeaf,
                       [](Tensors in) -> Tensors {
                         in[0].slice(0, 0, 2).mul_(2);
                         return {in[0].t(), in[0] + 1};
                       })),
      WithoutGrad(Case("written_computed_in_call_without_gradients", Rows,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {in[0], in[0].select(0, 0)};
                       })),
      WithoutGrad(Case("written_buffer_in_call_without_gradients", RowsBuffer,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {Flat(in[0])};
                       })),
      Case("written_channels_last", Images,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0] + 1, in[0].select(1, 0)};
           }),
      Case(
          "written_complex_buffer_conjugated", [] { return Tensors{buf(0, {3}, at::kComplexFloat)}; },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0].conj(), in[0].abs()};
          }),
      Case("written_complex_real_part", ComplexComputed,
           [](Tensors in) -> Tensors {
             at::view_as_real(in[0]).select(1, 0).mul_(2);
             return {in[0] * 2};
           }),
      Case(
          "written_integer_counter_and_leaf",
          [] {
            return Tensors{ints({3}), leaf(0, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {in[1] * in[0], in[0] * 2};
          }),
      Case(
          "written_bool_mask",
          [] {
            return Tensors{buf(0, {2, 3}, at::kBool), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].logical_not_();
            return {at::where(in[0], in[1], in[1] * 2)};
          }),
      Case(
          "written_zero_dim_counter_no_outputs",
          [] {
            return Tensors{buf(0, {}), leaf(1, {2})};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(in[1].detach().sum());
            return {};
          }),
      Case("written_masked_by_itself", Rows,
           [](Tensors in) -> Tensors {
             in[0].masked_fill_(in[0] > 0, -1);
             return {in[0] * 2};
           }),
      Case("written_many_ops_in_place", Rows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2).add_(1).sin_().neg_();
             return {in[0]};
           }),
      Case(
          "written_by_addmm_in_place",
          [] {
            return Tensors{leaf(0, {2, 2}).clone(), leaf(1, {2, 3}), leaf(2, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            in[0].addmm_(in[1], in[2]);
            return {in[0].t()};
          }),
      Case("written_index_fill_without_gradient", RowsLeaf,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[0].index_fill_(0, ints({1, 2}), 0.5);
             }
             return {in[0].sum()};
           }),
      Case(
          "written_index_add_into_buffer",
          [] {
            return Tensors{buf(0, {4, 3}), ints({0, 2}), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].index_add_(0, in[1], in[2]);
            return {in[0] * 2};
          }),
      Case("written_under_no_grad_then_view_out", Rows,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[0].mul_(2);
             }
             return {in[0].t(), in[0] * 2};
           }),
      Case("written_buffer_under_no_grad_and_tracked", RowsBuffer,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[0].mul_(2);
             }
             in[0].add_(1);
             return {in[0] * 2};
           }),
      Case("written_two_leaves_under_no_grad", TwoLeaves,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] + in[1];
             {
               at::NoGradGuard guard;
               in[0].sub_(in[1]);
               in[1].mul_(0.5);
             }
             return {y.sum()};
           }),
      Case("written_detached_view_of_computed", Rows,
           [](Tensors in) -> Tensors {
             in[0].detach().select(0, 0).zero_();
             return {in[0] * 2, in[0].detach()};
           }),
      Case("written_detached_alias_returned", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor d = in[0].detach();
             d.mul_(2);
             return {d, in[0] * 3};
           }),
      Case("written_leaf_detached_alias_returned", RowsLeaf,
           [](Tensors in) -> Tensors {
             const at::Tensor d = in[0].detach();
             d.mul_(2);
             return {d, in[0] * 3};
           }),
      Case(
          "written_empty_leaf",
          [] {
            return Tensors{leaf(0, {0, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0].sum(at::IntArrayRef({0})), in[0].t()};
          }),
      Case("written_back_to_what_it_was", TwoComputed,
           [](Tensors in) -> Tensors {
             const at::Tensor old = in[0].clone();
             in[0].mul_(in[1]);
             in[0].copy_(old);
             return {in[0] * 2};
           }),
      Case(
          "written_noncontiguous_leaf_detached",
          [] {
            return Tensors{leaf(0, {3, 4}).t()};
          },
          [](Tensors in) -> Tensors {
            in[0].detach().add_(1);
            return {in[0] * 2};
          }),
      Case(
          "written_with_strides_and_viewed", [] { return Tensors{leaf(0, {8}).clone().slice(0, 1, 8, 2)}; },
          [](Tensors in) -> Tensors {
            in[0].add_(10);
            return {in[0].view({2, 2}), in[0] * 2};
          }),
      Case(
          "written_expanded_copy",
          [] {
            return Tensors{leaf(0, {1, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0].expand(at::IntArrayRef({2, 3})), in[0] + 1};
          }),
      Case("moved_twice_and_unsqueezed", RowsBuffer,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[0].unsqueeze_(0);
             return {in[0] + 1};
           }),
      Case("moved_leaf_under_no_grad", RowsLeaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             {
               at::NoGradGuard guard;
               in[0].unsqueeze_(0);
             }
             return {y};
           }),
      Case("moved_buffer_and_leaf_used", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             in[0].t_();
             return {in[1].matmul(in[0]), in[0].select(0, 1)};
           }),
      Case("moved_buffer_returned_and_its_view", RowsBuffer,
           [](Tensors in) -> Tensors {
             in[0].t_();
             return {in[0], in[0].select(0, 0)};
           }),
      Case("moved_computed_and_written_and_returned", Rows,
           [](Tensors in) -> Tensors {
             in[0].transpose_(0, 1);
             in[0].mul_(2);
             return {in[0]};
           }),
      Case("moved_first_written_second", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[1].mul_(2);
             return {in[1].matmul(in[0])};
           }),
      Case("moved_both_nothing_out", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[1].unsqueeze_(1);
             return {};
           }),
      WithoutGrad(Case("moved_in_call_without_gradients", RowsBuffer,
                       [](Tensors in) -> Tensors {
                         in[0].t_();
                         return {in[0].sum()};
                       })),
      Case("moved_by_swapdims", Cube,
           [](Tensors in) -> Tensors {
             in[0].swapdims_(0, 2);
             return {in[0] * 2};
           }),
      Case(
          "moved_by_squeeze_of_one_dim",
          [] {
            return Tensors{leaf(0, {2, 1, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].squeeze_(1);
            return {in[0].t(), in[0] * 2};
          }),
      Case("moved_and_detached_alias", Rows,
           [](Tensors in) -> Tensors {
             in[0].t_();
             return {in[0].detach(), in[0] + 1};
           }),
      Case(
          "moved_duplicate",
          [] {
            const at::Tensor x = leaf(0, {2, 3}).clone();
            return Tensors{x, x, leaf(1, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            in[1].t_();
            return {in[0] * in[2]};
          }),
      Case(
          "set_to_another_buffer",
          [] {
            return Tensors{buf(0, {3}), buf(1, {3}), leaf(2, {3})};
          },
          [](Tensors in) -> Tensors {
            in[0].set_(in[1]);
            return {in[0] * in[2]};
          }),
      Case("set_to_a_result_without_gradient", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[0].set_(in[1].detach() * 2);
             }
             return {in[0] + in[1]};
           }),
      Case(
          "shrunk_and_written", [] { return Tensors{buf(0, {4})}; },
          [](Tensors in) -> Tensors {
            in[0].resize_({2});
            in[0].mul_(2);
            return {in[0] + 1};
          }),
      Case(
          "as_strided_in_place_of_buffer",
          [] {
            return Tensors{buf(0, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].as_strided_({3, 2}, {1, 3});
            return {in[0] * 2};
          }),
  };
}

}  // namespace cotan::conformance
