// Optimizers as graphs: the update of every trainable parameter is appended to
// a joint graph in expressions, with PyTorch's semantics.
#ifndef COTAN_AOT_OPTIMIZER_OPTIMIZER_H_
#define COTAN_AOT_OPTIMIZER_OPTIMIZER_H_

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Defaults are torch.optim's. Numbers become HYPERPARAMETER states (f64, 0-d)
// that the user may change between steps; booleans, and whether there is
// momentum at all, are compiled in. Updates are counted in one slot for all
// parameters, "optimizer.step" (f64, 0-d).
struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

// Adam, and AdamW if `decoupled_weight_decay`.
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

// "sgd", "adam", "adamw".
std::string OptimizerName(const OptimizerOptions& options);

// AdamW has a weight decay of 0.01 by default.
AdamOptions AdamW();

// Options for the parameters whose names match one of `patterns` ('*' is any
// text, '?' any character).
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
  // The rule, and hyperparameters of parameters in no group. The first group
  // that matches a parameter decides; all options are of one kind.
  OptimizerOptions options = {};
  std::vector<ParameterGroup> groups = {};
  // Over all gradients together, as clip_grad_norm_ (2-norm). The limit is a
  // hyperparameter.
  std::optional<double> clip_norm = {};
  // Each gradient to [-value, value], before clip_norm.
  std::optional<double> clip_value = {};
  // The loss must have been scaled (ScaleLoss). Clipping sees the gradients
  // without the scale.
  std::optional<LossScaling> loss_scaling = {};
};

// What an optimizer adds to the artifact: its slots, hyperparameters and
// accumulators, with fill values. No duplicates of states it already has.
using NewStates = std::vector<serialization::State>;

// Names of hyperparameter states: "hyperparameter.lr.0" (group 0 is the
// default group), "hyperparameter.clip_norm".
std::string HyperparameterName(absl::string_view hyperparameter, int group);

// Multiplies the tangent of the loss, number `tangent_index` of a lowered joint
// graph, by the scale, and returns the state that this takes. To be called
// before SeedLoss().
// InvalidArgument: there is no such tangent.
absl::StatusOr<NewStates> ScaleLoss(const LossScaling& scaling, int tangent_index, Graph& joint);

// Appends to a lowered graph whose tangents are seeded (SeedLoss) the update
// of each parameter with a gradient: the kGradient outputs of parameters go,
// kStateUpdate outputs for parameters and slots come. Gradients of user
// inputs are dropped too.
// InvalidArgument: momentum etc. out of range (as torch.optim refuses), a
// group that matches no parameter, or options of mixed kinds.
absl::StatusOr<NewStates> AppendOptimizer(const OptimizerConfig& config, Graph& graph);

// Gradient accumulation. Turns the kGradient outputs of parameters into
// updates of accumulator states: accumulator += gradient.
absl::StatusOr<NewStates> AppendAccumulation(Graph& graph);

// The method that goes with it: takes no inputs, applies the optimizer to the
// accumulated sums and clears them. `parameters` are those with accumulators.
struct NamedType {
  std::string name;
  TensorType type;
};
struct ApplyOptimizer {
  Graph graph;
  NewStates states;
};
absl::StatusOr<ApplyOptimizer> BuildApplyOptimizer(const OptimizerConfig& config,
                                                   absl::Span<const NamedType> parameters);

}  // namespace cotan::aot

#endif  // COTAN_AOT_OPTIMIZER_OPTIMIZER_H_
