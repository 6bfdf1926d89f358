// SPDX-License-Identifier: Apache-2.0

#include "aot/references/reference.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <fnmatch.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "aot/capture/one_thread.h"
#include "aot/capture/tensor_data.h"
#include "aot/references/tolerance.h"
#include "base/dtype.h"

namespace cotan::aot {
namespace {

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

// Returns LibTorch's optimizer of one tensor.
std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const OptimizerOptions& options, at::Tensor tensor) {
  std::vector<at::Tensor> parameters{std::move(tensor)};
  if (const auto* sgd = std::get_if<SgdOptions>(&options)) {
    return std::make_unique<torch::optim::SGD>(std::move(parameters), SgdOf(*sgd));
  }
  const AdamOptions& adam = std::get<AdamOptions>(options);
  if (adam.decoupled_weight_decay) {
    return std::make_unique<torch::optim::AdamW>(std::move(parameters), AdamOf<torch::optim::AdamWOptions>(adam));
  }
  return std::make_unique<torch::optim::Adam>(std::move(parameters), AdamOf<torch::optim::AdamOptions>(adam));
}

// A parameter that a step updates.
struct Stepped {
  std::string name;
  size_t group = 0;
  const TensorData& initial;
  const TensorData& gradient;  // of the reference run
};

// Returns the parameters with a gradient.
std::vector<Stepped> SteppedParameters(const TracedProgram& traced, const OptimizerConfig& config) {
  absl::flat_hash_map<absl::string_view, const TensorData*> initial;
  for (const TracedState& state : traced.states) initial.try_emplace(state.name, &state.initial);
  std::vector<Stepped> stepped;
  size_t next_gradient = 0;
  for (const GraphOutput& output : traced.graph.outputs()) {
    if (output.kind != OutputKind::kGradient || output.value == kNoValue) continue;
    const TensorData& gradient = traced.reference.gradients[next_gradient++];
    const auto state = initial.find(output.name);
    if (state != initial.end())
      stepped.push_back({output.name, GroupOf(config, output.name), *state->second, gradient});
  }
  return stepped;
}

// Parameters of one group and dtype. The optimizers are elementwise, so that one tensor stands for all of them:
// LibTorch calls some ten ops for each tensor, which take longer than small ones do.
struct Bucket {
  size_t group = 0;
  int64_t numel = 0;
  std::vector<size_t> members = {};
  at::Tensor tensor = {};  // elements of the members, with gradients
};

int64_t NumElements(const TensorData& data) {
  return static_cast<int64_t>(data.bytes.size()) / static_cast<int64_t>(ByteSize(data.dtype));
}

// Returns a one-dimensional tensor without memory of its own.
at::Tensor Borrowed(const TensorData& data) {
  return at::from_blob(const_cast<char*>(data.bytes.data()), {NumElements(data)},
                       at::TensorOptions(ToScalarType(data.dtype)));
}

// Copies the members' values and gradients.
void Fill(const std::vector<Stepped>& parameters, Bucket& bucket) {
  std::vector<at::Tensor> values, gradients;
  for (const size_t member : bucket.members) {
    values.push_back(Borrowed(parameters[member].initial));
    gradients.push_back(Borrowed(parameters[member].gradient));
  }
  bucket.tensor = at::cat(values).requires_grad_(true);
  bucket.tensor.mutable_grad() = at::cat(gradients);
}

// Returns buckets with all parameters, each of at most kBucketElements elements, or of one parameter.
std::vector<Bucket> Buckets(const std::vector<Stepped>& parameters) {
  constexpr int64_t kBucketElements = int64_t{1} << 14;  // in the cache
  std::vector<Bucket> buckets;
  std::map<std::pair<size_t, DType>, size_t> open;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const size_t group = parameters[i].group;
    const TensorData& initial = parameters[i].initial;
    const int64_t numel = NumElements(initial);
    const auto [entry, is_new] = open.try_emplace({group, initial.dtype}, buckets.size());
    if (is_new || buckets[entry->second].numel + numel > kBucketElements) {
      entry->second = buckets.size();
      buckets.push_back({.group = group});
    }
    Bucket& bucket = buckets[entry->second];
    bucket.members.push_back(i);
    bucket.numel += numel;
  }
  for (Bucket& bucket : buckets) Fill(parameters, bucket);
  return buckets;
}

// Clips the gradients of all parameters.
void Clip(const OptimizerConfig& config, const std::vector<Bucket>& buckets) {
  std::vector<at::Tensor> all;
  for (const Bucket& bucket : buckets) all.push_back(bucket.tensor);
  if (config.clip_value.has_value()) torch::nn::utils::clip_grad_value_(all, *config.clip_value);
  if (config.clip_norm.has_value()) torch::nn::utils::clip_grad_norm_(all, *config.clip_norm);
}

// Runs one optimizer step in place. Returns the largest gradient.
double Step(const OptimizerOptions& options, const Bucket& bucket) {
  at::Tensor gradient = bucket.tensor.grad();
  const double largest = gradient.numel() == 0 ? 0 : gradient.abs().max().item<double>();
  if (Maximizes(options)) gradient.neg_();
  MakeOptimizer(options, bucket.tensor)->step();
  return largest;
}

// Stores the members' values by number.
void Store(const std::vector<Stepped>& parameters, const Bucket& bucket, std::vector<TensorData>& contents) {
  const auto* next = static_cast<const char*>(bucket.tensor.const_data_ptr());
  for (const size_t member : bucket.members) {
    const TensorData& initial = parameters[member].initial;
    contents[member] = {initial.dtype, initial.sizes, std::string(next, initial.bytes.size())};
    next += initial.bytes.size();
  }
}

// Returns how far a first step can move an element whose gradient is a rounding error.
double StepSlack(const OptimizerOptions& options, double tolerance, double largest_gradient) {
  if (const auto* adam = std::get_if<AdamOptions>(&options)) return 2 * adam->lr;
  return std::get<SgdOptions>(options).lr * tolerance * largest_gradient;
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
  const OneThread one_thread;
  const std::vector<Stepped> parameters = SteppedParameters(traced, config);
  const std::vector<Bucket> buckets = Buckets(parameters);
  Clip(config, buckets);
  double largest_gradient = 0;
  std::vector<TensorData> contents(parameters.size());
  for (const Bucket& bucket : buckets) {
    largest_gradient = std::max(largest_gradient, Step(OptionsOf(config, bucket.group), bucket));
    Store(parameters, bucket, contents);
  }
  const DType half = HalfDType(traced.graph);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Stepped& parameter = parameters[i];
    const double slack =
        StepSlack(OptionsOf(config, parameter.group), CancelledTolerance(contents[i].dtype, half), largest_gradient);
    expected.push_back({parameter.name, std::move(contents[i]), slack});
  }
  return expected;
}

}  // namespace cotan::aot
