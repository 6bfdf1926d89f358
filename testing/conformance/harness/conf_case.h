// SPDX-License-Identifier: Apache-2.0

// Declarations for tables of conformance cases. A table file defines build_table(); linked with
// :runner it is a complete program:
//
//   #include "testing/conformance/harness/conf_case.h"
//
//   std::vector<ConfCase> build_table() {
//     std::vector<ConfCase> t;
//     t.push_back({"name", "group",
//                  []() -> std::vector<at::Tensor> { return {leaf(0, {2, 3})}; },
//                  [](std::vector<at::Tensor> in) -> std::vector<at::Tensor> { return {in[0] * 2}; },
//                  true, {-1}, true, "contig", false, false});
//     return t;
//   }
//
// A file that contains the same declarations need not include this one. Names are those of the
// corpus that the tables come from.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_CONF_CASE_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_CONF_CASE_H_

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <functional>
#include <vector>

// Inputs of a case that leaf() made, in order: the roots of its gradients.
inline std::vector<at::Tensor> g_roots;

// Returns `n` elements; element j depends on j and k only.
inline at::Tensor values(int64_t k, int64_t n, at::ScalarType dt) {
  at::Tensor j = at::arange(n, at::kLong);
  at::Tensor m = at::remainder(j * 7 + (5 * k + 3), 11);
  if (dt == at::kLong || dt == at::kInt || dt == at::kShort) return (m - 5).to(dt);
  if (dt == at::kByte) return m.to(dt);
  if (dt == at::kBool) return at::remainder(m, 2) == 1;
  if (dt == at::kComplexFloat) return at::complex(values(k, n, at::kFloat), values(k + 4, n, at::kFloat));
  return ((m - 5).to(at::kDouble) * 0.25 + 0.125).to(dt);
}

inline at::Tensor buf(int64_t k, at::IntArrayRef shape, at::ScalarType dt = at::kFloat) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return values(k, n, dt).reshape(shape).clone();
}

// Returns a tensor like buf() that requires grad, and adds it to the roots.
inline at::Tensor leaf(int64_t k, at::IntArrayRef shape, at::ScalarType dt = at::kFloat) {
  at::Tensor t = buf(k, shape, dt).requires_grad_(true);
  g_roots.push_back(t);
  return t;
}

inline at::Tensor ints(at::IntArrayRef v) { return at::tensor(v, at::kLong); }

// Returns the tensor that f returns for a number. For None f returns an undefined tensor.
inline at::Tensor number_output(const at::Scalar& value) { return at::native::wrapped_scalar_tensor(value); }

struct ConfCase {
  const char* name;
  const char* group;
  std::function<std::vector<at::Tensor>()> inputs;
  std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)> f;
  bool grad;                   // the mode in which f is called
  std::vector<int> loss_outs;  // outputs that the loss is made of; {-1} = all
  bool loss_inputs;            // whether inputs that f changed are part of the loss
  const char* tangent;         // layout of tangents: "contig", "transposed", "expanded", "channels_last"
  bool rng;                    // whether f draws random numbers
  bool after_bw;               // whether inputs are compared after the backward, too
};

// Returns all cases, in the order in which they run. Defined by the table.
std::vector<ConfCase> build_table();

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_CONF_CASE_H_
