// SPDX-License-Identifier: Apache-2.0

#include "testing/e2e/eager_trainer.h"

#include <fnmatch.h>

#include <variant>
#include <vector>

#include "aot/capture/autocast.h"

namespace cotan::testing {
namespace {

namespace optim = torch::optim;

optim::SGDOptions ToTorch(const aot::SgdOptions& options) {
  TORCH_CHECK(!options.maximize, "torch::optim::SGD cannot maximize");
  return optim::SGDOptions(options.lr)
      .momentum(options.momentum)
      .dampening(options.dampening)
      .weight_decay(options.weight_decay)
      .nesterov(options.nesterov);
}

// TorchOptions is AdamOptions or AdamWOptions.
template <typename TorchOptions>
TorchOptions ToTorch(const aot::AdamOptions& options) {
  TORCH_CHECK(!options.maximize, "torch::optim::Adam cannot maximize");
  return TorchOptions(options.lr)
      .betas({options.beta1, options.beta2})
      .eps(options.eps)
      .weight_decay(options.weight_decay)
      .amsgrad(options.amsgrad);
}

std::unique_ptr<optim::OptimizerOptions> ToTorch(const aot::OptimizerOptions& options) {
  if (const auto* sgd = std::get_if<aot::SgdOptions>(&options)) {
    return std::make_unique<optim::SGDOptions>(ToTorch(*sgd));
  }
  const auto& adam = std::get<aot::AdamOptions>(options);
  if (adam.decoupled_weight_decay) {
    return std::make_unique<optim::AdamWOptions>(ToTorch<optim::AdamWOptions>(adam));
  }
  return std::make_unique<optim::AdamOptions>(ToTorch<optim::AdamOptions>(adam));
}

// 0 is the default group, g > 0 is config.groups[g - 1].
size_t GroupOf(const std::string& parameter, const aot::OptimizerConfig& config) {
  for (size_t g = 0; g < config.groups.size(); ++g) {
    for (const std::string& pattern : config.groups[g].patterns) {
      if (fnmatch(pattern.c_str(), parameter.c_str(), 0) == 0) return g + 1;
    }
  }
  return 0;
}

std::vector<optim::OptimizerParamGroup> MakeGroups(const Network& network, const aot::OptimizerConfig& config) {
  std::vector<std::vector<torch::Tensor>> members(config.groups.size() + 1);
  for (const auto& parameter : network.named_parameters()) {
    members[GroupOf(parameter.key(), config)].push_back(parameter.value());
  }
  std::vector<optim::OptimizerParamGroup> groups;
  for (size_t g = 0; g < members.size(); ++g) {
    if (members[g].empty()) continue;
    groups.emplace_back(members[g], ToTorch(g == 0 ? config.options : config.groups[g - 1].options));
  }
  return groups;
}

std::unique_ptr<optim::Optimizer> MakeOptimizer(const Network& network, const aot::OptimizerConfig& config) {
  std::vector<optim::OptimizerParamGroup> groups = MakeGroups(network, config);
  if (const auto* sgd = std::get_if<aot::SgdOptions>(&config.options)) {
    return std::make_unique<optim::SGD>(std::move(groups), ToTorch(*sgd));
  }
  const auto& adam = std::get<aot::AdamOptions>(config.options);
  if (adam.decoupled_weight_decay) {
    return std::make_unique<optim::AdamW>(std::move(groups), ToTorch<optim::AdamWOptions>(adam));
  }
  return std::make_unique<optim::Adam>(std::move(groups), ToTorch<optim::AdamOptions>(adam));
}

std::shared_ptr<Network> MakeNetwork(const ModelCase& model, uint64_t seed) {
  torch::manual_seed(seed);
  return model.make_network();
}

using TensorMap = std::map<std::string, torch::Tensor>;

// ParamState is AdamParamState or AdamWParamState.
template <typename ParamState>
void AddAdamSlots(const ParamState& state, const std::string& prefix, TensorMap& slots) {
  slots[prefix + "exp_avg"] = state.exp_avg().clone();
  slots[prefix + "exp_avg_sq"] = state.exp_avg_sq().clone();
  if (state.max_exp_avg_sq().defined()) slots[prefix + "max_exp_avg_sq"] = state.max_exp_avg_sq().clone();
}

void AddSlots(const optim::OptimizerParamState& state, const std::string& prefix, TensorMap& slots) {
  if (const auto* sgd = dynamic_cast<const optim::SGDParamState*>(&state)) {
    if (sgd->momentum_buffer().defined()) {
      slots[prefix + "momentum_buffer"] = sgd->momentum_buffer().clone();
    }
  } else if (const auto* adam = dynamic_cast<const optim::AdamParamState*>(&state)) {
    AddAdamSlots(*adam, prefix, slots);
  } else if (const auto* adamw = dynamic_cast<const optim::AdamWParamState*>(&state)) {
    AddAdamSlots(*adamw, prefix, slots);
  }
}

}  // namespace

EagerTrainer::EagerTrainer(const ModelCase& model, uint64_t seed, const aot::OptimizerConfig& config, DType autocast)
    : model_(model),
      config_(config),
      autocast_(autocast),
      network_(MakeNetwork(model, seed)),
      optimizer_(MakeOptimizer(*network_, config)) {
  if (!config.loss_scaling) return;
  scale_ = torch::tensor(static_cast<float>(config.loss_scaling->initial_scale));
  growth_tracker_ = torch::zeros({}, torch::kInt);
}

double EagerTrainer::Accumulate(const torch::Tensor& input, const torch::Tensor& label) {
  network_->train();
  const torch::Tensor loss = [&] {
    const aot::AutocastScope scope(autocast_);
    return model_.loss(network_->forward(input), label);
  }();
  (scale_.defined() ? loss * scale_ : loss).backward();
  return loss.item<double>();
}

// Follows torch.amp.GradScaler.
bool EagerTrainer::Unscale() {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : network_->parameters()) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  torch::Tensor found_inf = torch::zeros({1});
  const torch::Tensor inverse = scale_.to(torch::kDouble).reciprocal().to(torch::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf, inverse);
  const aot::LossScaling& scaling = *config_.loss_scaling;
  at::_amp_update_scale_(scale_, growth_tracker_, found_inf, scaling.growth_factor, scaling.backoff_factor,
                         static_cast<int64_t>(scaling.growth_interval));
  return found_inf.item<float>() == 0;
}

void EagerTrainer::Update() {
  if (scale_.defined() && !Unscale()) {
    optimizer_->zero_grad();
    return;
  }
  const std::vector<torch::Tensor> parameters = network_->parameters();
  if (config_.clip_value) torch::nn::utils::clip_grad_value_(parameters, *config_.clip_value);
  if (config_.clip_norm) torch::nn::utils::clip_grad_norm_(parameters, *config_.clip_norm);
  optimizer_->step();
  optimizer_->zero_grad();
}

torch::Tensor EagerTrainer::Predict(const torch::Tensor& input) {
  const torch::NoGradGuard no_grad;
  network_->eval();
  const aot::AutocastScope scope(autocast_);
  return network_->forward(input);
}

TensorMap EagerTrainer::States() const {
  TensorMap states;
  if (scale_.defined()) {
    states["loss_scale"] = scale_.clone();
    states["loss_scale.growth_tracker"] = growth_tracker_.to(torch::kLong);
  }
  for (const auto& buffer : network_->named_buffers()) states[buffer.key()] = buffer.value().clone();
  for (const auto& parameter : network_->named_parameters()) {
    states[parameter.key()] = parameter.value().detach().clone();
    const auto state = optimizer_->state().find(parameter.value().unsafeGetTensorImpl());
    if (state == optimizer_->state().end()) continue;
    AddSlots(*state->second, "optimizer." + parameter.key() + ".", states);
  }
  return states;
}

TensorMap EagerTrainer::Gradients() const {
  TensorMap gradients;
  for (const auto& parameter : network_->named_parameters()) {
    if (parameter.value().grad().defined()) gradients[parameter.key()] = parameter.value().grad().clone();
  }
  return gradients;
}

}  // namespace cotan::testing
