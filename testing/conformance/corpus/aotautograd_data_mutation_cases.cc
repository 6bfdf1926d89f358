// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: writes to inputs.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendDataMutationCases(std::vector<ConfCase>& t) {
  // --- input_data_mutation

  // x.detach().mul_(2) | return x * 3
  t.push_back(Case(
      "input_mul_inplace_nonleaf_via_detach", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.detach().mul_(2);
        return {(x * 3)};
      }));
  // x.mul_(2) | with torch.no_grad(): |     x.add_(1) | return x * 3
  t.push_back(Case(
      "input_mutated_tracked_then_under_no_grad", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        {
          at::NoGradGuard guard;
          x.add_(1);
        }
        return {(x * 3)};
      }));
  // x.detach().add_(1) | x.mul_(2) | return x * 3
  t.push_back(Case(
      "input_mutated_detached_then_tracked", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.detach().add_(1);
        x.mul_(2);
        return {(x * 3)};
      }));
  // x[1:3].mul_(2) | return x.sum([0])
  t.push_back(Case(
      "input_row_slice_mutated_no_grad", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {4, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.slice(0, 1, 3, 1).mul_(2);
        return {x.sum(at::IntArrayRef({0}))};
      }));
  // x[1:3].mul_(2) | return x.sum([0])
  t.push_back(Case(
      "input_row_slice_mutated_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.slice(0, 1, 3, 1).mul_(2);
        return {x.sum(at::IntArrayRef({0}))};
      }));
  // x.t().mul_(3) | return x + 1
  t.push_back(Case(
      "input_transposed_view_mutated", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.t().mul_(3);
        return {(x + 1)};
      }));
  // x[:, 1].exp_() | return x * 2
  t.push_back(Case(
      "input_selected_column_mutated", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.select(1, 1).exp_();
        return {(x * 2)};
      }));
  // x.as_strided([2, 2], [3, 1], 1).add_(1) | return x * 2
  t.push_back(Case(
      "input_as_strided_view_mutated", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.as_strided(at::IntArrayRef({2, 2}), at::IntArrayRef({3, 1}), 1).add_(1);
        return {(x * 2)};
      }));
  // x.copy_(y) | return x * 2
  t.push_back(Case(
      "input_buffer_overwritten_by_differentiable_source", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor y = leaf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.copy_(y);
        return {(x * 2)};
      }));
  // x.copy_(y) | return x + 1
  t.push_back(Case(
      "input_overwritten_by_copy_no_grad", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor y = buf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.copy_(y);
        return {(x + 1)};
      }));
  // x.copy_(y) | return x * 2
  t.push_back(Case(
      "input_overwritten_by_copy_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor y = leaf(1, {2, 3});
        return {r.clone(), y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.copy_(y);
        return {(x * 2)};
      }));
  // y = x * 2 | x.zero_() | return y + x
  t.push_back(Case(
      "input_zeroed_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        x.zero_();
        return {(y + x)};
      }));
  // x.index_put_((i,), v) | return x * 2
  t.push_back(Case(
      "input_index_put_rows", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor i = ints({0, 2});
        at::Tensor v = leaf(1, {2, 3});
        return {r.clone(), i, v};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor i = in[1];
        at::Tensor v = in[2];
        x.index_put_({i}, v);
        return {(x * 2)};
      }));
  // x.scatter_add_(0, i, v) | return x * 2
  t.push_back(Case(
      "input_scatter_add", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {5});
        at::Tensor i = ints({0, 2, 2});
        at::Tensor v = leaf(1, {3});
        return {x, i, v};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor i = in[1];
        at::Tensor v = in[2];
        x.scatter_add_(0, i, v);
        return {(x * 2)};
      }));
  // x.mul_(2) | return x + 1
  t.push_back(Case(
      "input_noncontiguous_mutated_no_grad", "input_data_mutation",
      []() -> Tensors {
        at::Tensor b = buf(0, {3, 4});
        return {b.t()};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {(x + 1)};
      }));
  // x.mul_(2) | return x.sin()
  t.push_back(Case(
      "input_noncontiguous_mutated_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {3, 4});
        at::Tensor b = r.clone();
        return {b.t()};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {x.sin()};
      }));
  // x.add_(10) | return x * 2
  t.push_back(Case(
      "input_strided_slice_mutated_no_grad", "input_data_mutation",
      []() -> Tensors {
        at::Tensor b = buf(0, {8});
        return {b.slice(0, 1, 8, 2)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.add_(10);
        return {(x * 2)};
      }));
  // x.mul_(2) | return x.view([-1])
  t.push_back(Case(
      "input_mutated_and_view_returned_no_grad", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {x.view(at::IntArrayRef({-1}))};
      }));
  // x.mul_(2) | return x.view([-1]), x + 1
  t.push_back(Case(
      "input_mutated_and_view_returned_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {x.view(at::IntArrayRef({-1})), (x + 1)};
      }));
  // y = x.view([-1]) | x.mul_(2) | return y
  t.push_back(Case(
      "input_mutated_after_view_output_created", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = x.view(at::IntArrayRef({-1}));
        x.mul_(2);
        return {y};
      }));
  // y = x * 3 | x.mul_(2) | return y
  t.push_back(Case(
      "input_mutated_after_plain_output_computed", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 3);
        x.mul_(2);
        return {y};
      }));
  // x.mul_(2) | return []
  t.push_back(Case(
      "only_mutation_no_outputs", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {};
      }));
  // x.mul_(2) | return []
  t.push_back(Case(
      "only_mutation_no_outputs_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {};
      }));
  // x.add_(y) | return x * y
  t.push_back(Case(
      "buffer_accumulates_differentiable_value", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor y = leaf(1, {3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.add_(y);
        return {(x * y)};
      }));
  // x.add_(1) | x.sub_(1) | return x * 2
  t.push_back(Case(
      "mutation_that_cancels_out", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.add_(1);
        x.sub_(1);
        return {(x * 2)};
      }));
  // x.add_(1) | return x.sum()
  t.push_back(Case(
      "empty_input_mutated", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {0, 2});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.add_(1);
        return {x.sum()};
      }));
  // x.mul_(2) | return x * x
  t.push_back(Case(
      "complex_input_mutated_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {3}, at::kComplexFloat);
        return {r.clone()};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {(x * x)};
      }));
  // x.mul_(2) | return x + 1
  t.push_back(WithoutGrad(Case(
      "leaf_mutated_whole_call_no_grad", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {(x + 1)};
      })));
  // x.mul_(2) | return x.detach()
  t.push_back(Case(
      "mutated_input_detached_output", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {x.detach()};
      }));
  // x.relu_() | return x * 2
  t.push_back(Case(
      "relu_inplace_on_input_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.relu_();
        return {(x * 2)};
      }));
  // a.add_(b) | b.mul_(a) | return a * b
  t.push_back(Case(
      "mutation_chain_between_inputs_nonleaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {3});
        at::Tensor s = leaf(1, {3});
        return {r.clone(), s.clone()};
      },
      [](Tensors in) -> Tensors {
        at::Tensor a = in[0];
        at::Tensor b = in[1];
        a.add_(b);
        b.mul_(a);
        return {(a * b)};
      }));
  // x[0:2].mul_(2) | x[2:4].add_(1) | return x.sin()
  t.push_back(Case(
      "two_disjoint_views_of_input_mutated", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {4, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.slice(0, 0, 2, 1).mul_(2);
        x.slice(0, 2, 4, 1).add_(1);
        return {x.sin()};
      }));
  // x.detach()[1:3].zero_() | return x * x
  t.push_back(Case(
      "input_mutated_through_detached_slice_leaf", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.detach().slice(0, 1, 3, 1).zero_();
        return {(x * x)};
      }));
  // x.permute([2, 0, 1])[1].fill_(5) | return x.sum()
  t.push_back(Case(
      "input_permuted_view_filled", "input_data_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.permute(at::IntArrayRef({2, 0, 1})).select(0, 1).fill_(5);
        return {x.sum()};
      }));
  // with torch.no_grad(): |     x.mul_(2) | return []
  t.push_back(Case(
      "nonleaf_mutated_under_no_grad_block_without_outputs", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        {
          at::NoGradGuard guard;
          x.mul_(2);
        }
        return {};
      }));
  // with torch.no_grad(): |     x.mul_(2) | return x.detach() + 1
  t.push_back(Case(
      "nonleaf_mutated_under_no_grad_block_with_detached_output", "input_data_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        {
          at::NoGradGuard guard;
          x.mul_(2);
        }
        return {(x.detach() + 1)};
      }));
}

}  // namespace cotan::conformance
