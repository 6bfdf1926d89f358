// SPDX-License-Identifier: Apache-2.0

// Custom autograd functions for cases. Their backwards are deliberately not the derivatives, so
// that a gradient shows whether the backward ran.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_CUSTOM_FUNCTIONS_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_CUSTOM_FUNCTIONS_H_

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

struct CustomScale : torch::autograd::Function<CustomScale> {
  static at::Tensor forward(torch::autograd::AutogradContext*, at::Tensor x) { return x * 3; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list g) {
    return {g[0] * 5};
  }
};

// Writes to its argument and returns it.
struct CustomDirty : torch::autograd::Function<CustomDirty> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    x.mul_(3);
    context->mark_dirty({x});
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list g) {
    return {g[0] * 3};
  }
};

// Returns two results, of which the second has no gradient.
struct CustomNonDiff : torch::autograd::Function<CustomNonDiff> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    at::Tensor a = x * 2;
    at::Tensor b = (x > 0).to(at::kFloat);
    context->mark_non_differentiable({b});
    return {a, b};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list g) {
    return {g[0] * 2};
  }
};

// Returns a view of a [2, 3] argument.
struct CustomView : torch::autograd::Function<CustomView> {
  static at::Tensor forward(torch::autograd::AutogradContext*, at::Tensor x) { return x.view({-1}); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list g) {
    return {(g[0] * 7).reshape({2, 3})};
  }
};

struct CustomSaved : torch::autograd::Function<CustomSaved> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list g) {
    return {g[0] * 2 * context->get_saved_variables()[0]};
  }
};

// Writes to the second argument in its backward.
struct CustomBwMutates : torch::autograd::Function<CustomBwMutates> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x, at::Tensor b) {
    context->saved_data["b"] = b;
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list g) {
    context->saved_data["b"].toTensor().add_(1);
    return {g[0] * 2, at::Tensor()};
  }
};

inline at::Tensor custom_scale(const at::Tensor& x) { return CustomScale::apply(x); }
inline at::Tensor custom_dirty(const at::Tensor& x) { return CustomDirty::apply(x); }
inline torch::autograd::variable_list custom_nondiff(const at::Tensor& x) { return CustomNonDiff::apply(x); }
inline at::Tensor custom_view(const at::Tensor& x) { return CustomView::apply(x); }
inline at::Tensor custom_saved(const at::Tensor& x) { return CustomSaved::apply(x); }
inline at::Tensor custom_bw_mutates(const at::Tensor& x, const at::Tensor& b) { return CustomBwMutates::apply(x, b); }

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_CUSTOM_FUNCTIONS_H_
