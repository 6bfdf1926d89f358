// SPDX-License-Identifier: Apache-2.0

#include <tuple>

#include "testing/conformance/regressions/cases.h"

namespace cotan::conformance {
namespace {

Tensors Scalar() { return {leaf(0, {}).clone()}; }
Tensors Empty() { return {leaf(0, {0, 3}).clone()}; }
Tensors Long() { return {buf(0, {2, 3}, at::kLong)}; }
Tensors Double() { return {leaf(0, {2, 3}, at::kDouble).clone()}; }

}  // namespace

std::vector<ConfCase> ElementCases() {
  return {
      Case("scalar_is_written", Scalar,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0] * in[0], in[0].view({1})};
           }),
      Case(
          "scalar_squared", [] { return Tensors{leaf(0, {})}; }, [](Tensors in) -> Tensors { return {in[0] * in[0]}; }),
      Case(
          "scalar_views", [] { return Tensors{leaf(0, {})}; },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.unsqueeze(0), y.expand({3}), y};
          }),
      Case("empty_is_written_and_viewed", Empty,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0].t(), in[0].sum(0), in[0] * 2};
           }),
      Case(
          "empty_is_summed",
          [] {
            return Tensors{leaf(0, {0, 3})};
          },
          [](Tensors in) -> Tensors { return {in[0].sum(0)}; }),
      Case(
          "empty_views_of_an_intermediate",
          [] {
            return Tensors{leaf(0, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.slice(0, 0, 0), y.slice(0, 1, 1), y};
          }),
      Case(
          "empty_concatenated",
          [] {
            return Tensors{leaf(0, {0, 3}), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            return {at::cat({in[0], in[1]})};
          }),
      Case("integers_written", Long,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             return {in[0].sum(), in[0].t()};
           }),
      Case(
          "bytes_written", [] { return Tensors{buf(0, {4}, at::kByte)}; },
          [](Tensors in) -> Tensors {
            in[0].bitwise_and_(5);
            return {in[0], in[0] + 1};
          }),
      Case(
          "booleans_written",
          [] {
            return Tensors{buf(0, {4}, at::kBool), buf(1, {4}, at::kBool)};
          },
          [](Tensors in) -> Tensors {
            in[0].logical_or_(in[1]);
            return {in[0], in[0].logical_not()};
          }),
      Case(
          "short_integers", [] { return Tensors{buf(0, {4}, at::kShort)}; },
          [](Tensors in) -> Tensors {
            return {in[0].mul_(2), in[0].to(at::kFloat)};
          }),
      Case("doubles_written", Double,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0].sin(), Flat(in[0])};
           }),
      Case("double_from_single", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].to(at::kDouble);
             return {y, y.t(), in[0].to(at::kFloat)};
           }),
      Case(
          "half_precision",
          [] {
            return Tensors{leaf(0, {2, 3}, at::kBFloat16).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0] + 1, Flat(in[0])};
          }),
      Case(
          "single_and_double",
          [] {
            return Tensors{leaf(0, {3}), leaf(1, {3}, at::kDouble)};
          },
          [](Tensors in) -> Tensors { return {in[0] * in[1]}; }),
      Case("bits_of_a_written_buffer", Buffer,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0].view(at::kInt)};
           }),
      Case(
          "numbers_repeated_once_are_written",
          [] {
            const auto count = [](at::IntArrayRef sizes) { return at::arange(9, at::kInt).as_strided(sizes, {3, 1}); };
            return Tensors{count({3, 3}), count({3, 3}), count({3, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].select(0, 1).expand({1, 3}).mul_(2);
            in[1].slice(1, 0, 2).expand({1, 3, 2}).add_(1);
            in[2].diagonal().expand({1, 3}).neg_();
            return {in[0] + 1};
          }),
      Case(
          "strides_of_no_elements_after_a_write",
          [] {
            return Tensors{buf(0, {0, 3})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0].t().clone();
            y.relu_();
            return {y};
          }),
      Case("bits_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y.detach().view(at::kInt), y};
           }),
      Case("bits_of_a_result_beside_a_view_of_it_all", Square,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].clone();
             return {y.transpose(1, 1), y.view(at::kInt)};
           }),
      Case("bits_of_a_result_transposed_as_the_other", Square,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].clone();
             return {y.t(), y.view(at::kInt).t(), y};
           }),
      Case("bits_of_a_part_beside_the_part", Square,
           [](Tensors in) -> Tensors {
             const at::Tensor part = in[0].clone().slice(0, 1, 3);
             return {part.transpose(0, 0), part.view(at::kInt)};
           }),
      Case("real_view_of_a_complex_result_that_moves", Complex,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 2;
             const at::Tensor parts = at::view_as_real(y);
             y.transpose_(0, 0);
             return {y, parts};
           }),
      Case("real_and_imaginary_parts", Complex,
           [](Tensors in) -> Tensors {
             return {at::real(in[0]), at::imag(in[0])};
           }),
      Case("imaginary_part_of_a_conjugate", Complex, [](Tensors in) -> Tensors { return {at::imag(in[0].conj())}; }),
      Case("real_part_of_a_conjugate", Complex, [](Tensors in) -> Tensors { return {at::real(in[0].conj())}; }),
      Case("real_part_is_written", ComplexComputed,
           [](Tensors in) -> Tensors {
             at::real(in[0]).mul_(2);
             return {in[0] * in[0]};
           }),
      Case(
          "complex_made_of_parts",
          [] {
            return Tensors{leaf(0, {3}), leaf(1, {3})};
          },
          [](Tensors in) -> Tensors { return {at::view_as_real(at::complex(in[0], in[1]))}; }),
      Case("complex_conjugate_physically", Complex,
           [](Tensors in) -> Tensors { return {in[0].conj().resolve_conj() * 2}; }),
      Case("complex_conjugate_written", ComplexComputed,
           [](Tensors in) -> Tensors {
             in[0].conj().mul_(2);
             return {in[0] + 1};
           }),
      Case("complex_sum_next_to_views", ComplexComputed,
           [](Tensors in) -> Tensors {
             in[0].add_(1);
             return {in[0].sum(), at::view_as_real(in[0]), in[0].conj()};
           }),
      Case(
          "strided_input",
          [] {
            return Tensors{leaf(0, {4, 6}).clone().slice(1, 0, 6, 2)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0] * in[0], in[0].t()};
          }),
      Case(
          "input_with_an_offset",
          [] {
            return Tensors{leaf(0, {4, 3}).clone().slice(0, 1, 3)};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {Flat(in[0]), in[0].select(0, 1)};
          }),
      Case(
          "expanded_input_is_read",
          [] {
            return Tensors{leaf(0, {1, 3}).expand({2, 3})};
          },
          [](Tensors in) -> Tensors {
            return {in[0] * 2, in[0].t()};
          }),
      Case(
          "channels_last_views",
          [] {
            return Tensors{leaf(0, {1, 2, 2, 3}).contiguous(at::MemoryFormat::ChannelsLast)};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y, y.permute({0, 2, 3, 1}), in[0].permute({0, 2, 3, 1})};
          }),
      Case(
          "channels_last_written",
          [] {
            return Tensors{leaf(0, {1, 2, 2, 3}).clone().contiguous(at::MemoryFormat::ChannelsLast)};
          },
          [](Tensors in) -> Tensors { return {in[0].mul_(2) + 1}; }),
      Case("index_output_of_a_view", Leaf,
           [](Tensors in) -> Tensors {
             return {in[0].t().argmax(1), std::get<1>(in[0].sort(1))};
           }),
      Case(
          "one_hot_rows",
          [] {
            return Tensors{ints({2, 0, 1}), leaf(1, {3, 2})};
          },
          [](Tensors in) -> Tensors {
            return {in[1].index_select(0, in[0]), in[0] + 1};
          }),
      Case(
          "embedding_rows",
          [] {
            return Tensors{leaf(0, {4, 2}), ints({2, 0, 2})};
          },
          [](Tensors in) -> Tensors { return {at::embedding(in[0], in[1])}; }),
  };
}

}  // namespace cotan::conformance
