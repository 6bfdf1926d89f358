// The visible table: its parts, and how its cases say what is unusual.
#ifndef COTAN_TESTING_CONFORMANCE_VISIBLE_TABLE_H_
#define COTAN_TESTING_CONFORMANCE_VISIBLE_TABLE_H_

#include <functional>
#include <utility>
#include <vector>

#include "testing/conformance/conf_case.h"

using Tensors = std::vector<at::Tensor>;

// A case called with gradients enabled; its loss is made of all outputs and
// changed inputs.
inline ConfCase Case(const char* name, const char* group, std::function<Tensors()> inputs,
                     std::function<Tensors(Tensors)> f) {
  return {name, group, std::move(inputs), std::move(f), true, {-1}, true, "contig", false, false};
}

inline ConfCase NoGrad(ConfCase c) {
  c.grad = false;
  return c;
}

inline ConfCase LossOf(std::vector<int> outputs, ConfCase c) {
  c.loss_outs = std::move(outputs);
  return c;
}

inline ConfCase WithoutLossInputs(ConfCase c) {
  c.loss_inputs = false;
  return c;
}

inline ConfCase Tangents(const char* layout, ConfCase c) {
  c.tangent = layout;
  return c;
}

inline ConfCase RandomOps(ConfCase c) {
  c.rng = true;
  return c;
}

inline ConfCase AfterBackward(ConfCase c) {
  c.after_bw = true;
  return c;
}

void AppendInputsCases(std::vector<ConfCase>& t);
void AppendAliasedInputsCases(std::vector<ConfCase>& t);
void AppendOutputsCases(std::vector<ConfCase>& t);
void AppendGradientsCases(std::vector<ConfCase>& t);
void AppendTrainingCases(std::vector<ConfCase>& t);

#endif  // COTAN_TESTING_CONFORMANCE_VISIBLE_TABLE_H_
