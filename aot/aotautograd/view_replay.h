// SPDX-License-Identifier: Apache-2.0

// Converts the ViewMeta chain of a functional tensor to view steps of the metadata (AOTAutograd:
// gen_alias_from_base replays the same chain).
#ifndef COTAN_AOT_AOTAUTOGRAD_VIEW_REPLAY_H_
#define COTAN_AOT_AOTAUTOGRAD_VIEW_REPLAY_H_

#include <ATen/FunctionalStorageImpl.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "serialization/metadata/view_step.h"

namespace cotan::aot {

using ViewMetas = absl::Span<const std::shared_ptr<at::functionalization::ViewMeta>>;

// Result of replaying a chain of views.
struct ReplayedViews {
  at::Tensor result;  // real, in the memory of the base
  std::vector<ViewStep> steps;
  // True if the steps, applied to the base, give `result`. False if a view has no ViewStep and
  // cannot be expressed by as_strided either.
  bool complete = true;
};

// Applies `views` one after another to `base`, a real tensor. Must be called during a trace.
ReplayedViews ReplayViews(ViewMetas views, const at::Tensor& base);

// Returns the step from `source` to `result`, real tensors, that is equal to the view op `node`.
// Sizes are those of the result; negative dimensions and indexes are resolved. Unset: no ViewStep
// gives this result.
std::optional<ViewStep> ToViewStep(const Node& node, const at::Tensor& source, const at::Tensor& result);

// Returns the steps from `source` to its elements reinterpreted as `type`: a dtype view, then a
// detach if `type` cannot have a gradient.
std::vector<ViewStep> BitsSteps(const at::Tensor& source, at::ScalarType type);

// Returns the as_strided step with the geometry of `result`.
ViewStep AsStridedStep(const at::Tensor& result);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_VIEW_REPLAY_H_
