// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: outputs that are views of intermediates.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendIntermediateAliasOutputsCases(std::vector<ConfCase>& t) {
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
}

}  // namespace cotan::conformance
