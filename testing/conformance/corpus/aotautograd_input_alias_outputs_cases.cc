// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: outputs that are views of inputs.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendInputAliasOutputsCases(std::vector<ConfCase>& t) {
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
}

}  // namespace cotan::conformance
