// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: custom functions and errors of the backward.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/custom_functions.h"

namespace cotan::conformance {

void AppendCustomFunctionCases(std::vector<ConfCase>& t) {
  // --- custom_function

  // y = custom_dirty(x) | return y * 2
  t.push_back(Case(
      "custom_inplace_mark_dirty_on_nonleaf_input", "custom_function",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = custom_dirty(x);
        return {(y * 2)};
      }));
  // y = x * 2 | z = custom_dirty(y) | return z + 1
  t.push_back(Case(
      "custom_inplace_mark_dirty_on_intermediate", "custom_function",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        at::Tensor z = custom_dirty(y);
        return {(z + 1)};
      }));
  // a, b = custom_nondiff(x) | return a, b
  t.push_back(Case(
      "custom_mark_non_differentiable", "custom_function",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        auto tmp1 = custom_nondiff(x);
        at::Tensor a = tmp1[0];
        at::Tensor b = tmp1[1];
        return {a, b};
      }));
  // return custom_saved(x)
  t.push_back(Case(
      "custom_saves_input", "custom_function",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {custom_saved(x)};
      }));
  // return custom_bw_mutates(x, b)
  t.push_back(AfterBackward(Case(
      "custom_backward_mutates_buffer", "custom_function",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3});
        at::Tensor b = buf(1, {3});
        return {x, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor b = in[1];
        return {custom_bw_mutates(x, b)};
      })));

  // --- backward_error

  // x.t().mul_(x.t()) | return x + 1
  t.push_back(Case(
      "transposed_self_multiply_inplace", "backward_error",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.t().mul_(x.t());
        return {(x + 1)};
      }));
  // y = x * b | b.mul_(2) | return y
  t.push_back(Case(
      "buffer_saved_then_mutated", "backward_error",
      []() -> Tensors {
        at::Tensor b = buf(0, {4});
        at::Tensor x = leaf(1, {4});
        return {b, x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor b = in[0];
        at::Tensor x = in[1];
        at::Tensor y = (x * b);
        b.mul_(2);
        return {y};
      }));
  // y = x * 2 | z = y.sin() | y.mul_(2) | return z
  t.push_back(Case(
      "intermediate_saved_then_mutated", "backward_error",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        at::Tensor z = y.sin();
        y.mul_(2);
        return {z};
      }));
}

}  // namespace cotan::conformance
