// One tensor twice: as a Variable of the runtime and as LibTorch's. Each method
// does the same to both and says where they differ.
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

// Gradients of both sides are kept in turn with their variables.
class DifferentialPair {
 public:
  DifferentialPair() = default;
  // Leaves over copies of `tensor`.
  DifferentialPair(const at::Tensor& tensor, bool requires_grad);

  const Variable& ours() const { return ours_; }
  const at::Tensor& theirs() const { return theirs_; }

  // The operations. Where both sides refuse, `refused` becomes true and a result
  // is undefined; where only one does, the program has failed: `difference`.
  struct Outcome {
    bool refused = false;
    bool undecided = false;       // an internal assertion of LibTorch failed
    std::string difference = {};  // "" if none
  };
  Outcome View(const ViewStep& step, DifferentialPair& result) const;
  Outcome Rows(std::vector<DifferentialPair>& results) const;  // unbind(0)
  Outcome Times(double factor, DifferentialPair& result) const;
  // Of real dtype and equal sizes; keeps both for the backward.
  Outcome Times(const DifferentialPair& other, DifferentialPair& result) const;
  Outcome Plus(const DifferentialPair& other, DifferentialPair& result) const;  // broadcasts
  Outcome Copy(const DifferentialPair& source);
  Outcome TimesInPlace(double factor);
  Outcome AsStridedInPlace(const StridedLayout& layout);
  Outcome SetStorage(const DifferentialPair& source);  // with gradients disabled
  Outcome RequiresGrad(bool requires_grad);
  Outcome DetachInPlace();
  Outcome RetainGrad();
  // Whether both have a history, and can tell.
  Outcome CompareHistory() const;
  static Outcome Backward(const std::vector<DifferentialPair>& roots, uint64_t seed, bool retain_graph);

  // What differs now: elements, geometry, place in the graph, writes counted,
  // gradient. "" if nothing.
  std::string Difference() const;

 private:
  DifferentialPair(Variable ours, at::Tensor theirs);

  Variable ours_;
  at::Tensor theirs_;
  int64_t version_ahead_ = 0;  // theirs, when the twin was made
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_TWIN_H_
