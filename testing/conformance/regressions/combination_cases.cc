// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/harness/custom_functions.h"
#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors Rows() { return {leaf(0, {4, 3})}; }
Tensors RowsComputed() { return {leaf(0, {4, 3}).clone()}; }
Tensors PairAndAnother() {
  const at::Tensor x = leaf(0, {3}).clone();
  return {x, x, leaf(1, {3}).clone()};
}
Tensors WindowsAndAnother() {
  const at::Tensor b = leaf(0, {6}).clone();
  return {leaf(1, {4}).clone(), b.slice(0, 0, 4), b.slice(0, 2, 6)};
}

}  // namespace

std::vector<ConfCase> CombinationCases() {
  return {
      Case("pair_written_and_another_written", PairAndAnother,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             in[2].add_(1);
             return {in[0] * in[2]};
           }),
      Case("pair_read_and_another_written", PairAndAnother,
           [](Tensors in) -> Tensors {
             in[2].mul_(3);
             return {in[0] * in[2], in[1]};
           }),
      Case(
          "pair_moved_and_another_written",
          [] {
            const at::Tensor x = leaf(0, {2, 3}).clone();
            return Tensors{x, x, leaf(1, {3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(3);
            in[0].unsqueeze_(0);
            return {in[1] * in[2], in[2].view({1, 3})};
          }),
      Case("windows_written_after_another_written", WindowsAndAnother,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[1].mul_(3);
             return {in[0] + in[2]};
           }),
      Case("windows_written_and_view_of_another", WindowsAndAnother,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[2].mul_(3);
             return {in[0].view({2, 2}), in[1] * 2};
           }),
      Case(
          "windows_pair_and_another",
          [] {
            const at::Tensor b = leaf(0, {6}).clone();
            const at::Tensor w = b.slice(0, 0, 4);
            return Tensors{w, w, b.slice(0, 2, 6), leaf(1, {4}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[1].mul_(2);
            in[3].mul_(3);
            return {in[0] + in[2], in[3] * 2};
          }),
      Case(
          "pair_and_windows_of_others",
          [] {
            const at::Tensor b = leaf(0, {6}).clone();
            const at::Tensor x = leaf(1, {4}).clone();
            return Tensors{x, b.slice(0, 0, 4), x, b.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(2);
            in[1].mul_(3);
            return {in[0] * in[3]};
          }),
      Case(
          "windows_written_view_as_base",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b.view({2, 3}), Flat(b)};
          },
          [](Tensors in) -> Tensors {
            in[1].mul_(2);
            return {in[0].t(), in[0] * 2};
          }),
      Case(
          "windows_written_flat_view_out",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b, Flat(b)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1].view({3, 2})};
          }),
      Case(
          "windows_written_detached_out",
          [] {
            const at::Tensor b = leaf(0, {2, 3}).clone();
            return Tensors{b, Flat(b)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[1].detach(), in[0] * 2};
          }),
      Case(
          "windows_of_buffer_written_by_leaf",
          [] {
            const at::Tensor b = buf(0, {6});
            return Tensors{b.slice(0, 0, 4), leaf(1, {4}), b.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[2].add_(1);
            return {in[0] * in[1], in[1].view({2, 2})};
          }),
      Case(
          "moved_buffer_next_to_written_computed",
          [] {
            return Tensors{buf(0, {2, 3}), leaf(1, {3, 2}).clone(), leaf(2, {2})};
          },
          [](Tensors in) -> Tensors {
            in[0].t_();
            in[1].mul_(in[2]);
            return {in[0] * in[1], in[0].select(0, 0)};
          }),
      Case(
          "written_and_moved_and_read",
          [] {
            return Tensors{leaf(0, {2, 3}).clone(), leaf(1, {2, 3}).clone(), leaf(2, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[1].t_();
            const at::Tensor y = in[0].matmul(in[1]);
            return {y, y.t(), in[2].t()};
          }),
      Case("two_custom_results_and_views", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = custom_scale(in[0]);
             const at::Tensor z = custom_saved(in[0]);
             return {y.t(), y.select(0, 0), z, z.view_as(z)};
           }),
      Case("custom_dirty_view_of_input", RowsComputed,
           [](Tensors in) -> Tensors {
             return {custom_dirty(in[0].select(0, 0)) * 2, in[0] * 3};
           }),
      Case("custom_dirty_then_tracked_write", RowsComputed,
           [](Tensors in) -> Tensors {
             const at::Tensor y = custom_dirty(in[0]);
             y.add_(1);
             return {y * 2};
           }),
      Case("custom_dirty_input_returned_twice", RowsComputed,
           [](Tensors in) -> Tensors {
             const at::Tensor y = custom_dirty(in[0]);
             return {y, in[0], y * 2};
           }),
      Case("custom_nondiff_only_second", Leaf,
           [](Tensors in) -> Tensors {
             return {custom_nondiff(in[0])[1], in[0]};
           }),
      Case("custom_view_of_computed_input", Computed, [](Tensors in) -> Tensors { return {custom_view(in[0])}; }),
      Case("custom_view_of_written_input", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {custom_view(in[0])};
           }),
      Case("leaf_views_and_detached_views_many", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor d = in[0].detach();
             return {d, d.t(), d.select(0, 0), in[0].select(0, 0), in[0] * d};
           }),
      Case("detached_intermediate_views_many", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor d = y.detach();
             return {d.t(), d, y};
           }),
      Case("detached_intermediate_view_and_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.t().detach(), y.t(), y};
           }),
      Case("detached_intermediate_pair_only", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor d = (in[0] * 2).detach();
             return {d, d.t(), in[0] * 3};
           }),
      Case("buffer_intermediate_views_many", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.t(), y, Flat(y), in[1] * y};
           }),
      Case("intermediate_written_by_leaf_under_no_grad", TwoLeaves,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             {
               at::NoGradGuard guard;
               y.select(0, 0).copy_(in[1].select(0, 0));
             }
             return {y, y.select(0, 0)};
           }),
      Case(
          "parts_of_parts",
          [] {
            return Tensors{leaf(0, {4, 4})};
          },
          [](Tensors in) -> Tensors {
            const Tensors halves = (in[0] * 2).chunk(2, 0);
            const Tensors quarters = halves[0].chunk(2, 1);
            return {quarters[0], quarters[1], halves[1]};
          }),
      Case(
          "parts_of_input_parts",
          [] {
            return Tensors{leaf(0, {4, 4})};
          },
          [](Tensors in) -> Tensors {
            const Tensors halves = in[0].chunk(2, 0);
            const Tensors quarters = halves[0].chunk(2, 1);
            return {quarters[0], halves[1], in[0].sum()};
          }),
      Case("parts_of_written_input", RowsComputed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return in[0].unbind(0);
           }),
      Case(
          "parts_of_written_buffer",
          [] {
            return Tensors{buf(0, {4, 3}), leaf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            Tensors parts = in[0].split(2, 0);
            parts.push_back(in[1] * 2);
            return parts;
          }),
      Case("parts_of_detached", Rows,
           [](Tensors in) -> Tensors {
             Tensors parts = in[0].detach().unbind(0);
             return {parts[0], parts[1], in[0] * 2};
           }),
      Case("parts_of_moved_input", RowsComputed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             return {in[0].unbind(0)[0], in[0] * 2};
           }),
      Case(
          "expand_of_written_input",
          [] {
            return Tensors{leaf(0, {1, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            const at::Tensor e = in[0].expand({2, 3});
            return {e, e * 2, e.select(0, 1)};
          }),
      Case("as_strided_of_written_input", RowsComputed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0].as_strided({2, 2}, {3, 1}, 1)};
           }),
      Case("as_strided_of_intermediate_and_base", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.as_strided({2, 2}, {3, 1}, 1)};
           }),
      Case(
          "channels_last_intermediate_views",
          [] {
            return Tensors{leaf(0, {2, 3, 2, 2})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = (in[0] * 2).contiguous(at::MemoryFormat::ChannelsLast);
            return {y, y.permute({0, 2, 3, 1}), y.select(1, 0)};
          }),
      Case(
          "channels_last_of_channels_last_input",
          [] {
            return Tensors{leaf(0, {2, 3, 2, 2}).clone().contiguous(at::MemoryFormat::ChannelsLast)};
          },
          [](Tensors in) -> Tensors {
            return {in[0].contiguous(at::MemoryFormat::ChannelsLast), in[0].contiguous(), in[0].relu()};
          }),
      Tangents("channels_last",
               Case(
                   "channels_last_written_input_tangent",
                   [] {
                     return Tensors{leaf(0, {2, 3, 2, 2}).clone().contiguous(at::MemoryFormat::ChannelsLast)};
                   },
                   [](Tensors in) -> Tensors {
                     in[0].mul_(2);
                     return {in[0].sin()};
                   })),
      Case("complex_intermediate_parts", Complex,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {at::real(y), at::imag(y), y};
           }),
      Case("complex_written_and_conjugated", ComplexComputed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0].conj(), in[0] * 2};
           }),
      Case(
          "bits_of_written_input",
          [] {
            return Tensors{buf(0, {2, 3}), leaf(1, {2})};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0].view(at::kInt), in[1] * 2};
          }),
      Case("requires_grad_of_detached_intermediate", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor d = (in[0] * 2).detach().requires_grad_();
             return {d, in[0] * 3};
           }),
      Case(
          "unfold_of_intermediate_and_base", [] { return Tensors{leaf(0, {6})}; },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.unfold(0, 2, 2), y};
          }),
      Case(
          "squeeze_in_place_of_intermediate",
          [] {
            return Tensors{leaf(0, {1, 3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            y.squeeze_(0);
            return {y, y * 2};
          }),
      Case("transposed_in_place_intermediate_and_old_view", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor old = y.select(0, 0);
             y.t_();
             return {old, y};
           }),
      Case(
          "alias_of_second_of_three_written_third",
          [] {
            return Tensors{leaf(0, {3}), leaf(1, {3}).clone(), leaf(2, {3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(in[0]);
            return {in[1].view({3, 1}), in[2].view({1, 3}), in[0].view({1, 3})};
          }),
      Case("same_input_view_object_twice", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor v = in[0].t();
             return {v, v, in[0] * 2};
           }),
      Case("none_then_views_then_number", Rows,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {at::Tensor(), y, number_output(4), y.t(), in[0].t(), at::Tensor()};
           }),
      WithoutGrad(Case("intermediate_views_in_call_without_gradients", Rows,
                       [](Tensors in) -> Tensors {
                         const at::Tensor y = in[0] * 2;
                         return {y, y.t(), y.view_as(y)};
                       })),
      WithoutGrad(Case("parts_in_call_without_gradients", Rows, [](Tensors in) -> Tensors { return in[0].unbind(0); })),
      WithoutGrad(Case("enabled_inside_and_intermediate_views", Rows,
                       [](Tensors in) -> Tensors {
                         at::AutoGradMode enabled(true);
                         const at::Tensor y = in[0] * 2;
                         return {y, y.t(), in[0].select(0, 0)};
                       })),
      WithoutGrad(Case("enabled_inside_and_written", RowsComputed,
                       [](Tensors in) -> Tensors {
                         {
                           at::AutoGradMode enabled(true);
                           in[0].mul_(2);
                         }
                         return {in[0] * 3};
                       })),
      Case("mode_toggled_between_views", Rows,
           [](Tensors in) -> Tensors {
             at::GradMode::set_enabled(false);
             const at::Tensor a = in[0] * 2;
             at::GradMode::set_enabled(true);
             const at::Tensor b = in[0] * 3;
             return {a, a.t(), b, b.t()};
           }),
      Case("mode_disabled_and_input_moved", RowsComputed,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             at::GradMode::set_enabled(false);
             in[0].t_();
             return {y};
           }),
      LossOf({0, 3}, Case("loss_of_some_views_of_two_bases", TwoLeaves,
                          [](Tensors in) -> Tensors {
                            const at::Tensor a = in[0] * 2;
                            const at::Tensor b = in[1] * 3;
                            return {a.t(), Flat(a), b.t(), Flat(b)};
                          })),
      LossOf({1}, Case("loss_of_alias_of_written_input", RowsComputed,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {in[0] * 3, in[0].t(), in[0]};
                       })),
      LossOf({0}, WithoutLossInputs(Case("loss_of_one_of_pair_written", PairAndAnother,
                                         [](Tensors in) -> Tensors {
                                           in[0].mul_(2);
                                           return {in[1] * in[2], in[2] * 2};
                                         }))),
      Tangents("transposed", Case(
                                 "transposed_tangents_of_windows",
                                 [] {
                                   const at::Tensor b = leaf(0, {4, 3}).clone();
                                   return Tensors{b.slice(0, 0, 3), b.slice(0, 1, 4)};
                                 },
                                 [](Tensors in) -> Tensors {
                                   in[0].mul_(2);
                                   return {in[1] * 3, in[0].t()};
                                 })),
      Tangents("expanded", Case("expanded_tangent_of_scalar_and_view", Rows,
                                [](Tensors in) -> Tensors {
                                  const at::Tensor y = in[0].sum();
                                  return {y, y.view({1}), in[0].t()};
                                })),
  };
}

}  // namespace cotan::conformance
