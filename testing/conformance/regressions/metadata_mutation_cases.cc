// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors ComputedTwice() {
  const at::Tensor x = leaf(0, {2, 3}).clone();
  return {x, x};
}
Tensors OneLeaf() { return {leaf(0, {2, 3})}; }
Tensors OneComputed() { return {leaf(0, {4}).clone()}; }
Tensors LeafAndRow() {
  const at::Tensor x = leaf(0, {3, 3});
  return {x, x.select(0, 1)};
}
Tensors LeafAndAlias() {
  const at::Tensor x = leaf(0, {3, 2});
  return {x, x.detach()};
}
Tensors BufferTwice() {
  const at::Tensor x = buf(0, {1, 3});
  return {x, x};
}

}  // namespace

std::vector<ConfCase> MetadataMutationCases() {
  return {
      Case("pair_moved_there_and_back", BufferTwice,
           [](Tensors in) -> Tensors {
             in[1].t_();
             const at::Tensor y = in[0] * 2;
             in[0].t_();
             return {y, in[1] * in[0]};
           }),
      Case("pair_moved_through_one_and_back_through_the_other", BufferTwice,
           [](Tensors in) -> Tensors {
             in[0].unsqueeze_(0);
             in[1].squeeze_(0);
             return {};
           }),
      Case("computed_pair_moved_there_and_back", ComputedTwice,
           [](Tensors in) -> Tensors {
             in[1].t_();
             const at::Tensor y = in[0].sin();
             in[0].t_();
             return {y, in[1]};
           }),
      WithoutGrad(Case("pair_moved_there_and_back_without_gradients", ComputedTwice,
                       [](Tensors in) -> Tensors {
                         in[1].t_();
                         const at::Tensor y = in[0].sin();
                         in[0].t_();
                         return {y};
                       })),
      Case(
          "column_written_without_gradients_and_the_other_left",
          [] {
            return Tensors{leaf(0, {2, 2}).clone()};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor column = in[0].select(1, 0);
            {
              const at::NoGradGuard no_grad;
              column.sigmoid_();
            }
            in[0].as_strided_({2}, {2}, 1);
            return {column};
          }),
      WithoutGrad(Case("leaf_viewed_with_gradients_and_moved_without", OneLeaf,
                       [](Tensors in) -> Tensors {
                         at::Tensor view;
                         {
                           const at::AutoGradMode grad(true);
                           view = in[0].slice(1, 0, 3, 2);
                         }
                         in[0].unsqueeze_(0);
                         return {view};
                       })),
      WithoutGrad(Case("input_viewed_with_and_without_gradients_and_moved", OneComputed,
                       [](Tensors in) -> Tensors {
                         at::Tensor view;
                         {
                           const at::AutoGradMode grad(true);
                           view = in[0].slice(0, 1, 3);
                         }
                         const at::Tensor plain = in[0].slice(0, 2, 4);
                         in[0].unsqueeze_(0);
                         return {view, plain};
                       })),
      Case("detached_pair", ComputedTwice,
           [](Tensors in) -> Tensors {
             in[0].detach_();
             return {in[1] * 2};
           }),
      Case(
          "buffer_view_moved_and_its_base_written_with_a_leaf",
          [] {
            const at::Tensor b = buf(1, {6});
            return Tensors{b.narrow(0, 3, 1), leaf(0, {6}).clone(), b};
          },
          [](Tensors in) -> Tensors {
            in[0].squeeze_(0);
            in[2].mul_(in[1]);
            return {};
          }),
      Case(
          "pair_of_a_view_shrunk_through_one_and_seen_through_the_other",
          [] {
            const at::Tensor x = leaf(0, {3, 2}).clone().view({2, 3});
            return Tensors{x, x};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[1].transpose(0, 1);
            in[0].as_strided_({2}, {2}, 0);
            return {y};
          }),
      // A metadata-mutated leaf stays a leaf: its gradient has the metadata that it has when it is used.
      Case("leaf_with_a_view_moved_and_written", LeafAndRow,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[1] * 2;
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
               in[0].mul_(in[0]);
             }
             return {in[0] * 2, in[1] * 2, y};
           }),
      Case("leaf_with_a_view_moved", LeafAndRow,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[1] * 2;
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
             }
             return {in[0] * 2, in[1] * 2, y};
           }),
      Case("leaf_with_a_view_moved_there_and_back", LeafAndRow,
           [](Tensors in) -> Tensors {
             at::Tensor y;
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
             }
             y = in[1] * 2;
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
             }
             return {y};
           }),
      Case("leaf_moved_under_its_view_that_is_returned", LeafAndRow,
           [](Tensors in) -> Tensors {
             const at::NoGradGuard no_grad;
             in[0].t_();
             return {in[1]};
           }),
      Case("leaf_beside_its_alias_moved_and_written", LeafAndAlias,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
               in[0].mul_(in[0]);
             }
             return {in[0] * 2, in[1] * 2};
           }),
      Case("leaf_beside_its_alias_written_and_leaves_out_elements", LeafAndAlias,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].mul_(in[0]);
               in[0].as_strided_({2}, {2}, 1);
               in[0].mul_(3);
             }
             return {in[0] * 2, in[1] * 2};
           }),
      Case("leaf_moved_viewed_and_moved_again", OneLeaf,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
             }
             const at::Tensor y = in[0].select(0, 0);
             {
               const at::NoGradGuard no_grad;
               in[0].unsqueeze_(0);
             }
             return {y};
           }),
      Case("leaf_written_viewed_and_moved", OneLeaf,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].mul_(2);
             }
             const at::Tensor y = in[0].slice(0, 0, 1);
             {
               const at::NoGradGuard no_grad;
               in[0].unsqueeze_(0);
             }
             return {y};
           }),
      Case("leaf_leaves_out_elements_and_is_viewed", OneLeaf,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].as_strided_({2}, {2}, 0);
             }
             return {in[0].slice(0, 1, 2), in[0]};
           }),
      Case("buffer_moved_made_a_leaf_and_viewed", Buffer,
           [](Tensors in) -> Tensors {
             in[0].unsqueeze_(1);
             in[0].requires_grad_();
             return {in[0].as_strided({2}, {1}, 0), in[0]};
           }),
      Case("leaf_set_to_another_one_and_used", TwoLeaves,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[1].set_(in[0]);
             }
             return {in[1], in[1].flip(1)};
           }),
      // The gradient has the sizes that the leaf has when it is used.
      Case("leaf_moved_used_and_moved_again", OneLeaf,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
             }
             const at::Tensor y = at::cat({in[0], in[0]});
             {
               const at::NoGradGuard no_grad;
               in[0].unsqueeze_(0);
             }
             return {y};
           }),
      Case("leaf_moved_used_and_moved_back", OneLeaf,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].unsqueeze_(0);
             }
             const at::Tensor y = in[0].sin();
             {
               const at::NoGradGuard no_grad;
               in[0].squeeze_(0);
             }
             return {y};
           }),
      WithoutGrad(Case("input_moved_with_gradients_in_a_call_without", OneComputed,
                       [](Tensors in) -> Tensors {
                         const at::AutoGradMode grad(true);
                         in[0].unsqueeze_(1);
                         return {in[0] * 2};
                       })),
      Case("input_leaves_out_elements_of_an_old_view", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor y = Flat(in[0]);
             in[0].as_strided_({3, 1}, {2, 3}, 1);
             return {y * y, in[0] * 2};
           }),
      Case("input_leaves_out_elements_of_old_windows", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].unfold(1, 2, 1);
             in[0].as_strided_({}, {}, 3);
             return {y.sin(), y.sum()};
           }),
      Case("intermediate_leaves_out_elements_of_an_old_view", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor x = in[0] * 2;
             const at::Tensor y = x.select(0, 1);
             x.as_strided_({2, 1}, {1, 3}, 0);
             return {y * y, x * x};
           }),
      Case("intermediate_and_what_it_leaves_out_are_results", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor x = in[0] * 2;
             const at::Tensor y = x.slice(0, 1, 2);
             x.as_strided_({2, 1}, {1, 3}, 0);
             return {x, y};
           }),
      Case("parts_of_an_intermediate_that_it_leaves_out_are_results", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor x = in[0] * 2;
             const at::Tensor y = x.slice(0, 1, 2);
             const at::Tensor z = x.select(1, 2);
             x.as_strided_({2}, {1}, 0);
             return {y, z};
           }),
      Case("buffer_written_and_leaves_out_elements", Buffer,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[0].as_strided_({2}, {2}, 1);
             return {in[0] + 1};
           }),
      Case("buffer_written_leaves_out_elements_and_is_written", Buffer,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             in[0].as_strided_({2}, {2}, 1);
             in[0].mul_(3);
             return {};
           }),
      Case("computed_written_and_leaves_out_elements", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[0].as_strided_({2}, {2}, 1);
             return {in[0].sin()};
           }),
      Case("written_through_an_alias_and_leaves_out_elements", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].detach();
             in[0].as_strided_({2}, {2}, 1);
             y.mul_(2);
             return {y + 1};
           }),
      Case(
          "view_written_and_leaves_out_elements",
          [] {
            return Tensors{Flat(leaf(0, {2, 3}).clone()).slice(0, 1, 5)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[0].as_strided_({2}, {2}, 1);
            return {in[0] * in[0]};
          }),
      WithoutGrad(Case("computed_written_and_leaves_out_elements_without_gradients", Computed,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         in[0].as_strided_({2}, {2}, 1);
                         return {in[0].sin()};
                       })),
      Case(
          "bools_written_through_expand",
          [] {
            return Tensors{buf(0, {2, 3}, at::kBool)};
          },
          [](Tensors in) -> Tensors {
            in[0].expand({1, -1, -1}).logical_not_();
            return {in[0].logical_not()};
          }),
      Case(
          "set_to_another_argument_that_is_returned",
          [] {
            return Tensors{leaf(0, {3, 3}).clone(), buf(1, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            in[1].set_(in[0]);
            return {in[0]};
          }),
      WithoutGrad(Case(
          "set_to_the_memory_that_it_has_already",
          [] {
            const at::Tensor b = buf(1, {2, 2, 3});
            return Tensors{b.slice(0, 0, 1).detach(), b};
          },
          [](Tensors in) -> Tensors {
            in[1].relu_();
            in[0].set_(in[1]);
            return {};
          })),
      WithoutGrad(Case(
          "set_to_the_memory_that_it_has_already_and_nothing_written",
          [] {
            const at::Tensor b = buf(1, {2, 2, 3});
            return Tensors{b.slice(0, 0, 1).detach(), b};
          },
          [](Tensors in) -> Tensors {
            in[0].set_(in[1]);
            return {in[0] * 2};
          })),
      Case(
          "set_to_an_intermediate_that_one_element_was_copied_to",
          [] {
            return Tensors{buf(0, {1}), buf(1, {1, 1}).diagonal()};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            at::Tensor y = in[0].relu();
            y.copy_(in[1]);
            in[0].set_(y);
            return {};
          }),
      Case(
          "set_to_a_copy_of_another_argument",
          [] {
            return Tensors{buf(0, {3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            in[0].set_(in[1].clone());
            return {};
          }),
      Case(
          "set_to_a_copy_of_a_result", [] { return Tensors{buf(0, {3})}; },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            const at::Tensor y = in[0] * 2;
            in[0].set_(y.clone());
            return {y};
          }),
      Case(
          "set_to_a_result", [] { return Tensors{buf(0, {3})}; },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            const at::Tensor y = in[0] * 2;
            in[0].set_(y);
            return {y};
          }),
      Case(
          "set_to_a_slice_of_another_argument",
          [] {
            return Tensors{buf(0, {3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            in[0].set_(in[1].slice(0, 1));
            return {};
          }),
      Case(
          "set_to_one_copy_twice",
          [] {
            return Tensors{buf(0, {3}), buf(1, {3}), buf(2, {3})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            const at::Tensor copy = in[2].clone();
            in[0].set_(copy);
            in[1].set_(copy);
            return {};
          }),
      Case(
          "set_to_one_computed_twice",
          [] {
            return Tensors{buf(0, {3}), buf(1, {3}), buf(2, {3})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            const at::Tensor y = in[2] * 2;
            in[0].set_(y);
            in[1].set_(y);
            return {};
          }),
      Case(
          "set_to_parts_of_computed",
          [] {
            return Tensors{buf(0, {3}), buf(1, {3}), buf(2, {3})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            const at::Tensor y = in[2] * 2;
            in[0].set_(y.slice(0, 1));
            in[1].set_(y);
            return {};
          }),
      Case(
          "set_to_part_of_computed",
          [] {
            return Tensors{buf(0, {3}), buf(2, {3})};
          },
          [](Tensors in) -> Tensors {
            const at::NoGradGuard no_grad;
            const at::Tensor y = in[1] * 2;
            in[0].set_(y.slice(0, 1));
            return {};
          }),
      Case(
          "set_to_a_part_and_viewed",
          [] {
            return Tensors{leaf(0, {6}), at::imag(leaf(1, {6}, at::kComplexFloat).clone())};
          },
          [](Tensors in) -> Tensors {
            {
              const at::NoGradGuard no_grad;
              in[0].set_(in[1]);
            }
            const at::Tensor y = Flat(in[0]);
            return {y, y};
          }),
  };
}

}  // namespace cotan::conformance
