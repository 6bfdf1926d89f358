// SPDX-License-Identifier: Apache-2.0

// Functions that set the flags of a case:
//
//   Random(WithoutGrad(Case("name", "group", inputs, f)))
//
// A table may declare its own functions instead: conf_case.h does not include this header.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_CASE_FLAGS_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_CASE_FLAGS_H_

#include <ATen/ATen.h>

#include <functional>
#include <utility>
#include <vector>

#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

using Tensors = std::vector<at::Tensor>;

// Returns a case that is called with gradients enabled, with a loss of all outputs and mutated
// inputs.
inline ConfCase Case(const char* name, const char* group, std::function<Tensors()> inputs,
                     std::function<Tensors(Tensors)> f) {
  return {name, group, std::move(inputs), std::move(f), true, {-1}, true, "contig", false, false};
}

// Returns `c`, called with gradients disabled.
inline ConfCase WithoutGrad(ConfCase c) {
  c.grad = false;
  return c;
}

// Returns `c`, whose function draws random numbers.
inline ConfCase Random(ConfCase c) {
  c.rng = true;
  return c;
}

// Returns `c`, with inputs that are compared after the backward, too.
inline ConfCase AfterBackward(ConfCase c) {
  c.after_bw = true;
  return c;
}

// Returns `c`, with a loss of these outputs and the mutated inputs.
inline ConfCase LossOf(std::vector<int> outputs, ConfCase c) {
  c.loss_outs = std::move(outputs);
  return c;
}

// Returns `c`, with a loss of outputs only.
inline ConfCase WithoutLossInputs(ConfCase c) {
  c.loss_inputs = false;
  return c;
}

// Returns `c`, with tangents of this layout (ConfCase::tangent).
inline ConfCase Tangents(const char* layout, ConfCase c) {
  c.tangent = layout;
  return c;
}

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_CASE_FLAGS_H_
