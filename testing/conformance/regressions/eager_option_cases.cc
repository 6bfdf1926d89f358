// SPDX-License-Identifier: Apache-2.0

// Functions of torch::nn with options other than the defaults: results and gradients.
#include <ATen/core/Reduction.h>
#include <torch/nn/functional.h>

#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

namespace F = torch::nn::functional;

using T = const at::Tensor&;

// Returns a function that makes one leaf for each list of sizes.
std::function<Tensors()> Leaves(std::vector<std::vector<int64_t>> sizes) {
  return [sizes = std::move(sizes)] {
    Tensors inputs;
    for (const std::vector<int64_t>& one : sizes) inputs.push_back(leaf(static_cast<int64_t>(inputs.size()), one));
    return inputs;
  };
}

ConfCase Of(const char* name, std::vector<std::vector<int64_t>> sizes, std::function<Tensors(Tensors)> f) {
  return Case(name, Leaves(std::move(sizes)), std::move(f));
}

// A tensor that is made before the function is called, and which the function uses without being given it.
at::Tensor& Captured() {
  static at::Tensor tensor;
  return tensor;
}

// Resizes by factors that do not divide the sizes.
template <typename Mode>
at::Tensor ResizedBy(std::vector<double> factors, Mode mode, T x) {
  F::InterpolateFuncOptions options;
  options.scale_factor(std::move(factors)).mode(mode);
  if constexpr (!std::is_same_v<Mode, torch::enumtype::kNearest>) options.align_corners(false);
  return F::interpolate(x, options);
}

std::vector<ConfCase> ResizeCases() {
  return {
      Of("resize_linear_by_a_factor_to_the_same_size", {{1, 2, 3}},
         [](Tensors in) -> Tensors { return {ResizedBy({1.3}, torch::kLinear, in[0]) * 2}; }),
      Of("resize_bilinear_by_a_factor_that_keeps_one_size", {{1, 2, 3, 5}},
         [](Tensors in) -> Tensors {
           return {ResizedBy({1.3, 1.3}, torch::kBilinear, in[0])};
         }),
      Of("resize_nearest_by_a_factor_to_the_same_and_twice_the_size", {{1, 2, 3}},
         [](Tensors in) -> Tensors {
           return {ResizedBy({1.3}, torch::kNearest, in[0]), ResizedBy({2.3}, torch::kNearest, in[0])};
         }),
      Of("resize_nearest_of_one_channel_by_factors", {{2, 1, 3, 3}},
         [](Tensors in) -> Tensors {
           return {ResizedBy({1.3, 2.3}, torch::kNearest, in[0])};
         }),
      Of("resize_bicubic_by_a_factor_to_the_same_size", {{1, 2, 4, 4}},
         [](Tensors in) -> Tensors {
           return {ResizedBy({1.2, 1.2}, torch::kBicubic, in[0]), ResizedBy({1.2, 1.3}, torch::kBicubic, in[0])};
         }),
      Of("points_are_sampled_in_all_modes", {{1, 2, 4, 4}, {1, 2, 3, 2}},
         [](Tensors in) -> Tensors {
           Tensors results;
           for (int64_t interpolation = 0; interpolation < 3; ++interpolation) {
             for (int64_t padding = 0; padding < 3; ++padding) {
               const at::Tensor grid = in[1] * 1.1 + 0.03;  // between places where a mode jumps
               results.push_back(at::grid_sampler(in[0], grid, interpolation, padding, /*align_corners=*/false));
               results.push_back(at::grid_sampler(in[0], grid, interpolation, padding, /*align_corners=*/true));
             }
           }
           return results;
         }),
  };
}

// Class weights that the function captures, as a criterion that is made outside of it does.
ConfCase SmoothedWithCapturedWeights() {
  const auto inputs = [] {
    Captured() = buf(3, {3}).abs();
    return Tensors{leaf(0, {4, 3}), ints({2, 1, 0, 1})};
  };
  return Case("loss_smoothed_with_captured_class_weights", inputs, [](Tensors in) -> Tensors {
    const auto options = F::CrossEntropyFuncOptions().weight(Captured()).label_smoothing(0.1);
    F::CrossEntropyFuncOptions ignoring = options;
    ignoring.ignore_index(1);
    return {F::cross_entropy(in[0], in[1], options), F::cross_entropy(in[0], in[1], ignoring)};
  });
}

ConfCase CtcOfNoSteps(const char* name, bool zero_infinity) {
  const auto inputs = [] { return Tensors{leaf(0, {3, 3, 4}), ints({1, 2, 1, 3, 2, 1}).view({3, 2})}; };
  return Case(name, inputs, [zero_infinity](Tensors in) -> Tensors {
    const at::Tensor log_probs = at::log_softmax(in[0], 2);
    return {at::ctc_loss(log_probs, in[1], {0, 3, 0}, {1, 2, 0}, /*blank=*/0, at::Reduction::None, zero_infinity)};
  });
}

std::vector<ConfCase> LossCases() {
  const double infinity = std::numeric_limits<double>::infinity();
  return {
      SmoothedWithCapturedWeights(),
      CtcOfNoSteps("ctc_loss_of_no_steps", /*zero_infinity=*/false),
      CtcOfNoSteps("ctc_loss_of_no_steps_without_infinities", /*zero_infinity=*/true),
      Of("loss_of_probabilities_with_weights_and_smoothing", {{2, 3, 2}, {2, 3, 2}, {3}},
         [](Tensors in) -> Tensors {
           const auto options = F::CrossEntropyFuncOptions().weight(in[2].abs()).label_smoothing(0.2);
           return {F::cross_entropy(in[0], in[1].softmax(1), options)};
         }),
      Of("losses_with_unusual_options", {{2, 3}, {2, 3}, {2, 3}},
         [](Tensors in) -> Tensors {
           F::KLDivFuncOptions divergence(torch::kBatchMean);
           divergence.log_target(true);
           const auto poisson = F::PoissonNLLLossFuncOptions().log_input(false).full(true).reduction(torch::kSum);
           const auto triplet = F::TripletMarginLossFuncOptions().p(1).swap(true).reduction(torch::kNone);
           const at::Tensor weight = in[1].detach().abs(), positive = in[2].detach().abs();
           const auto logits = F::BinaryCrossEntropyWithLogitsFuncOptions().pos_weight(positive).weight(weight);
           return {F::kl_div(in[0].log_softmax(1), in[1].log_softmax(1), divergence),
                   F::poisson_nll_loss(in[0].abs(), in[1].abs() * 4, poisson),
                   F::triplet_margin_loss(in[0], in[1], in[2], triplet),
                   F::binary_cross_entropy_with_logits(in[0], in[1].detach().sigmoid(), logits)};
         }),
      Of("distances_to_the_farthest_of_equal_coordinates", {{3, 4}, {2, 4}},
         [infinity](Tensors in) -> Tensors {
           const auto rounded = [](T x, double length) { return x - x.detach() + x.detach().sign() * length; };
           const at::Tensor x = rounded(in[0], 1), y = rounded(in[1], 2);
           return {at::cdist(x, y, infinity), at::pdist(x, infinity)};
         }),
  };
}

F::MultiheadAttentionForwardFuncOptions AttentionOptions(const Tensors& in) {
  return {4, 2, in[3], in[4], in[7], in[8], /*add_zero_attn=*/true, /*dropout_p=*/0.0, in[5], in[6]};
}

std::vector<ConfCase> AttentionCases() {
  // Query, key, value, weights and biases of the projections, and bias rows of key and value.
  const std::vector<std::vector<int64_t>> sizes = {{3, 2, 4}, {3, 2, 4}, {3, 2, 4}, {12, 4},  {12},
                                                   {4, 4},    {4},       {1, 1, 4}, {1, 1, 4}};
  return {
      Of("attention_of_three_tensors_of_equal_sizes", sizes,
         [](Tensors in) -> Tensors {
           const auto [output, weights] =
               F::multi_head_attention_forward(in[0], in[1], in[2], AttentionOptions(in).need_weights(true));
           return {output, weights};
         }),
      Of("attention_of_a_memory_of_equal_sizes_with_masks", sizes,
         [](Tensors in) -> Tensors {
           auto options = AttentionOptions(in);
           options.attn_mask(at::triu(at::full({3, 3}, -std::numeric_limits<float>::infinity()), 1));
           options.key_padding_mask(at::eq(at::arange(6).view({2, 3}), 5)).average_attn_weights(false);
           const auto [output, weights] = F::multi_head_attention_forward(in[0], in[1], in[1], options);
           return {output, weights};
         }),
      Of("attention_of_more_key_heads_than_query_heads", {{1, 1, 3, 4}, {1, 2, 3, 4}},
         [](Tensors in) -> Tensors {
           return {at::scaled_dot_product_attention(in[0], in[1], in[1], {}, 0.0, /*is_causal=*/false, {},
                                                    /*enable_gqa=*/true)};
         }),
  };
}

std::vector<ConfCase> RecurrentCases() {
  // An LSTM of 3 cells and 2 outputs in both directions: input, states, and the weights of each direction.
  std::vector<std::vector<int64_t>> lstm = {{2, 3, 2}, {2, 2, 2}, {2, 2, 3}};
  for (int direction = 0; direction < 2; ++direction) {
    lstm.insert(lstm.end(), {{12, 2}, {12, 2}, {12}, {12}, {2, 3}});
  }
  // Two layers of a GRU of 2 cells without biases.
  const std::vector<std::vector<int64_t>> gru = {{3, 2, 2}, {2, 2, 2}, {6, 2}, {6, 2}, {6, 2}, {6, 2}};
  return {
      Of("lstm_with_projections_in_both_directions", lstm,
         [](Tensors in) -> Tensors {
           const Tensors weights(in.begin() + 3, in.end());
           const auto [output, hidden, cell] =
               at::lstm(in[0], {in[1], in[2]}, weights, /*has_biases=*/true, /*num_layers=*/1, /*dropout=*/0.0,
                        /*train=*/true, /*bidirectional=*/true, /*batch_first=*/true);
           return {output, hidden, cell};
         }),
      Of("gru_of_two_layers_without_biases", gru,
         [](Tensors in) -> Tensors {
           const Tensors weights(in.begin() + 2, in.end());
           const auto [output, hidden] =
               at::gru(in[0], in[1], weights, /*has_biases=*/false, /*num_layers=*/2, /*dropout=*/0.0,
                       /*train=*/false, /*bidirectional=*/false, /*batch_first=*/false);
           return {output, hidden};
         }),
  };
}

std::vector<ConfCase> WindowCases() {
  return {
      Of("convolution_of_the_same_size_with_an_even_dilated_kernel", {{1, 2, 5}, {3, 2, 2}},
         [](Tensors in) -> Tensors {
           return {F::conv1d(in[0], in[1], F::Conv1dFuncOptions().padding(torch::kSame).dilation(3))};
         }),
      Of("convolution_of_borders_that_are_reflected_and_continued", {{1, 2, 4, 4}, {2, 2, 3, 3}},
         [](Tensors in) -> Tensors {
           F::PadFuncOptions reflected({1, 2, 3, 0}), circular({2, 0, 1, 3});
           reflected.mode(torch::kReflect);
           circular.mode(torch::kCircular);
           return {F::conv2d(F::pad(in[0], reflected), in[1]), F::conv2d(F::pad(in[0], circular), in[1])};
         }),
      Of("transposed_convolution_with_all_options", {{1, 4, 3, 2}, {4, 1, 2, 3}, {2}},
         [](Tensors in) -> Tensors {
           auto options = F::ConvTranspose2dFuncOptions().stride({3, 2}).padding(1).output_padding({2, 1});
           return {F::conv_transpose2d(in[0], in[1], options.groups(2).dilation(2).bias(in[2]))};
         }),
      Of("averages_of_windows_beyond_the_border", {{1, 2, 5, 6}},
         [](Tensors in) -> Tensors {
           const auto options = F::AvgPool2dFuncOptions({3, 2}).stride(2).padding(1).ceil_mode(true);
           F::AvgPool2dFuncOptions inside = options, divided = options;
           inside.count_include_pad(false);
           divided.divisor_override(5);
           return {F::avg_pool2d(in[0], options), F::avg_pool2d(in[0], inside), F::avg_pool2d(in[0], divided)};
         }),
      Of("largest_of_dilated_windows_beyond_the_border", {{2, 5, 6}},
         [](Tensors in) -> Tensors {
           const auto options = F::MaxPool2dFuncOptions(2).stride(3).padding(1).dilation(2).ceil_mode(true);
           const auto [values, indices] = F::max_pool2d_with_indices(in[0], options);
           return {values, indices};
         }),
      Of("norms_of_windows", {{1, 2, 5, 5}},
         [](Tensors in) -> Tensors {
           return {F::lp_pool2d(in[0].abs(), F::LPPool2dFuncOptions(3, {2, 3}).stride(2).ceil_mode(true))};
         }),
      Case(
          "means_of_bags_with_padding_and_a_last_offset",
          [] {
            return Tensors{leaf(0, {5, 3}), ints({4, 0, 2, 4, 1}), ints({0, 2, 2, 5})};
          },
          [](Tensors in) -> Tensors {
            return {std::get<0>(at::embedding_bag(in[0], in[1], in[2], /*scale_grad_by_freq=*/false, /*mode=*/1,
                                                  /*sparse=*/false, {}, /*include_last_offset=*/true,
                                                  /*padding_idx=*/4))};
          }),
  };
}

std::vector<ConfCase> NormAndActivationCases() {
  return {
      Of("norms_without_weights", {{2, 4, 3}},
         [](Tensors in) -> Tensors {
           const auto local = F::LocalResponseNormFuncOptions(3).alpha(0.5).beta(0.6).k(2);
           return {at::group_norm(in[0], 2), at::layer_norm(in[0], {4, 3}), F::instance_norm(in[0]),
                   F::local_response_norm(in[0], local)};
         }),
      Case(
          "statistics_with_a_momentum_of_one",
          [] {
            return Tensors{leaf(0, {4, 3}), buf(1, {3}), buf(2, {3}).abs()};
          },
          [](Tensors in) -> Tensors {
            // Eager's batch_norm does not count its writes in versions, compiled functions do; both count these.
            in[1].mul_(2);
            in[2].mul_(2);
            return {at::batch_norm(in[0], {}, {}, in[1], in[2], /*training=*/true, /*momentum=*/1, 1e-3, false),
                    at::batch_norm(in[0], {}, {}, in[1], in[2], /*training=*/false, /*momentum=*/1, 1e-3, false)};
          }),
      Of("activations_in_place", {{2, 3}},
         [](Tensors in) -> Tensors {
           const auto of = [&](const auto& activation) {
             at::Tensor x = in[0] * 2;
             activation(x);
             return x;
           };
           return {of([](at::Tensor& x) { at::elu_(x, 0.5, 2, 1.5); }),
                   of([](at::Tensor& x) { at::celu_(x, 0.5); }),
                   of([](at::Tensor& x) { at::leaky_relu_(x, 0.2); }),
                   of([](at::Tensor& x) { at::hardtanh_(x, -0.5, 0.75); }),
                   of([](at::Tensor& x) { at::silu_(x); }),
                   of([](at::Tensor& x) { at::threshold_(x, 0.25, -3); })};
         }),
      Of("softplus_and_shrinks_with_options", {{2, 3}},
         [](Tensors in) -> Tensors {
           return {at::softplus(in[0] * 10, 2, 3), at::softshrink(in[0], 0.25), at::hardshrink(in[0], 0.25),
                   at::glu(in[0].view({3, 2}), -1)};
         }),
  };
}

}  // namespace

std::vector<ConfCase> OptionCases() {
  std::vector<ConfCase> cases = ResizeCases();
  for (const std::vector<ConfCase>& more :
       {LossCases(), AttentionCases(), RecurrentCases(), WindowCases(), NormAndActivationCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace cotan::conformance
