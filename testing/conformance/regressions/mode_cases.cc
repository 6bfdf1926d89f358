// SPDX-License-Identifier: Apache-2.0

#include <c10/core/InferenceMode.h>

#include "testing/conformance/harness/custom_functions.h"
#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

template <typename F>
auto NoGrad(F f) {
  const at::NoGradGuard guard;
  return f();
}

// Returns a leaf and its elements as a vector: a no_grad view without grad_fn.
Tensors LeafAndViewUnderNoGrad() {
  const at::Tensor base = leaf(0, {2, 3});
  return {base, NoGrad([&] { return base.view({6}); })};
}

Tensors ComputedAndViewUnderNoGrad() {
  const at::Tensor base = leaf(0, {2, 3}) * 2;
  return {base, NoGrad([&] { return base.view({6}); })};
}

// Views made under no_grad: gradients do not pass through them.
std::vector<ConfCase> NoGradViewCases() {
  return {
      Case("data_of_a_view_under_no_grad_whose_base_is_written", ComputedAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[1].data()};
           }),
      Case("data_of_a_view_under_no_grad_whose_base_is_filled_after_it", ComputedAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             const at::Tensor data = in[1].data();
             in[0].fill_(1);
             return {data, in[0] * 2};
           }),
      Case("view_under_no_grad_twice_of_what_has_no_backward_any_more", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor z = y * y;
             const at::Tensor view = NoGrad([&] { return z.select(0, 1); });
             y.mul_(3);
             return {view, view};
           }),
      Case("views_under_no_grad_of_what_has_no_backward_any_more", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor z = in[0] * in[0];
             const Tensors views = NoGrad([&] { return Tensors{z.select(0, 1), z.t()}; });
             NoGrad([&] { in[0].mul_(3); });
             return {views[0], views[1], in[0] * 2};
           }),
      Case("views_with_and_without_history_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor z = in[0] * in[0];
             return {z.t(), NoGrad([&] { return z.select(0, 1); })};
           }),
      Case(
          "view_under_no_grad_multiplied_and_written_detached",
          [] {
            const at::Tensor x = leaf(0, {2, 3});
            return Tensors{NoGrad([&] { return x.t(); })};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor product = in[0] * in[0];
            return {in[0].detach().sub_(product, 2)};
          }),
      Case(
          "view_under_no_grad_added_to_another_and_written",
          [] {
            const at::Tensor x = leaf(0, {2, 3}).clone();
            return Tensors{leaf(1, {2, 3}).clone(), NoGrad([&] { return x.squeeze(); })};
          },
          [](Tensors in) -> Tensors {
            in[0].addcmul_(in[1], in[1]);
            NoGrad([&] { in[1].neg_(); });
            return {};
          }),
      Case("view_under_no_grad_used_returned_and_written", LeafAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             const at::Tensor product = in[1] * 2;
             NoGrad([&] { in[1].add_(1); });
             return {product, in[1].detach(), in[0].sin()};
           }),
      Case("view_under_no_grad_times_its_base", LeafAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             return {in[1] * Flat(in[0]), in[1] * Flat(in[0]).detach()};
           }),
      Case("view_under_no_grad_times_what_is_moved_later", LeafAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             const at::Tensor bits = in[0].view(at::kInt);
             const at::Tensor product = in[1] * Flat(in[0]).detach();
             bits.squeeze_(0);
             return {product};
           }),
  };
}

}  // namespace

std::vector<ConfCase> ModeCases() {
  std::vector<ConfCase> cases = {
      Case("gradients_end_at_a_switch", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * in[0];
             at::GradMode::set_enabled(false);
             return {y.clone(), y};
           }),
      WithoutGrad(Case("gradients_enabled_for_one_output", TwoLeaves,
                       [](Tensors in) -> Tensors {
                         const at::Tensor a = in[0] * in[1];
                         const at::AutoGradMode mode(true);
                         return {a, in[0].cos()};
                       })),
      WithoutGrad(Case("view_and_result_without_gradients", Leaf,
                       [](Tensors in) -> Tensors {
                         return {Flat(in[0]), in[0].sin()};
                       })),
      WithoutGrad(Case("written_without_gradients_in_call", Computed,
                       [](Tensors in) -> Tensors {
                         in[0].mul_(2);
                         return {in[0].t(), in[0] + 1};
                       })),
      Case(
          "one_of_two_requires_grad",
          [] {
            return Tensors{leaf(0, {3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            return {in[0].cos(), in[1].cos(), in[0] * in[1]};
          }),
      Case(
          "none_requires_grad",
          [] {
            return Tensors{buf(0, {3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            return {in[0].cos(), in[1].cos(), in[0] * in[1]};
          }),
      Case("detached_factor", TwoComputed, [](Tensors in) -> Tensors { return {in[0] * in[1].detach()}; }),
      Case("detached_factor_of_itself", Computed, [](Tensors in) -> Tensors { return {in[0] * in[0].detach()}; }),
      Case("view_under_no_grad_read_then_written", LeafAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             const at::Tensor sum = in[1].add(1);
             const at::Tensor written = NoGrad([&] { return in[1].relu_(); });
             return {sum, in[0], written};
           }),
      Case("view_under_no_grad_read_then_base_written", LeafAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             const at::Tensor product = in[1] * in[0].view({6});
             NoGrad([&] { in[0].mul_(2); });
             return {product, in[0] + 1};
           }),
      Case("view_under_no_grad_read_then_computed_base_written", ComputedAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             const at::Tensor sum = in[1] + 3;
             in[0].mul_(2);
             return {sum, in[0].view({3, 2})};
           }),
      Case("view_under_no_grad_read_after_base_was_written", ComputedAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[1] + 3};
           }),
      Case("view_under_no_grad_read_after_write_under_no_grad", ComputedAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             NoGrad([&] { in[0].mul_(2); });
             return {in[1] * 3, in[0] * 2};
           }),
      Case("view_under_no_grad_written", ComputedAndViewUnderNoGrad,
           [](Tensors in) -> Tensors {
             in[1].mul_(2);
             return {in[0] * 3};
           }),
      Case("average_without_gradients", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             NoGrad([&] { in[0].mul_(0.9).add_(in[1], 0.1); });
             return {in[1] - in[0]};
           }),
      Case("written_detached_and_without_gradients", Computed,
           [](Tensors in) -> Tensors {
             in[0].detach().mul_(2);
             NoGrad([&] { in[0].add_(1); });
             return {in[0] * 3};
           }),
      Case("view_taken_before_writing_without_gradients", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor v = in[0].select(0, 0);
             NoGrad([&] { in[0].add_(1); });
             return {v * 2, v};
           }),
      Case("intermediate_written_without_gradients", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             NoGrad([&] { y.mul_(3); });
             return {y, y.t()};
           }),
      Case("intermediate_written_through_a_detached_alias", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             y.detach().mul_(3);
             return {y * 1};
           }),
      Case("leaf_written_detached", Leaf,
           [](Tensors in) -> Tensors {
             in[0].detach().mul_(2);
             return {in[0] + 3};
           }),
      Case("leaf_written_without_gradients_and_viewed", Leaf,
           [](Tensors in) -> Tensors {
             NoGrad([&] { in[0].mul_(2); });
             return {in[0].t(), in[0] * 2};
           }),
      Case("leaf_detached_in_place_and_moved", Leaf,
           [](Tensors in) -> Tensors {
             in[0].detach_();
             in[0].t_();
             return {in[0] * 2};
           }),
      Case("computed_input_detached_in_place", TwoComputed,
           [](Tensors in) -> Tensors {
             in[0].detach_();
             return {in[0] * in[1]};
           }),
      Case("intermediate_detached_in_place", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 2;
             y.detach_();
             return {y, in[0] * y};
           }),
      Case("inference_mode_inside", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y;
             {
               const c10::InferenceMode mode;
               y = in[0] * 2;
             }
             return {y.clone(), in[0] * 3};
           }),
      Case("written_view_written_in_inference_mode", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             const at::Tensor row = in[0].select(0, 1);
             {
               const c10::InferenceMode mode;
               row.add_(1);
               in[0].detach().mul_(3);
             }
             return {in[0].sin(), row};
           }),
      Case("custom_scale_of_a_written_input", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {custom_scale(in[0])};
           }),
      Case("custom_function_between_views", Leaf,
           [](Tensors in) -> Tensors { return {Flat(custom_scale(in[0].t()).contiguous())}; }),
      Case("custom_saved_and_view", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = custom_saved(in[0]);
             return {y, y.t()};
           }),
      Case("custom_without_derivative_and_view", Leaf,
           [](Tensors in) -> Tensors {
             Tensors both = custom_nondiff(in[0]);
             return {both[0], both[1], both[1].t()};
           }),
      AfterBackward(Case(
          "custom_backward_changes_a_buffer_twice",
          [] {
            return Tensors{leaf(0, {3}), buf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            return {custom_bw_mutates(in[0], in[1]), custom_bw_mutates(in[0] * 2, in[1])};
          })),
      Random(Case("dropout_of_an_input_in_place", Computed,
                  [](Tensors in) -> Tensors {
                    at::dropout_(in[0], 0.5, true);
                    return {in[0].sum()};
                  })),
      Random(Case("dropout_of_a_view_in_place", Computed,
                  [](Tensors in) -> Tensors {
                    at::Tensor row = in[0].select(0, 1);
                    at::dropout_(row, 0.5, true);
                    return {in[0] * 2};
                  })),
      Random(Case("normal_in_place_of_an_input", Buffer,
                  [](Tensors in) -> Tensors {
                    in[0].normal_();
                    return {in[0] * 2};
                  })),
      Random(Case("uniform_in_place_of_a_view", Buffer,
                  [](Tensors in) -> Tensors {
                    in[0].select(1, 0).uniform_(0, 1);
                    return {in[0] * 2, in[0].t()};
                  })),
      Random(Case(
          "bernoulli_of_no_complex_numbers",
          [] {
            return Tensors{leaf(0, {0, 3}, at::kComplexFloat)};
          },
          [](Tensors in) -> Tensors { return {at::bernoulli(in[0])}; })),
      Random(Case("bernoulli_of_an_intermediate", Leaf,
                  [](Tensors in) -> Tensors {
                    at::Tensor mask = at::zeros_like(in[0]);
                    mask.bernoulli_(0.5);
                    return {in[0] * mask, mask};
                  })),
      Random(Case("random_numbers_in_two_places", Leaf,
                  [](Tensors in) -> Tensors {
                    const at::Tensor a = at::rand_like(in[0]);
                    const at::Tensor b = at::randn_like(in[0]);
                    return {in[0] * a + b, a};
                  })),
      Random(Case("random_rows_of_an_input_written", Computed,
                  [](Tensors in) -> Tensors {
                    in[0].mul_(at::rand({3}));
                    return {in[0], at::rand({2}) * in[0].sum()};
                  })),
      Random(Case("leaky_relu_with_random_slopes", Leaf,
                  [](Tensors in) -> Tensors { return {at::rrelu(in[0], 0.1, 0.3, true)}; })),
      Random(Case(
          "feature_dropout",
          [] {
            return Tensors{leaf(0, {2, 3, 4})};
          },
          [](Tensors in) -> Tensors { return {at::feature_dropout(in[0], 0.5, true)}; })),
      Random(Case("permutation", Leaf, [](Tensors in) -> Tensors { return {in[0].index_select(1, at::randperm(3))}; })),
  };
  const std::vector<ConfCase> more = NoGradViewCases();
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

}  // namespace cotan::conformance
