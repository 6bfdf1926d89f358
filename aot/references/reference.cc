// SPDX-License-Identifier: Apache-2.0

#include "aot/references/reference.h"

#include <ATen/core/Tensor.h>
#include <fnmatch.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aot/capture/tensor_data.h"
#include "aot/references/cancellation.h"
#include "base/dtype.h"

namespace cotan::aot {
namespace {

using torch::optim::OptimizerParamGroup;

// Returns the parameter group: 0 is the default group, i + 1 is config.groups[i].
size_t GroupOf(const OptimizerConfig& config, const std::string& name) {
  for (size_t i = 0; i < config.groups.size(); ++i) {
    for (const std::string& pattern : config.groups[i].patterns) {
      if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return i + 1;
    }
  }
  return 0;
}

const OptimizerOptions& OptionsOf(const OptimizerConfig& config, size_t group) {
  return group == 0 ? config.options : config.groups[group - 1].options;
}

bool Maximizes(const OptimizerOptions& options) {
  return std::visit([](const auto& o) { return o.maximize; }, options);
}

torch::optim::SGDOptions SgdOf(const SgdOptions& o) {
  return torch::optim::SGDOptions(o.lr)
      .momentum(o.momentum)
      .dampening(o.dampening)
      .weight_decay(o.weight_decay)
      .nesterov(o.nesterov);
}

template <typename Options>
Options AdamOf(const AdamOptions& o) {
  return Options(o.lr).betas({o.beta1, o.beta2}).eps(o.eps).weight_decay(o.weight_decay).amsgrad(o.amsgrad);
}

// Returns LibTorch's optimizer for `members`, the parameters by group.
std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const OptimizerConfig& config,
                                                       std::vector<std::vector<at::Tensor>> members) {
  const auto groups = [&](auto options_of) {
    std::vector<OptimizerParamGroup> result;
    for (size_t g = 0; g < members.size(); ++g) {
      if (!members[g].empty()) result.emplace_back(members[g], options_of(OptionsOf(config, g)));
    }
    return result;
  };
  if (const auto* sgd = std::get_if<SgdOptions>(&config.options)) {
    return std::make_unique<torch::optim::SGD>(
        groups([](const OptimizerOptions& o) {
          return std::make_unique<torch::optim::SGDOptions>(SgdOf(std::get<SgdOptions>(o)));
        }),
        SgdOf(*sgd));
  }
  const AdamOptions& adam = std::get<AdamOptions>(config.options);
  if (adam.decoupled_weight_decay) {
    return std::make_unique<torch::optim::AdamW>(groups([](const OptimizerOptions& o) {
                                                   return std::make_unique<torch::optim::AdamWOptions>(
                                                       AdamOf<torch::optim::AdamWOptions>(std::get<AdamOptions>(o)));
                                                 }),
                                                 AdamOf<torch::optim::AdamWOptions>(adam));
  }
  return std::make_unique<torch::optim::Adam>(
      groups([](const OptimizerOptions& o) {
        return std::make_unique<torch::optim::AdamOptions>(AdamOf<torch::optim::AdamOptions>(std::get<AdamOptions>(o)));
      }),
      AdamOf<torch::optim::AdamOptions>(adam));
}

// A parameter that a step updates.
struct Stepped {
  std::string name;
  at::Tensor tensor;  // initial value; grad() is the recorded gradient
};

// Returns the parameters with a gradient, at their initial values.
std::vector<Stepped> SteppedParameters(const TracedProgram& traced) {
  std::vector<Stepped> stepped;
  size_t next_gradient = 0;
  for (const GraphOutput& output : traced.graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    const TensorData& gradient = traced.reference.gradients[next_gradient++];
    for (const TracedState& state : traced.states) {
      if (state.name != output.name) continue;
      at::Tensor tensor = FromTensorData(state.initial).requires_grad_(true);
      tensor.mutable_grad() = FromTensorData(gradient);
      stepped.push_back({state.name, std::move(tensor)});
    }
  }
  return stepped;
}

// Clips the gradients and runs one optimizer step in place.
void Step(const OptimizerConfig& config, const std::vector<Stepped>& parameters) {
  std::vector<at::Tensor> all;
  std::vector<std::vector<at::Tensor>> members(config.groups.size() + 1);
  for (const Stepped& parameter : parameters) {
    all.push_back(parameter.tensor);
    members[GroupOf(config, parameter.name)].push_back(parameter.tensor);
  }
  if (config.clip_value.has_value()) torch::nn::utils::clip_grad_value_(all, *config.clip_value);
  if (config.clip_norm.has_value()) torch::nn::utils::clip_grad_norm_(all, *config.clip_norm);
  for (size_t g = 0; g < members.size(); ++g) {
    if (!Maximizes(OptionsOf(config, g))) continue;
    for (at::Tensor& tensor : members[g]) tensor.mutable_grad().neg_();
  }
  MakeOptimizer(config, std::move(members))->step();
}

double LargestGradient(const std::vector<Stepped>& parameters) {
  double largest = 0;
  for (const Stepped& parameter : parameters) {
    const at::Tensor& gradient = parameter.tensor.grad();
    if (gradient.numel() > 0) largest = std::max(largest, gradient.abs().max().item<double>());
  }
  return largest;
}

// Returns how far a first step can move an element whose gradient is a rounding error.
double StepSlack(const OptimizerOptions& options, DType dtype, double largest_gradient) {
  if (const auto* adam = std::get_if<AdamOptions>(&options)) return 2 * adam->lr;
  return std::get<SgdOptions>(options).lr * kCancelledEpsilons * Epsilon(dtype) * largest_gradient;
}

}  // namespace

std::vector<ExpectedState> ExpectedAfterRun(const TracedProgram& traced) {
  std::vector<ExpectedState> expected;
  size_t next = 0;
  for (const GraphOutput& output : traced.graph.outputs()) {
    if (output.kind != OutputKind::kMutatedInput && !UpdatesInput(output.kind)) continue;
    const TensorData& content = traced.reference.mutated[next++];
    const InputKind input = traced.graph.inputs()[static_cast<size_t>(output.index)].kind;
    if (input != InputKind::kUserInput) expected.push_back({output.name, content});
  }
  return expected;
}

std::vector<ExpectedState> ExpectedAfterStep(const TracedProgram& traced, const OptimizerConfig& config) {
  std::vector<ExpectedState> expected = ExpectedAfterRun(traced);
  const std::vector<Stepped> stepped = SteppedParameters(traced);
  Step(config, stepped);
  const double largest_gradient = LargestGradient(stepped);
  for (const Stepped& parameter : stepped) {
    TensorData content = ToTensorData(parameter.tensor);
    const double slack = StepSlack(OptionsOf(config, GroupOf(config, parameter.name)), content.dtype, largest_gradient);
    expected.push_back({parameter.name, std::move(content), slack});
  }
  return expected;
}

}  // namespace cotan::aot
