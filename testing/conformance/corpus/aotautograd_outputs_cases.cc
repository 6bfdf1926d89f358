// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: outputs that share memory with inputs, with each other, or with nothing.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendOutputsCases(std::vector<ConfCase>& t) {
  // --- output_aliases_input

  // return x.view([-1])
  t.push_back(Case(
      "view_of_no_grad_input", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.view(at::IntArrayRef({-1}))};
      }));
  // return x.t(), x.sin()
  t.push_back(Case(
      "transpose_of_leaf_and_computed", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.t(), x.sin()};
      }));
  // return x.reshape([3, 2])
  t.push_back(Case(
      "reshape_that_aliases", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.reshape(at::IntArrayRef({3, 2}))};
      }));
  // return x.reshape([-1])
  t.push_back(Case(
      "reshape_that_copies", "output_aliases_input",
      []() -> Tensors {
        at::Tensor r = leaf(0, {3, 2});
        return {r.t()};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.reshape(at::IntArrayRef({-1}))};
      }));
  // return x.expand([2, 3])
  t.push_back(Case(
      "expand_of_leaf", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {1, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.expand(at::IntArrayRef({2, 3}))};
      }));
  // return x.diagonal()
  t.push_back(Case(
      "diagonal_of_leaf", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.diagonal()};
      }));
  // return x[1], x.sum()
  t.push_back(Case(
      "select_row_and_sum", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.select(0, 1), x.sum()};
      }));
  // return x[0:4:2]
  t.push_back(Case(
      "strided_slice_of_leaf", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.slice(0, 0, 4, 2)};
      }));
  // a, b = x.chunk(2, 0) | return a, b, x.view([-1])
  t.push_back(Case(
      "chunk_outputs_plus_ordinary_view", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        auto tmp1 = x.chunk(2, 0);
        at::Tensor a = tmp1[0];
        at::Tensor b = tmp1[1];
        return {a, b, x.view(at::IntArrayRef({-1}))};
      }));
  // return x.unbind(0)
  t.push_back(Case(
      "unbind_of_no_grad_input", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return x.unbind(0);
      }));
  // return x.view(torch.int32), x + 1
  t.push_back(Case(
      "bitcast_view_to_int32", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.view(at::kInt), (x + 1)};
      }));
  // return x.conj()
  t.push_back(Case(
      "lazy_conjugate_of_complex", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3}, at::kComplexFloat);
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.conj()};
      }));
  // return torch.real(x), x * 2
  t.push_back(Case(
      "real_part_of_complex", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3}, at::kComplexFloat);
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {at::real(x), (x * 2)};
      }));
  // return x.view([-1])
  t.push_back(WithoutGrad(Case(
      "alias_output_whole_call_no_grad", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.view(at::IntArrayRef({-1}))};
      })));
  // with torch.no_grad(): |     y = x.view([-1]) | return y, x * 2
  t.push_back(Case(
      "alias_created_under_no_grad_block", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y;
        {
          at::NoGradGuard guard;
          y = x.view(at::IntArrayRef({-1}));
        }
        return {y, (x * 2)};
      }));
  // return x.contiguous(), x * 2
  t.push_back(Case(
      "contiguous_of_contiguous_returns_self", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.contiguous(), (x * 2)};
      }));
  // return x.to(torch.float32), x * 2
  t.push_back(Case(
      "to_same_dtype_returns_self", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.to(at::kFloat), (x * 2)};
      }));
  // return y.t(), x.view([-1]), y, x + y
  t.push_back(Case(
      "aliases_of_two_inputs_and_self", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        at::Tensor y = leaf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {y.t(), x.view(at::IntArrayRef({-1})), y, (x + y)};
      }));
  // return x.t(), x * 2
  t.push_back(Case(
      "alias_of_input_that_is_a_view", "output_aliases_input",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        return {r.slice(0, 1, 3, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.t(), (x * 2)};
      }));
  // return x.squeeze(0), x.unfold(1, 3, 2)
  t.push_back(Case(
      "unfold_and_squeeze_views", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {1, 5});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.squeeze(0), x.unfold(1, 3, 2)};
      }));
  // return x.as_strided([2, 3], [1, 2], 2)
  t.push_back(Case(
      "as_strided_of_leaf", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.as_strided(at::IntArrayRef({2, 3}), at::IntArrayRef({1, 2}), 2)};
      }));
  // return x.movedim(0, 2), x.flatten(1, 2)
  t.push_back(Case(
      "movedim_and_flatten_views", "output_aliases_input",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.movedim(0, 2), x.flatten(1, 2)};
      }));

  // --- output_aliases_intermediate

  // return (x * 2).view([-1])
  t.push_back(Case(
      "single_view_of_intermediate", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * 2).view(at::IntArrayRef({-1}))};
      }));
  // y = x * 2 | return y.view([-1]), y.t()
  t.push_back(Case(
      "two_views_of_same_intermediate", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {y.view(at::IntArrayRef({-1})), y.t()};
      }));
  // y = x * 2 | return y, y.view([-1])
  t.push_back(Case(
      "intermediate_and_its_view", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {y, y.view(at::IntArrayRef({-1}))};
      }));
  // return (x * 2).unbind(0)
  t.push_back(Case(
      "unbind_of_intermediate", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return (x * 2).unbind(0);
      }));
  // y = x * 2 | a, b = y.unbind(0) | return a, b, y
  t.push_back(Case(
      "unbind_of_intermediate_plus_base", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        auto tmp1 = y.unbind(0);
        at::Tensor a = tmp1[0];
        at::Tensor b = tmp1[1];
        return {a, b, y};
      }));
  // y = x * 2 | a, b = y.split(2) | return a, b, y.t(), y.view([-1])
  t.push_back(Case(
      "split_of_intermediate_plus_two_views", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        auto tmp1 = y.split(2);
        at::Tensor a = tmp1[0];
        at::Tensor b = tmp1[1];
        return {a, b, y.t(), y.view(at::IntArrayRef({-1}))};
      }));
  // y = x * 2 | y.add_(1) | return y.view([-1])
  t.push_back(Case(
      "inplace_on_intermediate_then_view", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        y.add_(1);
        return {y.view(at::IntArrayRef({-1}))};
      }));
  // y = x * 2 | y[0].mul_(3) | return y
  t.push_back(Case(
      "inplace_on_view_of_intermediate_then_base", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        y.select(0, 0).mul_(3);
        return {y};
      }));
  // y = x * 2 | v = y.view([-1]) | y.mul_(3) | return v, y.t()
  t.push_back(Case(
      "inplace_on_intermediate_after_view_taken", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        at::Tensor v = y.view(at::IntArrayRef({-1}));
        y.mul_(3);
        return {v, y.t()};
      }));
  // y = x * 2 | return y.view([-1]), y.t()
  t.push_back(Case(
      "views_of_intermediate_not_requiring_grad", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {y.view(at::IntArrayRef({-1})), y.t()};
      }));
  // y = x * 2 | return y.t(), y.detach()
  t.push_back(Case(
      "intermediate_view_with_detached_alias", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {y.t(), y.detach()};
      }));
  // y = x * 2 | return y.expand([2, 3]), y.view([-1])
  t.push_back(Case(
      "expand_of_intermediate", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {1, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {y.expand(at::IntArrayRef({2, 3})), y.view(at::IntArrayRef({-1}))};
      }));
  // y = x * 2 | return x.t(), y.t(), y.view([-1])
  t.push_back(Case(
      "alias_of_input_and_of_intermediate", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {x.t(), y.t(), y.view(at::IntArrayRef({-1}))};
      }));
  // y = (x * 2).t() | return y.reshape([-1]), y
  t.push_back(Case(
      "reshape_copy_of_intermediate_is_fresh", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2).t();
        return {y.reshape(at::IntArrayRef({-1})), y};
      }));
  // y = x * 2 | return torch.view_as_real(y), y
  t.push_back(Case(
      "view_as_real_of_intermediate", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3}, at::kComplexFloat);
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {at::view_as_real(y), y};
      }));
  // b.add_(1) | y = x * b | return y.t(), y.view([-1])
  t.push_back(Case(
      "views_of_intermediate_with_input_mutation", "output_aliases_intermediate",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        at::Tensor b = buf(1, {2, 3});
        return {x, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor b = in[1];
        b.add_(1);
        at::Tensor y = (x * b);
        return {y.t(), y.view(at::IntArrayRef({-1}))};
      }));

  // --- duplicate_outputs

  // y = x * 2 | return y, y
  t.push_back(Case(
      "same_intermediate_returned_twice", "duplicate_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {y, y};
      }));
  // return x * 2, None
  t.push_back(Case(
      "none_output", "duplicate_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * 2), at::Tensor()};
      }));
  // return {'a': x * 2, 'b': [x.t(), 1.5]}
  t.push_back(Case(
      "nested_dict_output", "duplicate_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * 2), x.t(), number_output(1.5)};
      }));
  // return x * 2, x.shape[0], x.shape[1]
  t.push_back(Case(
      "size_outputs_as_ints", "duplicate_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * 2), number_output(x.size(0)), number_output(x.size(1))};
      }));
  // return x, x, x * 2
  t.push_back(Case(
      "same_input_returned_twice", "duplicate_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x, x, (x * 2)};
      }));

  // --- passthrough

  // return x
  t.push_back(Case(
      "leaf_passed_through_only", "passthrough",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x};
      }));
  // return y, x
  t.push_back(Case(
      "leaves_reordered_passthrough", "passthrough",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        at::Tensor y = leaf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {y, x};
      }));
  // return x, y * 2
  t.push_back(Case(
      "passthrough_no_grad_and_computed_leaf", "passthrough",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor y = leaf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {x, (y * 2)};
      }));

  // --- integer_outputs

  // return x.argmax(1), x * 2
  t.push_back(Case(
      "argmax_and_values", "integer_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.argmax(1), (x * 2)};
      }));
  // v, i = x.topk(2) | return v, i
  t.push_back(Case(
      "topk_values_and_indices", "integer_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {5});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        auto tmp1 = x.topk(2);
        at::Tensor v = std::get<0>(tmp1);
        at::Tensor i = std::get<1>(tmp1);
        return {v, i};
      }));
  // return x > 0, x.relu()
  t.push_back(Case(
      "comparison_bool_output", "integer_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x > 0), x.relu()};
      }));
  // v, i = x.sort(1) | return v, i
  t.push_back(Case(
      "sort_both_outputs", "integer_outputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 4});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        auto tmp1 = x.sort(1);
        at::Tensor v = std::get<0>(tmp1);
        at::Tensor i = std::get<1>(tmp1);
        return {v, i};
      }));

  // --- late_mutation

  // o = x * 2 | v = x[1:4] | w = v[0] | w.mul_(5) | return o, x.sum()
  t.push_back(Case(
      "nested_view_of_input_mutated_after_output", "late_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor o = (x * 2);
        at::Tensor v = x.slice(0, 1, 4, 1);
        at::Tensor w = v.select(0, 0);
        w.mul_(5);
        return {o, x.sum()};
      }));
  // v = x[1:3] | x.mul_(2) | return v, v.sum()
  t.push_back(Case(
      "returned_view_changes_after_base_mutation", "late_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor v = x.slice(0, 1, 3, 1);
        x.mul_(2);
        return {v, v.sum()};
      }));
  // y = x * 2 | v = y[0] | z = y.sum() | v.mul_(3) | return y, z
  t.push_back(Case(
      "intermediate_returned_then_view_mutated", "late_mutation",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        at::Tensor v = y.select(0, 0);
        at::Tensor z = y.sum();
        v.mul_(3);
        return {y, z};
      }));
  // v = b[1:3] | y = x * b.clone() | b.mul_(2) | return v, y.sum() * v
  t.push_back(Case(
      "view_of_no_grad_buffer_returned_then_mutated", "late_mutation",
      []() -> Tensors {
        at::Tensor b = buf(0, {4});
        at::Tensor x = leaf(1, {4});
        return {b, x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor b = in[0];
        at::Tensor x = in[1];
        at::Tensor v = b.slice(0, 1, 3, 1);
        at::Tensor y = (x * b.clone());
        b.mul_(2);
        return {v, (y.sum() * v)};
      }));
}

}  // namespace cotan::conformance
