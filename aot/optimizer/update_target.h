// SPDX-License-Identifier: Apache-2.0

// Targets of the optimizer, and the new states of a graph. Private to //aot/optimizer.
#ifndef COTAN_AOT_OPTIMIZER_UPDATE_TARGET_H_
#define COTAN_AOT_OPTIMIZER_UPDATE_TARGET_H_

#include <cstddef>
#include <string>

#include "aot/ir/builder.h"
#include "aot/ir/graph.h"
#include "aot/optimizer/optimizer.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// A parameter that gets an update, or the rank's shard of a bucket of parameters.
struct UpdateTarget {
  std::string name;
  Tensor parameter;
  Tensor gradient;
  int group = 0;            // of parameters; 0: the default group
  bool is_shard = false;    // `name` is not that of a state
  bool is_shared = false;   // the update may be a call
  bool is_complex = false;  // `parameter` and `gradient` are views of complex numbers as pairs of real ones
  size_t num_steps = 0;     // of Updater::gradient_steps_ that `gradient` has passed
};

// Returns a persistent state, filled with `fill`.
serialization::State MakeState(std::string name, serialization::State::Role role, const TensorType& type, double fill,
                               std::string owner);

// Name of the state with the loss scale.
inline constexpr char kScaleState[] = "loss_scale";
serialization::State ScaleState(const LossScaling& scaling);

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_UPDATE_TARGET_H_
