// SPDX-License-Identifier: Apache-2.0

// Records which gradients enter a torch::autograd::Function together: if one of them is defined, the
// node replaces the undefined ones by zeros (ctx.set_materialize_grads).
#ifndef COTAN_AOT_AOTAUTOGRAD_MATERIALIZED_GRADS_H_
#define COTAN_AOT_AOTAUTOGRAD_MATERIALIZED_GRADS_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "aot/capture/recorder.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// The materialized gradients of one backward pass, which ends before the object does. `recorder` must outlive the
// object. Later passes through the same nodes are not recorded.
class MaterializedGrads {
 public:
  explicit MaterializedGrads(Recorder& recorder)
      : recorder_(recorder), clones_(std::make_shared<std::vector<std::vector<ValueId>>>()) {}

  // Adds hooks to the nodes of torch::autograd::Function reachable from `roots` that record the
  // gradients which enter the node together, as clones. Must be called before the backward pass.
  void AddHooks(const std::vector<at::Tensor>& roots);

  // Replaces the recorded clones in the graph by kMaterializeGrads. Must be called after the backward
  // pass.
  void ReplaceClones();

 private:
  Recorder& recorder_;
  std::shared_ptr<std::vector<std::vector<ValueId>>> clones_;  // by run of a node
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_MATERIALIZED_GRADS_H_
