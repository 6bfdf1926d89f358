// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: inputs that share memory, or are one tensor.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendAliasedInputsCases(std::vector<ConfCase>& t) {
  // --- aliased_inputs

  // x.mul_(2) | return x + y
  t.push_back(Case(
      "overlapping_slices_first_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(x + y)};
      }));
  // x.mul_(2) | return x + y
  t.push_back(Case(
      "disjoint_slices_first_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        return {b.slice(0, 0, 3, 1), b.slice(0, 3, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(x + y)};
      }));
  // x.mul_(2) | return x * y
  t.push_back(Case(
      "overlapping_slices_requires_grad_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {6});
        at::Tensor b = r.clone();
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(x * y)};
      }));
  // x.mul_(2) | return x + y * 3
  t.push_back(Case(
      "disjoint_slices_requires_grad_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {6});
        at::Tensor b = r.clone();
        return {b.slice(0, 0, 3, 1), b.slice(0, 3, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(x + (y * 3))};
      }));
  // x.mul_(2) | return x * y
  t.push_back(Case(
      "disjoint_slices_requires_grad_mutated_and_saved", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {6});
        at::Tensor b = r.clone();
        return {b.slice(0, 0, 3, 1), b.slice(0, 3, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(x * y)};
      }));
  // x.mul_(2) | return y * 3
  t.push_back(Case(
      "base_and_view_base_mutated_nonleaf", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor b = r.clone();
        return {b, b.view(at::IntArrayRef({-1}))};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(y * 3)};
      }));
  // y.add_(1) | return x * 2
  t.push_back(Case(
      "view_before_base_base_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {2, 3});
        return {b.t(), b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        y.add_(1);
        return {(x * 2)};
      }));
  // y.mul_(2) | return x + y + z
  t.push_back(Case(
      "three_views_middle_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {8});
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1), b.slice(0, 4, 8, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        at::Tensor z = in[2];
        y.mul_(2);
        return {((x + y) + z)};
      }));
  // return x * y
  t.push_back(Case(
      "aliased_inputs_nothing_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {6});
        at::Tensor b = r.clone();
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {(x * y)};
      }));
  // y.mul_(2) | return x + y * z
  t.push_back(Case(
      "unrelated_input_between_aliases", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        at::Tensor z = buf(1, {4});
        return {b.slice(0, 0, 4, 1), z, b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor z = in[1];
        at::Tensor y = in[2];
        y.mul_(2);
        return {(x + (y * z))};
      }));
  // a.mul_(2) | d.add_(1) | return a + b, c + d
  t.push_back(Case(
      "two_alias_groups_both_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor p = buf(0, {4});
        at::Tensor q = buf(1, {4});
        return {p.slice(0, 0, 3, 1), q.slice(0, 0, 3, 1), p.slice(0, 1, 4, 1), q.slice(0, 1, 4, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor a = in[0];
        at::Tensor c = in[1];
        at::Tensor b = in[2];
        at::Tensor d = in[3];
        a.mul_(2);
        d.add_(1);
        return {(a + b), (c + d)};
      }));
  // a.mul_(2) | return a + b, c + d
  t.push_back(Case(
      "two_alias_groups_one_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor p = buf(0, {4});
        at::Tensor q = buf(1, {4});
        return {p.slice(0, 0, 3, 1), q.slice(0, 0, 3, 1), p.slice(0, 1, 4, 1), q.slice(0, 1, 4, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor a = in[0];
        at::Tensor c = in[1];
        at::Tensor b = in[2];
        at::Tensor d = in[3];
        a.mul_(2);
        return {(a + b), (c + d)};
      }));
  // x.mul_(2) | return y.view([2, 2]), x + y
  t.push_back(Case(
      "output_aliases_merged_input", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {y.view(at::IntArrayRef({2, 2})), (x + y)};
      }));
  // x.mul_(2) | return y, x * 2
  t.push_back(Case(
      "merged_input_returned_requires_grad", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {6});
        at::Tensor b = r.clone();
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {y, (x * 2)};
      }));
  // x.mul_(2) | y.t_() | return x + y
  t.push_back(Case(
      "data_on_one_alias_metadata_on_other", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {4});
        return {b.view(at::IntArrayRef({2, 2})), b.view(at::IntArrayRef({2, 2}))};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        y.t_();
        return {(x + y)};
      }));
  // x.mul_(2) | y.t_() | return x + y
  t.push_back(Case(
      "data_on_one_alias_metadata_on_other_grad", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4});
        at::Tensor b = r.clone();
        return {b.view(at::IntArrayRef({2, 2})), b.view(at::IntArrayRef({2, 2}))};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        y.t_();
        return {(x + y)};
      }));
  // x.mul_(2) | return x + y
  t.push_back(Case(
      "shared_storage_without_common_base", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        return {b.slice(0, 0, 4, 1).detach(), b.slice(0, 2, 6, 1).detach()};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(x + y)};
      }));
  // y.mul_(2) | return x * 3
  t.push_back(Case(
      "leaf_and_its_detached_alias_mutated", "aliased_inputs",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4});
        return {x, x.detach()};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        y.mul_(2);
        return {(x * 3)};
      }));
  // x.mul_(2) | return x + y
  t.push_back(WithoutGrad(Case(
      "merged_under_no_grad_call", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {6});
        at::Tensor b = r.clone();
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {(x + y)};
      })));
  // x.mul_(2) | return y, x + y
  t.push_back(Case(
      "merged_second_input_returned", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {y, (x + y)};
      }));
  // x.mul_(2) | p = x * 3 | return p.t(), p.view([-1])
  t.push_back(Case(
      "merged_inputs_with_one_intermediate_base", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor b = r.clone();
        return {b.slice(0, 0, 3, 1), b.slice(0, 1, 4, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        at::Tensor p = (x * 3);
        return {p.t(), p.view(at::IntArrayRef({-1}))};
      }));
  // x.mul_(2) | torch.set_grad_enabled(False) | return x + y
  t.push_back(Case(
      "merged_inputs_and_grad_disabled", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        at::GradMode::set_enabled(false);
        return {(x + y)};
      }));
  // y.mul_(2) | return x + y * z
  t.push_back(Case(
      "merged_one_requires_grad_other_plain_input", "aliased_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {6});
        at::Tensor b = r.clone();
        at::Tensor z = leaf(1, {4});
        return {b.slice(0, 0, 4, 1), z, b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor z = in[1];
        at::Tensor y = in[2];
        y.mul_(2);
        return {(x + (y * z))};
      }));
  // x.mul_(2) | y.add_(1) | return b * 2, x + y
  t.push_back(Case(
      "merged_base_itself_and_two_views", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {6});
        return {b, b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor b = in[0];
        at::Tensor x = in[1];
        at::Tensor y = in[2];
        x.mul_(2);
        y.add_(1);
        return {(b * 2), (x + y)};
      }));
  // x.mul_(2) | return z.t(), y + 1
  t.push_back(Case(
      "merged_views_unmutated_third_returned_as_view", "aliased_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {2, 4});
        return {b.select(0, 0), b.select(0, 1), b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        at::Tensor z = in[2];
        x.mul_(2);
        return {z.t(), (y + 1)};
      }));

  // --- duplicate_inputs

  // return x + y * 2
  t.push_back(Case(
      "duplicate_not_mutated_no_grad", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {3});
        return {b, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {(x + (y * 2))};
      }));
  // return x * y
  t.push_back(Case(
      "duplicate_leaf_not_mutated", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor b = leaf(0, {3});
        return {b, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {(x * y)};
      }));
  // y.mul_(2) | return x
  t.push_back(Case(
      "duplicate_second_mutated_first_returned", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {3});
        return {b, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        y.mul_(2);
        return {x};
      }));
  // c.add_(b) | return a + d, b * 2
  t.push_back(Case(
      "duplicate_thrice_with_other_between", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor p = buf(0, {3});
        at::Tensor q = buf(1, {3});
        return {p, q, p, p};
      },
      [](Tensors in) -> Tensors {
        at::Tensor a = in[0];
        at::Tensor b = in[1];
        at::Tensor c = in[2];
        at::Tensor d = in[3];
        c.add_(b);
        return {(a + d), (b * 2)};
      }));
  // d.mul_(2) | return a * b + c
  t.push_back(Case(
      "two_duplicate_pairs_one_mutated", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor p = buf(0, {3});
        at::Tensor q = leaf(1, {3});
        return {p, q, q, p};
      },
      [](Tensors in) -> Tensors {
        at::Tensor a = in[0];
        at::Tensor b = in[1];
        at::Tensor c = in[2];
        at::Tensor d = in[3];
        d.mul_(2);
        return {((a * b) + c)};
      }));
  // x.mul_(2) | return y + 1, z * 3
  t.push_back(Case(
      "duplicate_and_view_mutated", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor b = buf(0, {4});
        return {b, b, b.slice(0, 1, 3, 1)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        at::Tensor z = in[2];
        x.mul_(2);
        return {(y + 1), (z * 3)};
      }));
  // x.mul_(2) | return y.view([3, 1]), y
  t.push_back(Case(
      "duplicate_nonleaf_view_returned", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor r = leaf(0, {3});
        at::Tensor b = r.clone();
        return {b, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.mul_(2);
        return {y.view(at::IntArrayRef({3, 1})), y};
      }));
  // return y, x * 2
  t.push_back(Case(
      "duplicate_leaf_unmutated_returned", "duplicate_inputs",
      []() -> Tensors {
        at::Tensor b = leaf(0, {3});
        return {b, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {y, (x * 2)};
      }));
}

}  // namespace cotan::conformance
