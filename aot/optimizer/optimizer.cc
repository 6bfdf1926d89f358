// SPDX-License-Identifier: Apache-2.0

#include "aot/optimizer/optimizer.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/ir/builder.h"
#include "aot/ir/expr_text.h"
#include "aot/optimizer/gradient_exchange.h"
#include "aot/optimizer/gradient_outputs.h"
#include "aot/optimizer/option_ranges.h"
#include "aot/optimizer/shared_update.h"
#include "aot/optimizer/update_target.h"
#include "base/dtype.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::State;

constexpr char kStepState[] = "optimizer.step";
constexpr char kRankState[] = "optimizer.shard_rank";  // that the slots are of; negative: none
constexpr char kGrowthState[] = "loss_scale.growth_tracker";

std::string AccumulatorName(absl::string_view parameter) { return absl::StrCat("gradient.", parameter); }

using Target = UpdateTarget;

// Emits the updates of all parameters into one graph.
class Updater {
 public:
  // `sharing` and `parallel` may be null.
  Updater(const OptimizerConfig& config, UpdateSharing* sharing, const DataParallelStep* parallel, Graph* graph)
      : config_(config), sharing_(sharing), graph_(graph), b_(graph) {
    if (parallel != nullptr) exchange_.emplace(*parallel, b_);
  }

  Tensor Value(ValueId id) { return b_.Value(id); }

  // Sets the state to 0.
  void Clear(const std::string& state, TensorType type) {
    const bool is_complex = IsComplex(type.dtype);
    if (is_complex) {
      type.dtype = type.dtype == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
      type.sizes.emplace_back(2);
    }
    const Tensor zeros = b_.Full(b_.Literal(0.0), type.dtype, type.sizes);
    graph_->AddOutput((is_complex ? b_.ViewAsComplex(zeros) : zeros).id(), OutputKind::kStateUpdate, 0, state);
  }

  absl::StatusOr<NewStates> Run(std::vector<Target> targets) {
    COTAN_RETURN_IF_ERROR(CheckConfig(targets));
    for (Target& target : targets) target.group = GroupOf(target.name);
    if (exchange_.has_value()) COTAN_RETURN_IF_ERROR(Exchange(targets));
    for (Target& target : targets) ViewAsReal(target);
    FindShared(targets);
    if (config_.loss_scaling.has_value()) Unscale(targets);
    Clip(targets);
    for (Target& target : targets) {
      if (target.is_shared) {
        COTAN_RETURN_IF_ERROR(UpdateShared(target));
      } else {
        UpdateOne(target);
      }
    }
    if (step_.defined()) Update(kStepState, step_, new_step_);
    if (exchange_.has_value()) exchange_->GatherShards();
    if (config_.loss_scaling.has_value()) UpdateScale(*config_.loss_scaling);
    COTAN_RETURN_IF_ERROR(b_.status());
    return std::move(states_);
  }

 private:
  // Complex numbers are updated as pairs of real ones, as in torch.optim.
  void ViewAsReal(Target& target) {
    target.is_complex = IsComplex(target.parameter.dtype());
    if (!target.is_complex) return;
    target.parameter = b_.ViewAsReal(target.parameter);
    target.gradient = b_.ViewAsReal(target.gradient);
  }

  // Averages the gradients of all ranks.
  absl::Status Exchange(std::vector<Target>& targets) {
    COTAN_RETURN_IF_ERROR(exchange_->Average(targets));
    if (!exchange_->has_shards()) return absl::OkStatus();
    const TensorType type{DType::kFloat32, {SymInt(1)}, {}};
    const Tensor rank =
        AddStateInput(MakeState(kRankState, State::OPTIMIZER_SLOT, type, -1, ""), InputKind::kOptimizerSlot, type);
    graph_->AddOutput(exchange_->CheckRank(rank).id(), OutputKind::kStateUpdate, 0, kRankState);
    return absl::OkStatus();
  }

  // What two updates have in common that are calls of one block.
  struct UpdateType {
    int group;
    TensorType parameter, gradient;
    friend bool operator==(const UpdateType&, const UpdateType&) = default;
  };

  // Sets Target::is_shared of those that have the type of another one.
  void FindShared(std::vector<Target>& targets) const {
    if (sharing_ == nullptr) return;
    const auto is_same = [](const Target& a, const Target& b) {
      return a.parameter.type() == b.parameter.type() && a.gradient.type() == b.gradient.type();
    };
    std::vector<std::vector<Target*>> types;
    for (Target& target : targets) {
      if (target.parameter.rank() == 0 || target.is_complex || !sharing_->MayShare(target.gradient.id())) continue;
      const auto found = std::find_if(types.begin(), types.end(),
                                      [&](const std::vector<Target*>& type) { return is_same(*type[0], target); });
      if (found == types.end()) {
        types.push_back({&target});
      } else {
        found->push_back(&target);
      }
    }
    for (const std::vector<Target*>& type : types) {
      for (Target* target : type) target->is_shared = type.size() > 1;
    }
  }

  void UpdateOne(Target& target) {
    const OptimizerOptions& options = OptionsOf(target.group);
    if (const auto* sgd = std::get_if<SgdOptions>(&options)) {
      UpdateSgd(*sgd, target.group, target);
    } else {
      UpdateAdam(std::get<AdamOptions>(options), target.group, target);
    }
  }

  // Appends the update as a call. The first one of a type is built, and becomes the block.
  absl::Status UpdateShared(Target& target) {
    const UpdateType type{target.group, target.parameter.type(), target.gradient.type()};
    const UpdatedParameter updated{target.name, target.parameter.id(), target.gradient.id()};
    const auto known = std::find_if(made_.begin(), made_.end(), [&](const auto& made) { return made.first == type; });
    if (known != made_.end() && known->second.has_value()) {
      known->second->Append(updated, states_, *graph_);
      return absl::OkStatus();
    }
    const UpdateStart start(*graph_, states_);
    UpdateOne(target);
    if (known != made_.end()) return absl::OkStatus();
    COTAN_RETURN_IF_ERROR(b_.status());
    COTAN_ASSIGN_OR_RETURN(std::optional<SharedUpdate> made,
                           SharedUpdate::Outline(start, updated, *sharing_, states_, *graph_));
    made_.emplace_back(type, std::move(made));
    return absl::OkStatus();
  }

  // Returns the gradient after clipping and scaling, as far as these are known. It is computed again for each reader if
  // the update is shared: then the update of a block takes what the call of the layer returns.
  Tensor GradientOf(Target& target) {
    Tensor gradient = target.gradient;
    for (size_t i = target.num_steps; i < gradient_steps_.size(); ++i) gradient = gradient_steps_[i](gradient);
    if (target.is_shared) return gradient;
    target.num_steps = gradient_steps_.size();
    return target.gradient = gradient;
  }

  absl::Status CheckConfig(const std::vector<Target>& targets) const {
    COTAN_RETURN_IF_ERROR(CheckRanges(config_.options));
    for (size_t i = 0; i < config_.groups.size(); ++i) {
      const ParameterGroup& group = config_.groups[i];
      COTAN_RETURN_IF_ERROR(CheckRanges(group.options));
      if (group.options.index() != config_.options.index()) {
        return absl::InvalidArgumentError("optimizer: parameter groups of different optimizers");
      }
      const bool used = std::any_of(targets.begin(), targets.end(),
                                    [&](const Target& target) { return Matches(group, target.name); });
      if (!used)
        return absl::InvalidArgumentError(
            absl::StrCat("optimizer: parameter group ", i + 1, " matches no trainable parameter"));
    }
    if (config_.loss_scaling.has_value()) COTAN_RETURN_IF_ERROR(CheckRanges(*config_.loss_scaling));
    if (config_.clip_norm.has_value()) {
      COTAN_RETURN_IF_ERROR(CheckRange("clip_norm", *config_.clip_norm, 0, std::numeric_limits<double>::infinity()));
    }
    if (!config_.clip_value.has_value()) return absl::OkStatus();
    return CheckRange("clip_value", *config_.clip_value, 0, std::numeric_limits<double>::infinity());
  }

  static bool Matches(const ParameterGroup& group, const std::string& name) {
    return std::any_of(group.patterns.begin(), group.patterns.end(),
                       [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
  }

  // Returns the group of a parameter; 0 is the default group.
  int GroupOf(const std::string& name) const {
    for (size_t i = 0; i < config_.groups.size(); ++i) {
      if (Matches(config_.groups[i], name)) return static_cast<int>(i) + 1;
    }
    return 0;
  }

  const OptimizerOptions& OptionsOf(int group) const {
    return group == 0 ? config_.options : config_.groups[static_cast<size_t>(group - 1)].options;
  }

  Tensor AddStateInput(const State& state, InputKind kind, const TensorType& type) {
    states_.push_back(state);
    return b_.Value(graph_->AddInput(type, kind, 0, state.name()));
  }

  // Returns a hyperparameter in f64, so that 1 - beta is exact enough; it is cast to the
  // parameter's dtype last.
  Tensor Hyperparameter(const std::string& name, double value) {
    const auto [it, is_new] = hyperparameters_.try_emplace(name);
    if (is_new) {
      const TensorType type{DType::kFloat64, {}, {}};
      it->second =
          AddStateInput(MakeState(name, State::HYPERPARAMETER, type, value, ""), InputKind::kHyperparameter, type);
    }
    return it->second;
  }

  // Returns the slot of a parameter; Update() sets its new content.
  Tensor Slot(const Target& target, absl::string_view slot) {
    TensorType type = target.parameter.type();
    type.dim_order.clear();
    if (target.is_complex) {
      type.dtype = type.dtype == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
      type.sizes.pop_back();
    }
    const std::string owner = target.is_shard ? "" : target.name;
    const Tensor content = AddStateInput(MakeState(SlotName(target.name, slot), State::OPTIMIZER_SLOT, type, 0, owner),
                                         InputKind::kOptimizerSlot, type);
    return target.is_complex ? b_.ViewAsReal(content) : content;
  }

  // Sets the new content of the parameter or of its slot.
  void Update(const Target& target, const std::string& state, const Tensor& old, const Tensor& value) {
    if (!target.is_complex) return Update(state, old, value);
    graph_->AddOutput(b_.ViewAsComplex(Kept(old, value)).id(), OutputKind::kStateUpdate, 0, state);
  }

  // Returns what a state has after the step: its old content if the step is skipped.
  Tensor Kept(const Tensor& old, const Tensor& value) {
    return skips_.defined() ? b_.Select(skips_, old, value) : value;
  }

  // Sets the new content of a state.
  void Update(const std::string& state, const Tensor& old, const Tensor& value) {
    const Tensor kept = Kept(old, value);
    if (exchange_.has_value() && exchange_->UpdateShard(state, kept)) return;
    graph_->AddOutput(kept.id(), OutputKind::kStateUpdate, 0, state);
  }

  // Returns a number that the ranks have computed each from its shards, for all.
  Tensor OfAllRanks(const Tensor& number) { return exchange_.has_value() ? exchange_->SumOfShards(number) : number; }

  // Returns the number of updates before this one, in f64.
  const Tensor& Step() {
    if (!step_.defined()) {
      const TensorType type{DType::kFloat64, {}, {}};
      step_ = AddStateInput(MakeState(kStepState, State::OPTIMIZER_SLOT, type, 0, ""), InputKind::kOptimizerSlot, type);
      new_step_ = step_ + b_.Literal(1.0);
    }
    return step_;
  }

  // Returns a number that all parameters of a group and dtype share; it is computed once.
  template <typename Make>
  Tensor Shared(absl::string_view what, int group, DType dtype, Make make) {
    const std::string key = absl::StrCat(what, ".", group, ".", DTypeName(dtype));
    const auto it = shared_.find(key);
    if (it != shared_.end()) return it->second;
    return shared_[key] = b_.Cast(make(), dtype);
  }

  Tensor Scalar(absl::string_view name, int group, double value, DType dtype) {
    return Shared(name, group, dtype, [&] { return Hyperparameter(HyperparameterName(name, group), value); });
  }

  // Returns the loss scale. If the backward is in the same graph, it reads the same input.
  Tensor LossScale() {
    for (const GraphInput& input : graph_->inputs()) {
      if (input.name == kScaleState) return b_.Value(input.value);
    }
    return AddStateInput(ScaleState(*config_.loss_scaling), InputKind::kOptimizerSlot, {DType::kFloat32, {}, {}});
  }

  // Divides the gradients by the scale, and computes whether one of them is infinite or NaN.
  void Unscale(std::vector<Target>& targets) {
    scale_ = LossScale();
    const Tensor inverse = b_.Cast(b_.Literal(1.0) / b_.Cast(scale_, DType::kFloat64), DType::kFloat32);
    Tensor bad;
    for (const Target& target : targets) {
      const Tensor& g = target.gradient;
      // 0 for a finite number, NaN otherwise.
      const Tensor nothing = g * b_.Literal(0.0);
      std::vector<int64_t> dims(static_cast<size_t>(g.rank()));
      std::iota(dims.begin(), dims.end(), 0);
      const Tensor part = b_.Cast(b_.View(b_.ReduceMax(nothing, dims), {}), DType::kFloat32);
      bad = bad.defined() ? b_.Maximum(bad, part) : part;
    }
    gradient_steps_.push_back([this, inverse](const Tensor& g) {
      return g * Shared("inverse scale", 0, g.dtype(), [&] { return inverse; });
    });
    if (!bad.defined()) return;
    bad = OfAllRanks(bad);
    skips_ = b_.Ne(bad, bad);
  }

  void UpdateScale(const LossScaling& scaling) {
    const TensorType type{DType::kInt64, {}, {}};
    const Tensor tracker =
        AddStateInput(MakeState(kGrowthState, State::OPTIMIZER_SLOT, type, 0, ""), InputKind::kOptimizerSlot, type);
    const auto factor = [&](const std::string& name, double value) {
      return Hyperparameter(absl::StrCat("hyperparameter.loss_scale_", name), value);
    };
    const Tensor counted = b_.Cast(tracker, DType::kFloat64) + b_.Literal(1.0);
    const Tensor grows = b_.Ge(counted, factor("growth_interval", scaling.growth_interval));
    const Tensor one = b_.Literal(1.0);
    const Tensor change = b_.Select(grows, factor("growth_factor", scaling.growth_factor), one);
    const Tensor scale = b_.Cast(scale_, DType::kFloat64);
    Tensor next = b_.Cast(scale * change, DType::kFloat32);
    // The scale does not grow beyond the range of f32.
    next = b_.Select(b_.Lt(next, b_.Literal(std::numeric_limits<double>::infinity())), next, scale_);
    Tensor next_counted = b_.Select(grows, b_.Literal(0.0), counted);
    if (skips_.defined()) {
      const Tensor less = b_.Cast(scale * factor("backoff_factor", scaling.backoff_factor), DType::kFloat32);
      next = b_.Select(skips_, less, next);
      next_counted = b_.Select(skips_, b_.Literal(0.0), next_counted);
    }
    graph_->AddOutput(next.id(), OutputKind::kStateUpdate, 0, kScaleState);
    graph_->AddOutput(b_.Cast(next_counted, DType::kInt64).id(), OutputKind::kStateUpdate, 0, kGrowthState);
  }

  void Clip(std::vector<Target>& targets) {
    if (config_.clip_value.has_value()) {
      const Tensor limit = Hyperparameter("hyperparameter.clip_value", *config_.clip_value);
      gradient_steps_.push_back([this, limit](const Tensor& g) {
        const Tensor bound = Shared("clip_value", 0, g.dtype(), [&] { return limit; });
        return b_.Minimum(b_.Maximum(g, -bound), bound);
      });
    }
    if (!config_.clip_norm.has_value() || targets.empty()) return;
    const bool has_double = std::any_of(targets.begin(), targets.end(), [](const Target& target) {
      return target.gradient.dtype() == DType::kFloat64;
    });
    const DType norm_dtype = has_double ? DType::kFloat64 : DType::kFloat32;
    Tensor sum;
    for (Target& target : targets) {
      const Tensor gradient = GradientOf(target);
      const bool is_double = gradient.dtype() == DType::kFloat64;
      // The square of a half may be too large or too small for one.
      const Tensor g = is_double ? gradient : b_.Cast(gradient, DType::kFloat32);
      std::vector<int64_t> dims(static_cast<size_t>(g.rank()));
      std::iota(dims.begin(), dims.end(), 0);
      const Tensor part = b_.Cast(b_.View(b_.ReduceSum(g * g, dims), {}), norm_dtype);
      sum = sum.defined() ? sum + part : part;
    }
    const Tensor limit = Hyperparameter("hyperparameter.clip_norm", *config_.clip_norm);
    const Tensor norm = b_.Cast(b_.Sqrt(OfAllRanks(sum)), DType::kFloat64);
    const Tensor factor = b_.Minimum(limit / (norm + b_.Literal(1e-6)), b_.Literal(1.0));
    gradient_steps_.push_back(
        [this, factor](const Tensor& g) { return g * Shared("clip_factor", 0, g.dtype(), [&] { return factor; }); });
  }

  void UpdateSgd(const SgdOptions& options, int group, Target& target) {
    const Tensor& p = target.parameter;
    const DType dtype = p.dtype();
    Tensor g = options.maximize ? -GradientOf(target) : GradientOf(target);
    g = g + Scalar("weight_decay", group, options.weight_decay, dtype) * p;
    if (options.momentum != 0) {
      const Tensor momentum = Scalar("momentum", group, options.momentum, dtype);
      // The first update ignores dampening, as in torch.optim.SGD.
      const Tensor weight = Shared("gradient weight", group, dtype, [&] {
        const Tensor kept = b_.Literal(1.0) - Hyperparameter(HyperparameterName("dampening", group), options.dampening);
        return b_.Select(b_.Eq(Step(), b_.Literal(0.0)), b_.Literal(1.0), kept);
      });
      const Tensor old_buffer = Slot(target, "momentum_buffer");
      const Tensor buffer = momentum * old_buffer + weight * g;
      Update(target, SlotName(target.name, "momentum_buffer"), old_buffer, buffer);
      g = options.nesterov ? g + momentum * buffer : buffer;
    }
    Update(target, target.name, p, p - Scalar("lr", group, options.lr, dtype) * g);
  }

  void UpdateAdam(const AdamOptions& options, int group, Target& target) {
    const DType dtype = target.parameter.dtype();
    const auto hyper = [&](absl::string_view name, double value) {
      return Hyperparameter(HyperparameterName(name, group), value);
    };
    const Tensor one = b_.Literal(1.0);
    Tensor p = target.parameter;
    Tensor g = options.maximize ? -GradientOf(target) : GradientOf(target);
    if (options.decoupled_weight_decay) {
      p = p * Shared("decay", group, dtype,
                     [&] { return one - hyper("lr", options.lr) * hyper("weight_decay", options.weight_decay); });
    } else {
      g = g + Scalar("weight_decay", group, options.weight_decay, dtype) * p;
    }
    Step();
    const Tensor weight1 = Shared("1 - beta1", group, dtype, [&] { return one - hyper("beta1", options.beta1); });
    const Tensor weight2 = Shared("1 - beta2", group, dtype, [&] { return one - hyper("beta2", options.beta2); });
    const Tensor beta2 = Scalar("beta2", group, options.beta2, dtype);
    const Tensor step_size = Shared("step size", group, dtype, [&] {
      return hyper("lr", options.lr) / (one - b_.Pow(hyper("beta1", options.beta1), new_step_));
    });
    const Tensor correction = Shared("correction", group, dtype,
                                     [&] { return b_.Sqrt(one - b_.Pow(hyper("beta2", options.beta2), new_step_)); });
    const Tensor average = Slot(target, "exp_avg");
    const Tensor new_average = average + weight1 * (g - average);
    const Tensor square = Slot(target, "exp_avg_sq");
    const Tensor new_square = square * beta2 + weight2 * g * g;
    Update(target, SlotName(target.name, "exp_avg"), average, new_average);
    Update(target, SlotName(target.name, "exp_avg_sq"), square, new_square);
    Tensor largest = new_square;
    if (options.amsgrad) {
      const Tensor old_largest = Slot(target, "max_exp_avg_sq");
      largest = b_.Maximum(old_largest, new_square);
      Update(target, SlotName(target.name, "max_exp_avg_sq"), old_largest, largest);
    }
    const Tensor denominator = b_.Sqrt(largest) / correction + Scalar("eps", group, options.eps, dtype);
    Update(target, target.name, target.parameter, p - step_size * new_average / denominator);
  }

  const OptimizerConfig& config_;
  UpdateSharing* const sharing_;
  Graph* graph_;
  Builder b_;
  std::optional<GradientExchange> exchange_;  // with other ranks
  NewStates states_;
  std::map<std::string, Tensor> hyperparameters_;
  std::map<std::string, Tensor> shared_;
  Tensor step_;
  Tensor new_step_;
  Tensor scale_;
  Tensor skips_;                                                          // bool; undefined: never
  std::vector<std::function<Tensor(const Tensor&)>> gradient_steps_;      // clipping and scaling, in order
  std::vector<std::pair<UpdateType, std::optional<SharedUpdate>>> made_;  // none: not shared
};

// Returns x + y.
Tensor Sum(Builder& b, const Tensor& x, const Tensor& y) {
  return IsComplex(x.dtype()) ? b.ViewAsComplex(b.ViewAsReal(x) + b.ViewAsReal(y)) : x + y;
}

}  // namespace

absl::StatusOr<NewStates> AppendOptimizer(const OptimizerConfig& config, Graph& graph, UpdateSharing* sharing,
                                          const DataParallelStep* parallel) {
  const std::vector<Gradient> gradients = TakeGradients(graph);
  std::vector<Target> targets;
  Updater updater(config, sharing, parallel, &graph);
  for (const Gradient& gradient : gradients) {
    targets.push_back({gradient.parameter.name, updater.Value(TakeContent(graph, gradient.parameter)),
                       updater.Value(gradient.value)});
  }
  return updater.Run(std::move(targets));
}

absl::StatusOr<NewStates> AppendAccumulation(Graph& graph) {
  Builder b(&graph);
  NewStates states;
  for (const Gradient& gradient : TakeGradients(graph)) {
    const std::string& name = gradient.parameter.name;
    const TensorType type{graph.value(gradient.value).type.dtype, graph.value(gradient.value).type.sizes, {}};
    const State state = MakeState(AccumulatorName(name), State::GRADIENT_ACCUMULATOR, type, 0, name);
    const Tensor accumulator = b.Value(graph.AddInput(type, InputKind::kGradientAccumulator, 0, state.name()));
    graph.AddOutput(Sum(b, accumulator, b.Value(gradient.value)).id(), OutputKind::kStateUpdate, 0, state.name());
    states.push_back(state);
  }
  COTAN_RETURN_IF_ERROR(b.status());
  return states;
}

absl::StatusOr<ApplyOptimizer> BuildApplyOptimizer(const OptimizerConfig& config,
                                                   absl::Span<const NamedType> parameters,
                                                   const DataParallelStep* parallel) {
  ApplyOptimizer result;
  Graph& graph = result.graph;
  graph.name = "apply_optimizer";
  std::vector<Target> targets;
  Updater updater(config, /*sharing=*/nullptr, parallel, &graph);
  for (const NamedType& parameter : parameters) {
    const Tensor value = updater.Value(graph.AddInput(parameter.type, InputKind::kParameter, 0, parameter.name));
    const TensorType type{parameter.type.dtype, parameter.type.sizes, {}};
    const std::string accumulator = AccumulatorName(parameter.name);
    const Tensor gradient = updater.Value(graph.AddInput(type, InputKind::kGradientAccumulator, 0, accumulator));
    targets.push_back({parameter.name, value, gradient});
    updater.Clear(accumulator, type);
    result.states.push_back(MakeState(accumulator, State::GRADIENT_ACCUMULATOR, type, 0, parameter.name));
  }
  COTAN_ASSIGN_OR_RETURN(NewStates states, updater.Run(std::move(targets)));
  result.states.insert(result.states.end(), states.begin(), states.end());
  return result;
}

}  // namespace cotan::aot
