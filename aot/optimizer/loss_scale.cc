// SPDX-License-Identifier: Apache-2.0

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "aot/ir/builder.h"
#include "aot/optimizer/optimizer.h"
#include "aot/optimizer/option_ranges.h"
#include "aot/optimizer/update_target.h"
#include "base/status_macros.h"

namespace cotan::aot {

serialization::State ScaleState(const LossScaling& scaling) {
  return MakeState(kScaleState, serialization::State::OPTIMIZER_SLOT, {DType::kFloat32, {}, {}}, scaling.initial_scale,
                   "");
}

absl::StatusOr<NewStates> ScaleLoss(const LossScaling& scaling, int tangent_index, Graph& joint) {
  COTAN_RETURN_IF_ERROR(CheckRanges(scaling));
  const auto loss = std::find_if(joint.inputs().begin(), joint.inputs().end(), [&](const GraphInput& input) {
    return input.kind == InputKind::kTangent && input.index == tangent_index;
  });
  if (loss == joint.inputs().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("@", joint.name, ": tangent ", tangent_index, " does not exist, so that it cannot be the loss"));
  }
  const ValueId tangent = loss->value;
  const TensorType type = joint.value(tangent).type;
  const ValueId scale = joint.AddInput({DType::kFloat32, {}, {}}, InputKind::kOptimizerSlot, 0, kScaleState);
  Graph::NodeList users;
  users.swap(joint.nodes());
  Builder b(&joint);
  const ValueId scaled = (b.Value(tangent) * b.Expand(b.Cast(b.Value(scale), type.dtype), type.sizes)).id();
  COTAN_RETURN_IF_ERROR(b.status());
  users.swap(joint.nodes());
  joint.ReplaceAllUses(tangent, scaled);
  joint.nodes().splice(joint.nodes().begin(), users);
  return NewStates{ScaleState(scaling)};
}

}  // namespace cotan::aot
