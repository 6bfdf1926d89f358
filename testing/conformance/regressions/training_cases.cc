// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/grad_mode.h>

#include "testing/conformance/harness/custom_functions.h"
#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors Images() { return {leaf(0, {2, 3, 2, 2})}; }
Tensors Rows() { return {leaf(0, {4, 3})}; }
Tensors NormInputs() { return {leaf(0, {4, 3}), leaf(1, {3}), leaf(2, {3}), buf(3, {3}), buf(4, {3}).abs()}; }
Tensors ImageNormInputs() {
  return {leaf(0, {2, 3, 2, 2}), leaf(1, {3}), leaf(2, {3}), buf(3, {3}), buf(4, {3}).abs()};
}

}  // namespace

std::vector<ConfCase> TrainingCases() {
  return {
      Tangents("transposed", Case("tangent_transposed_of_result", Rows,
                                  [](Tensors in) -> Tensors {
                                    return {in[0].sin(), in[0] * 2};
                                  })),
      Tangents("transposed", Case("tangent_transposed_of_written_input", Computed,
                                  [](Tensors in) -> Tensors {
                                    in[0].mul_(2);
                                    return {in[0].exp()};
                                  })),
      Tangents("transposed", Case("tangent_transposed_of_transposed_result", Rows,
                                  [](Tensors in) -> Tensors {
                                    return {(in[0] * 2).t(), in[0].t() * 3};
                                  })),
      Tangents("expanded", Case("tangent_expanded", Rows,
                                [](Tensors in) -> Tensors {
                                  return {in[0] * in[0], in[0].sum(at::IntArrayRef({0}))};
                                })),
      Tangents("expanded", Case("tangent_expanded_of_inner_views", Rows,
                                [](Tensors in) -> Tensors {
                                  const at::Tensor y = in[0] * 2;
                                  return {y.t(), Flat(y)};
                                })),
      Tangents("expanded", Case("tangent_expanded_of_written_input", Computed,
                                [](Tensors in) -> Tensors {
                                  in[0].mul_(3);
                                  return {in[0].t()};
                                })),
      Tangents("channels_last", Case("tangent_channels_last_of_contiguous", Images,
                                     [](Tensors in) -> Tensors { return {in[0] * in[0]}; })),
      Tangents("contig",
               Case("tangent_contiguous_of_channels_last", Images,
                    [](Tensors in) -> Tensors { return {(in[0] * 2).contiguous(at::MemoryFormat::ChannelsLast)}; })),
      Tangents("channels_last",
               Case(
                   "tangent_channels_last_of_convolution",
                   [] {
                     return Tensors{leaf(0, {1, 2, 4, 4}), leaf(1, {3, 2, 3, 3}), leaf(2, {3})};
                   },
                   [](Tensors in) -> Tensors { return {at::conv2d(in[0], in[1], in[2], 1, 1).relu()}; })),
      Case("tangent_of_permuted_result", Images,
           [](Tensors in) -> Tensors {
             return {in[0].permute({1, 0, 3, 2}) * 2};
           }),
      Case("tangent_of_sliced_intermediate", Rows,
           [](Tensors in) -> Tensors { return {(in[0] * 2).slice(0, 0, 4, 2)}; }),
      LossOf({1}, Case("loss_of_second_view", Rows,
                       [](Tensors in) -> Tensors {
                         const at::Tensor y = in[0] * 2;
                         return {y.t(), y};
                       })),
      LossOf({0}, Case("loss_of_first_part", Rows, [](Tensors in) -> Tensors { return (in[0] * 2).unbind(0); })),
      LossOf({2}, Case("loss_of_third_of_three", TwoLeaves,
                       [](Tensors in) -> Tensors {
                         return {in[0] * 2, in[1] * 3, in[0] * in[1]};
                       })),
      LossOf({0}, Case("loss_of_output_and_written_input", TwoComputed,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(in[1]);
                         return {in[0] * 2, in[1] * 3};
                       })),
      LossOf({}, Case("loss_of_two_written_inputs", TwoComputed,
                      [](Tensors in) -> Tensors {
                        in[0].mul_(in[1]);
                        in[1].mul_(2);
                        return {in[0] * 2};
                      })),
      WithoutLossInputs(Case("loss_without_written_input_but_its_view", Computed,
                             [](Tensors in) -> Tensors {
                               in[0].mul_(2);
                               return {in[0].t()};
                             })),
      LossOf({1}, WithoutLossInputs(Case("loss_of_view_of_written_only", Computed,
                                         [](Tensors in) -> Tensors {
                                           in[0].mul_(2);
                                           return {in[0] * 3, in[0].select(0, 0)};
                                         }))),
      LossOf({0}, Case(
                      "loss_of_merged_base_only",
                      [] {
                        const at::Tensor b = leaf(0, {6}).clone();
                        return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6)};
                      },
                      [](Tensors in) -> Tensors {
                        in[0].mul_(2);
                        return {in[1] * 2, in[0] * 3};
                      })),
      // Normalization, random numbers.
      Case("norm_batch_of_images", ImageNormInputs,
           [](Tensors in) -> Tensors {
             return {at::batch_norm(in[0], in[1], in[2], in[3], in[4], true, 0.3, 1e-5, false)};
           }),
      Case(
          "norm_batch_without_affine",
          [] {
            return Tensors{leaf(0, {4, 3}), buf(3, {3}), buf(4, {3}).abs()};
          },
          [](Tensors in) -> Tensors {
            return {at::batch_norm(in[0], {}, {}, in[1], in[2], true, 0.1, 1e-5, false), in[1] * 2};
          }),
      Case("norm_batch_twice", NormInputs,
           [](Tensors in) -> Tensors {
             const at::Tensor y = at::batch_norm(in[0], in[1], in[2], in[3], in[4], true, 0.1, 1e-5, false);
             return {at::batch_norm(y, in[1], in[2], in[3], in[4], true, 0.1, 1e-5, false), in[3]};
           }),
      Case(
          "norm_batch_and_counter",
          [] {
            Tensors in = NormInputs();
            in.push_back(ints({0}));
            return in;
          },
          [](Tensors in) -> Tensors {
            in[5].add_(1);
            return {at::batch_norm(in[0], in[1], in[2], in[3], in[4], true, 0.1, 1e-5, false).relu()};
          }),
      WithoutGrad(Case("norm_batch_eval_in_call_without_gradients", NormInputs,
                       [](Tensors in) -> Tensors {
                         return {at::batch_norm(in[0], in[1], in[2], in[3], in[4], false, 0.1, 1e-5, false)};
                       })),
      Case("norm_instance", Images,
           [](Tensors in) -> Tensors { return {at::instance_norm(in[0], {}, {}, {}, {}, true, 0.1, 1e-5, false)}; }),
      Case("norm_layer", NormInputs,
           [](Tensors in) -> Tensors { return {at::layer_norm(in[0], {3}, in[1], in[2], 1e-5)}; }),
      Case("norm_group", ImageNormInputs,
           [](Tensors in) -> Tensors { return {at::group_norm(in[0], 3, in[1], in[2], 1e-5)}; }),
      Case("norm_running_mean_by_mul_add", NormInputs,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[3].mul_(0.9).add_(in[0].mean(at::IntArrayRef({0})), 0.1);
             }
             return {in[0] - in[3]};
           }),
      Random(Case("random_dropout_in_place_of_computed", Computed,
                  [](Tensors in) -> Tensors { return {at::dropout_(in[0], 0.5, true) * 2}; })),
      Random(Case("random_dropout_twice", Leaf,
                  [](Tensors in) -> Tensors {
                    return {at::dropout(at::dropout(in[0], 0.5, true), 0.3, true), in[0] * 2};
                  })),
      Random(Case("random_dropout_of_intermediate_and_view", Leaf,
                  [](Tensors in) -> Tensors {
                    const at::Tensor y = at::dropout(in[0] * 2, 0.5, true);
                    return {y, y.t()};
                  })),
      Random(WithoutGrad(Case("random_dropout_in_call_without_gradients", Leaf,
                              [](Tensors in) -> Tensors { return {at::dropout(in[0], 0.5, true)}; }))),
      Random(Case("random_normal_noise_into_buffer", BufferAndLeaf,
                  [](Tensors in) -> Tensors {
                    in[0].normal_();
                    return {in[0] * in[1]};
                  })),
      Random(Case("random_mask_made_inside", Leaf,
                  [](Tensors in) -> Tensors {
                    const at::Tensor mask = at::rand_like(in[0]) > 0.5;
                    return {at::where(mask, in[0], in[0] * 2), mask};
                  })),
      Random(Case("random_dropout_of_nothing", Leaf,
                  [](Tensors in) -> Tensors {
                    return {at::dropout(in[0] * 2, 0.0, true), at::dropout(in[0] * 3, 1.0, true)};
                  })),
      // Optimizers.
      Case(
          "step_momentum",
          [] {
            return Tensors{leaf(0, {3}), buf(1, {3}), buf(2, {3})};
          },
          [](Tensors in) -> Tensors {
            at::NoGradGuard guard;
            in[2].mul_(0.9).add_(in[1]);
            in[0].add_(in[2], -0.1);
            return {};
          }),
      Case(
          "step_adam",
          [] {
            return Tensors{leaf(0, {3}), buf(1, {3}), buf(2, {3}), buf(3, {3}).abs(), ints({1})};
          },
          [](Tensors in) -> Tensors {
            at::NoGradGuard guard;
            in[4].add_(1);
            in[2].lerp_(in[1], 0.1);
            in[3].mul_(0.999).addcmul_(in[1], in[1], 0.001);
            in[0].addcdiv_(in[2], in[3].sqrt().add_(1e-8), -0.01);
            return {};
          }),
      Case(
          "step_and_norm_out",
          [] {
            return Tensors{leaf(0, {3}), leaf(1, {2}), buf(2, {3}), buf(3, {2})};
          },
          [](Tensors in) -> Tensors {
            at::NoGradGuard guard;
            const at::Tensor norm = (in[2].square().sum() + in[3].square().sum()).sqrt();
            in[0].sub_(in[2] / norm);
            in[1].sub_(in[3] / norm);
            return {norm};
          }),
      Case(
          "step_after_loss_reads_old_parameter",
          [] {
            return Tensors{buf(0, {2, 3}), leaf(1, {3}), buf(2, {3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = (in[0] + in[1]).sum();
            {
              at::NoGradGuard guard;
              in[1].sub_(in[2]);
            }
            return {y, in[1].detach()};
          }),
      Case("step_ema_of_parameter", TwoLeaves,
           [](Tensors in) -> Tensors {
             {
               at::NoGradGuard guard;
               in[1].lerp_(in[0], 0.1);
             }
             return {in[0].sum()};
           }),
      Case("step_gradient_accumulated", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             in[0].add_(in[1].detach() * 2);
             return {in[1].sum()};
           }),
      WithoutGrad(Case(
          "step_clipped_in_call_without_gradients",
          [] {
            return Tensors{leaf(0, {3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            in[1].clamp_(-0.5, 0.5);
            in[0].sub_(in[1]);
            return {in[1].sum()};
          })),
      // Custom functions.
      Case("custom_scale_of_leaf_and_view", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = custom_scale(in[0]);
             return {y, y.t()};
           }),
      Case("custom_view_of_leaf", Leaf,
           [](Tensors in) -> Tensors {
             return {custom_view(in[0]), in[0] * 2};
           }),
      Case("custom_view_of_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {custom_view(y), y};
           }),
      Case("custom_view_of_intermediate_alone", Leaf, [](Tensors in) -> Tensors { return {custom_view(in[0] * 2)}; }),
      Case("custom_dirty_input_returned", Computed, [](Tensors in) -> Tensors { return {custom_dirty(in[0])}; }),
      Case("custom_dirty_buffer", Buffer, [](Tensors in) -> Tensors { return {custom_dirty(in[0]) * 2}; }),
      Case("custom_dirty_view_of_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor z = custom_dirty(y);
             return {z.t(), y};
           }),
      Case("custom_nondiff_first", Leaf,
           [](Tensors in) -> Tensors {
             const Tensors r = custom_nondiff(in[0]);
             return {r[1], r[0], r[0].t()};
           }),
      Case("custom_saved_written_later", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = custom_saved(in[0] * 2);
             y.add_(1);
             return {y};
           }),
      Case("custom_scale_without_gradient", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y;
             {
               at::NoGradGuard guard;
               y = custom_scale(in[0]);
             }
             return {y, in[0] * 2};
           }),
      // Grad mode.
      Case("mode_disabled_and_views_out", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             at::GradMode::set_enabled(false);
             return {y, y.t(), in[0].t()};
           }),
      Case("mode_disabled_before_everything", Leaf,
           [](Tensors in) -> Tensors {
             at::GradMode::set_enabled(false);
             return {in[0] * 2, in[0].t()};
           }),
      Case("mode_disabled_and_written", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             at::GradMode::set_enabled(false);
             in[0].add_(1);
             return {in[0] * 2};
           }),
      Case("mode_disabled_then_leaf_written", Leaf,
           [](Tensors in) -> Tensors {
             at::GradMode::set_enabled(false);
             in[0].add_(1);
             return {in[0] * 2};
           }),
      WithoutGrad(Case("mode_enabled_and_view_out", Leaf,
                       [](Tensors in) -> Tensors {
                         at::GradMode::set_enabled(true);
                         return {in[0].t(), in[0] * 2};
                       })),
      Case("mode_inference_result", Leaf,
           [](Tensors in) -> Tensors {
             at::NoGradGuard guard;
             return {in[0] * 2, in[0].detach(), in[0].sum()};
           }),
      // Plain results of all kinds.
      Case("plain_numbers_and_none", Leaf,
           [](Tensors in) -> Tensors {
             return {number_output(2.5), in[0] * 2, at::Tensor(), number_output(true), number_output(7)};
           }),
      Case("plain_none_only", Leaf, [](Tensors) -> Tensors { return {at::Tensor()}; }),
      Case(
          "plain_integers_only",
          [] {
            return Tensors{buf(0, {2, 3}, at::kLong)};
          },
          [](Tensors in) -> Tensors {
            return {in[0] * 2, in[0].t(), in[0] > 0};
          }),
      Case(
          "plain_softmax_cross_entropy",
          [] {
            return Tensors{leaf(0, {4, 3}), ints({0, 2, 1, 1})};
          },
          [](Tensors in) -> Tensors { return {at::cross_entropy_loss(in[0], in[1])}; }),
      Case(
          "plain_einsum_and_views",
          [] {
            return Tensors{leaf(0, {2, 3}), leaf(1, {3, 4})};
          },
          [](Tensors in) -> Tensors {
            return {at::einsum("ij,jk->ik", {in[0], in[1]}), at::einsum("ij->ji", {in[0]})};
          }),
      Case("plain_cat_stack_of_inputs", TwoLeaves,
           [](Tensors in) -> Tensors {
             return {at::cat({in[0], in[1]}), at::stack({in[0], in[1]}).unbind(0)[0]};
           }),
      Case("plain_max_with_indices", Rows,
           [](Tensors in) -> Tensors {
             const auto [values, indices] = in[0].max(1);
             return {values, indices, values.unsqueeze(0)};
           }),
      Case("plain_half_conversion", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor h = in[0].to(at::kBFloat16);
             return {h, h.to(at::kFloat), h.t()};
           }),
      Case("plain_gradient_stopped_twice", TwoLeaves,
           [](Tensors in) -> Tensors {
             const at::Tensor y = (in[0] * 2).detach() * in[1];
             return {y, y.detach() * in[0]};
           }),
      Case("plain_inner_detached_in_place", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             y.detach_();
             return {y, y * in[0]};
           }),
      Case("plain_result_made_to_require_grad", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = (in[0] * 2).requires_grad_();
             return {y * 2, in[1] * 3};
           }),
  };
}

}  // namespace cotan::conformance
