// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

// Returns three overlapping windows of one tensor.
Tensors ThreeWindows() {
  const at::Tensor b = leaf(0, {8}).clone();
  return {b.slice(0, 0, 4), b.slice(0, 2, 6), b.slice(0, 4, 8)};
}
Tensors ThreeBufferWindows() {
  const at::Tensor b = buf(0, {8});
  return {b.slice(0, 0, 4), b.slice(0, 2, 6), b.slice(0, 4, 8)};
}
Tensors RowAndBase() {
  const at::Tensor b = leaf(0, {2, 3}).clone();
  return {b.select(0, 0), b};
}
Tensors SameTwice() {
  const at::Tensor x = leaf(0, {2, 3}).clone();
  return {x, x};
}
Tensors SameLeafTwice() {
  const at::Tensor x = leaf(0, {2, 3});
  return {x, x};
}

}  // namespace

std::vector<ConfCase> SharedMemoryCases() {
  return {
      Case(
          "two_objects_of_one_row",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b.select(0, 0), b.select(0, 0)};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {in[0] + in[1]};
          }),
      Case("row_written_next_to_its_base", RowAndBase,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             return {in[0] + in[1]};
           }),
      Case("row_written_and_view_of_the_base_returned", RowAndBase,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             return {in[1].view(in[1].sizes())};
           }),
      Case("base_written_and_row_returned", RowAndBase,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             return {in[0], in[0].sum()};
           }),
      Case("both_written_and_both_returned", RowAndBase,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[1].add_(1);
             return {in[0], in[1]};
           }),
      Case(
          "merged_pair_with_a_third_input",
          [] {
            const at::Tensor x = leaf(0, {4}).clone();
            return Tensors{x.view({2, 2}), leaf(1, {2, 2}).clone(), x.view({2, 2})};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(2);
            return {in[1] + 1, Flat(in[2])};
          }),
      Case(
          "moved_view_next_to_a_view",
          [] {
            const at::Tensor x = leaf(0, {2, 2}).clone();
            return Tensors{x.view({2, 2}), x.view({2, 2})};
          },
          [](Tensors in) -> Tensors {
            in[0].t_();
            return {in[0] + in[1]};
          }),
      Case(
          "merged_buffers_next_to_a_leaf",
          [] {
            const at::Tensor x = buf(0, {4});
            return Tensors{x.view({4}), x.view({4}), leaf(1, {4})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1] + 1, in[2] + 1};
          }),
      Case(
          "written_and_moved_views_of_two_bases",
          [] {
            const at::Tensor x = leaf(0, {4}).clone();
            const at::Tensor y = leaf(1, {4}).clone();
            return Tensors{x.view({4}), y.view({4}), x.view({4}), y.view({4})};
          },
          [](Tensors in) -> Tensors {
            in[1].add_(1);
            in[3].unsqueeze_(0);
            return {in[0] + in[2] + in[3], Flat(in[1])};
          }),
      Case(
          "one_view_written_and_the_other_moved",
          [] {
            const at::Tensor x = leaf(0, {2, 2}).clone();
            return Tensors{x.view({2, 2}), x.view({2, 2})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[1].t_();
            return {in[0].mul(in[1])};
          }),
      Case(
          "halves_both_written",
          [] {
            const at::Tensor x = leaf(0, {6}).clone();
            return Tensors{x.slice(0, 0, 3), x.slice(0, 3, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(3);
            in[1].mul_(2);
            return {};
          }),
      Case(
          "columns_both_written",
          [] {
            const at::Tensor x = leaf(0, {3, 4}).clone();
            return Tensors{x.slice(1, 0, 2), x.slice(1, 2, 4)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(3);
            in[1].mul_(2);
            return {in[0].sum() + in[1].sum()};
          }),
      Case(
          "interleaved_columns_both_written",
          [] {
            const at::Tensor x = leaf(0, {3, 4}).clone();
            return Tensors{x.slice(1, 0, 4, 2), x.slice(1, 1, 4, 2)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(3);
            in[1].add_(in[0].detach());
            return {in[0] * 2};
          }),
      Case(
          "strided_windows_that_touch_nowhere",
          [] {
            const at::Tensor x = buf(0, {64});
            return Tensors{x.as_strided({4, 4}, {8, 1}, 0), x.as_strided({4, 4}, {8, 1}, 28)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(3);
            in[1].mul_(2);
            return {in[0] + in[1]};
          }),
      Case(
          "strided_windows_that_touch",
          [] {
            const at::Tensor x = buf(0, {64});
            return Tensors{x.as_strided({4, 4}, {9, 1}, 0), x.as_strided({4, 4}, {9, 1}, 24)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(3);
            in[1].mul_(2);
            return {in[0] + in[1]};
          }),
      Case(
          "views_of_aliased_inputs_nothing_written",
          [] {
            const at::Tensor x = leaf(0, {4}).clone();
            return Tensors{x.slice(0, 0, 3), x.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            return {in[0].view({3, 1}), in[1].view({1, 3})};
          }),
      Case(
          "base_and_its_flat_view",
          [] {
            const at::Tensor a = leaf(0, {2, 3}).clone();
            return Tensors{a, Flat(a)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {(Flat(in[0]) + in[1]).sum()};
          }),
      Case("three_windows_one_written", ThreeWindows,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             return {in[0] + in[1] + in[2]};
           }),
      Case("three_windows_all_written", ThreeWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[1].add_(1);
             in[2].mul_(in[1].clone());
             return {in[0] + in[1] + in[2]};
           }),
      Case("three_buffer_windows_all_written", ThreeBufferWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[1].add_(1);
             in[2].mul_(in[1].clone());
             return {in[0] + in[1] + in[2]};
           }),
      Case("three_windows_views_returned", ThreeWindows,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[1].view({2, 2}), in[2], in[0].select(0, 3)};
           }),
      Case(
          "two_groups_written",
          [] {
            const at::Tensor x = buf(0, {4});
            const at::Tensor y = buf(1, {4});
            return Tensors{x.slice(0, 0, 3), x.slice(0, 1, 4), y.slice(0, 0, 3), y.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            in[2].mul_(2);
            return {in[0] + in[1] + in[2] + in[3]};
          }),
      Case(
          "view_of_the_unwritten_of_two",
          [] {
            const at::Tensor b = leaf(0, {4, 3}).clone();
            return Tensors{b, b.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(100);
            return {in[1].select(0, 0), Flat(in[1])};
          }),
      Case(
          "detached_overlapping_alias_written",
          [] {
            const at::Tensor b = leaf(0, {6}).clone();
            return Tensors{b.slice(0, 0, 4), b.detach().slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[1].mul_(2);
            return {in[0] * 3, in[1] + 1};
          }),
      Case(
          "overlapping_alias_next_to_a_detached_one",
          [] {
            const at::Tensor b = leaf(0, {6}).clone();
            return Tensors{b.slice(0, 0, 4), b.detach().slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0] * 3, in[1] + 1};
          }),
      Case(
          "detached_rows_of_one_tensor",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b.detach().select(0, 0), b.detach().select(0, 1)};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {in[0] + in[1]};
          }),
      Case(
          "buffer_alias_written_with_a_leaf",
          [] {
            const at::Tensor b = buf(0, {6});
            return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6), leaf(1, {4})};
          },
          [](Tensors in) -> Tensors {
            in[0].copy_(in[2]);
            return {in[1] * 2};
          }),
      Case(
          "buffer_written_with_a_leaf_and_its_view_read",
          [] {
            const at::Tensor b = buf(0, {2, 3});
            return Tensors{b, Flat(b), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(in[2]);
            return {in[1].sum(), in[1]};
          }),
      Case(
          "buffer_view_written_with_a_leaf_and_its_base_read",
          [] {
            const at::Tensor b = buf(0, {2, 3});
            return Tensors{b.select(0, 1), b, leaf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(in[2]);
            return {in[1] * in[1], in[1].t()};
          }),
      Case(
          "buffer_base_written_after_its_view_got_a_gradient",
          [] {
            const at::Tensor b = buf(0, {2, 3});
            return Tensors{b.t(), b, leaf(1, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            in[0].copy_(in[2]);
            in[1].add_(1);
            return {in[1] * 2};
          }),
      Case("same_leaf_twice", SameLeafTwice, [](Tensors in) -> Tensors { return {in[0] + in[1]}; }),
      Case("same_input_moved_through_both", SameTwice,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[1].unsqueeze_(0);
             return {in[0] + in[1]};
           }),
      Case("same_input_moved_through_one", SameTwice,
           [](Tensors in) -> Tensors {
             in[0].t_();
             return {in[0] + in[1]};
           }),
      Case("same_input_written", SameTwice,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0] + in[1], in[1]};
           }),
      Case(
          "same_buffer_between_others",
          [] {
            const at::Tensor a = buf(0, {3});
            return Tensors{a, leaf(1, {3}), a};
          },
          [](Tensors in) -> Tensors {
            in[0].select(0, 0).add_(1);
            return {in[2], in[1] * in[2]};
          }),
      Case(
          "two_pairs_of_duplicates",
          [] {
            const at::Tensor a = buf(0, {3});
            const at::Tensor b = buf(1, {3});
            return Tensors{a, a, b, b};
          },
          [](Tensors in) -> Tensors {
            in[3].mul_(2);
            return {in[0] + in[3]};
          }),
      Case("views_of_a_duplicate", SameTwice,
           [](Tensors in) -> Tensors {
             return {Flat(in[0]), Flat(in[1])};
           }),
      Case(
          "duplicate_and_a_view_of_it_written",
          [] {
            const at::Tensor a = leaf(0, {2, 3}).clone();
            return Tensors{a, a, a.select(0, 1)};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(3);
            return {in[0] + in[1], in[2].sin()};
          }),
      Case(
          "transposed_alias_written",
          [] {
            const at::Tensor a = leaf(0, {2, 3}).clone();
            return Tensors{a, a.t()};
          },
          [](Tensors in) -> Tensors {
            in[1].mul_(2);
            return {in[0] * 3, in[1] + 1};
          }),
      Case(
          "expanded_alias_of_what_is_written",
          [] {
            const at::Tensor a = leaf(0, {3}).clone();
            return Tensors{a, a.expand({2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1] * 2};
          }),
      Case(
          "aliases_written_without_gradients",
          [] {
            const at::Tensor a = leaf(0, {6}).clone();
            return Tensors{a.slice(0, 0, 4), a.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            {
              const at::NoGradGuard no_grad;
              in[0].mul_(2);
            }
            return {in[1] * 3};
          }),
      Case(
          "alias_of_a_leaf_written_without_gradients",
          [] {
            const at::Tensor a = leaf(0, {2, 3});
            return Tensors{a, a.detach()};
          },
          [](Tensors in) -> Tensors {
            in[1].add_(1);
            return {in[0] * 3};
          }),
      Case(
          "alias_of_a_buffer_written_and_the_other_detached",
          [] {
            const at::Tensor b = buf(0, {2, 3});
            return Tensors{b, b.detach()};
          },
          [](Tensors in) -> Tensors {
            in[0].detach_();
            in[1].mul_(2);
            return {in[0] * 2};
          }),
      WithoutGrad(Case("aliases_written_in_a_call_without_gradients", ThreeWindows,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {in[1] + 1, in[2]};
                       })),
      Case(
          "copied_from_an_alias_that_does_not_overlap",
          [] {
            const at::Tensor a = leaf(0, {6}).clone();
            return Tensors{a.slice(0, 0, 3), a.slice(0, 3, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].copy_(in[1]);
            return {in[0] * 2};
          }),
      Case(
          "copied_from_itself_by_another_view",
          [] {
            const at::Tensor a = leaf(0, {2, 3}).clone();
            return Tensors{a, a.view({2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].copy_(in[1]);
            return {in[0] * 2};
          }),
      Case(
          "rows_that_are_dot_multiplied",
          [] {
            const at::Tensor a = leaf(0, {3, 4}).clone();
            return Tensors{a.select(0, 0), a.select(0, 1), a};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(in[1].clone());
            return {in[2].sum(0), at::dot(in[0], in[1])};
          }),
  };
}

}  // namespace cotan::conformance
