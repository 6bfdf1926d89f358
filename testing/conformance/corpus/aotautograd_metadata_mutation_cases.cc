// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: inputs that get other sizes, strides or storage.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendMetadataMutationCases(std::vector<ConfCase>& t) {
  // --- input_metadata_mutation

  // x.transpose_(0, 1) | return x + 1
  t.push_back(Case(
      "transpose_inplace_no_grad_input", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.transpose_(0, 1);
        return {(x + 1)};
      }));
  // x.transpose_(0, 1) | return x * 2
  t.push_back(Case(
      "transpose_inplace_nonleaf", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.transpose_(0, 1);
        return {(x * 2)};
      }));
  // x.unsqueeze_(1) | return x * 2
  t.push_back(Case(
      "unsqueeze_inplace_no_grad_input", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.unsqueeze_(1);
        return {(x * 2)};
      }));
  // x.t_() | x.mul_(2) | return x + 1
  t.push_back(Case(
      "transpose_then_data_mutation_nonleaf", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.t_();
        x.mul_(2);
        return {(x + 1)};
      }));
  // x.t_() | return x
  t.push_back(Case(
      "transpose_inplace_and_return_input", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.t_();
        return {x};
      }));
  // x.t_() | return x[1], x * 2
  t.push_back(Case(
      "transpose_inplace_and_return_view_nonleaf", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.t_();
        return {x.select(0, 1), (x * 2)};
      }));
  // a.t_() | b.unsqueeze_(0) | return a * 2
  t.push_back(Case(
      "metadata_on_two_inputs_only_one_requires_grad", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor b = buf(1, {2, 3});
        return {r.clone(), b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor a = in[0];
        at::Tensor b = in[1];
        a.t_();
        b.unsqueeze_(0);
        return {(a * 2)};
      }));
  // x.detach_() | return x * y
  t.push_back(Case(
      "detach_inplace_on_nonleaf", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor r = leaf(0, {3});
        at::Tensor y = leaf(1, {3});
        return {r.clone(), y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        x.detach_();
        return {(x * y)};
      }));
  // x.requires_grad_(True) | return x * 2
  t.push_back(Case(
      "requires_grad_turned_on_inside", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.requires_grad_(true);
        return {(x * 2)};
      }));
  // x.resize_([2, 2]) | return x + 1
  t.push_back(Case(
      "resize_inplace_smaller", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {6});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.resize_(at::IntArrayRef({2, 2}));
        return {(x + 1)};
      }));
  // x.resize_([4]) | x.fill_(1) | return x + 1
  t.push_back(Case(
      "resize_inplace_larger", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.resize_(at::IntArrayRef({4}));
        x.fill_(1);
        return {(x + 1)};
      }));
  // x.t_() | return x * 2
  t.push_back(WithoutGrad(Case(
      "metadata_mutation_leaf_under_no_grad_call", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.t_();
        return {(x * 2)};
      })));
  // x.squeeze_(0) | return x + 1
  t.push_back(Case(
      "squeeze_inplace_noop_shape", "input_metadata_mutation",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.squeeze_(0);
        return {(x + 1)};
      }));
}

}  // namespace cotan::conformance
