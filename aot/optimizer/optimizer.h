// SPDX-License-Identifier: Apache-2.0

// Optimizers as graphs: appends the update of every trainable parameter to a joint graph, with the
// semantics of torch.optim.
#ifndef COTAN_AOT_OPTIMIZER_OPTIMIZER_H_
#define COTAN_AOT_OPTIMIZER_OPTIMIZER_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/call_node.h"
#include "aot/ir/graph.h"
#include "aot/optimizer/data_parallel.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Options of torch.optim.SGD, with its defaults. Numbers become HYPERPARAMETER states (f64, 0-d)
// that the user may change between steps; booleans, and whether momentum is 0, are fixed when
// compiled. One slot for all parameters counts the updates: "optimizer.step" (f64, 0-d).
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

// Options of torch.optim.Adam, or of AdamW if `decoupled_weight_decay`.
struct AdamOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  bool decoupled_weight_decay = false;
};

using OptimizerOptions = std::variant<SgdOptions, AdamOptions>;

// Returns "sgd", "adam" or "adamw".
std::string OptimizerName(const OptimizerOptions& options);

// Returns the default options of AdamW, whose weight decay is 0.01.
AdamOptions AdamW();

// Options of the parameters whose names match one of `patterns` ('*' is any text, '?' any
// character). In CompileOptions, any name of a tied parameter.
struct ParameterGroup {
  std::vector<std::string> patterns;
  OptimizerOptions options;
};

// Dynamic loss scaling for f16, as torch.amp.GradScaler: the backward starts
// from the scale instead of 1, so that small gradients do not vanish, and the
// update divides by it. With a gradient that is infinite or NaN no parameter
// and no slot changes, and the scale is multiplied by `backoff_factor`; after
// `growth_interval` updates in a row it is multiplied by `growth_factor`.
// Factors and interval are hyperparameters; the scale (f32) and the updates
// counted so far (i64) are the slots "loss_scale" and
// "loss_scale.growth_tracker". Other states, such as running statistics, are
// written by every step, as in eager.
struct LossScaling {
  double initial_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  double growth_interval = 2000;
};

struct OptimizerConfig {
  // The optimizer, and the options of parameters in no group. The first group that matches a
  // parameter applies; all groups use the same optimizer.
  OptimizerOptions options = {};
  std::vector<ParameterGroup> groups = {};
  // Limit of the 2-norm of all gradients together, as in clip_grad_norm_. It is a hyperparameter.
  std::optional<double> clip_norm = {};
  // Clamps each gradient to [-value, value], before clip_norm, as in clip_grad_value_.
  std::optional<double> clip_value = {};
  // Requires a scaled loss (ScaleLoss). Clipping applies to the unscaled gradients.
  std::optional<LossScaling> loss_scaling = {};
};

// States that an optimizer adds to the artifact: slots, hyperparameters and accumulators, with fill
// values. Without duplicates.
using NewStates = std::vector<serialization::State>;

// Returns the name of a hyperparameter state: "hyperparameter.lr.0" (group 0 is the default group),
// "hyperparameter.clip_norm".
std::string HyperparameterName(absl::string_view hyperparameter, int group);

// Multiplies the tangent of the loss, number `tangent_index` of a lowered joint graph, by the
// scale, and returns the states that this requires. Call it before SeedLoss().
// InvalidArgument: there is no such tangent.
absl::StatusOr<NewStates> ScaleLoss(const LossScaling& scaling, int tangent_index, Graph& joint);

// Stores equal updates once, as a block.
class UpdateSharing {
 public:
  virtual ~UpdateSharing() = default;
  // Returns whether the update of a parameter may be a call. `gradient` is a value of the graph.
  virtual bool MayShare(ValueId gradient) const = 0;
  // Adds an update as a block. Equal graphs get the same block.
  virtual absl::StatusOr<AddedBlock> Add(Graph update) = 0;
};

// Appends the update of each parameter that has a gradient to a lowered graph whose tangents are
// seeded (SeedLoss). Replaces the kGradient outputs of parameters by kStateUpdate outputs of
// parameters and slots, and drops gradients of user inputs.
// InvalidArgument: an option is out of range (the ranges of torch.optim), a group matches no
// parameter, or groups use different optimizers.
//
// `sharing`, unless null: updates that it allows become calls, if there are two for parameters of one type. Each type
// is built once. Numbers that updates share (bias corrections) stay in the graph. Errors of UpdateSharing::Add().
//
// `parallel`, unless null: the optimizer is given the mean gradients of all ranks, and the loss becomes their mean,
// too.
absl::StatusOr<NewStates> AppendOptimizer(const OptimizerConfig& config, Graph& graph, UpdateSharing* sharing = nullptr,
                                          const DataParallelStep* parallel = nullptr);

// Replaces the kGradient outputs of parameters by updates of accumulator states: accumulator +=
// gradient.
absl::StatusOr<NewStates> AppendAccumulation(Graph& graph);

// Name and type of a parameter that has an accumulator.
struct NamedType {
  std::string name;
  TensorType type;
};
// The graph of BuildApplyOptimizer() and the states that it adds to the artifact.
struct ApplyOptimizer {
  Graph graph;
  NewStates states;
};

// Returns a graph without inputs of the user that applies the optimizer to the accumulated gradients of
// `parameters` and clears the accumulators; `parallel` as for AppendOptimizer(). Errors of AppendOptimizer().
absl::StatusOr<ApplyOptimizer> BuildApplyOptimizer(const OptimizerConfig& config,
                                                   absl::Span<const NamedType> parameters,
                                                   const DataParallelStep* parallel = nullptr);

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_OPTIMIZER_H_
