// How cases of a table say what is unusual about them:
//
//   Random(WithoutGrad(Case("name", "group", inputs, f)))
//
// A table may declare names of its own instead: conf_case.h does not include
// this header.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_CASE_FLAGS_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_CASE_FLAGS_H_

#include <ATen/ATen.h>

#include <functional>
#include <utility>
#include <vector>

#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

using Tensors = std::vector<at::Tensor>;

// Called with gradients enabled; its loss is made of all outputs and changed
// inputs.
inline ConfCase Case(const char* name, const char* group, std::function<Tensors()> inputs,
                     std::function<Tensors(Tensors)> f) {
  return {name, group, std::move(inputs), std::move(f), true, {-1}, true, "contig", false, false};
}

// Called with gradients disabled.
inline ConfCase WithoutGrad(ConfCase c) {
  c.grad = false;
  return c;
}

// With a function that draws random numbers.
inline ConfCase Random(ConfCase c) {
  c.rng = true;
  return c;
}

// With inputs that are compared after the backward, too.
inline ConfCase AfterBackward(ConfCase c) {
  c.after_bw = true;
  return c;
}

// With a loss made of these outputs only, and of inputs that changed.
inline ConfCase LossOf(std::vector<int> outputs, ConfCase c) {
  c.loss_outs = std::move(outputs);
  return c;
}

// With a loss made of outputs only.
inline ConfCase WithoutLossInputs(ConfCase c) {
  c.loss_inputs = false;
  return c;
}

// With tangents of a layout that ConfCase::tangent names.
inline ConfCase Tangents(const char* layout, ConfCase c) {
  c.tangent = layout;
  return c;
}

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_CASE_FLAGS_H_
