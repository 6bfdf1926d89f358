// SPDX-License-Identifier: Apache-2.0

// Ops that the compiler writes in terms of other ops above autograd: results, gradients, identity of results and
// writes, and arguments that LibTorch refuses.
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

// Returns a function that makes one leaf for each list of sizes, of which the first is computed.
std::function<Tensors()> ComputedAndLeaves(std::vector<std::vector<int64_t>> sizes) {
  return [sizes = std::move(sizes)] {
    Tensors inputs;
    for (const std::vector<int64_t>& one : sizes) inputs.push_back(leaf(static_cast<int64_t>(inputs.size()), one));
    inputs[0] = inputs[0].clone();
    return inputs;
  };
}

Tensors RowsAndStatistics(at::IntArrayRef sizes) {
  return {leaf(0, sizes), leaf(1, {3}), leaf(2, {3}), buf(3, {3}), buf(4, {3}).abs()};
}

Tensors NormalizedInTraining(const Tensors& in) {
  return {at::batch_norm(in[0], in[1], in[2], in[3], in[4], /*training=*/true, 0.1, 1e-5, false)};
}

// A tensor that is made before the function is called, and which the function uses without being given it.
at::Tensor& Captured() {
  static at::Tensor tensor;
  return tensor;
}

std::vector<ConfCase> NormalizationCases() {
  return {
      Case(
          "batch_norm_of_no_rows_leaves_the_statistics",
          [] {
            return RowsAndStatistics({0, 3});
          },
          NormalizedInTraining),
      Case(
          "batch_norm_of_no_pixels_leaves_the_statistics",
          [] {
            return RowsAndStatistics({2, 3, 0});
          },
          NormalizedInTraining),
      Case(
          "batch_norm_of_channels_last",
          [] {
            Tensors in = RowsAndStatistics({2, 3, 2, 2});
            in[0] = in[0].contiguous(at::MemoryFormat::ChannelsLast);
            return in;
          },
          [](Tensors in) -> Tensors {
            // Eager's batch_norm does not count its writes in versions, compiled functions do; both count these.
            in[3].mul_(2);
            in[4].mul_(2);
            return NormalizedInTraining(in);
          }),
      Case(
          "instance_norm_with_statistics",
          [] {
            return RowsAndStatistics({2, 3, 4});
          },
          [](Tensors in) -> Tensors {
            return {at::instance_norm(in[0], in[1], in[2], in[3], in[4], /*use_input_stats=*/true, 0.1, 1e-5, false)};
          }),
      Case(
          "weight_norm_of_a_vector",
          [] {
            return Tensors{leaf(0, {3}), leaf(1, {3})};
          },
          [](Tensors in) -> Tensors { return {at::_weight_norm(in[0], in[1], 0)}; }),
      Case(
          "weight_norm_of_columns",
          [] {
            return Tensors{leaf(0, {2, 3}), leaf(1, {1, 3})};
          },
          [](Tensors in) -> Tensors { return {at::_weight_norm(in[0], in[1], 1)}; }),
      Case(
          "weight_norm_of_the_whole",
          [] {
            return Tensors{leaf(0, {2, 3}), leaf(1, {})};
          },
          [](Tensors in) -> Tensors { return {at::_weight_norm(in[0], in[1], -1)}; }),
      Case(
          "rows_that_are_looked_up_are_renormed",
          [] {
            return Tensors{buf(0, {5, 3}), ints({4, 0, 4})};
          },
          [](Tensors in) -> Tensors {
            at::embedding_renorm_(in[0], in[1], /*max_norm=*/0.5, /*norm_type=*/2.0);
            return {at::embedding(in[0], in[1])};
          }),
  };
}

std::vector<ConfCase> RandomNumberCases() {
  return {
      Case("native_dropout_without_training_is_a_copy", Leaf,
           [](Tensors in) -> Tensors {
             const auto [kept, mask] = at::native_dropout(in[0], 0.5, /*train=*/false);
             return {kept, mask};
           }),
      Random(Case("integers_drawn_into_a_buffer", BufferAndLeaf,
                  [](Tensors in) -> Tensors {
                    in[0].random_(0, 4);
                    return {in[0] * in[1]};
                  })),
      Random(Case("leaky_relu_with_random_slopes_in_place", Computed,
                  [](Tensors in) -> Tensors { return {at::rrelu_(in[0], 0.1, 0.3, /*training=*/true) * 2}; })),
      Random(Case("alpha_dropout_in_place", Computed,
                  [](Tensors in) -> Tensors {
                    at::alpha_dropout_(in[0], 0.5, /*train=*/true);
                    return {in[0].t()};
                  })),
  };
}

std::vector<ConfCase> WriteCases() {
  return {
      Case("largest_are_reduced_by_index_in_place", ComputedAndLeaves({{4, 3}, {2, 3}}),
           [](Tensors in) -> Tensors {
             in[0].index_reduce_(0, ints({0, 2}), in[1], "amax");
             return {in[0] * 2};
           }),
      Case("products_are_reduced_by_index_in_place", ComputedAndLeaves({{4, 3}, {2, 3}}),
           [](Tensors in) -> Tensors {
             in[0].index_reduce_(0, ints({1, 1}), in[1], "prod", /*include_self=*/false);
             return {in[0].t()};
           }),
      Case("means_are_scattered_in_place", ComputedAndLeaves({{4}, {3}}),
           [](Tensors in) -> Tensors {
             in[0].scatter_reduce_(0, ints({0, 2, 0}), in[1], "mean");
             return {in[0] * 2};
           }),
      Case("largest_are_scattered_into_a_view", ComputedAndLeaves({{2, 4}, {3}}),
           [](Tensors in) -> Tensors {
             in[0].select(0, 1).scatter_reduce_(0, ints({0, 2, 0}), in[1], "amax");
             return {in[0], in[0].t()};
           }),
      Case("renorm_in_place", Square,
           [](Tensors in) -> Tensors {
             in[0].renorm_(2, 0, 0.5);
             return {in[0] * 2};
           }),
      Case("cumprod_in_place", Computed,
           [](Tensors in) -> Tensors {
             in[0].cumprod_(1);
             return {in[0] * 2};
           }),
      Case("addmv_in_place", ComputedAndLeaves({{2}, {2, 3}, {3}}),
           [](Tensors in) -> Tensors { return {in[0].addmv_(in[1], in[2], 0.5, 2)}; }),
      Case("addr_in_place", ComputedAndLeaves({{2, 3}, {2}, {3}}),
           [](Tensors in) -> Tensors { return {in[0].addr_(in[1], in[2]).t()}; }),
      Case("baddbmm_in_place", ComputedAndLeaves({{2, 2, 2}, {2, 2, 3}, {2, 3, 2}}),
           [](Tensors in) -> Tensors { return {in[0].baddbmm_(in[1], in[2]) * 2}; }),
      Case("addbmm_in_place", ComputedAndLeaves({{2, 2}, {2, 2, 3}, {2, 3, 2}}),
           [](Tensors in) -> Tensors { return {in[0].addbmm_(in[1], in[2]) * 2}; }),
      Case("copysign_in_place", TwoComputed, [](Tensors in) -> Tensors { return {in[0].copysign_(in[1]) * 2}; }),
      Case("hypot_in_place", TwoComputed, [](Tensors in) -> Tensors { return {in[0].hypot_(in[1]) * 2}; }),
      Case("lerp_by_a_tensor_in_place", ComputedAndLeaves({{2, 3}, {2, 3}, {3}}),
           [](Tensors in) -> Tensors { return {in[0].lerp_(in[1], in[2]) * 2}; }),
      Case("nan_to_num_in_place", Computed, [](Tensors in) -> Tensors { return {(in[0] / 0).nan_to_num_(1, 2, 3)}; }),
      Case("tril_in_place_of_a_transposed_view", Square,
           [](Tensors in) -> Tensors {
             in[0].t().tril_();
             return {in[0]};
           }),
      Case(
          "a_captured_table_is_copied_and_written",
          [] {
            Captured() = buf(5, {2, 3});
            return Leaf();
          },
          [](Tensors in) -> Tensors {
            const at::Tensor own = Captured().clone();
            own.select(0, 1).add_(1);
            return {in[0] * own};
          }),
      Case(
          "a_copy_of_a_captured_table_is_read_before_and_after_a_write",
          [] {
            Captured() = buf(5, {2, 3});
            return Leaf();
          },
          [](Tensors in) -> Tensors {
            const at::Tensor own = Captured().clone();
            const at::Tensor before = in[0] + own;
            own.mul_(2);
            return {before, in[0] + own};
          }),
  };
}

// Tensors that are made of numbers alone, next to an argument.
std::vector<ConfCase> FactoryCases() {
  const auto vector = [] { return Tensors{leaf(0, {4})}; };
  const auto scaled_by = [&](const char* name, std::function<at::Tensor()> factor) {
    return Case(name, vector, [factor = std::move(factor)](Tensors in) -> Tensors { return {in[0] * factor()}; });
  };
  return {
      scaled_by("scaled_by_powers_of_ten", [] { return at::logspace(0, 1, 4); }),
      scaled_by("scaled_by_a_closed_range", [] { return at::range(1, 4, 1); }),
      scaled_by("scaled_by_frequencies", [] { return at::fft_fftfreq(4); }),
      scaled_by("scaled_by_real_frequencies", [] { return at::fft_rfftfreq(6); }),
      scaled_by("scaled_by_a_window", [] { return at::hann_window(4); }),
      scaled_by("scaled_by_a_kaiser_window", [] { return at::kaiser_window(4); }),
      scaled_by("scaled_by_permuted_memory",
                [] {
                  return at::empty_permuted({3, 4}, {1, 0}).fill_(2);
                }),
      scaled_by("scaled_by_integers_on_a_line", [] { return at::linspace(0, 10, 4, at::kLong); }),
      scaled_by("scaled_by_a_rectangle", [] { return at::eye(3, 4); }),
      Case("pairs_of_elements", vector, [](Tensors in) -> Tensors { return {at::combinations(in[0], 2)}; }),
      Case("powers_of_elements", vector, [](Tensors in) -> Tensors { return {at::vander(in[0], 3)}; }),
      Case(
          "products_of_two_sets",
          [] {
            return Tensors{leaf(0, {2}), leaf(1, {3})};
          },
          [](Tensors in) -> Tensors {
            return {at::cartesian_prod({in[0], in[1]}), at::meshgrid({in[0], in[1]}, "ij")[1]};
          }),
  };
}

// Forms of ops that look up or add rows.
std::vector<ConfCase> IndexCases() {
  const auto table_and_rows = [] { return Tensors{leaf(0, {5, 3}), ints({4, 0, 4}), ints({0, 2})}; };
  const auto two_numbers = [] { return Tensors{leaf(0, {}), leaf(1, {})}; };
  return {
      Case("gradients_of_rows_are_scaled_by_their_count", table_and_rows,
           [](Tensors in) -> Tensors {
             return {at::embedding(in[0], in[1], /*padding_idx=*/-1, /*scale_grad_by_freq=*/true)};
           }),
      Case("largest_of_bags", table_and_rows,
           [](Tensors in) -> Tensors {
             return {std::get<0>(at::embedding_bag(in[0], in[1], in[2], /*scale_grad_by_freq=*/false, /*mode=*/2))};
           }),
      Case("largest_of_bags_with_padding", table_and_rows,
           [](Tensors in) -> Tensors {
             return {std::get<0>(at::embedding_bag(in[0], in[1], in[2], /*scale_grad_by_freq=*/false, /*mode=*/2,
                                                   /*sparse=*/false, {}, /*include_last_offset=*/false,
                                                   /*padding_idx=*/4))};
           }),
      Case("gradients_of_bags_are_scaled_by_their_count", table_and_rows,
           [](Tensors in) -> Tensors {
             return {std::get<0>(at::embedding_bag(in[0], in[1], in[2], /*scale_grad_by_freq=*/true, /*mode=*/1))};
           }),
      Case("number_is_scattered_and_added", two_numbers,
           [](Tensors in) -> Tensors { return {at::scatter_add(in[0], 0, at::zeros({}, at::kLong), in[1])}; }),
  };
}

}  // namespace

std::vector<ConfCase> RewrittenOpCases() {
  std::vector<ConfCase> cases = NormalizationCases();
  for (const std::vector<ConfCase>& more : {RandomNumberCases(), WriteCases(), FactoryCases(), IndexCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

std::vector<ConfCase> RefusedDrawCases() {
  using Write = std::function<void(Tensors&)>;
  const auto write = [](const char* name, std::function<Tensors()> inputs, Write to) {
    return Random(Case(name, std::move(inputs), [to = std::move(to)](Tensors in) -> Tensors {
      to(in);
      return {in[0] * 1};
    }));
  };
  const auto integers = [] { return Tensors{buf(0, {4}, at::kLong)}; };
  return {
      write("bernoulli_above_one", Buffer, [](Tensors& in) { in[0].bernoulli_(1.5); }),
      write("normal_of_a_negative_deviation", Buffer, [](Tensors& in) { in[0].normal_(0, -1); }),
      write("uniform_from_above_its_end", Buffer, [](Tensors& in) { in[0].uniform_(2, 1); }),
      write("exponential_of_a_negative_rate", Buffer, [](Tensors& in) { in[0].exponential_(-1); }),
      write("integers_of_an_empty_range", Buffer, [](Tensors& in) { in[0] = at::randint_like(in[0], 5, 5); }),
      write("normal_of_integers", integers, [](Tensors& in) { in[0].normal_(); }),
      write("uniform_of_integers", integers, [](Tensors& in) { in[0].uniform_(0, 9); }),
      write("dropout_of_integers", integers, [](Tensors& in) { in[0] = at::dropout(in[0], 0.5, /*train=*/true); }),
      write(
          "feature_dropout_of_a_vector", [] { return Tensors{leaf(0, {4})}; },
          [](Tensors& in) { in[0] = at::feature_dropout(in[0], 0.5, /*train=*/true); }),
  };
}

std::vector<ConfCase> RefusedArgumentCases() {
  return {
      Case(
          "multi_margin_loss_of_the_third_power",
          [] {
            return Tensors{leaf(0, {4, 3}), ints({2, 0, 1, 1})};
          },
          [](Tensors in) -> Tensors { return {at::multi_margin_loss(in[0], in[1], 3)}; }),
      Case(
          "one_hot_of_a_class_that_does_not_exist",
          [] {
            return Tensors{ints({0, 5, 1})};
          },
          [](Tensors in) -> Tensors { return {at::one_hot(in[0], 3)}; }),
      Case(
          "one_hot_of_a_negative_class",
          [] {
            return Tensors{ints({0, -1, 1})};
          },
          [](Tensors in) -> Tensors { return {at::one_hot(in[0], 3)}; }),
      Case(
          "masked_scatter_of_another_dtype",
          [] {
            return Tensors{buf(0, {4}), buf(1, {4}, at::kBool), buf(2, {4}, at::kDouble)};
          },
          [](Tensors in) -> Tensors { return {at::masked_scatter(in[0], in[1], in[2])}; }),
      Case(
          "largest_scattered_of_another_dtype",
          [] {
            return Tensors{buf(0, {4}), ints({0, 2, 0}), buf(1, {3}, at::kDouble)};
          },
          [](Tensors in) -> Tensors { return {at::scatter_reduce(in[0], 0, in[1], in[2], "amax")}; }),
      Case(
          "renorm_of_a_vector", [] { return Tensors{leaf(0, {3})}; },
          [](Tensors in) -> Tensors { return {at::renorm(in[0], 2, 0, 1.0)}; }),
      Case(
          "attention_masked_by_integers",
          [] {
            return Tensors{leaf(0, {1, 2, 4, 8}), leaf(1, {1, 2, 4, 8}), leaf(2, {1, 2, 4, 8}),
                           buf(3, {4, 4}, at::kLong)};
          },
          [](Tensors in) -> Tensors { return {at::scaled_dot_product_attention(in[0], in[1], in[2], in[3])}; }),
      Case(
          "ctc_loss_of_more_steps_than_there_are",
          [] {
            return Tensors{leaf(0, {5, 2, 4}), ints({1, 2, 3, 1})};
          },
          [](Tensors in) -> Tensors {
            return {at::ctc_loss(in[0].log_softmax(2), in[1].view({2, 2}), at::IntArrayRef({9, 5}),
                                 at::IntArrayRef({2, 2}))};
          }),
      Case(
          "ctc_loss_with_a_blank_that_is_no_label",
          [] {
            return Tensors{leaf(0, {5, 2, 4}), ints({1, 2, 3, 1})};
          },
          [](Tensors in) -> Tensors {
            return {at::ctc_loss(in[0].log_softmax(2), in[1].view({2, 2}), at::IntArrayRef({5, 5}),
                                 at::IntArrayRef({2, 2}), /*blank=*/4)};
          }),
  };
}

std::vector<ConfCase> RefusedStatisticsCases() {
  return {
      Case(
          "batch_norm_with_statistics_of_another_size",
          [] {
            return Tensors{leaf(0, {4, 3}), buf(3, {2}), buf(4, {2}).abs()};
          },
          [](Tensors in) -> Tensors {
            return {at::batch_norm(in[0], {}, {}, in[1], in[2], /*training=*/true, 0.1, 1e-5, false)};
          }),
      Case(
          "batch_norm_with_a_weight_of_another_size",
          [] {
            return Tensors{leaf(0, {4, 3}), leaf(1, {2})};
          },
          [](Tensors in) -> Tensors {
            return {at::batch_norm(in[0], in[1], {}, {}, {}, /*training=*/true, 0.1, 1e-5, false)};
          }),
      Case(
          "batch_norm_without_statistics_in_evaluation",
          [] {
            return Tensors{leaf(0, {4, 3})};
          },
          [](Tensors in) -> Tensors {
            return {at::batch_norm(in[0], {}, {}, {}, {}, /*training=*/false, 0.1, 1e-5, false)};
          }),
  };
}

}  // namespace cotan::conformance
