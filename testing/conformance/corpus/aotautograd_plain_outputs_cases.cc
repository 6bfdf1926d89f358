// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: outputs that are given twice, are inputs, integers or None, and writes after a view.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendPlainOutputsCases(std::vector<ConfCase>& t) {
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
