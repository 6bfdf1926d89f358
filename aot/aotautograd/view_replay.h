// Turns the views that functionalization remembers into view steps of the
// metadata.
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

// What views lead to.
struct ReplayedViews {
  at::Tensor result;  // real, in the memory of the base
  std::vector<ViewStep> steps;
  // Whether the steps, applied to the base, give the result. They do unless a
  // view has no ViewStep and cannot be told by geometry either.
  bool complete = true;
};

// Applies `views` one after another to `base`, a real tensor. Call it while a
// trace is under way.
ReplayedViews ReplayViews(ViewMetas views, const at::Tensor& base);

// The step from `source` to `result`, real tensors, that `node`, a recorded
// view op, stands for. Sizes are those of the result, -1 and the like are
// resolved. Unset: there is none.
std::optional<ViewStep> ToViewStep(const Node& node, const at::Tensor& source, const at::Tensor& result);

// The steps from `source` to its elements as those of another dtype.
std::vector<ViewStep> BitsSteps(const at::Tensor& source, at::ScalarType type);

// The view of the same storage with the geometry of `result`.
ViewStep AsStridedStep(const at::Tensor& result);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_VIEW_REPLAY_H_
