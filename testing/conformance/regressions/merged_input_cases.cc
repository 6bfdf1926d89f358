// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors Windows() {
  const at::Tensor b = leaf(0, {6}).clone();
  return {b.slice(0, 0, 4), b.slice(0, 2, 6)};
}
Tensors BufferWindows() {
  const at::Tensor b = buf(0, {6});
  return {b.slice(0, 0, 4), b.slice(0, 2, 6)};
}
Tensors ViewAndBase() {
  const at::Tensor b = leaf(0, {2, 3}).clone();
  return {Flat(b), b};
}
Tensors BufferViewAndBase() {
  const at::Tensor b = buf(0, {2, 3});
  return {Flat(b), b};
}
Tensors Pair() {
  const at::Tensor x = leaf(0, {2, 3}).clone();
  return {x, x};
}
Tensors BufferPair() {
  const at::Tensor x = buf(0, {2, 3});
  return {x, x};
}
Tensors LeafPair() {
  const at::Tensor x = leaf(0, {2, 3});
  return {x, x};
}

}  // namespace

std::vector<ConfCase> MergedInputCases() {
  return {
      Case("merged_second_written", Windows,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             return {in[0] + in[1]};
           }),
      Case("merged_second_written_first_out", BufferWindows,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             return {in[0]};
           }),
      Case("merged_written_out_itself", BufferWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0], in[1] * 2};
           }),
      Case("merged_view_of_written_out", BufferWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0].view({2, 2})};
           }),
      Case("merged_nothing_out", BufferWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[1].add_(1);
             return {};
           }),
      Case("merged_nothing_out_computed", Windows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {};
           }),
      Case("merged_base_written_view_read", BufferViewAndBase,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             return {in[0] * 3};
           }),
      Case("merged_view_written_base_read", ViewAndBase,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[1] * 3};
           }),
      Case(
          "merged_base_first_view_second",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b, b.select(0, 1)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1] + 1};
          }),
      Case("merged_detached_write_on_view", ViewAndBase,
           [](Tensors in) -> Tensors {
             in[0].detach().mul_(2);
             return {in[1] * 3};
           }),
      Case("merged_write_without_gradient", Windows,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[0].mul_(2);
             }
             return {in[1] * 3};
           }),
      WithoutGrad(Case("merged_buffers_in_call_without_gradients", BufferWindows,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {in[1] * 3, in[0].view({2, 2})};
                       })),
      WithoutGrad(Case("merged_computed_in_call_without_gradients", ViewAndBase,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {in[1] * 3};
                       })),
      Case(
          "merged_same_geometry_twice",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b.view({3, 2}), b.view({3, 2})};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {in[0] * in[1]};
          }),
      Case(
          "merged_transposes",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b.t(), b};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1].matmul(in[0])};
          }),
      Case(
          "merged_three_of_one_and_a_leaf",
          [] {
            const at::Tensor b = leaf(0, {8}).clone();
            return Tensors{leaf(1, {4}), b.slice(0, 0, 4), b.slice(0, 2, 6), b.slice(0, 4, 8)};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(in[0]);
            return {in[1] + in[3], in[0] * 2};
          }),
      Case(
          "merged_group_after_others",
          [] {
            const at::Tensor b = buf(0, {6});
            return Tensors{leaf(1, {4}), buf(2, {4}), b.slice(0, 0, 4), b.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[2].add_(1);
            in[1].mul_(2);
            return {in[0] * in[3], in[1] + 1, in[0]};
          }),
      Case(
          "merged_two_groups_interleaved",
          [] {
            const at::Tensor a = leaf(0, {6}).clone();
            const at::Tensor b = buf(1, {6});
            return Tensors{a.slice(0, 0, 4), b.slice(0, 0, 4), a.slice(0, 2, 6), b.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[3].add_(1);
            return {in[2] * in[1]};
          }),
      Case(
          "merged_view_of_other_input_out",
          [] {
            const at::Tensor b = buf(0, {6});
            return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6), leaf(1, {2, 2})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[2].t(), in[2] * in[0].view({2, 2})};
          }),
      Case(
          "merged_other_input_returned",
          [] {
            const at::Tensor b = leaf(0, {6}).clone();
            return Tensors{b.slice(0, 0, 4), leaf(1, {2, 2}), b.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1], in[2] * 2};
          }),
      Case("merged_with_intermediate_views", Windows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             const at::Tensor y = in[0] + in[1];
             return {y.view({2, 2}), y};
           }),
      Case("merged_data_and_unsqueeze", BufferWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[1].unsqueeze_(0);
             return {in[1] + in[0]};
           }),
      Case(
          "merged_shared_without_base_buffers",
          [] {
            const at::Tensor b = buf(0, {6});
            return Tensors{b.detach().slice(0, 0, 4), b.detach().slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1] + 1};
          }),
      Case("merged_not_written_views_out", Windows,
           [](Tensors in) -> Tensors {
             return {in[0].view({2, 2}), in[1] * 2, in[1]};
           }),
      Case(
          "merged_views_of_leaf_read_only",
          [] {
            const at::Tensor b = leaf(0, {6});
            return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6), b};
          },
          [](Tensors in) -> Tensors {
            return {in[0] * in[1], in[2].view({2, 3})};
          }),
      Case(
          "merged_disjoint_written_both_buffers",
          [] {
            const at::Tensor b = buf(0, {6});
            return Tensors{b.slice(0, 0, 3), b.slice(0, 3, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[1].add_(in[0]);
            return {in[0] * in[1]};
          }),
      Case(
          "merged_disjoint_rows_one_written",
          [] {
            const at::Tensor b = leaf(0, {4, 3}).clone();
            return Tensors{b.select(0, 0), b.select(0, 2), leaf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[1].add_(in[2]);
            return {in[0] + in[2]};
          }),
      Case(
          "merged_columns_of_buffer",
          [] {
            const at::Tensor b = buf(0, {4, 3});
            return Tensors{b.select(1, 0), b.select(1, 1), b};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1] + 1, in[2].sum()};
          }),
      Case("merged_grad_mode_switched", BufferWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             at::GradMode::set_enabled(false);
             return {in[1] + 1};
           }),
      Case(
          "merged_integers",
          [] {
            const at::Tensor b = buf(0, {6}, at::kLong);
            return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6), leaf(1, {4})};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {in[1] * in[2], in[0]};
          }),
      // Duplicates.
      Case("double_buffer_written_first", BufferPair,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0] + in[1], in[1]};
           }),
      Case("double_computed_written_both", Pair,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[1].add_(1);
             return {in[0] * 2, in[1].t()};
           }),
      Case("double_leaf_both_returned", LeafPair,
           [](Tensors in) -> Tensors {
             return {in[0], in[1], in[0] * in[1]};
           }),
      Case("double_leaf_views", LeafPair,
           [](Tensors in) -> Tensors {
             return {in[0].t(), in[1].t()};
           }),
      Case("double_leaf_written_without_gradient", LeafPair,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[1].mul_(2);
             }
             return {in[0] * 3};
           }),
      Case("double_computed_detached_write", Pair,
           [](Tensors in) -> Tensors {
             in[1].detach().mul_(2);
             return {in[0] * 3};
           }),
      Case(
          "double_and_others",
          [] {
            const at::Tensor x = leaf(0, {3}).clone();
            return Tensors{leaf(1, {3}), x, buf(2, {3}), x};
          },
          [](Tensors in) -> Tensors {
            in[3].mul_(in[0]);
            in[2].add_(1);
            return {in[1] + in[2], in[3], in[0]};
          }),
      Case(
          "double_triple_written_last",
          [] {
            const at::Tensor x = leaf(0, {3}).clone();
            return Tensors{x, x, x};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(2);
            return {in[0] * in[1]};
          }),
      Case(
          "double_triple_buffer_view_out",
          [] {
            const at::Tensor x = buf(0, {3});
            return Tensors{x, leaf(1, {3}), x, x};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(2);
            return {in[3].view({3, 1}), in[1] * in[0]};
          }),
      Case(
          "double_two_pairs_both_written",
          [] {
            const at::Tensor x = leaf(0, {3}).clone();
            const at::Tensor y = leaf(1, {3}).clone();
            return Tensors{x, y, y, x};
          },
          [](Tensors in) -> Tensors {
            in[3].mul_(2);
            in[2].add_(1);
            return {in[0] * in[1]};
          }),
      Case(
          "double_two_pairs_views_out",
          [] {
            const at::Tensor x = leaf(0, {3}).clone();
            const at::Tensor y = buf(1, {3});
            return Tensors{x, y, y, x};
          },
          [](Tensors in) -> Tensors {
            in[3].mul_(2);
            in[2].add_(1);
            return {in[0].view({3, 1}), in[1], in[3] + in[2]};
          }),
      Case(
          "double_pair_and_overlapping_view",
          [] {
            const at::Tensor b = buf(0, {6});
            return Tensors{b, b, b.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            in[1].mul_(2);
            return {in[2] + 1, in[0].sum()};
          }),
      WithoutGrad(Case("double_in_call_without_gradients", Pair,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {in[1] + 1};
                       })),
      Case("double_nothing_out", BufferPair,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             return {};
           }),
      Case("double_moved_and_written", BufferPair,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[0].mul_(2);
             return {in[1] + 1};
           }),
  };
}

}  // namespace cotan::conformance
