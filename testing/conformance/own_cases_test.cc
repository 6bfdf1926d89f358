// Functions that the corpus does not have, against LibTorch eager: through the
// compiler, a serialized artifact and the runtime, values, places in memory and
// in the graph, and gradients.
#include "testing/conformance/own_cases.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "testing/conformance/conf_case.h"
#include "testing/conformance/custom_functions.h"
#include "testing/conformance/modes.h"

// gtest prints parameters; a case is known by its name.
void PrintTo(const ConfCase& c, std::ostream* out) { *out << c.name; }

namespace cotan::conformance {
namespace {

at::Tensor NewLeaf() { return at::full({2, 3}, 2.0).requires_grad_(true); }

std::vector<ConfCase> RequiresGradCases() {
  return {
      Case("new_leaf_is_returned", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor w = NewLeaf();
             return {w, in[0] * w};
           }),
      Case("new_leaf_next_to_a_leaf", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor w = NewLeaf();
             return {in[0] * w, w, w * 2};
           }),
      Case("buffer_is_written_with_a_new_leaf", Buffer,
           [](Tensors in) -> Tensors {
             in[0].mul_(NewLeaf());
             return {in[0] + 1};
           }),
      Case("views_of_what_a_new_leaf_gave", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * NewLeaf();
             return {y.t(), Flat(y)};
           }),
      Case("input_requires_grad_after_use", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             in[0].requires_grad_(true);
             return {y, in[0] * 3};
           }),
      Case(
          "input_requires_grad_next_to_a_leaf",
          [] {
            return Tensors{buf(0, {2, 3}), leaf(1, {2, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].requires_grad_(true);
            return {in[0] * 3, in[1] * in[0]};
          }),
      Case("input_requires_grad_after_a_write", Buffer,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             in[0].requires_grad_(true);
             return {in[0] * 2, in[0]};
           }),
      Case("view_of_input_that_requires_grad_now", Buffer,
           [](Tensors in) -> Tensors {
             in[0].requires_grad_(true);
             return {in[0].t(), in[0].sum()};
           }),
  };
}

std::vector<ConfCase> ViewCases() {
  return {
      Case("parts_and_a_view_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             Tensors parts = y.unbind(0);
             return {parts[0], parts[1], y.view(y.sizes())};
           }),
      Case("parts_of_a_buffer_s_intermediate", Buffer, [](Tensors in) -> Tensors { return (in[0] * 2).split(1, 0); }),
      Case("overlapping_parts_without_gradient", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = Flat(in[0] * 2);
             return {y.slice(0, 0, 4), y.slice(0, 2, 6)};
           }),
      Case("view_returned_twice", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = (in[0] + 1).t();
             return {y, y};
           }),
      Case(
          "view_of_permuted_intermediate_returned_twice",
          [] {
            return Tensors{leaf(0, {2, 3}).t()};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * in[0];
            const at::Tensor v = y.view(y.sizes());
            return {v, v};
          }),
      Case(
          "windows_of_an_intermediate", [] { return Tensors{leaf(0, {6})}; },
          [](Tensors in) -> Tensors { return {(in[0] * 2).unfold(0, 3, 1)}; }),
      Case(
          "windows_without_gradient_next_to_their_base", [] { return Tensors{buf(0, {6})}; },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0] * 2;
            return {y.unfold(0, 3, 1), y};
          }),
      Case("scalar_next_to_its_expansion", Buffer,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0].sum();
             return {y.expand(at::IntArrayRef({3})), y};
           }),
      Case("view_of_a_detached_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor d = y.detach();
             return {y, Flat(d), d.t()};
           }),
      Case("detached_alias_written_with_its_source", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor d = in[0].detach();
             d.mul_(in[0]);
             return {d, d * 2};
           }),
      Case("view_of_detached_alias_written_with_its_source", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor d = in[0].detach();
             at::Tensor row = d.select(0, 1);
             row.mul_(in[0].select(0, 0));
             return {row};
           }),
      Case("detached_alias_unsqueezed", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor d = in[0].detach();
             d.unsqueeze_(1);
             return {d, in[0] * 2};
           }),
      Case("view_made_before_its_base_is_transposed", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 2;
             const at::Tensor column = y.select(1, 2);
             const at::Tensor flat = Flat(y);
             y.t_();
             return {column.sin(), flat.sum(), y.sin()};
           }),
      Case("custom_view_of_an_input", Leaf,
           [](Tensors in) -> Tensors {
             return {custom_view(in[0]), in[0] * 2};
           }),
  };
}

std::vector<ConfCase> MutationCases() {
  const auto no_grad = [](auto write) {
    const at::NoGradGuard guard;
    write();
  };
  return {
      Case("data_without_gradient_then_transposed", Computed,
           [no_grad](Tensors in) -> Tensors {
             no_grad([&] { in[0].add_(1); });
             in[0].t_();
             return {in[0] * 2};
           }),
      Case(
          "transposed_without_gradient",
          [] {
            return Tensors{leaf(0, {3, 3}).clone()};
          },
          [no_grad](Tensors in) -> Tensors {
            no_grad([&] { in[0].t_(); });
            return {in[0].sum()};
          }),
      Case("leaf_unsqueezed_without_gradient", Leaf,
           [no_grad](Tensors in) -> Tensors {
             no_grad([&] { in[0].unsqueeze_(1); });
             return {in[0] * 2};
           }),
      Case("unsqueezed_then_written_without_gradient", Computed,
           [no_grad](Tensors in) -> Tensors {
             in[0].unsqueeze_(0);
             no_grad([&] { in[0].mul_(2); });
             return {in[0] + 1};
           }),
      Case(
          "base_written_and_transposed_next_to_its_view",
          [] {
            const at::Tensor b = leaf(0, {3, 2}).clone();
            return Tensors{b.select(0, 1), b};
          },
          [](Tensors in) -> Tensors {
            in[1].sin_();
            in[1].unsqueeze_(1);
            return {in[0] * 2};
          }),
      Case(
          "view_transposed_then_written",
          [] {
            const at::Tensor b = leaf(0, {3, 2}).clone();
            return Tensors{b.view({3, 2}), b};
          },
          [](Tensors in) -> Tensors {
            in[0].t_();
            in[0].sin_();
            return {in[1] * 2};
          }),
      Case(
          "detached_alias_of_a_view_of_a_leaf_written",
          [] {
            return Tensors{Flat(leaf(0, {2, 3}))};
          },
          [](Tensors in) -> Tensors {
            in[0].detach().add_(-1);
            return {in[0] * 2};
          }),
      Case("custom_function_writes_twice", Computed,
           [](Tensors in) -> Tensors { return {custom_dirty(custom_dirty(in[0])) * 2}; }),
      Case("custom_function_writes_and_input_is_viewed", Computed,
           [](Tensors in) -> Tensors {
             custom_dirty(in[0]);
             return {in[0].t(), in[0].sum()};
           }),
      Case("intermediate_written_with_itself_and_dropped", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0].clone();
             y.mul_(y);
             return {in[0] * 2};
           }),
  };
}

std::vector<ConfCase> ConjugateCases() {
  return {
      Case("conjugate_of_an_intermediate", Complex, [](Tensors in) -> Tensors { return {(in[0] * 2).conj()}; }),
      Case("conjugate_next_to_its_intermediate", Complex,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {y, y.conj()};
           }),
      Case("conjugate_of_a_buffer", ComplexBuffer,
           [](Tensors in) -> Tensors {
             return {in[0].conj(), in[0] * 2};
           }),
      Case("part_of_a_conjugate", Complex, [](Tensors in) -> Tensors { return {in[0].conj().slice(0, 1, 3)}; }),
      Case("conjugate_of_a_conjugate", Complex, [](Tensors in) -> Tensors { return {in[0].conj().conj()}; }),
      Case(
          "conjugate_of_what_is_written", [] { return Tensors{leaf(0, {3}, at::kComplexFloat).clone()}; },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            return {in[0].conj(), in[0] * in[0]};
          }),
      Case(
          "conjugate_as_an_argument", [] { return Tensors{leaf(0, {3}, at::kComplexFloat).conj()}; },
          [](Tensors in) -> Tensors {
            return {in[0] * in[0], in[0].slice(0, 1, 3)};
          }),
  };
}

std::vector<ConfCase> NumberCases() {
  return {
      Case("none_comes_first", Leaf,
           [](Tensors in) -> Tensors {
             return {at::Tensor(), in[0] * 2};
           }),
      Case("numbers_between_tensors", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {in[0], number_output(3), in[0].t(), number_output(true), at::Tensor(), number_output(0.5)};
           }),
  };
}

std::vector<ConfCase> SequenceCases() {
  return {
      Case("transposed_row_written_and_viewed", Computed,
           [](Tensors in) -> Tensors {
             in[0].t_();
             in[0].select(0, 0).mul_(2);
             return {in[0].view(in[0].sizes())};
           }),
      Case("written_in_three_ways", Computed,
           [](Tensors in) -> Tensors {
             in[0].detach().mul_(2);
             in[0].mul_(3);
             {
               const at::NoGradGuard guard;
               in[0].mul_(0.5);
             }
             return {in[0] + 5};
           }),
      Case("leaf_written_through_a_view_without_gradient", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor flat = Flat(in[0]);
             {
               const at::NoGradGuard guard;
               flat.mul_(2);
             }
             return {in[0] + 1};
           }),
      Case(
          "every_other_element_written", [] { return Tensors{leaf(0, {6}).clone().slice(0, 0, 6, 2)}; },
          [](Tensors in) -> Tensors {
            in[0].add_(1);
            return {};
          }),
      Case("zeroed_then_written", Computed,
           [](Tensors in) -> Tensors {
             in[0].zero_();
             in[0].add_(1);
             return {in[0] * 2};
           }),
      Case(
          "element_of_an_expansion_written", [] { return Tensors{buf(0, {6})}; },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0].expand(at::IntArrayRef({3, 6}));
            y.select(0, 0).select(0, 0).add_(5);
            return {y};
          }),
      Case(
          "element_of_an_expansion_written_and_used",
          [] {
            return Tensors{buf(0, {6}), leaf(1, {3, 6})};
          },
          [](Tensors in) -> Tensors {
            const at::Tensor y = in[0].expand(at::IntArrayRef({3, 6}));
            y.select(0, 1).select(0, 1).mul_(5);
            return {y * in[1]};
          }),
      Case(
          "squeezed_then_written",
          [] {
            return Tensors{buf(0, {1, 3})};
          },
          [](Tensors in) -> Tensors {
            in[0].squeeze_();
            in[0].mul_(3);
            return {in[0].sum()};
          }),
      Case("written_and_result_detached", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             return {(in[0] + 1).detach()};
           }),
      Case("parts_of_a_computed_input", Computed, [](Tensors in) -> Tensors { return in[0].unbind(0); }),
      Case("parts_and_a_view_of_an_input", Computed,
           [](Tensors in) -> Tensors {
             Tensors parts = in[0].unbind(0);
             return {parts[0], parts[1], in[0].view(in[0].sizes())};
           }),
      Case("parts_base_and_view_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             Tensors parts = y.unbind(0);
             return {parts[0], parts[1], y, y.view(y.sizes())};
           }),
      Case("views_of_two_intermediates", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor a = in[0] * 3;
             const at::Tensor b = in[0] * 4;
             return {Flat(a), b.t(), a.t()};
           }),
      Case("intermediate_transposed_and_detached_in_place", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 3;
             y.t_();
             y.detach_();
             return {y, in[0] + 1};
           }),
      Case("detached_row_and_view_of_one_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             return {Flat(y), y, y.select(0, 0).detach()};
           }),
      Case(
          "transposed_input_and_views_of_its_double",
          [] {
            return Tensors{leaf(0, {1, 2, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[0].transpose_(1, 0);
            const at::Tensor t = in[0] * 2;
            return {t.squeeze(), t.transpose(1, 0), in[0].unsqueeze(0)};
          }),
      Case("custom_scale_of_an_intermediate_viewed", Leaf,
           [](Tensors in) -> Tensors { return {Flat(custom_scale(in[0] * 2))}; }),
      Case("detached_view_of_a_view_of_what_is_written", Computed,
           [](Tensors in) -> Tensors {
             in[0].mul_(2);
             const at::Tensor t = in[0].t();
             return {t, t.select(0, 0).detach()};
           }),
      Case("view_without_gradient_next_to_a_sum", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 3;
             at::Tensor v;
             {
               const at::NoGradGuard guard;
               v = Flat(y);
             }
             return {y.sum(), v};
           }),
      Case(
          "three_inputs_written_moved_and_viewed",
          [] {
            return Tensors{leaf(0, {2, 3}).clone(), leaf(1, {2, 3}).clone(), leaf(2, {2, 3}).clone()};
          },
          [](Tensors in) -> Tensors {
            in[1].mul_(3);
            in[2].t_();
            return {Flat(in[0]), Flat(in[1]), in[2].t()};
          }),
  };
}

std::vector<ConfCase> SharedInputCases() {
  return {
      Case(
          "two_groups_with_moved_views",
          [] {
            const at::Tensor p = leaf(0, {4}).clone();
            const at::Tensor q = leaf(1, {4}).clone();
            return Tensors{p.slice(0, 0, 3), q.slice(0, 0, 3), p.slice(0, 1, 4), q.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            in[1].add_(1);
            in[3].unsqueeze_(0);
            return {in[0] + in[2] + in[3], Flat(in[1])};
          }),
      Case(
          "merged_pair_and_a_transposed_input",
          [] {
            const at::Tensor p = leaf(0, {6}).clone();
            return Tensors{p.slice(0, 0, 4), leaf(1, {2, 2}).clone(), p.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[2].mul_(2);
            in[1].t_();
            const at::Tensor t = in[0] + in[2];
            const at::Tensor o = t.view(at::IntArrayRef({2, 2}));
            return {o, in[1].t(), o.unsqueeze(0)};
          }),
      Case(
          "view_of_the_second_of_two_merged_inputs",
          [] {
            const at::Tensor b = buf(0, {4, 3});
            return Tensors{b, b.slice(0, 1, 4)};
          },
          [](Tensors in) -> Tensors {
            in[0].add_(100);
            return {in[1].select(0, 0), Flat(in[1])};
          }),
      Case(
          "two_merged_inputs_both_written",
          [] {
            const at::Tensor b = leaf(0, {6}).clone();
            return Tensors{b.slice(0, 0, 4), b.slice(0, 2, 6)};
          },
          [](Tensors in) -> Tensors {
            in[0].mul_(2);
            in[1].mul_(3);
            return {in[0] * in[1]};
          }),
      Case(
          "same_tensor_transposed_and_unsqueezed",
          [] {
            const at::Tensor b = leaf(0, {2, 2}).clone();
            return Tensors{b, b};
          },
          [](Tensors in) -> Tensors {
            in[0].t_();
            in[1].unsqueeze_(0);
            return {in[0] + in[1]};
          }),
      Case(
          "same_tensor_truncated_twice",
          [] {
            const at::Tensor b = leaf(0, {3}).clone();
            return Tensors{b, b};
          },
          [](Tensors in) -> Tensors { return {in[0].trunc_() + in[1].trunc_()}; }),
  };
}

class OwnCaseTest : public testing::TestWithParam<ConfCase> {};

TEST_P(OwnCaseTest, IsAsInEager) {
  at::set_num_threads(1);
  Differences differences;
  CheckProgram(GetParam(), differences);
  EXPECT_TRUE(differences.none()) << differences.first();
}

std::string NameOf(const testing::TestParamInfo<ConfCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(RequiresGrad, OwnCaseTest, testing::ValuesIn(RequiresGradCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Views, OwnCaseTest, testing::ValuesIn(ViewCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Mutations, OwnCaseTest, testing::ValuesIn(MutationCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Sequences, OwnCaseTest, testing::ValuesIn(SequenceCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(SharedInputs, OwnCaseTest, testing::ValuesIn(SharedInputCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Conjugates, OwnCaseTest, testing::ValuesIn(ConjugateCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Numbers, OwnCaseTest, testing::ValuesIn(NumberCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Ops, OwnCaseTest, testing::ValuesIn(OpCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Outputs, OwnCaseTest, testing::ValuesIn(OutputCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(SharedMemory, OwnCaseTest, testing::ValuesIn(SharedMemoryCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Storages, OwnCaseTest, testing::ValuesIn(StorageCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Elements, OwnCaseTest, testing::ValuesIn(ElementCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Modes, OwnCaseTest, testing::ValuesIn(ModeCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Derivatives, OwnCaseTest, testing::ValuesIn(DerivativeCases()), NameOf);

}  // namespace
}  // namespace cotan::conformance
