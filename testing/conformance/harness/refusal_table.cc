// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/refusal_table.h"

namespace cotan::conformance {
namespace {

using Tensors = std::vector<at::Tensor>;

// w is a parameter, x an input.
Tensors VectorAndParameter() {
  at::Tensor x = buf(0, {3});
  at::Tensor w = leaf(1, {3});
  return {w, x};
}
Tensors MatrixAndParameter() {
  at::Tensor w = leaf(1, {2, 3});
  at::Tensor x = buf(0, {2, 3});
  return {w, x};
}
Tensors OneVector() { return {buf(0, {3})}; }
Tensors OneMatrix() { return {buf(0, {2, 3})}; }
Tensors OneLeafMatrix() { return {leaf(0, {2, 3})}; }

void AppendJointExports(std::vector<RefusalCase>& t) {
  t.push_back({"export_joint_ok_scalar_loss", VectorAndParameter,
               [](Tensors in) -> Tensors {
                 return {(in[0] * in[1]).sum(), in[1] + 1};
               },
               ""});
  t.push_back({"export_joint_loss_not_scalar", VectorAndParameter,
               [](Tensors in) -> Tensors { return {in[0] * in[1]}; }, "scalar"});
  t.push_back({"export_joint_loss_index_out_of_range", VectorAndParameter,
               [](Tensors in) -> Tensors {
                 return {(in[0] * in[1]).sum(), in[1] + 1};
               },
               "loss"});
  t.push_back({"export_joint_loss_index_beyond_detached_outputs", VectorAndParameter,
               [](Tensors in) -> Tensors {
                 return {(in[0].detach() * in[1]).sum(), in[1] + 1};
               },
               "loss"});
  t.push_back({"export_joint_loss_without_grad", VectorAndParameter,
               [](Tensors in) -> Tensors { return {(in[0].detach() * in[1]).sum()}; }, "require"});
  t.push_back({"export_joint_second_output_requires_grad", VectorAndParameter,
               [](Tensors in) -> Tensors {
                 return {(in[0] * in[1]).sum(), in[0] * 2};
               },
               "output"});
  t.push_back({"export_joint_parameter_mutated_under_no_grad", VectorAndParameter,
               [](Tensors in) -> Tensors {
                 {
                   at::NoGradGuard guard;
                   in[0].mul_(2);
                 }
                 return {(in[0] * in[1]).sum()};
               },
               "requires grad"});
  t.push_back({"export_joint_metadata_mutation", MatrixAndParameter,
               [](Tensors in) -> Tensors {
                 in[1].t_();
                 return {(in[0].t() * in[1]).sum()};
               },
               "strides"});
  t.push_back({"export_pre_dispatch_with_joint", VectorAndParameter,
               [](Tensors in) -> Tensors { return {(in[0] * in[1]).sum()}; }, "pre_dispatch"});
}

void AppendInferenceExports(std::vector<RefusalCase>& t) {
  t.push_back({"export_inference_ok_buffer_mutation",
               []() -> Tensors {
                 at::Tensor b = buf(0, {3});
                 at::Tensor x = buf(1, {3});
                 return {b, x};
               },
               [](Tensors in) -> Tensors {
                 in[0].add_(in[1]);
                 return {in[0] * 2};
               },
               ""});
  t.push_back({"export_inference_metadata_and_data_mutation", OneMatrix,
               [](Tensors in) -> Tensors {
                 in[0].mul_(2);
                 in[0].unsqueeze_(0);
                 return {in[0] + 1};
               },
               "strides"});
  t.push_back({"export_inference_aliased_mutated",
               []() -> Tensors {
                 at::Tensor b = buf(0, {6});
                 return {b.slice(0, 0, 4, 1), b.slice(0, 2, 6, 1)};
               },
               [](Tensors in) -> Tensors {
                 in[0].mul_(2);
                 return {in[0] + in[1]};
               },
               "share"});
  t.push_back({"export_inference_resize_input", []() -> Tensors { return {buf(0, {6})}; },
               [](Tensors in) -> Tensors {
                 in[0].resize_({2});
                 return {in[0] + 1};
               },
               "strides"});
}

void AppendSimpleJointExports(std::vector<RefusalCase>& t) {
  t.push_back({"simple_ok",
               []() -> Tensors {
                 at::Tensor x = leaf(0, {3});
                 at::Tensor y = buf(1, {3});
                 return {x, y};
               },
               [](Tensors in) -> Tensors { return {in[0] * in[1]}; }, ""});
  t.push_back({"simple_metadata_mutation", OneMatrix,
               [](Tensors in) -> Tensors {
                 in[0].t_();
                 return {in[0] + 1};
               },
               "strides"});
  t.push_back({"simple_output_is_input", OneVector, [](Tensors in) -> Tensors { return {in[0]}; }, "alias"});
  t.push_back({"simple_output_aliases_input", OneMatrix,
               [](Tensors in) -> Tensors { return {in[0].view(at::IntArrayRef({-1}))}; }, "alias"});
  t.push_back({"simple_single_view_of_intermediate", OneLeafMatrix,
               [](Tensors in) -> Tensors { return {(in[0] * 2).t()}; }, "alias"});
  t.push_back({"simple_joint_requires_grad_input_mutated", []() -> Tensors { return {leaf(0, {3}).clone()}; },
               [](Tensors in) -> Tensors {
                 in[0].mul_(2);
                 return {in[0] + 1};
               },
               "requires grad"});
}

void AppendFunctions(std::vector<RefusalCase>& t) {
  t.push_back({"function_set_and_grad_mode_on_requires_grad",
               []() -> Tensors {
                 at::Tensor r = leaf(0, {3});
                 at::Tensor y = leaf(1, {3});
                 return {r.clone(), y};
               },
               [](Tensors in) -> Tensors {
                 {
                   at::NoGradGuard guard;
                   in[0].set_(in[1]);
                 }
                 in[0].mul_(2);
                 return {in[0] + 1};
               },
               "set_"});
  t.push_back({"function_item_data_dependent",
               []() -> Tensors {
                 at::Tensor n = buf(0, {}, at::kLong);
                 at::Tensor x = leaf(1, {2});
                 return {n, x};
               },
               [](Tensors in) -> Tensors {
                 in[0].add_(1);
                 return {in[1] * (1.0 / static_cast<double>(in[0].item<int64_t>()))};
               },
               "_local_scalar_dense"});
  t.push_back({"function_nonzero_data_dependent", OneVector,
               [](Tensors in) -> Tensors { return {(in[0] > 0).nonzero()}; }, "nonzero"});
  t.push_back({"function_alias_of_different_dtype_mutated",
               []() -> Tensors {
                 at::Tensor b = buf(0, {4});
                 return {b, b.view(at::kInt)};
               },
               [](Tensors in) -> Tensors {
                 in[0].mul_(2);
                 return {in[0] + 1, in[1] + 1};
               },
               ""});
  t.push_back({"function_multi_output_view_mutated",
               []() -> Tensors {
                 return {leaf(0, {2, 3}).clone()};
               },
               [](Tensors in) -> Tensors {
                 std::vector<at::Tensor> rows = in[0].unbind(0);
                 rows[0].mul_(2);
                 return {in[0] + 1};
               },
               "multiple views"});
  t.push_back({"function_expanded_input_mutated",
               []() -> Tensors {
                 return {buf(0, {3}).unsqueeze(0).expand({2, 3})};
               },
               [](Tensors in) -> Tensors {
                 in[0].mul_(2);
                 return {in[0] + 1};
               },
               "single memory location"});
  t.push_back({"function_double_backward", []() -> Tensors { return {leaf(0, {3})}; },
               [](Tensors in) -> Tensors { return {(in[0] * in[0] * in[0]).sum()}; }, "double backward"});
}

}  // namespace

std::vector<RefusalCase> RefusalTable() {
  std::vector<RefusalCase> t;
  AppendJointExports(t);
  AppendInferenceExports(t);
  AppendSimpleJointExports(t);
  AppendFunctions(t);
  return t;
}

}  // namespace cotan::conformance
