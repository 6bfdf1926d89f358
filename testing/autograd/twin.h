// SPDX-License-Identifier: Apache-2.0

// A tensor as a Variable of the runtime and as a LibTorch tensor. Each method runs on both and
// reports differences.
#ifndef COTAN_TESTING_AUTOGRAD_TWIN_H_
#define COTAN_TESTING_AUTOGRAD_TWIN_H_

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor.h"
#include "serialization/metadata/view_step.h"

namespace cotan::testing {

// A Variable and a LibTorch tensor that went through the same operations.
class DifferentialPair {
 public:
  DifferentialPair() = default;
  // Makes leaves over copies of `tensor`.
  DifferentialPair(const at::Tensor& tensor, bool requires_grad);

  const Variable& ours() const { return ours_; }
  const at::Tensor& theirs() const { return theirs_; }

  // Operations. If both sides refuse, `refused` is true and the result is undefined; if only one
  // side refuses, `difference` is set.
  struct Outcome {
    bool refused = false;
    bool undecided = false;       // an internal assertion of LibTorch failed
    std::string difference = {};  // "" if none
  };
  Outcome View(const ViewStep& step, DifferentialPair& result) const;
  Outcome Rows(std::vector<DifferentialPair>& results) const;  // unbind(0)
  Outcome Times(double factor, DifferentialPair& result) const;
  // Multiplies. Both have a real dtype and equal sizes; the node saves both for the backward.
  Outcome Times(const DifferentialPair& other, DifferentialPair& result) const;
  Outcome Plus(const DifferentialPair& other, DifferentialPair& result) const;  // broadcasts
  Outcome Copy(const DifferentialPair& source);
  Outcome TimesInPlace(double factor);
  Outcome AsStridedInPlace(const StridedLayout& layout);
  Outcome SetStorage(const DifferentialPair& source);  // with gradients disabled
  Outcome RequiresGrad(bool requires_grad);
  Outcome DetachInPlace();
  Outcome RetainGrad();
  // Compares whether both have a grad_fn, and whether reading it fails.
  Outcome CompareHistory() const;
  static Outcome Backward(const std::vector<DifferentialPair>& roots, uint64_t seed, bool retain_graph);

  // Returns the first difference in elements, geometry, place in the graph, version or gradient; ""
  // if there is none.
  std::string Difference() const;

 private:
  DifferentialPair(Variable ours, at::Tensor theirs);

  Variable ours_;
  at::Tensor theirs_;
  int64_t version_ahead_ = 0;  // theirs, when the twin was made
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_TWIN_H_
