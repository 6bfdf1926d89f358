// SPDX-License-Identifier: Apache-2.0

// Records in the trace of a vector-Jacobian product which values are its tangents, and where gradients go from one
// node of the autograd graph to another (kMarkedTangent, kGradientGate in undefined_tangents.h).
#ifndef COTAN_AOT_AOTAUTOGRAD_TANGENT_MARKERS_H_
#define COTAN_AOT_AOTAUTOGRAD_TANGENT_MARKERS_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace cotan::aot {

// Returns the tangents of the backward of this order (1: the function's own), marked. `flags`: which of them are
// defined, bool[]; empty: all. A recorder is active.
std::vector<at::Tensor> MarkTangents(const std::vector<at::Tensor>& tangents, const std::vector<at::Tensor>& flags,
                                     int order);

// While the object exists, a backward from `roots` marks the gradients that enter a node where several meet, and those
// of `sources`. It creates a graph; the derivatives of marked gradients are marked in later backwards, too. A recorder
// is active in all of them.
class GradientGates {
 public:
  GradientGates(const std::vector<at::Tensor>& roots, const std::vector<at::Tensor>& sources);

 private:
  std::shared_ptr<const bool> active_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_TANGENT_MARKERS_H_
